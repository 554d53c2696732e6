"""Prints how many code lines have to be trusted, part by part: the files of docs/trust.md. Run by scripts/test.

A file may hold more than what is trusted: what stands under one of the headings `BESIDE`, up to the next heading or the
end of the class, is not counted.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ("What is measured, and its price", "Noise", "Guarantees and their conversions", "The ledger")
BESIDE = (
    "accuracy",
    "algebra",
    "estimates",
    "files",
    "for planners",
    "intervals under Laplace noise",
    "matrices",
    "sought in floats",
    "what people are shown",
)
_HEADING = re.compile(r"^( *)# ---- ([^:,\n]+)")
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def parts() -> dict[str, list[Path]]:
    """The files of each part of the page, by its heading."""
    text = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    headed = [each.partition("\n") for each in text.split("\n## ")[1:]]
    rows = {name: re.findall(r"^\| `(\S+\.py)` \|", rest, re.MULTILINE) for name, _, rest in headed}
    return {name: [ROOT / "src" / "residua" / file for file in files] for name, files in rows.items()}


def code_lines(path: Path) -> int:
    """Lines of code that are trusted: without blanks, comments, docstrings, and sections beside what is trusted."""
    source = path.read_text(encoding="utf-8")
    documented = lines_beside(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def lines_beside(source: str) -> set[int]:
    """The numbers of the lines in sections that are not trusted."""
    lines: set[int] = set()
    depth: int | None = None  # of the heading, within such a section
    for number, line in enumerate(source.splitlines(), start=1):
        if heading := _HEADING.match(line):
            depth = len(heading[1]) if heading[2].strip() in BESIDE else None
        elif line.strip() and depth is not None and len(line) - len(line.lstrip()) < depth:
            depth = None
        if depth is not None:
            lines.add(number)
    return lines


if __name__ == "__main__":
    sizes = {name: sum(map(code_lines, files)) for name, files in parts().items()}
    print("Code lines to be trusted (docs/trust.md): " + ", ".join(f"{name}: {n:,}" for name, n in sizes.items()))
    print(
        f"The arithmetic core (pieces, verifier, samplers, conversions, ledger): {sum(sizes[name] for name in CORE):,}."
    )
    print(f"In all {sum(sizes.values()):,} in {sum(map(len, parts().values()))} files.")
