"""Collects every sentence of src/ into the catalogues: python scripts/languages.py. New ones are left empty, to be
translated; those that are gone go. A new language: an empty file `src/residua/languages/<tag>.po`, then this."""

import ast
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from babel import Locale
from babel.messages import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po, write_po

SOURCE = Path(__file__).parents[1] / "src" / "residua"
KEYWORDS = {"say": None, "say_html": None, "mark": None, "say_many": (1, 2)}


def extracted() -> Catalog:
    """Every sentence in the code and the templates, with the files that say it."""
    messages = Catalog(charset="utf-8", fuzzy=False)
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if "from residua.language import" in text:
            _add(messages, path, in_python(text))
    for path in sorted(SOURCE.rglob("*.html")):
        entries = extract_from_file("jinja2.ext:babel_extract", path, KEYWORDS)
        _add(messages, path, (sentence for _, sentence, *_ in entries))
    return messages


def in_python(text: str) -> Iterator[str | tuple[str, ...]]:
    """The sentences of a module, those in f-strings too, which tokens of Python 3.11 do not show."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KEYWORDS:
            wanted = len(KEYWORDS[node.func.id] or "1")
            words = [each.value for each in node.args[:wanted] if isinstance(each, ast.Constant)]
            if len(words) == wanted:
                yield tuple(words) if wanted > 1 else words[0]


def _add(messages: Catalog, path: Path, sentences: Iterable[str | tuple[str, ...]]) -> None:
    for sentence in sentences:
        messages.add(sentence, locations=[(path.relative_to(SOURCE).as_posix(), 0)])


def updated(path: Path, messages: Catalog) -> bytes:
    """A catalogue with all sentences, those that are translated already with their translation."""
    locale = Locale.parse(path.stem, sep="-")
    old = read_po(io.BytesIO(path.read_bytes()), locale=locale)
    new = Catalog(locale=locale, charset="utf-8", fuzzy=False)
    for message in messages:
        if message.id:
            known = old.get(message.id)
            string = known.string if known else None
            new.add(message.id, string, locations=message.locations)
    symbols = locale.number_symbols["latn"]
    lines = [
        'msgid ""', 'msgstr ""', f'"Language: {path.stem}\\n"', '"Content-Type: text/plain; charset=utf-8\\n"',
        f'"Plural-Forms: {new.plural_forms}\\n"',
        f'"X-Decimal: {symbols["decimal"]}\\n"', f'"X-Group: \'{symbols["group"]}\'\\n"', "",
    ]  # fmt: skip
    body = io.BytesIO()
    write_po(body, new, width=100, omit_header=True, sort_output=True, include_lineno=False)
    return "\n".join([*lines, ""]).encode() + body.getvalue()


if __name__ == "__main__":
    messages = extracted()
    for path in sorted((SOURCE / "languages").glob("*.po")):
        path.write_bytes(updated(path, messages))
        left = sum(not any(forms) for forms in ([m.string] if isinstance(m.string, str) else m.string
                   for m in read_po(io.BytesIO(path.read_bytes())) if m.id))  # fmt: skip
        print(f"{path.name}: {len(messages)} sentences, {left} not translated")
