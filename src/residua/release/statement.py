"""The privacy statement that goes with a release, for people to read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from residua.plans.tolerances import nearness
from residua.privacy import AddRemove, Person, PureDP, describe
from residua.privacy.currencies import printed, stated
from residua.published.table import what_is_counted
from residua.showing import printable

if TYPE_CHECKING:
    from residua.release.base import Release


def _noise(release: Release) -> str:
    return "normal" if release.blocks.currency == "pcost" else "Laplace"


def _currencies(release: Release) -> list[str]:
    """What the release costs, one line per currency."""
    if release.blocks.currency == "epsilon":
        pure = PureDP(release.receipt["epsilon"])
        return [
            f"- epsilon = {printed(pure.epsilon)} (pure differential privacy: no delta)",
            f"- rho = {printed(pure.rho)} (zero-concentrated differential privacy)",
            f"- mu = {printed(pure.mu)} (Gaussian differential privacy)",
        ]
    costs = describe(release.receipt.get("pcost", release.planned.unit_pcost))
    return [
        f"- rho = {printed(costs.rho)} (zero-concentrated differential privacy)",
        f"- mu = {printed(costs.mu)} (Gaussian differential privacy)",
        *(
            f"- epsilon = {printed(epsilon)} at delta = {delta:g} (approximate differential privacy)"
            for epsilon, delta in zip(costs.epsilons, costs.deltas, strict=True)
        ),
    ]


def _of_persons(release: Release) -> list[str]:
    """What a bound on a person's records means for the numbers."""
    unit = release.planned.unit
    if isinstance(unit, AddRemove) and unit.records > 1:
        return [f"That no person has more than {unit.records:,} records was declared, not enforced.", ""]
    if not isinstance(unit, Person):
        return []
    columns = printable(str(release.receipt.get("person", "")))
    said = [
        *([f"A person is who has one `{columns}`."] if columns else []),
        f"The bound on each person's records was enforced: every table {what_is_counted(unit)}.",
        "They were chosen at random from that person's own, by a secret kept with the ledger. Numbers are lower",
        "than the true ones by what was left out, which no error bar shows.",
    ]
    left_out = release.left_out
    if left_out is not None:
        most = release.receipt["left_out_most"]
        said.append(
            f"About {left_out.estimate:,.0f} records were left out (standard deviation {left_out.stddev:,.0f}; no more"
            f" than {most:,} of any person are in this figure). The cost above includes that of this figure."
        )
    return [*said, ""]


def privacy_statement(release: Release) -> str:
    """What was measured, whom the noise protects and how well, as Markdown."""
    plan = release.planned
    bias = []
    if plan.bias:
        bias = [
            f"Answers are biased: on n records they may be off systematically by n times {plan.bias:.6g}, as a",
            "root mean square over the queries (single queries by more). No intervals are given.",
            "",
        ]
    lines = [
        "# Privacy statement",
        "",
        f"Guarantee: {stated(plan.guarantee, release.receipt)}, for {plan.unit}.",
        "",
        "The same cost in every currency (each figure rounded up):",
        "",
        *_currencies(release),
        "",
        "## What was measured",
        "",
        release.summary,
        f"Each integer is an exact linear combination of counts plus rounded {_noise(release)} noise, sampled exactly",
        "from the operating system's randomness. No true count is in this folder. All tables are post-processing of",
        "the same measurements: they agree with each other, and publishing more of them costs nothing.",
        "",
        f"Planned for: {plan.objective}"
        + (f", stated to be {nearness(plan.gap, plan.comparison_class)}." if 0 < plan.gap < math.inf else "."),
        "",
        *bias,
        *_of_persons(release),
        "Values outside the declared domain and missing values followed the policies in `codebook.toml`.",
        "",
    ]
    return "\n".join(map(printable, lines))  # a name cannot add a line
