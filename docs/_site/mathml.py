"""Formulas as MathML, made when the site is built: browsers draw it without a script or an outside request."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def _mathml(formula: str, display: str) -> str:
    # Few fonts have the sign for "set minus"; a backslash is drawn by all.
    return str(convert(formula.replace(r"\setminus", r"\backslash"), display=display))


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _display(self: Any, node: nodes.math_block) -> None:
    # A formula may be wider than the screen: it scrolls, and the keyboard reaches it.
    self.body.append(f'<div class="formula" tabindex="0">{_mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Registers the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
