"""The Markdown of our own statements, as blocks for a template: headings, paragraphs, lists and tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph, a list or a table; its texts are plain, and the template escapes them.

    Args:
        kind: which of them.
        lines: its texts; of a table the head.
        rows: of a table the cells.
    """

    kind: str
    lines: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


def blocks(text: str) -> list[Block]:
    """The blocks of a text.

    Example:
        >>> [(block.kind, block.lines) for block in blocks("# One\\n\\nTwo\\nlines.\\n\\n- a\\n- b\\n")]
        [('heading', ('One',)), ('paragraph', ('Two lines.',)), ('list', ('a', 'b'))]
        >>> blocks("| a | b |\\n|---|---|\\n| x | 1 |")[0].rows
        (('x', '1'),)
    """
    found = []
    for part in text.strip().split("\n\n"):
        lines = [line for line in part.split("\n") if line]
        if not lines:
            continue
        if lines[0].startswith("#"):
            found.append(Block("heading", (lines[0].lstrip("# "),)))
        elif all(line.startswith("- ") for line in lines):
            found.append(Block("list", tuple(_plain(line[2:]) for line in lines)))
        elif len(lines) > 1 and set(lines[1]) <= set("|-"):
            head, *rows = [_cells(line) for line in (lines[0], *lines[2:])]
            found.append(Block("table", head, tuple(rows)))
        else:
            found.append(Block("paragraph", (_plain(" ".join(lines)),)))
    return found


def _plain(text: str) -> str:
    return text.replace("**", "").replace("`", "")


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip("|").split("|"))
