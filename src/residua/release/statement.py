"""The privacy statement that goes with a release, for people to read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from residua.privacy import describe
from residua.privacy.currencies import printed

if TYPE_CHECKING:
    from residua.release.base import Release


def privacy_statement(release: Release) -> str:
    """What was measured, whom the noise protects and how well, as Markdown."""
    plan = release.planned
    costs = describe(release.receipt.get("pcost", plan.unit_pcost))
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
        f"Guarantee: {plan.guarantee!r}, for {plan.unit}.",
        "",
        "The same cost in every currency (each figure rounded up):",
        "",
        f"- rho = {printed(costs.rho)} (zero-concentrated differential privacy)",
        f"- mu = {printed(costs.mu)} (Gaussian differential privacy)",
        *(
            f"- epsilon = {printed(epsilon)} at delta = {delta:g} (approximate differential privacy)"
            for epsilon, delta in zip(costs.epsilons, costs.deltas, strict=True)
        ),
        "",
        "## What was measured",
        "",
        release.summary,
        "Each integer is an exact linear combination of counts plus rounded normal noise, sampled exactly from the",
        "operating system's randomness. No true count is in this folder. All tables are post-processing of the same",
        "measurements: they agree with each other, and publishing more of them costs nothing.",
        "",
        f"Planned for: {plan.objective}"
        + (f", stated to be within {plan.gap:.2g} of {plan.rival}." if 0 < plan.gap < math.inf else "."),
        "",
        *bias,
        "Values outside the declared domain and missing values followed the policies in `codebook.toml`.",
        "",
    ]
    return "\n".join(lines)
