"""What is shown of a release, a projection or estimates, and what is made from a release: no data, and no cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from residua.cli.options import OutputForm
from residua.cli.quoting import split_attribute
from residua.cli.show import command_name, err, out, print_json, print_published, progress_bar
from residua.cli.steps import bias_of, load_published
from residua.errors import FileError, PlanError
from residua.estimation import Estimated, SyntheticRows, estimate
from residua.estimation.estimate import WARNING as MODEL_WARNING
from residua.estimation.folder import is_estimates
from residua.folders import require_free
from residua.formats.cube import Cube
from residua.formats.export import export
from residua.formats.long import NAMES, numbered
from residua.plans.targets import USUAL_CONFIDENCE
from residua.projection import Projected, project
from residua.projection.accuracy import METRICS, WARNING
from residua.projection.folder import is_projection
from residua.release import Release
from residua.release.tables import MOST_ROWS, too_long
from residua.screen import PlainTable

ROWS_LISTED = 500  # tables that are written are listed on the terminal, up to so many


def print_marginal(folder: Path, attributes: Sequence[str], form: OutputForm, *, rounded: bool, **asked: Any) -> None:
    """One table, with error bars if it is a release's."""
    published, sure = _opened(folder, **asked)
    if rounded and isinstance(published, Release):
        raise PlanError("--rounded is for projections and estimates; run residua project on the release first.")
    split = [split_attribute(published.domain, text) for text in attributes]
    names, queries = [name for name, _ in split], {name: rows for name, rows in split if rows is not None}
    if rounded and queries:
        raise PlanError("--rounded is for the cells of a table, not its prefixes, ranges or levels; leave one out.")
    table = published.rounded(names) if rounded else published.table(names, queries=queries, **sure)
    print_published(table, form, bias=bias_of(published))


def print_answers(folder: Path, form: OutputForm, **asked: Any) -> None:
    """The answers to everything that was asked."""
    published, sure = _opened(folder, **asked)
    print_published(published.answers(**sure), form, bias=bias_of(published))


def print_count(folder: Path, condition: str | None, confidence: float | None, *, as_json: bool) -> None:
    """One count; of all records without a condition."""
    published, sure = _opened(folder, confidence=confidence)
    title, counted = condition or "(total)", published.count(condition or None, **sure)
    facts = {**vars(counted), **sure} if sure else {"estimate": counted}
    if as_json:
        print_json({"count": title, **facts})
    elif not sure:
        out.print(f"{title}: {counted:,.1f}")
        err.print(f"({bias_of(published)})")
    else:
        interval = f"; {100 * sure['confidence']:.10g} % interval: {counted.lower:,.1f} to {counted.upper:,.1f}"
        held = interval if counted.lower == counted.lower else "; no interval: the release is biased"  # NaN
        out.print(f"{title}: {counted.estimate:,.1f} (standard deviation {counted.stddev:,.1f}{held})")


def _opened(folder: Path, **asked: Any) -> tuple[Any, dict[str, Any]]:
    """What a folder holds, and how sure its intervals are to be: nothing where numbers have none.

    Raises:
        PlanError: a confidence where numbers are biased.
    """
    published = load_published(folder)
    if isinstance(published, Release):
        return published, asked | ({"confidence": USUAL_CONFIDENCE} if asked["confidence"] is None else {})
    if any(value is not None for value in asked.values()):
        raise PlanError("a projection is biased and has no intervals; ask the release for --confidence.")
    return published, {}


def write_tables(
    folder: Path, target: Path | None, format: str | None, confidence: float | None, *, on_executors: bool,
    spreadsheet: bool, full: bool, **words: str | None,
) -> None:  # fmt: skip
    """Lists all tables that were asked for, and writes them in a format if a folder is named, all or none.

    Args:
        folder: a release, a projection or estimates.
        target: the folder to write.
        format: of the files.
        spreadsheet, full: how CSV is wanted.
        on_executors: whether Spark's executors write them.
        confidence: as for `Release.export`; so are the words, `title` and `language`.

    Raises:
        FileError: the folder exists or cannot be made.
        PlanError: a confidence for a projection, an unknown format, or queries that make no tables.
    """
    if target is None and (format is not None or on_executors):
        given = "--on-executors says by whom" if on_executors else "--format says how"
        raise PlanError(f"{given} tables are written; say where, with --out DIR.")
    if target is not None:
        require_free(target, "folder of tables")
    if on_executors and spreadsheet:
        raise PlanError("--spreadsheet is for CSV, and executors write parquet; leave one of the two out.")
    published, sure = _opened(folder, confidence=confidence)
    described = {"full": full, **words, **sure}
    if target is None:
        _list_tables(published, sure)
    elif on_executors:
        from residua.source.spark import session_at_hand

        with progress_bar() as show:
            files = export(published, target, format or "parquet", **described, spark=session_at_hand(), progress=show)
        out.print(f"Wrote {target}: {len(files):,} Parquet files with all tables, a row per cell.")
    else:
        _use_system_memory()
        _write_tables(published, target, format or "csv", spreadsheet=spreadsheet, **described)


