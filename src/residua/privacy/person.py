"""A person with several records as the unit of protection, and what one person can do at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from fractions import Fraction

from residua.errors import PrivacyError
from residua.privacy.exact import Pcost, nonnegative
from residua.privacy.unit import Contribution, record_count


@dataclass(frozen=True)
class Person:
    """A person joins or leaves, with all their records, of which at most `records` are counted.

    The bound is enforced: a source names the column that says whose each record is (`person=`), and the measuring step
    counts at most that many of each person's records.

    Args:
        records: the most records of one person that are counted; an integer from 1 to 2^40.
        one_per: attributes in each of whose values a person has at most one counted record (one a month, say).
        per: attribute → the most counted records of a person in each of its values.

    Raises:
        PrivacyError: when an argument is anything else.

    Reference: docs/privacy.md.

    Example:
        >>> print(Person(records=12, one_per="month"))
        adding or removing a person, with at most 12 records, at most 1 in each value of 'month'
        >>> Person(records=12, per={"month": 1}) == Person(records=12, one_per=["month"])
        True
    """

    records: int
    one_per: InitVar[str | Sequence[str] | None] = None
    per: Mapping[str, int] | tuple[tuple[str, int], ...] = ()

    def __post_init__(self, one_per: str | Sequence[str] | None) -> None:
        object.__setattr__(self, "records", record_count(self.records))
        object.__setattr__(self, "per", _limits(one_per, self.per, self.records))

    @property
    def limits(self) -> dict[str, int]:
        """Attribute → the most counted records in each of its values; only those that say more than `records`."""
        return dict(self.per)

    @property
    def contribution(self) -> Contribution:
        """So many records, and so many in each value of the limited attributes."""
        return Contribution(self.records, tuple(self.limits.items()))

    def scaled(self, pcost: Pcost, replace_pcost: Pcost | None = None) -> Fraction:
        """At most `k² pcost`, as for any k records; a plan that knows its sets is priced more tightly."""
        return self.records**2 * nonnegative("pcost", pcost, "give the cost as computed from a privacy cost matrix")

    def __str__(self) -> str:
        counted = "1 record" if self.records == 1 else f"{self.records} records"
        limits = "".join(f", at most {most} in each value of {name!r}" for name, most in self.limits.items())
        return f"adding or removing a person, with at most {counted}{limits}"


def _limits(
    one_per: str | Sequence[str] | None,
    per: Mapping[str, int] | tuple[tuple[str, int], ...],
    records: int,
) -> tuple[tuple[str, int], ...]:
    """The limits by attribute, sorted; those that the bound on all records implies are left out."""
    ones = () if one_per is None else (one_per,) if isinstance(one_per, str) else one_per
    if not isinstance(ones, Sequence) or not all(isinstance(name, str) and name for name in ones):
        raise PrivacyError(f"one_per={one_per!r} is no attribute; name an attribute, or a list of them.")
    try:
        limits = dict(per)
    except (TypeError, ValueError):
        raise PrivacyError(f"per={per!r} is not a mapping; give attribute → most records in each value.") from None
    if not all(isinstance(name, str) and name for name in limits):
        raise PrivacyError(f"per={per!r} names something that is no attribute; give attribute → most records.")
    both = [name for name in ones if name in limits]
    if both:
        raise PrivacyError(f"{both[0]!r} is in both one_per and per; name it in one of them.")
    limits = {name: record_count(most, f"per[{name!r}]") for name, most in limits.items()} | dict.fromkeys(ones, 1)
    return tuple(sorted((name, most) for name, most in limits.items() if most < records))
