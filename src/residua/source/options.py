"""What is said of records wherever they are: their weight, whose they are, and whether errors may quote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, get_args

from residua.errors import SourceError

NoPerson = Literal["refuse", "drop", "apart"]


class SourceOptions(TypedDict, total=False):
    """The options that every kind of source takes, by name; `Options` says what they mean."""

    weight: str | None
    person: str | Sequence[str] | None
    no_person: NoPerson
    show_values: bool


def _columns(person: object) -> tuple[str, ...]:
    named = (person,) if isinstance(person, str) else person
    if not isinstance(named, Sequence) or not all(isinstance(name, str) and name for name in named):
        raise SourceError(f"person={person!r} is no column; name the column, or a list of columns.")
    if len(set(named)) < len(named):
        raise SourceError("person names a column twice; name each once.")
    return tuple(named)


@dataclass(frozen=True)
class Options:
    """What is said of records wherever they are.

    Args:
        weight: a column of pre-aggregated counts: each row stands for that many records, a whole number ≥ 0.
        person: the column, or the columns together, that say whose record it is. Read by the measuring step alone, to
            bound what each person contributes (`rs.Person`).
        no_person: records without a person: `"refuse"` them, `"drop"` them, or take each for a person `"apart"`, which
            declares that no two of them are one person's.
        show_values: whether error messages may quote values of the data, which are confidential: for the curator's
            own terminal, never for logs.

    Raises:
        SourceError: an option that is not as said here.
    """

    weight: str | None = None
    person: tuple[str, ...] = ()
    no_person: NoPerson = "refuse"
    show_values: bool = False

    def __post_init__(self) -> None:
        if self.weight is not None and (not isinstance(self.weight, str) or not self.weight):
            raise SourceError(f"weight={self.weight!r} is not a column name; name the column of counts.")
        if not isinstance(self.show_values, bool):
            raise SourceError(f"show_values={self.show_values!r} is not True or False; pass one of them.")
        object.__setattr__(self, "person", _columns(self.person))
        if self.no_person not in get_args(NoPerson):
            raise SourceError(f'no_person={self.no_person!r} is not known; say "refuse", "drop" or "apart".')
        if self.no_person != "refuse" and not self.person:
            raise SourceError("no_person says what happens to records without a person; name the column with person=.")
        if self.weight in self.person:
            raise SourceError(f"column {self.weight!r} is both weight and person; drop one of the two.")

    @property
    def whose(self) -> dict[str, Any] | None:
        """Who a person is, as a ledger keeps it: the columns, and what else decides whose records count; no id."""
        if not self.person:
            return None
        return {"person": list(self.person), "no_person": self.no_person, "weight": self.weight}


NO_OPTIONS = Options()


def options_of(given: SourceOptions | Mapping[str, Any]) -> Options:
    """The options given by name.

    Raises:
        SourceError: a name or a value that is not known.
    """
    for name in given:
        if name not in SourceOptions.__annotations__:
            near = get_close_matches(name, SourceOptions.__annotations__, n=1)
            meant = f" (is it {near[0]!r}?)" if near else ""
            raise SourceError(
                f"a source has no option {name!r}{meant}; it has {', '.join(SourceOptions.__annotations__)}."
            )
    return Options(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