def _write_tables(published: object, target: Path, format: str, **described: Any) -> None:
    shown = PlainTable(["table", "file"], ["rows"])
    with progress_bar() as show:

        def list_table(cube: Cube, path: Path) -> None:
            show("writing tables", cube.number, None)
            if cube.number <= ROWS_LISTED:
                shown.add_row(cube.title, str(path), f"{len(cube):,}")

        written = len(export(published, target, format, **described, listing=list_table))
    if format in NAMES:
        out.print(f"Wrote {target / NAMES[format]}: all tables in one file")
        return
    out.print(shown)
    if written > ROWS_LISTED:
        out.print(f"… {written - ROWS_LISTED:,} more tables; {target} holds all {written:,}.")


def _list_tables(published: Any, sure: dict[str, Any]) -> None:
    """Lists all tables that were asked for; last those that are too long to be written."""
    shown, seen = PlainTable(["table"], ["rows"]), Counter[str]()
    for table in published.tables(most=MOST_ROWS, **sure):
        shown.add_row(numbered(table.title, seen), f"{len(table):,}")
    for title, numbers in too_long(published.plan.workload):
        shown.add_row(numbered(title, seen), f"{numbers:,}")
    out.print(shown)


def _use_system_memory() -> None:
    """Arrow's own pool gives memory back after every batch and asks for it again: a second of the system's time."""
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())


# ---- made from a release alone


def run_projection(folder: Path, target: Path, total: str | None, known: Sequence[Path], **how: Any) -> None:
    """Projects a saved release, as `rs.project` does, writes the projection, and says what it is."""
    require_free(target, "projection")
    if is_projection(folder):
        raise PlanError(f"{str(folder)!r} is a projection already; project the release that it was made from.")
    release = Release.load(folder)
    with progress_bar() as show:
        facts: dict[str, Any] = {"total": _total(total, "released", "free"), "known": _read_facts(known)}
        projected = project(release, **facts, **how, progress=lambda rounds, left: show("projecting", rounds, None))
        projected.save(target)
    out.print(f"Wrote {target}: a projection of {folder}; no data was touched and nothing was spent.")
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


def run_estimation(folder: Path, target: Path, total: str | None, known: Sequence[Path]) -> None:
    """Estimates from a saved release, writes the estimates, and says what they are."""
    require_free(target, "folder of estimates")
    if is_projection(folder) or is_estimates(folder):
        raise PlanError(f"{str(folder)!r} was made from a release; estimate from the release itself.")
    release = Release.load(folder)
    with progress_bar() as show:
        estimated = estimate(release, total=_total(total), known=_read_facts(known), progress=show)
        estimated.save(target)
    out.print(f"Wrote {target}: estimates from {folder}; no data was touched and nothing was spent.")
    out.print(MODEL_WARNING)
    odd = estimated.contradicted
    if odd:
        err.print(f"residua: measurements contradict the model for {len(odd):,} pairs, and decide; see ESTIMATES.md.")
    _advise(target, "ESTIMATES.md")


def write_rows(folder: Path, target: Path, count: int | None, attributes: Sequence[str] | None) -> None:
    """Writes synthetic rows from saved estimates, and says what they are."""
    writers = {".parquet": SyntheticRows.to_parquet, ".csv": SyntheticRows.to_csv}
    if target.suffix not in writers:
        raise PlanError(f"--out {str(target)!r} is neither .parquet nor .csv; name the file so.")
    if target.is_symlink() or target.exists():
        raise FileError(f"--out {str(target)!r} exists already; choose another name.")
    if not is_estimates(folder) and (is_projection(folder) or (folder / "release.json").is_file()):
        raise PlanError(f"{str(folder)!r} holds no estimates; run residua estimate on the release first.")
    rows = Estimated.load(folder).rows(count, attributes=attributes)
    with progress_bar() as show:
        writers[target.suffix](rows, target, progress=show)
    out.print(f"Wrote {target}: {len(rows):,} synthetic rows of {len(rows.attributes)} attributes; nothing was spent.")
    out.print(f"{rows.note[0].upper()}{rows.note[1:]}.")


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


def _read_facts(paths: Sequence[Path]) -> dict[Sequence[str], Any]:
    """Public tables from files: all columns but `count` are attributes."""
    facts: dict[Sequence[str], Any] = {}
    for path in paths:
        table = _read(path)
        names = tuple(name for name in table.column_names if name != "count")
        if "count" not in table.column_names:
            raise PlanError(f"--known {str(path)!r} has no column 'count'; it has {', '.join(table.column_names)}.")
        if names in facts:
            raise PlanError(f"--known {str(path)!r}: the table on {', '.join(names)} is given twice; give it once.")
        facts[names] = table
    return facts


def _read(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        with path.open("rb") as file, pyarrow.csv.open_csv(file) as reader:
            names = reader.schema.names
        # Labels as they are written: 007 is not 7.
        types = {name: pa.string() for name in names if name != "count"}
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return pyarrow.csv.read_csv(path, convert_options=options)
    except OSError as problem:
        raise FileError(f"cannot read --known {str(path)!r}: {problem.strerror or problem}.") from None
    except pa.ArrowInvalid as problem:
        raise FileError(f"--known {str(path)!r} is not a table: {problem}; correct it.") from None
