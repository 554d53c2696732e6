"""A release beside known facts: the equalities that people name, and the best estimates that meet them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from residua.domain import Domain, Label, impossible_cells
from residua.domain.facts import Fact, Facts, fact_cells, require_agreement, require_counts
from residua.errors import PlanError, kind_of, named
from residua.files import MOST_PLAN, read_document, write_document
from residua.folders import refusing_damage
from residua.language import say, say_many
from residua.linalg.arrays import Floats
from residua.plans.conditional import conditioned
from residua.plans.contract import Plan
from residua.plans.estimator import Equality, Estimator
from residua.release.base import Answered, Release
from residua.release.folder import reserve
from residua.workload import AttributeQueries, Identity, MatrixRows, Workload, attribute_queries, queries, selected

_RARE = 1e-6  # how often a true fact is doubted
_FACTS, _KIND = "facts.json", ("residua facts", 1)


@dataclass(frozen=True, eq=False, repr=False)
class Given(Answered):
    """A release beside facts that are known from elsewhere; made by `release.given`.

    It answers all that the release answers. Facts are not measured: the release itself is pooled and projected.

    Args:
        release: what was measured.
        estimator: the best estimates beside the facts.
        facts: what is known.
    """

    release: Release
    estimator: Estimator
    facts: tuple[Equality, ...]

    planned = property(attrgetter("release.planned"), doc="The plan as it was made.")
    receipt = property(attrgetter("release.receipt"), doc="What the ledger recorded when it was debited.")
    left_out = property(attrgetter("release.left_out"), doc="What a bound on persons left out, if that was measured.")

    @property
    def counted(self) -> str:
        """What is counted, and that facts are used, which intervals take at their word."""
        beside = say_many("beside one known fact, taken as true", "beside {n} known facts, taken as true", self._number)
        facts = ", ".join(self.doubted)
        doubts = say(
            "further from the release than noise explains, hence wrong or of other people: {facts}", facts=facts
        )
        return "; ".join(filter(None, (super().counted, beside, doubts if facts else "")))

    @cached_property
    def doubted(self) -> tuple[str, ...]:
        """Facts that are further from the release than noise takes any of them in all but one case in a million."""
        doubted, estimator = [], self.release.estimator
        for each in self.facts:
            workload, chosen = each.queries
            estimates, variances = estimator.answers(workload)
            reach = np.asarray(estimator.widths(workload, 1 - _RARE, self._number) * np.sqrt(variances))
            apart = np.abs(estimates[chosen] - each.values[each.known])
            if (apart > np.broadcast_to(reach, estimates.shape)[chosen] + _RARE).any():
                doubted.append(each.what)
        return tuple(doubted)

    @property
    def _number(self) -> int:
        return sum(int(each.known.sum()) for each in self.facts)

    def __repr__(self) -> str:
        return f"{super().__repr__()} beside {self._number:,} facts"

    def save(self, path: str | Path) -> None:
        """Writes the release as a folder, with the facts in it, whole or not at all; the folder must not exist."""
        with reserve(Path(path), self.planned, self.release.measurements) as place:
            write_document(place.partial / _FACTS, *_KIND, {"facts": [each.to_body() for each in self.facts]})
            place.commit(self.release)

    @staticmethod
    def load(path: str | Path) -> Given:
        """Reads a release that was saved beside facts; `Release.load` reads the release alone.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        release = Release.load(path)
        body = read_document(Path(path) / _FACTS, *_KIND, most=MOST_PLAN)
        with refusing_damage(f"what is known beside the release {str(path)!r} is"):
            return _given(release, [Equality.of_body(release.domain, each) for each in body["facts"]])


def given(release: Release, facts: Facts) -> Given:
    """A release beside known facts; see `Release.given`."""
    if release.planned.bias:
        raise PlanError("a release with a bias answers other queries than were asked; facts are given to ones without.")
    named = [_equality(release.domain, what, number) for what, number in _pairs(facts)]
    zeros = [each for each in _zeros(release.domain) if _answered(release.plan, each)]
    return _given(release, [*named, *zeros])


