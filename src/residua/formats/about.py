"""What a reader of published tables must know, whatever the format: guarantee, unit, what numbers and flags mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from residua.plans.contract import Plan
from residua.privacy import PureDP, describe
from residua.privacy.costs import printed, stated
from residua.published.quality import FLAGS, meaning
from residua.published.table import LEFT_OUT, protects

MEASURES = {
    "estimate": "Estimated count, with random noise; unbiased, and below zero where noise took it there",
    "stddev": "Standard error: the standard deviation of the noise in the estimate",
    "lower": "Lower end of the interval",
    "upper": "Upper end of the interval",
    "left_out": "Records that the bound on each person's left out of the number, with noise of their own",
    "left_out_lower": "Lower end of the interval of the records left out",
    "left_out_upper": "Upper end of the interval of the records left out",
}
TITLES = {
    "estimate": "Estimate", "stddev": "Standard error", "lower": "Lower", "upper": "Upper",
    "left_out": "Left out", "left_out_lower": "Left out: lower", "left_out_upper": "Left out: upper",
}  # fmt: skip
BIASED = "Estimated count, made consistent and not negative; biased, without a standard error"


@dataclass(frozen=True)
class About:
    """What stands beside every table.

    Args:
        title: what the whole is called.
        guarantee: the privacy guarantee, as written in Python.
        unit: whom it protects.
        costs: the cost in every currency, name → figure, rounded up.
        noise: "normal" or "Laplace".
        confidence: of the intervals; None where there are none.
        biased: whether the numbers are biased (a projection's).
        receipt: what the ledger recorded: time, sequence, digest.
        version: of residua.
        language: in which titles are written; None for the first that there is.
        counts: the unit of the numbers.
        counted: what is counted, where that is not every record, and how much that leaves out; else nothing.
        left_out: whether tables have columns of what was left out.
        changed: what was done to the numbers besides, a sentence each: rounding, suppression.
    """

    title: str
    guarantee: str
    unit: str
    costs: Mapping[str, str]
    noise: str
    confidence: float | None
    biased: bool
    receipt: Mapping[str, Any]
    version: str
    language: str | None = None
    counted: str = ""
    counts: str = "records"
    left_out: bool = False
    changed: tuple[str, ...] = ()

    @property
    def protection(self) -> str:
        """The guarantee in a sentence."""
        costs = ", ".join(f"{name} = {figure}" for name, figure in self.costs.items())
        return f"Differential privacy: {self.guarantee}, for {self.unit} ({costs})."

    @property
    def measures(self) -> dict[str, str]:
        """Column → what it means."""
        words = {"estimate": BIASED} if self.biased else {name: MEASURES[name] for name in ("estimate", "stddev")}
        if self.confidence is not None:
            least = " at least" if self.biased else ""
            holds = f", which holds the count without noise with a probability of{least} {100 * self.confidence:.10g} %"
            words |= {name: MEASURES[name] + holds for name in ("lower", "upper")}
        return words | {name: MEASURES[name] for name in LEFT_OUT if self.left_out}

    @property
    def notes(self) -> tuple[str, ...]:
        """What people are told, a sentence each."""
        flags = "; ".join(f"{flag}: {words}" for flag, words in meaning().items())
        numbers = (
            "Numbers are biased and have no standard errors; take those from the release."
            if self.biased
            else f"Numbers are counts plus {self.noise} noise: unbiased estimates, some below zero; keep those in sums."
        )
        when = str(self.receipt.get("time", ""))[:10]
        maker = f"Made with residua {self.version}" + (f"; measured {when}" if when else "") + "."
        quality = () if self.biased else (f"Quality of a number: {flags}.",)
        unit = f"Unit: {self.counts}" + (f"; each table {self.counted}." if self.counted else ".")
        return (self.protection, numbers, *self.changed, *quality, unit, maker)

    def metadata(self, title: str, **more: Any) -> dict[str, str]:
        """The same for files that hold metadata: JSON under the key `residua`, and a title under `title`."""
        known = {"title": title, "notes": list(self.notes), **self.plain(), **more}
        return {"title": title, "residua": json.dumps(known, ensure_ascii=False)}

    def plain(self) -> dict[str, Any]:
        """The same as plain values, for metadata."""
        facts: dict[str, Any] = {
            "guarantee": self.guarantee,
            "protects": self.unit,
            "cost": dict(self.costs),
            "noise": self.noise,
            "unit": self.counts,
            "measures": self.measures,
            "made_with": f"residua {self.version}",
        }
        if not self.biased:
            facts["quality"] = meaning()
            facts["flags"] = list(FLAGS)
        if self.confidence is not None:
            facts["confidence"] = self.confidence
        facts |= {key: self.receipt[key] for key in ("time", "sequence", "digest") if key in self.receipt}
        return facts


def about(
    plan: Plan,
    receipt: Mapping[str, Any],
    *,
    title: str,
    confidence: float | None,
    biased: bool,
    language: str | None,
    counts: str = "records",
    counted: str = "",
    left_out: bool = False,
    changed: tuple[str, ...] = (),
) -> About:
    """What stands beside the tables of a release or a projection."""
    from residua import __version__

    laplace = plan.noise.currency == "epsilon"
    costs: dict[str, str] = {}
    if laplace:
        pure = PureDP(float(receipt.get("epsilon", plan.unit_epsilon)))
        costs = {"epsilon": printed(pure.epsilon), "rho": printed(pure.rho)}
    else:
        spent = describe(float(receipt.get("pcost", plan.unit_pcost)))
        costs = {"rho": printed(spent.rho), "mu": printed(spent.mu)}
        for epsilon, delta in zip(spent.epsilons, spent.deltas, strict=True):
            costs[f"epsilon at delta {delta:g}"] = printed(epsilon)
    guarantee = stated(plan.guarantee, receipt)
    noise = "Laplace" if laplace else "normal"
    level = None if plan.bias else confidence
    words = (receipt, __version__, language, counted, counts, left_out, changed)
    return About(title, guarantee, protects(plan.unit, receipt), costs, noise, level, biased, *words)
