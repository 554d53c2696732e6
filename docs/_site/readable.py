"""What makes the site's pages usable by keyboard and screen reader where the theme leaves a gap."""

from __future__ import annotations

from typing import Any

from docutils import nodes


def _reachable(app: Any, doctree: nodes.document, docname: str) -> None:
    return


def setup(app: Any) -> dict[str, bool]:
    """Nothing yet."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
