"""The one door to data: verify, debit, count, add noise. Nothing else in residua sees a true count."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import LedgerError, PlanError, SourceError
from residua.linalg.layout import batches, layout_of
from residua.linalg.tables import centre
from residua.measure.ledger import Entry, Ledger
from residua.measure.margins import margins, maximal_layout
from residua.noise import Entropy, rounded_normal
from residua.plan.blocks import ResidualBlocks, compile_blocks
from residua.plan.residual import ResidualPlan
from residua.plan.verify import most_records, verified_cost
from residua.privacy.exact import round_up
from residua.release import Release
from residua.source import Source, source_of
from residua.source.counting import Counted, count

Integers = NDArray[np.int64]
Progress = Callable[[str, int, int | None], None]
_BATCH_CELLS = 4_000_000


def measure(
    plan: ResidualPlan,
    source: Any,
    *,
    ledger: Ledger | str | Path | Callable[[], Ledger],
    purpose: str = "release",
    progress: Progress | None = None,
    notice: Callable[[Counted], None] | None = None,
    _entropy: Entropy | None = None,
) -> Release:
    """Measures a plan on data, once.

    In this order: the plan is compiled to integer measurements and priced by the verifier; the data is checked
    against the domain, so that a value outside it stops here; the ledger is debited; the records are counted; exact
    noise is added; the counts are forgotten.

    Guarantee: the release satisfies the plan's guarantee for its unit, and the ledger was debited before any record
    was counted. The release holds no true count.

    Args:
        plan: what to measure.
        source: a path to CSV or Parquet, a pandas, Polars or Arrow frame, or an `rs.Source`.
        ledger: the dataset's ledger, the path of one that exists, or a function that makes it, called when the
            data has been checked.
        purpose: what the ledger notes.
        progress: called with the step, how much is done, and of how much if known.
        notice: called once, with how many records followed a policy for unknown or missing values. For the
            curator's eyes only: these are true counts.

    Raises:
        VerificationError: what would be measured is dearer than promised. Nothing is spent.
        SourceError: the data does not fit the domain. Nothing is spent, unless the message says that the debit
            stands, because the data changed after it was checked.
        LedgerError: the budget does not allow it. Nothing is spent.

    Reference: residual-planner, Algorithm 1.

    Example:
        >>> import residua as rs, pyarrow as pa, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes"]})
        >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
        >>> data = pa.table({"sex": ["F", "M", "M"] * 500, "answer": ["no", "yes", "no"] * 500})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = rs.Ledger(f"{folder}/survey.ledger", rs.ZCDP(rho=0.5))
        ...     release = rs.measure(plan, data, ledger=ledger)
        >>> abs(release.count({"sex": "M"}).estimate - 1000) < 20
        True
    """
    if not isinstance(plan, ResidualPlan):
        raise PlanError(f"plan={plan!r} is not a plan; make one with rs.plan.")
    account = None if callable(ledger) else _account(ledger, plan)
    blocks = compile_blocks(plan)
    cost = verified_cost(blocks, plan.guarantee, plan.unit)
    data = source_of(source)
    fingerprint = _checked(data, plan, progress)
    account = account or _account(ledger, plan)
    entry = account.debit(cost, purpose=purpose, dataset=fingerprint)
    try:
        measurements = _noisy(plan, blocks, data, progress, notice, _entropy)
    except MemoryError:
        raise PlanError(
            f"there is not enough memory to measure this plan; debit {entry.sequence} stands: ask for smaller tables."
        ) from None
    return Release(plan, blocks, measurements, _receipt(entry, cost))


def _account(ledger: Ledger | str | Path | Callable[[], Ledger], plan: ResidualPlan) -> Ledger:
    account = ledger if isinstance(ledger, Ledger) else ledger() if callable(ledger) else Ledger(ledger)
    if account.unit != plan.unit:
        raise LedgerError(f"the ledger protects {account.unit}, the plan {plan.unit}; plan with unit={account.unit!r}.")
    return account


def _checked(data: Source, plan: ResidualPlan, progress: Progress | None) -> str:
    """Reads the data once to see that it fits the domain, before anything is spent; returns its fingerprint."""
    fingerprint = data.fingerprint()
    no_tables = layout_of(plan.lattice, plan.domain.sizes, np.zeros(len(plan.lattice), dtype=bool))
    count(data, plan.domain, no_tables, _step("checking", progress))
    return fingerprint


def _noisy(
    plan: ResidualPlan,
    blocks: ResidualBlocks,
    data: Source,
    progress: Progress | None,
    notice: Callable[[Counted], None] | None,
    entropy: Entropy | None,
) -> Integers:
    layout = maximal_layout(plan.lattice, plan.domain.sizes, blocks.measured)
    try:
        counted = count(data, plan.domain, layout, _step("counting", progress))
    except SourceError as problem:
        raise SourceError(
            f"the data changed after it was checked ({str(problem).rstrip('.')}); the budget is spent: its debit "
            "stands, so let nothing change the data and plan again for what is left."
        ) from None
    first = layout.groups[0]
    if int(counted.tables[first.start : first.start + first.cells].sum()) > most_records(blocks):
        raise SourceError(
            "there are more records than 64-bit measurements can hold; the budget is spent, split the data."
        )
    if notice:
        notice(counted)
    tables = margins(layout, counted.tables, blocks.layout)
    del counted
    add_noise(blocks, tables, _step("adding noise", progress), entropy)
    return tables


def add_noise(
    blocks: ResidualBlocks,
    tables: Integers,
    progress: Callable[[int, int | None], None] | None,
    entropy: Entropy | None = None,
) -> None:
    """`m ← t · Ĉ m + round(s z)` for every measured table, in place, in batches."""
    grids = np.zeros(len(blocks.lattice), dtype=np.int64)
    scales = np.zeros(len(blocks.lattice))
    grids[blocks.measured], scales[blocks.measured] = blocks.grids, blocks.scales
    for group in blocks.layout:
        view = group.view(tables)
        for part in batches(len(view), group.cells, _BATCH_CELLS):
            numbers = group.numbers[part]
            add_noise_to(view[part], grids[numbers], scales[numbers], entropy)
            if progress:
                progress(group.start + group.cells * part.stop, len(tables))


def add_noise_to(tables: Integers, grids: Integers, scales: NDArray[np.float64], entropy: Entropy | None) -> None:
    """The same for tables of one shape, (tables, n_1, …, n_k), each with its grid factor and noise scale."""
    centre(tables)
    cells = tables.reshape(len(tables), -1)  # a view: the tables adjoin
    cells *= grids[:, None]
    cells += rounded_normal(scales, cells.shape, _entropy=entropy)


def _receipt(entry: Entry, cost: Fraction) -> dict[str, Any]:
    return {"sequence": entry.sequence, "time": entry.time, "digest": entry.digest, "pcost": round_up(cost)}


def _step(name: str, progress: Progress | None) -> Callable[[int, int | None], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(name, done, total)
