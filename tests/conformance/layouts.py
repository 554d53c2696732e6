"""Where things stand on pages, stored in `layouts.json`: a shift of more than a few pixels, in any direction, fails.

Fonts decide where lines break. Pages are therefore laid out in DejaVu, which Debian installs with its browser.
RESIDUA_STORE_LAYOUTS=1 stores what stands there now; look at the pages before you do.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from playwright.sync_api import Page

STORED = Path(__file__).with_suffix(".json")
FONTS = """
.residua.residua { --text: "DejaVu Sans"; --head: "DejaVu Serif"; --mono: "DejaVu Sans Mono"; }
"""
FEW = 4  # pixels
BOXES = """selectors => selectors.map(selector => {
  const box = document.querySelector(selector)?.getBoundingClientRect();
  return box && box.width ? [box.x, box.y + scrollY, box.width, box.height].map(Math.round) : null })"""


def check_layout(page: Page, name: str, selectors: list[str]) -> None:
    """Left, top, width and height of landmarks are what is stored under a name; None for what is not shown."""
    boxes = dict(zip(selectors, page.evaluate(BOXES, selectors), strict=True))
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    if os.environ.get("RESIDUA_STORE_LAYOUTS"):
        lines = [f"{json.dumps(key)}: {json.dumps(held)}" for key, held in sorted((stored | {name: boxes}).items())]
        STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    assert boxes.keys() == stored[name].keys()
    for selector, box in boxes.items():
        where = stored[name][selector]
        assert (box is None) == (where is None), (name, selector, box, where)
        if box is not None:
            assert max(abs(is_at - was) for is_at, was in zip(box, where, strict=True)) <= FEW, (
                name,
                selector,
                box,
                where,
            )
