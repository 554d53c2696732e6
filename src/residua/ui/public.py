"""Counts that were published before, which a page expects of the next ones: those of a release that the user chose."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from residua.cli.opening import load_published
from residua.domain import Domain
from residua.errors import PlanError, SpecError
from residua.ui.preview import places_of

_MOST_VALUES = 2_000  # of a column: they are shown as lines of text


def published_counts(domain: Domain, files: Mapping[str, str]) -> dict[str, Any]:
    """How many people there were, and the counts of each column's values, of the values that are declared now.

    Args:
        domain: the columns of the page.
        files: name → content, in base64, of a release's folder.

    Raises:
        SpecError: nothing in it is a column of the page.
        FileError: it is no release.
    """
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / Path(name).name).write_bytes(base64.b64decode(text))
        published = load_published(Path(folder))
    public, people, left = {}, 0.0, 0
    for name in domain.names:
        try:
            table = published.table([name]) if published.domain.cells([name]) <= _MOST_VALUES else None
        except (PlanError, KeyError, ValueError):  # another column, or one that was not released
            continue
        if table is None:
            continue
        counts = {str(k): max(float(n), 0.0) for k, n in zip(table.columns[name], table.estimates, strict=True)}
        known = [[k, f"{n:.0f}"] for k, n in counts.items() if k in places_of(domain, name)]
        if any(n != "0" for _, n in known):
            public[name], people, left = known, max(people, sum(counts.values())), left + len(counts) - len(known)
    if not public:
        raise SpecError(
            "this release counts no column of this page; columns and values must be called as they are here."
        )
    return {"people": f"{people:,.0f}", "public": public, "left": left}
