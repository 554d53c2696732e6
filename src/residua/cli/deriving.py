"""What is made from a release alone: a projection, estimates, synthetic rows. No data, and no cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from residua.cli.opening import kind_of, load_published, read_facts
from residua.cli.show import command_name, err, out, print_written, progress_bar
from residua.errors import FileError, PlanError
from residua.estimation import Estimated, SyntheticRows, estimate
from residua.estimation.statement import WARNING as MODEL_WARNING
from residua.folders import require_free
from residua.projection import Projected, project
from residua.projection.accuracy import METRICS, WARNING
from residua.release import Release, combined


def run_projection(folder: Path, target: Path, total: str | None, known: Sequence[Path], **how: Any) -> None:
    """Projects a saved release, as `rs.project` does, writes the projection, and says what it is."""
    require_free(target, "projection")
    if kind_of(folder) == "projection":
        raise PlanError(f"{str(folder)!r} is a projection already; project the release that it was made from.")
    release = Release.load(folder)
    with progress_bar() as show:
        facts: dict[str, Any] = {"total": _total(total, "released", "free"), "known": read_facts(known)}
        projected = project(release, **facts, **how, progress=lambda rounds, left: show("projecting", rounds, None))
        projected.save(target)
    print_written(target, f": a projection of {folder}; no data was touched and nothing was spent.")
    out.print(WARNING)
    for line in _nearness(projected):
        out.print(line)
    if projected.bound is not None:
        out.print(f"Error       {projected.bound}")
    if projected.bound is not None and projected.bound.doubtful:
        err.print("residua: warning: the release does not fit these facts, by more than its noise; check them.")
    if projected.simulated is not None:
        out.print(f"Simulated   {projected.simulated}")
    _advise(target, "PROJECTION.md")


def write_combined(folders: Sequence[Path], target: Path, by: str, *, disjoint: bool) -> None:
    """Writes the release of several populations together."""
    require_free(target, "release")
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        raise PlanError(f"{', '.join(names)}: folders of one name; populations are called like their folders.")
    releases = {name: Release.load(folder) for name, folder in zip(names, folders, strict=True)}
    combined(releases, by=by, disjoint=disjoint).save(target)
    print_written(target, f": {len(names)} populations together; no data was touched and nothing was spent.")


def run_estimation(folder: Path, target: Path, total: str | None, known: Sequence[Path]) -> None:
    """Estimates from a saved release, writes the estimates, and says what they are."""
    require_free(target, "folder of estimates")
    if kind_of(folder) != "release":
        raise PlanError(f"{str(folder)!r} was made from a release; estimate from the release itself.")
    release = Release.load(folder)
    with progress_bar() as show:
        estimated = estimate(release, total=_total(total), known=read_facts(known), progress=show)
        estimated.save(target)
    print_written(target, f": estimates from {folder}; no data was touched and nothing was spent.")
    out.print(MODEL_WARNING)
    odd = estimated.contradicted
    if odd:
        pairs = "one pair" if len(odd) == 1 else f"{len(odd):,} pairs"
        err.print(
            f"residua: the model does not fit {pairs}; there estimates follow what was measured; see ESTIMATES.md."
        )
    _advise(target, "ESTIMATES.md")


def write_rows(folder: Path, target: Path, count: int | None, attributes: Sequence[str] | None) -> None:
    """Writes synthetic rows from saved estimates, and says what they are."""
    writers = {".parquet": SyntheticRows.to_parquet, ".csv": SyntheticRows.to_csv}
    if target.suffix not in writers:
        raise PlanError(f"--out {str(target)!r} is neither .parquet nor .csv; name the file so.")
    if target.is_symlink() or target.exists():
        raise FileError(f"--out {str(target)!r} exists already; choose another name.")
    if kind_of(folder) != "estimates" and folder.is_dir():
        raise PlanError(f"{str(folder)!r} holds no estimates; run residua estimate on the release first.")
    rows = Estimated.load(folder).rows(count, attributes=attributes)
    with progress_bar() as show:
        writers[target.suffix](rows, target, progress=show)
    print_written(target, f": {len(rows):,} synthetic rows of {len(rows.attributes)} attributes; nothing was spent.")
    out.print(f"{rows.note[0].upper()}{rows.note[1:]}.")


def write_replicates(folder: Path, target: Path, n: int) -> None:
    """Writes replicates of a projection as one long file, and says what they are."""
    if target.suffix != ".parquet":
        raise PlanError(f"--out {str(target)!r} does not end in .parquet; name the file so.")
    if target.is_symlink() or target.exists():
        raise FileError(f"--out {str(target)!r} exists already; choose another name.")
    published = load_published(folder)
    if not hasattr(published, "replicates"):
        raise PlanError(f"{str(folder)!r} has no replicates; run residua project on the release first.")
    with progress_bar() as show:
        drawn = published.replicates(n, progress=lambda done, of: show("replicating", done, of))
    drawn.to_parquet(target)
    print_written(target, f": {n:,} replicates, {drawn.note}; no data was touched and nothing was spent.")


def _nearness(projected: Projected) -> Iterator[str]:
    """How near to the release the tables are, and what they miss; of a gap only where one is proven."""
    proven = math.isfinite(projected.gap)
    metric, missed = METRICS[projected.metric], f"violations {projected.infeasibility:.2g} counts"
    yield f"Nearest     by {metric}" if proven else f"Distance    {projected.distance:,.4g}, by {metric}; {missed}"
    if projected.shrunk:
        yield "Shrunk      interactions were shrunk by their noise first, which is large beside the total"
    if proven:
        yield f"Gap         {projected.gap:.2g} of a squared distance of {projected.distance:,.4g} (proven); {missed}"


def _advise(target: Path, statement: str) -> None:
    out.print(f"Next        {command_name()} table {target} [ATTRIBUTE …] [--rounded], and read {target / statement}")


def _total(text: str | None, *words: str) -> Any:
    """A public total: a number, or one of some words."""
    if text is None or text in words:
        return text
    try:
        return float(text.replace(",", ""))
    except ValueError:
        if words:
            said = f"is neither a number nor {' or '.join(map(repr, words))}; give one of them."
        else:
            said = "is not a number; give one, or leave it out."
        raise PlanError(f"--total {text!r} {said}") from None
