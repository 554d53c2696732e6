"""`residua count`: how many records satisfy a condition, from a release with its interval or from a projection."""

from __future__ import annotations

from pathlib import Path

from residua.cli.asked_tables import no_intervals
from residua.cli.show import err, out, print_json
from residua.cli.targets import USUAL_CONFIDENCE
from residua.projection import Projected
from residua.projection.folder import is_projection
from residua.projection.statement import BIASED
from residua.release import Release


def print_count(folder: Path, condition: str | None, confidence: float | None, *, as_json: bool) -> None:
    """One count; of all records without a condition."""
    asked = condition or None
    title = condition or "(total)"
    if is_projection(folder):
        no_intervals(confidence)
        number = Projected.load(folder).count(asked)
        if as_json:
            print_json({"count": title, "estimate": number})
            return
        out.print(f"{title}: {number:,.1f}")
        err.print(f"({BIASED})")
        return
    level = USUAL_CONFIDENCE if confidence is None else confidence
    found = Release.load(folder).count(asked, confidence=level)
    if as_json:
        print_json({"count": title, **vars(found), "confidence": level})
        return
    interval = f"; {100 * level:.10g} % interval: {found.lower:,.1f} to {found.upper:,.1f}"
    held = interval if found.lower == found.lower else "; no interval: the release is biased"  # NaN
    out.print(f"{title}: {found.estimate:,.1f} (standard deviation {found.stddev:,.1f}{held})")
