"""The privacy statement that goes with a release, for people to read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from residua.privacy import describe

if TYPE_CHECKING:
    from residua.release.base import Release


def privacy_statement(release: Release) -> str:
    """What was measured, whom the noise protects and how well, as Markdown."""
    plan = release.planned
    costs = describe(release.receipt.get("pcost", plan.unit_pcost))
    bias = [f"Answers may be off systematically by up to {plan.bias:.6g} a record.", ""] if plan.bias else []
    lines = [
        "# Privacy statement",
        "",
        f"Guarantee: {plan.guarantee!r}, for {plan.unit}.",
        "",
        "The same cost in every currency (each figure rounded up):",
        "",
        f"- rho = {costs.rho:.6g} (zero-concentrated differential privacy)",
        f"- mu = {costs.mu:.6g} (Gaussian differential privacy)",
        *(
            f"- epsilon = {epsilon:.6g} at delta = {delta:g} (approximate differential privacy)"
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
        + (f", proven within {plan.gap:.2g} of the best possible." if math.isfinite(plan.gap) else "."),
        "",
        *bias,
        "Values outside the declared domain and missing values followed the policies in `codebook.toml`.",
        "",
    ]
    return "\n".join(lines)
