"""The table that people will publish, drawn before there is one: the counts its planner expects, the errors of a plan.

Expected counts come from numbers that the user types: how many people there are, and of each attribute, if anything is
known, public counts of its values. Attributes are taken to be independent. No data is read for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any, ClassVar

import numpy as np

from residua.domain import Domain
from residua.domain.words import title_of
from residua.errors import ResiduaError, SpecError
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.published.quality import grades, sizes_for
from residua.published.table import Table
from residua.release.advice import advice_on, moved_by_noise, with_commands
from residua.report.accuracy import LAPLACE_REACH, NORMAL_REACH, ListedTable
from residua.report.pictures import every_interval, heading_of, picture
from residua.ui.typed import size

_MOST_CELLS = 2**16
_FIRST = 24  # cells of the table that is shown first, at most


@dataclass(frozen=True)
class Expected:
    """What the user expects the data to hold.

    Args:
        people: how many records.
        shares: attribute → the share of each of its cells; equal ones where an attribute is not listed.
    """

    people: float
    shares: Mapping[str, Floats]

    def counts(self, domain: Domain, names: Sequence[str]) -> Floats:
        """The expected counts of a table, (n_1, …, n_k)."""
        counts = np.array(self.people)
        for name in names:
            counts = np.multiply.outer(counts, self.shares.get(name, np.full(domain[name].size, 1 / domain[name].size)))
        return counts

    def flags(self, domain: Domain, names: Sequence[str], stddev: float) -> list[int]:
        """How many cells of a table are expected to be reliable, to be used with caution, unreliable."""
        typed_in = [name for name in names if name in self.shares]
        alike = math.prod(domain[name].size for name in names if name not in self.shares)
        if math.prod(domain[name].size for name in typed_in) > _MOST_CELLS:
            typed_in, alike = [], math.prod(domain[name].size for name in names)
        counts = self.counts(domain, typed_in).ravel() / alike
        enough, some = ((counts >= least * (1 - 1e-9)).sum() * alike for least in sizes_for(stddev))
        return [int(enough), int(some - enough), int(counts.size * alike - some)]


def expected(domain: Domain, options: Mapping[str, Any]) -> Expected | None:
    """What the page says of the data; None where it does not say how many people there are.

    Raises:
        SpecError: a field that is no number.
    """
    if not options.get("people"):
        return None
    people = size("How many people", options["people"])
    if not 0 < people < 1e15:
        raise SpecError(f"How many people: {people:g} cannot be; write about how many records there are.")
    shares, public = {}, options.get("public")
    for name, pairs in public.items() if isinstance(public, Mapping) else ():
        if name in domain.names and isinstance(pairs, list) and pairs:
            shares[name] = _shares(domain, name, pairs)
    return Expected(people, shares)


def _shares(domain: Domain, name: str, pairs: list[Any]) -> Floats:
    """Shares from labels and public counts; what is not listed is not expected."""
    places = places_of(domain, name)
    shares = np.zeros(domain[name].size)
    for pair in pairs:
        label, amount = (str(part).strip() for part in pair)
        if label not in places:
            raise SpecError(f"{name}: {label!r} is none of its values; write each as it is declared, then its count.")
        shares[places[label]] = max(size(f"{name}, {label}", amount), 0.0)
    if not shares.sum() > 0:
        raise SpecError(f"{name}: the public counts are all zero; write at least one, or none.")
    return np.asarray(shares / shares.sum())


def places_of(domain: Domain, name: str) -> dict[str, int]:
    """Where each value of an attribute stands, by its label and by its title."""
    labels = enumerate(domain[name].labels)
    return {key: i for i, label in labels for key in (str(label), title_of(domain[name], label))}


def preview(plan: Plan, guess: Expected | None, wanted: Any) -> dict[str, Any] | None:
    """A table as it would look, as a picture and as rows; None where there is none to show."""
    names = _table(plan, wanted)
    if guess is None or names is None:
        return None
    try:
        stddev = np.sqrt(plan.variance(names))
    except ResiduaError:
        return None
    counts = guess.counts(plan.domain, names)
    reach = LAPLACE_REACH if plan.noise.currency == "epsilon" else NORMAL_REACH
    table = Table(plan.domain, names, counts, stddev, reach)
    error, drawn = float(np.sqrt(np.mean(np.square(stddev)))), shown(picture(table))
    if drawn is not None:  # the page says it in words
        drawn["caption"] = drawn["caption"].replace(every_interval(reach * error), "").strip()
    return {
        "names": list(names),
        "title": heading_of(table),
        "stddev": error,
        "margin": reach * error,
        "typical": guess.people / max(counts.size, 1),
        "flags": np.bincount(grades(counts, stddev).ravel(), minlength=3).tolist(),
        "picture": drawn,
        "advice": with_commands(advice_on(moved_by_noise(plan, guess.people))),
    }


def shown(drawn: Any) -> dict[str, Any] | None:
    """A picture as the page takes it: a tree of elements, not markup; None where there is none."""
    if drawn is None:
        return None
    read = _Tree()
    read.feed(str(drawn.drawn))
    read.close()
    return {"tree": read.root, "title": drawn.title, "caption": drawn.caption}


class _Tree(HTMLParser):
    """Reads our own markup as [name, attributes, what is inside …]; the page makes the elements anew."""

    _ends: ClassVar = {"td": "td th", "th": "td th", "tr": "td th tr", "tbody": "td th tr thead"}
    _mixed: ClassVar = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}

    def __init__(self) -> None:
        super().__init__()
        self.root: list[Any] = ["div", {}]
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        while self._open[-1][0] in self._ends.get(tag, "").split():  # whose end tags may be left out
            self._open.pop()
        element: list[Any] = [tag, {self._mixed.get(name, name): value or "" for name, value in attrs}]
        self._open[-1].append(element)
        self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self._open[-1].append(data)


def _table(plan: Plan, wanted: Any) -> tuple[str, ...] | None:
    """The table that the page wants to see, else the first that makes a good picture."""
    if isinstance(wanted, list) and {*map(str, wanted)} <= {*plan.domain.names}:
        return tuple(wanted) if 1 <= plan.domain.cells(wanted) <= _MOST_CELLS else None
    workload = None if plan.workload is None else plan.workload.tables
    sets = () if workload is None else workload.sets[:1000]
    good = [names for names in sets if 2 <= plan.domain.cells(names) <= _MOST_CELLS]
    return min(good, key=lambda names: (plan.domain.cells(names) > _FIRST, len(names) != 2), default=None)


def outlook(plan: Plan, guess: Expected | None, listed: Sequence[ListedTable]) -> list[list[int]] | None:
    """For each table of a list, how many cells are expected to have each flag; None where that is not known."""
    workload = plan.workload
    if guess is None or workload is None or not workload.plain:
        return None
    alike: dict[Any, list[int]] = {}  # tables of which nothing but their size is known have the same flags
    flags = []
    for names, one in zip(workload.sets, listed, strict=False):
        key = names if guess.shares.keys() & set(names) else (one.numbers, one.stddev)
        flags.append(alike[key] if key in alike else alike.setdefault(key, guess.flags(plan.domain, names, one.stddev)))
    return flags
