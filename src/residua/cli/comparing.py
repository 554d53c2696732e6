"""`residua compare`: the best plans beside what people use today."""

from __future__ import annotations

from residua.analysis import compare
from residua.cli.show import out, plain_table, print_json
from residua.cli.spec import Spec
from residua.errors import SpecError
from residua.privacy import ZCDP
from residua.workload import Products, as_explicit


def print_comparison(spec: Spec, *, as_json: bool) -> None:
    """Baselines, least total variance and fitness for use at the specification's budget (rho = 0.5 without one)."""
    if spec.least_epsilon:
        raise SpecError('comparing is for Gaussian noise; leave [privacy] epsilon = "least" out.')
    budget = spec.guarantee or ZCDP(0.5)
    asked = spec.workload
    workload = as_explicit(asked) if isinstance(asked, Products) else asked
    found = compare(workload, budget, spec.targets, unit=spec.unit)
    if as_json:
        figures = ("name", "max_ratio", "rmse", "pcost_for_targets")
        print_json([{key: getattr(one, key) for key in figures} for one in found])
        return
    best = min(one.pcost_for_targets for one in found)
    table = plain_table(
        ("plan", "left"),
        ("largest variance / target", "right"),
        ("root mean square error", "right"),
        ("rho to meet all targets", "right"),
        ("× the least", "right"),
    )
    for one in found:
        times = f"{one.pcost_for_targets / best:,.2f}×"
        table.add_row(one.name, f"{one.max_ratio:,.4g}", f"{one.rmse:,.4g}", f"{one.pcost_for_targets / 2:,.4g}", times)
    out.print(
        f"At {budget!r}, for {spec.unit}; targets: {'as specified' if spec.targets is not None else '1 / weight'}"
    )
    out.print(table)
