"""How many records people have: with noise, to choose a bound by; or exactly, for the curator's eyes."""

from __future__ import annotations

import numpy as np

from residua.cli.show import err, out, print_json, progress_bar
from residua.cli.spec import Spec
from residua.cli.steps import checked_source, open_ledger
from residua.errors import PrivacyError, SpecError
from residua.measurement import records_per_person
from residua.measurement.persons import show_records_per_person
from residua.privacy import ZCDP, Guarantee, Person, PureDP
from residua.screen import PlainTable
from residua.source.bound import Loss

_BOUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500, 750, 1000)


def print_looked(
    spec: Spec, rho: float | None, epsilon: float | None, most: int, share: float, *, as_json: bool, show_values: bool
) -> None:
    """Spends on a look, and prints the counts with noise, what each bound would leave out, and a bound to take."""
    _require_person(spec)
    if rho is not None and epsilon is not None:
        raise SpecError("give --rho, for normal noise, or --epsilon, for Laplace noise.")
    budget: Guarantee = ZCDP(rho) if rho is not None else PureDP(epsilon if epsilon is not None else 0.0)
    if not 0 < share < 1:
        raise SpecError(f"--share {share:g} is not a share between 0 and 1; say 0.9, for example.")
    data = checked_source(spec, show_values=show_values)
    ledger = open_ledger(spec)
    with progress_bar() as show:
        look = records_per_person(data, spec.domain, budget, ledger=ledger, most=most, progress=show)
    try:
        bound: int | None = look.recommend(share)
    except PrivacyError as problem:
        bound, why = None, str(problem)
    counted = list(zip(look.labels, look.counts.tolist(), strict=True))
    if as_json:
        counts = [{"records": label, "persons": count} for label, count in counted]
        print_json({"counts": counts, "stddev": look.stddev, "share": share, "recommended": bound})
        return
    out.print(PlainTable(["records"], ["persons"], ([label, f"{count:,}"] for label, count in counted)))
    out.print(f"Each with a standard deviation of {look.stddev:.4g}; debit {look.sequence} of {spec.ledger_path}")
    if bound is None:
        out.print(why)
        return
    left = look.left_out(bound)
    out.print(
        f"[privacy] records = {bound} counts about {share:.0%} of the records; about {left.estimate:,.0f} are left out "
        f"(± {left.upper - left.estimate:,.0f})"
    )


def print_true(spec: Spec, *, show_values: bool) -> None:
    """What each bound would leave out, exactly: on a terminal only, or where that was asked for."""
    _require_person(spec)
    if not (show_values or err.is_terminal):
        raise SpecError(
            "true counts are shown on a terminal only; say --show-values to have them elsewhere, or --rho 0.01 for "
            "counts with noise."
        )
    data = checked_source(spec, show_values=show_values)
    with progress_bar() as show:
        losses: list[Loss] = []
        show_records_per_person(data, spec.domain, losses.append, progress=show)
    held = losses[0].held
    sizes = np.arange(len(held))
    records, people = int(held @ sizes), int(held.sum())
    err.print(
        f"for your eyes only, not published: {people:,} persons with {records:,} records, at most "
        f"{int(sizes[held > 0].max(initial=0)):,} each"
    )
    if not records:
        return
    table = PlainTable([], ["bound", "persons cut", "records left out", "share"])
    for bound in _BOUNDS:
        left = int(held @ np.maximum(sizes - bound, 0))
        table.add_row(f"{bound:,}", f"{int(held[bound + 1 :].sum()):,}", f"{left:,}", f"{left / records:.1%}")
        if not left:
            break
    err.print(table)
    err.print(
        "A bound chosen by this is chosen by looking at the data, which no guarantee covers; within the ledger: "
        "residua persons SPEC.toml --rho 0.01"
    )


def _require_person(spec: Spec) -> None:
    if not isinstance(spec.unit, Person):
        raise SpecError('[source] does not say whose each record is; write person = "id" there.')
