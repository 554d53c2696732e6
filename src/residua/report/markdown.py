"""The Markdown of our own statements, as blocks for a template: headings, paragraphs and lists, nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph or a list; its texts are plain, and the template escapes them."""

    kind: str
    lines: tuple[str, ...]


def blocks(text: str) -> list[Block]:
    """The blocks of a text.

    Example:
        >>> [(block.kind, block.lines) for block in blocks("# One\\n\\nTwo\\nlines.\\n\\n- a\\n- b\\n")]
        [('heading', ('One',)), ('paragraph', ('Two lines.',)), ('list', ('a', 'b'))]
    """
    found = []
    for part in text.strip().split("\n\n"):
        lines = [line for line in part.split("\n") if line]
        if not lines:
            continue
        if lines[0].startswith("#"):
            found.append(Block("heading", (lines[0].lstrip("# "),)))
        elif all(line.startswith("- ") for line in lines):
            found.append(Block("list", tuple(line[2:] for line in lines)))
        else:
            found.append(Block("paragraph", (" ".join(lines).replace("**", "").replace("`", ""),)))
    return found
