"""What a reader of published tables must know, whatever the format: guarantee, unit, what numbers and flags mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from residua.language import current, mark, numeral, say
from residua.plans.contract import Plan
from residua.privacy import PureDP, describe
from residua.privacy.costs import printed, stated
from residua.published.quality import FLAGS, meaning
from residua.published.table import LEFT_OUT, protects

MEASURES = {
    "estimate": mark("Estimate of {what}, with random noise; unbiased, and below zero where noise took it there"),
    "stddev": mark("Standard error: the standard deviation of the noise in the estimate"),
    "lower": mark("Lower end of the interval"),
    "upper": mark("Upper end of the interval"),
    "left_out": mark("Records that the bound on each person's left out of the number, with noise of their own"),
    "left_out_lower": mark("Lower end of the interval of the records left out"),
    "left_out_upper": mark(
        "Upper end of the interval of the records left out; blank where a person may have more than are seen"
    ),
}
TITLES = {
    "estimate": mark("Estimate"), "stddev": mark("Standard error"), "lower": mark("Lower"), "upper": mark("Upper"),
    "left_out": mark("Left out"), "left_out_lower": mark("Left out: lower"), "left_out_upper": mark("Left out: upper"),
}  # fmt: skip
BIASED = mark("Estimate of {what}, made consistent and possible; biased, without a standard error")
COUNTS, SUMS = mark("a count"), mark("a sum of clipped amounts")
BOTH = mark("a count or a sum of clipped amounts")
_HOLDS = mark("{end}, which holds the number without noise with a probability of {confidence:.10g} %")
_AT_LEAST = mark("{end}, which holds the number without noise with a probability of at least {confidence:.10g} %")


def title_of_measure(name: str) -> str:
    """What a column of numbers is called, for people."""
    return say(TITLES[name])


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
        what: what a number estimates: a count, a sum, or one of both.
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
    what: str = COUNTS

    def beside(self, counted: bool) -> About:
        """The same beside one table, of counts or of sums."""
        return replace(self, what=COUNTS if counted else SUMS)

    @property
    def protection(self) -> str:
        """The guarantee in a sentence."""
        costs = ", ".join(f"{name} = {numeral(figure)}" for name, figure in self.costs.items())
        words = mark("Differential privacy: {guarantee}, for {unit} ({costs}).")
        return say(words, guarantee=self.guarantee, unit=self.unit, costs=costs)

    @property
    def measures(self) -> dict[str, str]:
        """Column → what it means."""
        words = {"estimate": say(BIASED if self.biased else MEASURES["estimate"], what=say(self.what))}
        words |= {} if self.biased else {"stddev": say(MEASURES["stddev"])}
        if self.confidence is not None:
            holds, level = _AT_LEAST if self.biased else _HOLDS, 100 * self.confidence
            words |= {name: say(holds, end=say(MEASURES[name]), confidence=level) for name in ("lower", "upper")}
        return words | {name: say(MEASURES[name]) for name in LEFT_OUT if self.left_out}

    @property
    def numbers(self) -> str:
        """What kind of numbers these are, in a sentence."""
        if self.biased:
            return say("Numbers are biased and have no standard errors; take those from the release.")
        laplace = say(
            "Numbers carry Laplace noise: unbiased estimates of what is counted, some below zero; keep those when "
            "adding up."
        )
        normal = say(
            "Numbers carry normal noise: unbiased estimates of what is counted, some below zero; keep those when "
            "adding up."
        )
        return laplace if self.noise == "Laplace" else normal

    @property
    def unit_of_numbers(self) -> str:
        """What is counted, in a sentence."""
        if self.counted:
            return say("Unit: {counts}; each table {counted}.", counts=say(self.counts), counted=self.counted)
        return say("Unit: {counts}.", counts=say(self.counts))

    @property
    def notes(self) -> tuple[str, ...]:
        """What people are told, a sentence each."""
        flags = "; ".join(f"{say(flag)}: {words}" for flag, words in meaning().items())
        when = str(self.receipt.get("time", ""))[:10]
        maker = say("Made with residua {version}.", version=self.version)
        if when:
            maker = say("Made with residua {version}; measured {day}.", version=self.version, day=when)
        quality = () if self.biased else (say("Quality of a number: {flags}.", flags=flags),)
        return (self.protection, self.numbers, *self.changed, *quality, self.unit_of_numbers, maker)

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
            "unit": say(self.counts),
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


def about(plan: Plan, receipt: Mapping[str, Any], *, confidence: float | None, **fields: Any) -> About:
    """What stands beside the tables of a release or a projection, with the other fields of `About`."""
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
            costs[say("epsilon at delta {delta}", delta=f"{delta:g}")] = printed(epsilon)
    return About(
        guarantee=stated(plan.guarantee, receipt),
        unit=protects(plan.unit, receipt),
        costs=costs,
        noise="Laplace" if laplace else "normal",
        confidence=None if plan.bias else confidence,
        receipt=receipt,
        version=__version__,
        language=current() or None,
        what=BOTH if plan.workload is not None and plan.domain.amounts else COUNTS,
        **fields,
    )
