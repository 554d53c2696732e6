"""`residua estimate`: tables of any attributes that borrow strength from a whole release, as a folder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from residua.cli.places import require_free
from residua.cli.projecting import read_facts
from residua.cli.show import err, out, progress_bar
from residua.errors import FileError, PlanError
from residua.estimation import Estimated, SyntheticRows, estimate
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


def write_rows(folder: Path, target: Path, count: int | None, attributes: Sequence[str] | None) -> SyntheticRows:
    """Writes synthetic rows from saved estimates, and says what they are."""
    writers = {".parquet": SyntheticRows.to_parquet, ".csv": SyntheticRows.to_csv}
    if target.suffix not in writers:
        raise PlanError(f"--out {str(target)!r} is neither .parquet nor .csv; name the file so.")
    if target.is_symlink() or target.exists():
        raise FileError(f"--out {str(target)!r} exists already; choose another name.")
    if not is_estimates(folder) and (is_projection(folder) or (folder / "release.json").is_file()):
        raise PlanError(f"{str(folder)!r} holds no estimates; run residua estimate on the release first.")
    made = Estimated.load(folder).rows(count, attributes=attributes)
    with progress_bar() as show:
        writers[target.suffix](made, target, progress=lambda what, done, of: show(what, done, of))
    out.print(f"Wrote {target}: {len(made):,} synthetic rows of {len(made.attributes)} attributes; nothing was spent.")
    out.print(f"{made.note[0].upper()}{made.note[1:]}.")
    return made


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise PlanError(f"--total {text!r} is not a number; give one, or leave it out.") from None
