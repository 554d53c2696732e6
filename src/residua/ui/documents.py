"""Specifications that are open: what the page edits, what it must not touch, and the one file that may be written.

A page holds its form; the server holds, by document, what no page may name: the sections of `form.KEPT`, files of
values and expressions over columns. A page can only repeat what the opened text says of these.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from residua.demo_data import demo_folder
from residua.errors import FileError, ResiduaError, SpecError
from residua.files import check_replaceable, digest_of, read_regular, write_atomically
from residua.ui.form import content_of, form_of, has_person, kept_of, parts_of

MOST_TEXT = 2**22  # bytes of a specification
_BARE = {"attributes": [], "tables": [], "privacy": {"by": "wishes"}, "objective": {}}
Problem = tuple[str, int, str]  # "attributes" or "tables", which of them, and what is wrong with it
_MOST_OPEN = 64  # documents: the oldest is forgotten


@dataclass(frozen=True)
class Document:
    """A specification as it was opened.

    Args:
        name: what its file is called.
        folder: where files of values lie; None where none may be named.
        content: its tables.
        head: the comment at its top, kept when it is written.
    """

    name: str
    folder: Path | None
    content: Mapping[str, Any] = field(default_factory=dict)
    head: str = ""

    def content_of(self, form: Mapping[str, Any]) -> dict[str, Any]:
        """The tables that a form says, with what the page does not see.

        Raises:
            SpecError: a field is wrong, or a file or an expression is named that the document does not have.
        """
        try:
            content = content_of(form, kept_of(self.content))
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as problem:
            if isinstance(problem, ResiduaError):
                raise
            raise SpecError("this form is not one of this page; reload the page.") from None
        allowed = _named(self.content)
        for what, value in _named(content):
            if (what, value) not in allowed:
                raise SpecError(
                    f"{what} can be named in the specification itself, not on this page; write it there, and open it "
                    "with residua ui SPEC.toml."
                )
        return content

    def sound(self, form: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[int]], list[Problem]]:
        """What of a form can be planned already: its tables, the places of the parts they hold, and what is wrong.

        Raises:
            SpecError: what is wrong is not one attribute or entry.
        """
        problems: list[Problem] = []
        places: dict[str, list[int]] = {"attributes": [], "tables": []}
        for kind, good in places.items():
            for i, part in enumerate(parts_of(form, kind)):
                try:
                    self.content_of({**_BARE, kind: [part]})
                    good.append(i)
                except SpecError as problem:
                    problems.append((kind, i, str(problem)))
        parts = {kind: [form[kind][i] for i in good] for kind, good in places.items()}
        return self.content_of({**form, **parts}), places, problems

    def text_of(self, content: Mapping[str, Any]) -> str:
        """The tables as TOML, below the comment of the document."""
        return self.head + tomli_w.dumps(dict(content))

    def shown(self) -> dict[str, Any]:
        """The document for the page."""
        return {
            "name": self.name,
            "form": form_of(self.content),
            "kept": sorted(kept_of(self.content)),
            "person": has_person(self.content),
        }


class Desk:
    """The documents that are open, and the one file that may be written.

    Args:
        path: the file named on the command line; it may not exist yet, or be the folder of a release.

    Raises:
        SpecError: the file is not a specification.
        FileError: it cannot be read.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.released = path.absolute() if path is not None and path.is_dir() else None
        self.path = None if path is None or self.released is not None else path.absolute()
        self._documents: dict[str, Document] = {}
        self._digest: str | None = None
        self._count = 0
        if self.path is None:
            self.first = self.add(empty())
        else:
            self.first = self.add(self._read(self.path))

    def __getitem__(self, key: object) -> Document:
        if not isinstance(key, str) or key not in self._documents:
            raise SpecError("this specification is no longer open here; open it again.")
        return self._documents[key]

    def add(self, document: Document) -> str:
        """Opens a document, and says by which key it is known."""
        self._count += 1
        key = f"d{self._count}"
        self._documents[key] = document
        if len(self._documents) > _MOST_OPEN:
            del self._documents[next(each for each in self._documents if each != self.first)]
        return key

    def save(self, text: str) -> None:
        """Writes the file named on the command line.

        Raises:
            FileError: there is none, it was changed by somebody else since it was read, or the disk refuses.
        """
        if self.path is None:
            raise FileError("no file was named on the command line; download the specification instead.")
        target = self.path.resolve()
        if target.exists() and digest_of(read_regular(target, most=MOST_TEXT)) != self._digest:
            raise FileError(
                f"{self.path.name!r} was changed since it was opened here; download this specification under another "
                "name, or open the file again."
            )
        content = text.encode()
        write_atomically(target, content, ours=lambda head: True)
        self._digest = digest_of(content)
        self._documents[self.first] = opened(content, self.path.name, self.path.parent)  # what a reload shows

    def _read(self, path: Path) -> Document:
        if not path.exists():
            check_replaceable(path, None)
            if not path.parent.is_dir():
                raise FileError(f"the folder {str(path.parent)!r} does not exist; make it first.")
            return empty(path.name, path.parent)
        try:
            content = read_regular(path, most=MOST_TEXT, follow=True)
        except FileError as problem:
            raise SpecError(f"{str(problem).rstrip('.')}; check the path, or draft one with residua init.") from None
        self._digest = digest_of(content)
        return opened(content, path.name, path.parent)


def opened(content: bytes, name: str, folder: Path | None = None) -> Document:
    """The document that the bytes of a specification make; with no folder, it may name no file of values.

    Raises:
        SpecError: they are not TOML, or not a specification.
    """
    try:
        text = content.decode()
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise SpecError(f"{name!r} is not TOML: {problem}; correct it there.") from None
    document = Document(name, folder, tables, _head(text))
    try:
        form_of(tables)
    except RecursionError:
        raise SpecError(f"{name!r} is nested too deep for a specification; correct it there.") from None
    if folder is None and any(what == _FILE for what, _ in _named(tables)):
        raise SpecError(
            f"{name!r} takes values from a file beside it, which a page cannot read; open it with residua ui SPEC.toml."
        )
    return document


def demo() -> Document:
    """The bundled example."""
    return opened((demo_folder() / "adult.toml").read_bytes(), "adult.toml", demo_folder())


def empty(name: str = "spec.toml", folder: Path | None = None) -> Document:
    """A specification with no attribute yet: single tables and pairs, at the budget that drafts have."""
    return Document(name, folder, {"privacy": {"rho": 0.5}, "workload": [{"ways": [1, 2]}]})


_FILE, _EXPRESSION = "a file of values", "an expression over columns"
_FREE_KEYS = {"levels", "meanings", "title", "description"}  # tables whose keys are labels or languages, never a file


def _named(content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The files (`values`, `codes`, and whatever setting takes one some day) and the expressions attributes name."""
    named: list[tuple[str, Any]] = []
    for settings in content.get("domain", {}).values():
        for key, value in settings.items() if isinstance(settings, Mapping) else ():
            if key == "expression":
                named.append((_EXPRESSION, value))
            elif key not in _FREE_KEYS and isinstance(value, Mapping) and (key == "values" or "file" in value):
                named.append((_FILE, {key: value}))
    return named


def _head(text: str) -> str:
    """The comment with which a text begins."""
    lines = text.splitlines(keepends=True)
    count = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    head = "".join(lines[:count]).rstrip()
    return f"{head}\n\n" if head else ""
