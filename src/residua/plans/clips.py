"""`rs.clips`: where to clip an amount, from public knowledge alone: what noise adds against what clipping takes away.

The noise of a sum grows in proportion to the largest amount that counts in full, and is known from a plan. What
clipping takes away follows from how amounts are spread, of which an earlier year, another survey or a distribution may
tell; never the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.domain import Amount
from residua.errors import PlanError, named
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.verifier import require_plan
from residua.published.columns import Columns
from residua.workload import product

_SHARES = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Clips(Columns):
    """What each upper bound of an amount would do to its sums, tidy. Made by `rs.clips`.

    Columns: `high`; `percent`, of the records that lie beyond; `bias`, what a sum of a cell loses by clipping;
    `noise`, the standard deviation of its noise; `error`, the root mean square of both; and, where an error is wanted,
    `cost`: which multiple of the plan's privacy cost would meet it, infinite where no noise is small enough.

    Args:
        numbers: the columns.
        what: of which cells, in words.
        wanted: the error that is wanted; None where none is.
    """

    numbers: dict[str, Floats]
    what: str
    wanted: float | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The bound."""
        return ("high",)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns by name."""
        return self.numbers

    def __len__(self) -> int:
        return len(self.numbers["high"])

    @cached_property
    def best(self) -> dict[str, Any]:
        """The row with the least error; the cheapest, where an error is wanted."""
        return self[int(np.argmin(self.numbers["error" if self.wanted is None else "cost"]))]

    @property
    def note(self) -> str:
        """Of which cells, and which bound is best."""
        sense = "the least error" if self.wanted is None else f"least cost for an error of {self.wanted:,g}"
        return f"{self.what}; {sense} at high={self.best['high']:,.10g}"

    decimals = 2  # of per cent


def clips(
    plan: Plan,
    attribute: str,
    *,
    amounts: Sequence[float],
    records: float,
    by: Sequence[str] = (),
    highs: Sequence[float] | None = None,
    wanted: float | None = None,
) -> Clips:
    """Where to clip an amount: for each upper bound the error of a sum, before any data is read.

    Args:
        plan: for a domain with the amount; its bound may be any, since the noise of sums is in proportion to it.
        attribute: the amount.
        amounts: what amounts are like, from public knowledge: those of an earlier publication, or of a distribution.
        records: how many records a cell has, about.
        by: the attributes of the table whose cells are meant; none for the total.
        highs: the bounds that are compared; if left out, quantiles of the amounts.
        wanted: an error of the sums that is wanted: then the cost tells which bound is cheapest.

    Raises:
        PlanError: an argument that is not as said here, or sums that the plan does not answer.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain({"sex": ["F", "M"], "pay": rs.Amount(0, 1000)})
        >>> plan = rs.plan(rs.marginals(domain, [("sex", "pay")]), rs.ZCDP(0.5))
        >>> table = rs.clips(plan, "pay", amounts=[50] * 90 + [500] * 9 + [9_000], records=200, by=["sex"])
        >>> table.best["high"], round(table.best["noise"]), round(table.best["bias"])
        (9000.0, 9000, 0)
    """
    require_plan(plan)
    asked = plan.domain[attribute]
    spread = _finite("amounts", amounts)
    if not isinstance(asked, Amount):
        raise PlanError(f"attribute={attribute!r} is no amount; declare it as rs.Amount(low, high, unit=…).")
    for name, value in (("records", records), ("wanted", 1.0 if wanted is None else wanted)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
            raise PlanError(f"{name}={named(value)} is not a positive number; say about how much.")
    given = np.quantile(spread, _SHARES, method="higher") if highs is None else _finite("highs", highs)
    bounds = np.unique([float(f"{high:.3g}") for high in given[given > asked.low].tolist()] if highs is None else given)
    bounds = bounds[bounds > asked.low]
    if not len(bounds):
        raise PlanError(f"no bound in highs is above low={asked.low}; give some that are.")
    rows = np.column_stack([np.full(len(bounds), float(asked.low)), bounds])
    workload = product(plan.domain, {attribute: rows, **dict.fromkeys(by, "identity")})
    [term] = workload.terms()
    axis = [plan.domain.names[i] for i, _ in term].index(attribute)
    variances = np.moveaxis(plan.variances(workload).reshape([each.rows for _, each in term]), axis, 0)
    noise = np.sqrt(variances.reshape(len(bounds), -1).max(axis=1))
    bias = np.array([records * float((np.clip(spread, asked.low, high) - spread).mean()) for high in bounds])
    columns = {
        "high": bounds,
        "percent": np.array([100 * float((spread > high).mean()) for high in bounds]),
        "bias": bias,
        "noise": noise,
        "error": np.hypot(noise, bias),
    }
    if wanted is not None:
        room = np.sqrt(np.maximum(wanted**2 - bias**2, 0.0))
        with np.errstate(divide="ignore"):
            columns["cost"] = (noise / room) ** (2 if plan.noise.gaussian else 1)
    cells = " × ".join(by) or "total"
    return Clips(columns, f"sums of {attribute}, {cells}, {records:,g} records in a cell", wanted)


def _finite(name: str, given: Sequence[float]) -> Floats:
    """Numbers in order."""
    try:
        numbers = np.sort(np.array(given, dtype=np.float64).ravel())
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if not len(numbers) or not np.isfinite(numbers).all():
        raise PlanError(f"{name} are not finite numbers; give some that are public, such as those of an earlier year.")
    return numbers
