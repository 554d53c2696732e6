"""What the commands that quote ask: the place that answers, and the words of the command line as labels."""

from __future__ import annotations

import csv as csv_module
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from residua.cli.opening import load_published, plan_at
from residua.cli.quoting_commands import QuotingOptions
from residua.domain import Domain, Label, between
from residua.errors import FileError, PlanError, named
from residua.quoting import Quotable, Quoted
from residua.release import Answered
from residua.release.change import change


class Asking(QuotingOptions):
    """What is asked of a place, in the words of the command line."""

    @cached_property
    def source(self) -> Quotable:
        """What answers.

        Raises:
            PlanError: a number of people for a release, or a plan without.
        """
        if self.place.is_dir() or not self.place.exists():
            if self.people is not None:
                raise PlanError("--people is for plans, before any data; leave it out for a release.")
            return load_published(self.place, self.known)
        if self.people is None:
            raise PlanError(f"{str(self.place)!r} is a plan, without data; say how many to assume: --people 10000.")
        return plan_at(self.place).assuming(self.people)

    def changed(self, before: Path) -> Quoted:
        """By how much counts changed since another release.

        Raises:
            PlanError: the other is no folder, or the same release.
        """
        require_folder(before)
        this, last = self.source, load_published(before)
        return change(cast("Answered", this), cast("Answered", last), **self.groups)

    @property
    def domain(self) -> Domain:
        """Of what answers."""
        return self.source._answering().domain

    @property
    def sure(self) -> dict[str, Any]:
        """How sure intervals are to be."""
        return {"confidence": self.confidence, "simultaneous": "table" if self.simultaneous else None}

    @property
    def only(self) -> dict[str, Any]:
        """Which records count; all without a condition."""
        return {"where": self.condition(self.where, "--where") if self.where else None}

    @property
    def groups(self) -> dict[str, Any]:
        """The arguments that most questions have."""
        return {"by": self.attributes(self.by), **self.only, **self.sure}

    def attributes(self, given: Sequence[str] | None) -> dict[str, str] | list[str]:
        """Attributes, some of them by a level."""
        split = [self._split(text) for text in given or ()]
        if any(level is not None for _, level in split):
            return {name: level or "identity" for name, level in split}
        return [name for name, _ in split]

    def condition(self, given: Sequence[str], option: str) -> dict[str, Any]:
        """Attribute → a label, a list of labels, or a range.

        Raises:
            PlanError: not written as attribute=label.
        """
        chosen: dict[str, list[Any]] = {}
        for text in given:
            name, value = self._split(text)
            if value is None:
                raise PlanError(f"{option} {text!r} is not attribute=label; write sex=Female, or age=18..64.")
            chosen.setdefault(name, []).append(self._chosen(name, value))
        return {name: values if len(values) > 1 else values[0] for name, values in chosen.items()}

    def parts(self, of: Sequence[str]) -> Any:
        """What shares are of: attributes, or a condition."""
        split = [self._split(text) for text in of]
        is_condition = any(value is not None and not self._is_level(name, value) for name, value in split)
        return self.condition(of, "the condition") if is_condition else self.attributes(of)

    def side(self, given: Sequence[str], option: str) -> Any:
        """What a ratio is of: the sum of an attribute, or a condition."""
        name, value = self._split(given[0])
        return name if value is None and len(given) == 1 else self.condition(given, option)

    def rate(self, of: str | None) -> dict[str, Any]:
        """What is compared: counts, the mean of an attribute, or the share of a condition."""
        name, value = (None, None) if of is None else self._split(of)
        if name is not None and value is None:
            return {"of": name, "values": self.numbers(name)}
        if self.values:
            raise PlanError("--values are numbers for a mean; name the attribute with --of.")
        return {"of": None if of is None else self.condition([of], "--of")}

    def numbers(self, name: str) -> dict[Label, float] | None:
        """Label → number, as --values say."""
        return self._by_label(name, self.values, "--values")

    def compared(self, name: str, given: Sequence[str] | None) -> dict[Label, float] | None:
        """Label → coefficient; two labels need none.

        Raises:
            PlanError: more than two labels, and none given.
        """
        there = self.domain[name].labels
        if not given and len(there) > 2:
            raise PlanError(f"{name!r} has more than two values; say which to compare: {there[0]}=1 {there[1]}=-1.")
        return self._by_label(name, given, "labels")

    def public_weights(self, name: str, path: Path) -> dict[Label, float]:
        """Label → public weight, from a CSV file with both columns.

        Raises:
            FileError: not such a file.
        """
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                rows = list(csv_module.DictReader(file))
            return {self.label(name, row[name]): float(row["weight"]) for row in rows}
        except (KeyError, TypeError, ValueError, UnicodeDecodeError, csv_module.Error):
            raise FileError(f"{str(path)!r} is not CSV with the columns {name!r} and 'weight' (numbers).") from None

    def label(self, name: str, text: str) -> Label:
        """A label as it is declared: whole numbers as such."""
        return next((label for label in self.domain[name].labels if str(label) == text), text)

    def _by_label(self, name: str, given: Sequence[str] | None, option: str) -> dict[Label, float] | None:
        """Label → number, of texts such as high=150000; None if there are none."""
        numbers: dict[Label, float] = {}
        for text in given or ():
            label, equals, number = text.rpartition("=")
            try:
                numbers[self.label(name, label)] = float(number)
            except ValueError:
                equals = ""
            if not equals:
                raise PlanError(f"{option}: {text!r} is not label=number; write {text.partition('=')[0]}=1.")
        return numbers or None

    def _chosen(self, name: str, text: str) -> Any:
        labels = {str(label) for label in self.domain[name].labels}
        first, dots, last = text.partition("..")
        if text in labels or not dots:
            return self.label(name, text)
        return between(self.label(name, first) if first else None, self.label(name, last) if last else None)

    def _split(self, text: str) -> tuple[str, str | None]:
        return split_attribute(self.domain, text)

    def _is_level(self, name: str, value: str) -> bool:
        attribute = self.domain[name]
        known = {str(label) for label in attribute.labels}
        return value not in known and any(level.name == value for level in attribute.hierarchy)


def require_folder(place: Path) -> None:
    """Refuses a plan or a specification where only a release can answer."""
    if place.is_file():
        raise PlanError(f"{str(place)!r} is a file; a change is between two releases: name their folders.")


def require_attribute(domain: Domain, typed: str) -> None:
    """Refuses a name that is no attribute's, and shows it: it was typed, and is no data."""
    domain.position(typed, f" {named(typed)}")


def split_attribute(domain: Domain, text: str) -> tuple[str, str | None]:
    """An attribute and what follows the equals sign after its name; the longest name that fits.

    Raises:
        DomainError: there is no such attribute.
    """
    names = [name for name in domain.names if text == name or text.startswith(f"{name}=")]
    if not names:
        require_attribute(domain, text.partition("=")[0])  # says so
    name = max(names, key=len)
    return name, None if text == name else text[len(name) + 1 :]
