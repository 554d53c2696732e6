"""What `residua continual` does: begins, appends, shows."""

from __future__ import annotations

from pathlib import Path

from residua.cli.show import out, print_json, print_table
from residua.errors import SpecError
from residua.measurement import Continual, Ledger
from residua.measurement.continual import require_period
from residua.plans import AxisPlan, Plan


def run_continual(
    folder: Path, ledger: Path, plan: Path | None, append: Path | None, period: str | None, *, as_json: bool
) -> None:
    """Begins a continual release, appends the next period, and shows all so far."""
    if period is not None and append is None:
        raise SpecError("--period says which period --append means; give both, or neither.")
    made = None if plan is None else Plan.load(plan)
    if period is not None and isinstance(made, AxisPlan) and not folder.exists():  # before the plan is paid for
        require_period(period, made.domain[made.name].labels[0])
    fresh = made is not None and not ledger.exists()
    account = Ledger(ledger, made.guarantee, unit=made.unit) if fresh and made else Ledger(ledger)
    stream = Continual(folder, ledger=account, plan=made)
    if append is not None:
        stream.append(append, period=period)
    if as_json:
        columns = stream.cumulative().columns
        shown = {name: [each.item() if hasattr(each, "item") else each for each in columns[name]] for name in columns}
        print_json({"periods": stream.periods, "horizon": stream.horizon, "cumulative": shown})
        return
    if stream.periods:
        print_table(stream.cumulative())
    then = f"next: {stream.next_period}" if stream.periods < stream.horizon else "all periods are released"
    out.print(f"{stream.periods} of {stream.horizon} periods, {stream.plan.guarantee!r} paid for all of them; {then}")
