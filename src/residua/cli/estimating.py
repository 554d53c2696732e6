"""`residua estimate`: tables of any attributes that borrow strength from a whole release, as a folder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from residua.cli.places import require_free
from residua.cli.projecting import read_facts
from residua.cli.show import err, out, progress_bar
from residua.errors import PlanError
from residua.estimation import Estimated, estimate
from residua.estimation.folder import is_estimates
from residua.estimation.statement import WARNING
from residua.projection.folder import is_projection
from residua.release import Release


def run_estimation(folder: Path, target: Path, *, total: str | None, known: Sequence[Path]) -> Estimated:
    """Estimates from a saved release, writes the estimates, and says what they are."""
    require_free(target, "folder of estimates")
    if is_projection(folder) or is_estimates(folder):
        raise PlanError(f"{str(folder)!r} was made from a release; estimate from the release itself.")
    release = Release.load(folder)
    with progress_bar() as show:
        estimated = estimate(
            release,
            total=_number(total),
            known=read_facts(known),
            progress=lambda what, done, of: show(what, done, of),
        )
        estimated.save(target)
    out.print(f"Wrote {target}: estimates from {folder}; no data was touched and nothing was spent.")
    out.print(WARNING)
    odd = estimated.contradicted
    if odd:
        err.print(f"residua: measurements contradict the model for {len(odd):,} pairs, and decide; see ESTIMATES.md.")
    command = "residua" if shutil.which("residua") else str(Path(sys.argv[0]))
    out.print(f"Next        {command} table {target} [ATTRIBUTE …] [--rounded], and read {target / 'ESTIMATES.md'}")
    return estimated


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise PlanError(f"--total {text!r} is not a number; give one, or leave it out.") from None
