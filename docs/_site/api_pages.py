"""The API reference: one page per group of `scripts/reference.py`, written for autodoc before the site is built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.pycode import ModuleAnalyzer

from scripts.reference import GROUPS, members

OVERLOADED = ("residua.plans.planners.plan", "residua.plans.contract", "residua.published.columns")


def _directive(address: str) -> Iterator[str]:
    """What autodoc is asked about one public name."""
    package, _, name = address.rpartition(":")
    module = f"residua.{package}" if package else "residua"
    thing = getattr(import_module(module), name)
    if inspect.ismodule(thing):
        yield from (f".. automodule:: {module}.{name}", "   :members:")
    elif not isinstance(thing, type):
        yield f".. autofunction:: {module}.{name}"
    elif issubclass(thing, BaseException):
        yield f".. autoexception:: {module}.{name}"
    else:
        listed = ", ".join(members(thing))
        yield from (f".. autoclass:: {module}.{name}", *([f"   :members: {listed}"] if listed else []))
    yield ""


def _one_signature(app: Any, config: Any) -> None:
    """Of overloaded functions the whole signature: autodoc would list the overloads, and leave it out."""
    for module in OVERLOADED:
        analyzer = ModuleAnalyzer.for_module(module)
        analyzer.analyze()
        analyzer.overloads.clear()


def pages() -> dict[str, str]:
    """File name → page, the index first."""
    made = {}
    for number, (heading, names) in enumerate(GROUPS, start=1):
        slug = re.sub(r"\W+", "-", heading.partition(":")[0].lower()).strip("-")
        lines = [heading, "=" * len(heading), ""]
        for address in names.split():
            shown = address.rpartition(":")[2]
            lines += [shown, "-" * len(shown), "", *_directive(address)]
        made[f"{number:02}-{slug}.rst"] = "\n".join(lines)
    toctree = [".. toctree::", "   :maxdepth: 2", "", *(f"   {name.removesuffix('.rst')}" for name in made)]
    words = "With their signatures, from their docstrings, in the order of the pipeline: ``import residua as rs``."
    index = "\n".join(["Every public name", "=================", "", words, "", *toctree, ""])
    return {"index.rst": index, **made}


def write(app: Any, config: Any) -> None:
    """Writes the pages; those that have not changed are left alone, and those of groups that are gone are removed."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    wanted = pages()
    for old in folder.glob("*.rst"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Runs before the pages are looked for."""
    app.connect("config-inited", write)
    app.connect("config-inited", _one_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