def _given(release: Release, equalities: Sequence[Equality]) -> Given:
    known = tuple(each for each in equalities if each.known.any())
    if not known:
        raise PlanError("facts is empty; name at least one, such as {(): 32_561} for the total.")
    require_agreement(release.domain, [Fact(each.members, each.values) for each in known if each.is_marginal])
    estimator, rest = release.estimator.conditioned(known)
    return Given(release, conditioned(release.plan, estimator, rest) if rest else estimator, known)


def _pairs(facts: Facts) -> Iterator[tuple[Any, Any]]:
    pairs = facts.items() if isinstance(facts, Mapping) else facts
    if isinstance(facts, str) or not isinstance(pairs, Iterable):
        raise PlanError(f"facts={named(facts)} is not a dictionary of facts; write {{('county',): counts, …}}.")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise PlanError(f"facts holds {kind_of(pair)}; give pairs (what is known, how many).")
        yield pair


def _equality(domain: Domain, what: Any, number: Any) -> Equality:
    if isinstance(what, Workload):
        return Equality(f"{what!r}", domain, None, _numbers(number, (what.queries,), what), what)
    if isinstance(what, Mapping):
        rows = {domain.position(name): row for name, row in selected(domain, what, argument="facts").items()}
        asked = {i: MatrixRows(len(rows[i]), rows[i][None, :]) for i in sorted(rows)}
        return Equality(f"{dict(what)!r}", domain, asked, _numbers(number, (), what).reshape([1] * len(asked)))
    if isinstance(what, str) and _axis(domain, what) is None:
        return Equality(repr(what), domain, None, _numbers(number, (), what).reshape(1), queries(domain, [what]))
    names = [what] if isinstance(what, str) else what
    if not isinstance(names, Sequence):
        raise PlanError(f"facts: {kind_of(what)} is not a set of attributes, a condition, or a workload.")
    axes = []
    for name in names:
        axis = _axis(domain, name)
        if axis is None:
            domain.positions([name] if isinstance(name, str) else name)  # says what is wrong with it
            raise PlanError("facts: a name is no attribute, and not ATTRIBUTE.LEVEL; correct it.")
        axes.append(axis)
    positions = [position for position, _, _ in axes]
    require_counts(domain, [domain.names[i] for i in positions])
    if len(set(positions)) < len(positions):
        raise PlanError(f"facts: {tuple(names)!r} names an attribute twice; name each once.")
    said = f"the marginal on {tuple(names)!r}" if names else "the total"
    values = fact_cells(
        [(name, labels) for name, (_, _, labels) in zip(names, axes, strict=True)], number, f"facts: {said}"
    )
    order = np.argsort(positions)
    return Equality(said, domain, {axes[k][0]: axes[k][1] for k in order}, np.array(values.transpose(order), order="C"))


def _numbers(given: Any, shape: tuple[int, ...], what: Any) -> Floats:
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if values.shape != shape or not np.isfinite(values).all():
        raise PlanError(
            f"facts: {kind_of(given)} is not what a fact can be; give {'a number' if not shape else 'numbers'}."
        )
    return values


def _axis(domain: Domain, name: Any) -> tuple[int, AttributeQueries, Sequence[Label]] | None:
    """An attribute, or one of its levels as ATTRIBUTE.LEVEL: its position, the rows, and the labels of these."""
    if name in domain:
        attribute = domain[name]
        return domain.position(name), Identity(attribute.size), attribute.labels
    first, _, level = str(name).rpartition(".")
    if first not in domain or level not in [each.name for each in domain[first].hierarchy]:
        return None
    return domain.position(first), attribute_queries(first, domain[first], level), domain[first].level(level).labels


def _zeros(domain: Domain) -> Iterator[Equality]:
    """The structural zeros that the domain declares."""
    for names in dict.fromkeys(rule.names for rule in domain.impossible):
        mask = impossible_cells(domain, names)
        assert mask is not None
        rows: dict[int, AttributeQueries] = {domain.position(name): Identity(domain[name].size) for name in names}
        yield Equality(f"that no record has {names!r} as declared", domain, rows, np.where(mask, 0.0, np.nan))


def _answered(plan: Plan, equality: Equality) -> bool:
    workload, chosen = equality.queries
    return bool(np.isfinite(plan.variances(workload)[chosen]).all())
