"""What the quoting commands do: read the place, turn words into labels, ask the library, print."""

from __future__ import annotations

import csv as csv_module
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from residua.cli.made import is_made, load_made
from residua.cli.show import ROWS_SHOWN, Form, print_csv, print_json, print_table, rows_of
from residua.domain import Domain, Label, between
from residua.errors import FileError, PlanError
from residua.plans import Plan
from residua.published import Columns
from residua.quoting import Quotable, Quoted
from residua.release import Release


@dataclass(frozen=True)
class Asking:
    """What is asked of a place.

    Args:
        place: a release or a projection; or, with records, a specification or a saved plan.
        records: how many are assumed of a plan.
        confidence: of intervals.
        simultaneous: whether they hold together.
    """

    place: Path
    records: float | None
    confidence: float | None
    simultaneous: bool

    @cached_property
    def source(self) -> Quotable:
        """What answers.

        Raises:
            PlanError: records for a release, or a plan without.
        """
        if self.place.is_dir() or not self.place.exists():
            if self.records is not None:
                raise PlanError("--records is for plans, before any data; leave it out for a release.")
            return load_made(self.place) if is_made(self.place) else Release.load(self.place)
        if self.records is None:
            raise PlanError(f"{str(self.place)!r} is a plan, without data; say how many records to assume: --records.")
        return self._plan().assuming(self.records)

    @property
    def domain(self) -> Domain:
        """Of what answers."""
        return self.source._answering().domain

    def _plan(self) -> Plan:
        if self.place.suffix == ".toml":
            from residua.cli.steps import make_plan, read

            return make_plan(read(self.place))
        return Plan.load(self.place)

    @property
    def sure(self) -> dict[str, Any]:
        """How sure intervals are to be."""
        return {"confidence": self.confidence, "simultaneous": "table" if self.simultaneous else None}

    def groups(self, by: Sequence[str] | None, where: Sequence[str] | None) -> dict[str, Any]:
        """The arguments that most questions have."""
        return {"by": self.by(by), "where": self.where(where), **self.sure}

    def by(self, given: Sequence[str] | None) -> dict[str, str] | list[str]:
        """Attributes, some of them by a level."""
        split = [self._split(text) for text in given or ()]
        if any(level is not None for _, level in split):
            return {name: level or "identity" for name, level in split}
        return [name for name, _ in split]

    def where(self, given: Sequence[str] | None) -> dict[str, Any] | None:
        """A condition; None if there is none."""
        return self.condition(given, "--where") if given else None

    def condition(self, given: Sequence[str], option: str) -> dict[str, Any]:
        """Attribute → a label, a list of labels, or a range.

        Raises:
            PlanError: not written as attribute=label.
        """
        found: dict[str, Any] = {}
        for text in given:
            name, value = self._split(text)
            if value is None:
                raise PlanError(f"{option} {text!r} is not attribute=label; write sex=Female, or age=18..64.")
            chosen = self._chosen(name, value)
            if name not in found:
                found[name] = chosen
            else:
                earlier = found[name] if isinstance(found[name], list) else [found[name]]
                found[name] = [*earlier, chosen]
        return found

    def share(
        self, of: Sequence[str], by: dict[str, str] | list[str], where: dict[str, Any] | None, total: float | None
    ) -> Quoted:
        """Of attributes, or of a condition."""
        parts = [self._split(text) for text in of]
        is_condition = any(value is not None and not self._is_level(name, value) for name, value in parts)
        asked: Any = self.condition(of, "the condition") if is_condition else self.by(of)
        return self.source.share(asked, by=by, where=where, total=total, **self.sure)

    def rate(self, of: str | None, values: Sequence[str] | None) -> dict[str, Any]:
        """What is compared: counts, the mean of an attribute, or the share of a condition."""
        name, value = (None, None) if of is None else self._split(of)
        if name is not None and value is None:
            return {"of": name, "values": self.values(name, values)}
        if values:
            raise PlanError("--values are numbers for a mean; name the attribute with --of.")
        return {"of": None if of is None else self.condition([of], "--of")}

    def values(self, name: str, given: Sequence[str] | None) -> dict[Label, float] | None:
        """Label → number."""
        return {self.label(name, label): number for label, number in _numbers(given, "--values")} if given else None

    def labels(self, name: str, given: Sequence[str] | None) -> dict[Label, float] | None:
        """Label → coefficient."""
        return {self.label(name, label): number for label, number in _numbers(given, "labels")} if given else None

    def compared(self, name: str, given: Sequence[str] | None) -> dict[Label, float] | None:
        """Label → coefficient; two labels need none.

        Raises:
            PlanError: more than two labels, and none given.
        """
        self.domain.position(name)
        there = self.domain[name].labels
        if not given and len(there) > 2:
            raise PlanError(f"{name!r} has more than two values; say which to compare: {there[0]}=1 {there[1]}=-1.")
        return self.labels(name, given)

    def weights(self, name: str, path: Path) -> dict[Label, float]:
        """Label → public weight, from a CSV file with both columns.

        Raises:
            FileError: not such a file.
        """
        self.domain.position(name)
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                rows = list(csv_module.DictReader(file))
            return {self.label(name, row[name]): float(row["weight"]) for row in rows}
        except (KeyError, TypeError, ValueError, UnicodeDecodeError, csv_module.Error):
            raise FileError(f"{str(path)!r} is not CSV with the columns {name!r} and 'weight' (numbers).") from None

    def label(self, name: str, text: str) -> Label:
        """A label as it is declared: whole numbers as such."""
        labels = self.domain[name].labels
        return next((label for label in labels if str(label) == text), text)

    def _chosen(self, name: str, text: str) -> Any:
        labels = {str(label) for label in self.domain[name].labels}
        first, dots, last = text.partition("..")
        if text in labels or not dots:
            return self.label(name, text)
        return between(self.label(name, first) if first else None, self.label(name, last) if last else None)

    def _split(self, text: str) -> tuple[str, str | None]:
        """An attribute and what follows the equals sign after its name; the longest name that fits."""
        names = [name for name in self.domain.names if text == name or text.startswith(f"{name}=")]
        if not names:
            name, equals, value = text.partition("=")
            self.domain.position(name)  # says so, with the nearest name
            return name, value if equals else None
        name = max(names, key=len)
        return name, None if text == name else text[len(name) + 1 :]

    def _is_level(self, name: str, value: str) -> bool:
        attribute = self.domain[name]
        known = {str(label) for label in attribute.labels}
        return value not in known and any(level.name == value for level in attribute.hierarchy)


@dataclass(frozen=True)
class Shown:
    """How what was found is printed."""

    quality: bool = False
    suppress: Any = None
    csv: bool = False
    json: bool = False
    everything: bool = False

    def print(self, found: Quoted) -> None:
        """Text for people, CSV or JSON."""
        table: Columns = found.flagged(suppress=self.suppress) if self.quality or self.suppress else found
        if self.json:
            print_json({"quoted": found.what, "note": table.note, "rows": rows_of(table.columns)})
        elif self.csv:
            print_csv(table, Form(csv=True))
        else:
            print_table(table, rows=None if self.everything else ROWS_SHOWN)


def _numbers(given: Sequence[str], option: str) -> list[tuple[str, float]]:
    found = []
    for text in given:
        label, equals, number = text.rpartition("=")
        try:
            found.append((label, float(number)))
        except ValueError:
            equals = ""
        if not equals:
            raise PlanError(f"{option}: {text!r} is not label=number; write {text.partition('=')[0]}=1.")
    return found
