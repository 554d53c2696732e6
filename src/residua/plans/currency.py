"""What a cost guarantees, said in the currency of another guarantee."""

from __future__ import annotations

from residua.privacy import GDP, ZCDP, ApproxDP, Guarantee


def guarantee_like(example: Guarantee | None, pcost: float) -> Guarantee | None:
    """What a cost guarantees, in the currency of another guarantee; nothing to guarantee for a cost of 0."""
    if pcost == 0:
        return None
    pcost *= 1.0 + 2.0**-40  # what is measured costs a rounding more than the sum of floats says
    if isinstance(example, GDP):
        return GDP.of_pcost(pcost)
    if isinstance(example, ApproxDP):
        return ApproxDP.of_pcost(pcost, delta=example.delta)
    return ZCDP.of_pcost(pcost)
