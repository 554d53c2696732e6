"""A table's declared columns: names and attributes, in order; and how they are written as TOML or JSON."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from residua.domain.amounts import Amount
from residua.domain.attributes import Anonymous, Attribute, Bins, Categories, Integers
from residua.domain.code_lists import CodeList
from residua.domain.conditions import Rule, rules_of
from residua.domain.dates import Dates
from residua.domain.described import described_columns, is_description
from residua.domain.draft import DomainDraft, draft_of, draft_of_types
from residua.domain.label_files import values_of_settings
from residua.domain.words import KEYS, listed
from residua.errors import DomainError, FileError, kind_of, listing, named, nearest
from residua.files import MOST_PLAN, read_regular, write_atomically
from residua.language import speaking
from residua.showing import Shown

_MOST_PARTS = 2**24
_RESERVED = ("estimate", "stddev", "lower", "upper", "left_out", "left_out_lower", "left_out_upper")
_OF_SURVEYS = ("noise", "sampling", "protection")
_DECLARATIONS = "rs.Categories, rs.Integers, rs.Bins, rs.Dates, rs.Amount, or a list of labels"


@dataclass(frozen=True, init=False, eq=False)
class Domain(Shown):
    """What a table may hold: a name and an attribute for each column. Declared, never learned from data.

    A record belongs to the table when every declared attribute accepts it, so that all tables of a release
    count the same records.

    Args:
        attributes: name → attribute; a plain list of labels stands for `Categories`.
        impossible: structural zeros, a list of rules `{attribute: value or values, …}`: cells with one of these values
            in each of these attributes hold nobody. Projection makes them exactly zero; plans and measurements ignore
            them.
        language: in which people read what is published, such as `"de"`, where they ask for no other.

    Raises:
        DomainError: no attributes, something that is not an attribute, or a rule about values that are not declared.

    Example:
        >>> from residua.domain import Integers
        >>> domain = Domain({"age": Integers(17, 90), "sex": ["Female", "Male"]})
        >>> domain.sizes.tolist(), domain.cells(["age", "sex"])
        ([74, 2], 148)
        >>> married = Domain({"age": Integers(0, 99), "married": ["no", "yes"]},
        ...                  impossible=[{"age": range(0, 15), "married": "yes"}])
        >>> str(married.impossible[0])
        "age = (0, 1, 2, 3, …) and married = 'yes'"
    """

    attributes: Mapping[str, Attribute]
    impossible: tuple[Rule, ...]
    language: str

    def __init__(
        self,
        attributes: Mapping[str, Attribute | Sequence[str] | Sequence[int]],
        impossible: Iterable[Mapping[str, Any] | Rule] = (),
        *,
        language: str = "",
    ) -> None:
        if not isinstance(attributes, Mapping):
            raise DomainError(f"attributes={named(attributes)} is not a mapping; pass {{name: attribute}}.")
        if not attributes:
            raise DomainError("attributes is empty; declare at least one attribute.")
        declared: dict[str, Attribute] = {}
        for name, attribute in attributes.items():
            if not isinstance(name, str) or not name.strip():
                raise DomainError(f"attribute name {kind_of(name)} is not a name; use non-empty text.")
            if name in (*_RESERVED, *_OF_SURVEYS):
                raise DomainError(
                    f"attribute name {named(name)} is a column of published tables; rename the attribute."
                )
            declared[name] = _attribute(name, attribute, f"number {len(declared) + 1}")
        object.__setattr__(self, "attributes", MappingProxyType(declared))
        nothing = isinstance(impossible, tuple) and not impossible
        object.__setattr__(self, "impossible", () if nothing else rules_of(self, impossible))
        object.__setattr__(self, "language", language)
        self._check_amounts()
        for name in (_RULES, "language"):
            if getattr(self, name) and name in declared:
                raise DomainError(f"an attribute named {named(name)} cannot stand beside {name}=; rename it.")
        if language:
            with speaking(language, self):  # which refuses what nobody has translated
                pass

    def _check_amounts(self) -> None:
        """Refuses amounts whose units have no common part, or that name no attribute of what was clipped."""
        if self.parts > _MOST_PARTS:
            raise DomainError(
                f"the amounts {listing(self.amounts)} have units of which only {self.parts:,} parts of a record are "
                f"whole, more than {_MOST_PARTS:,}; choose units with the same number in each range, or coarser ones."
            )
        for name in self.amounts:
            beyond = str(self.attributes[name].settings().get("clipped", ""))
            if beyond and (beyond not in self.attributes or self.attributes[beyond].labels != ("false", "true")):
                raise DomainError(f"attribute {name!r}: clipped={beyond!r} is no attribute of 'false' and 'true'.")
        if any(self.attributes[name].summed for rule in self.impossible for name in rule.names):
            raise DomainError("impossible: an amount is a sum, of which no value is impossible; leave it out.")

    @classmethod
    def of_sizes(
        cls, sizes: Mapping[str, int] | Sequence[int], impossible: Iterable[Mapping[str, Any] | Rule] = ()
    ) -> Domain:
        """A domain of anonymous values: name → number of values, or just the numbers (named a0, a1, …).

        Example:
            >>> Domain.of_sizes({"a": 10, "b": 3}).names
            ('a', 'b')
        """
        if not isinstance(sizes, Mapping | Sequence | np.ndarray) or isinstance(sizes, str):
            raise DomainError(f"sizes={named(sizes)} is not a list of sizes; pass {{name: size}} or [size, …].")
        each = sizes if isinstance(sizes, Mapping) else {f"a{i}": size for i, size in enumerate(sizes)}
        return cls(
            {name: Anonymous(int(size) if isinstance(size, np.integer) else size) for name, size in each.items()},
            impossible,
        )

    @staticmethod
    def draft(frame: Any) -> DomainDraft:
        """What the types of a frame's columns say of a domain, and what is left to declare; no value is read.

        Or what a file says that describes columns: a Data Package, a DDI codebook, or an SDMX structure.

        Example:
            >>> import pandas as pd
            >>> frame = pd.DataFrame({"member": [True, False], "age": [30, 40]})
            >>> print(Domain.draft(frame))
            member: Categories(unknown='error', missing='error', values=('false', 'true'))  # truth values
            age: '?'  # int64: declare what it may hold
            >>> Domain(Domain.draft(frame).declared(age=Integers(0, 120))).sizes.tolist()
            [2, 121]
        """
        if is_description(frame):
            return draft_of(described_columns(frame), lambda name, said: _attribute(name, _of_settings(name, said)))
        return draft_of_types(frame)

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """Reads a domain from a TOML file, from its `[domain.…]` tables (or from its top level)."""

        try:
            content = tomllib.loads(read_regular(Path(path), most=MOST_PLAN, follow=True).decode())
        except FileError as problem:
            raise FileError(str(problem).replace("cannot read ", "cannot read the domain file ", 1)) from None
        except (ValueError, RecursionError) as problem:  # nested too deep is no domain either
            raise FileError(f"the domain file {str(path)!r} is not TOML: {problem}.") from None
        return domain_of_settings(content.get("domain", content), Path(path).parent)

    def save(self, path: str | Path) -> None:
        """Writes the domain as a TOML file that `Domain.load` reads, over one that holds a domain and nothing else."""

        content = tomli_w.dumps({"domain": settings_of_domain(self)}).encode()
        write_atomically(Path(path), content, ours=lambda head: _only_domain(Path(path)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(self.attributes)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many cells each attribute has, (attributes,)."""
        sizes = np.array([attribute.size for attribute in self.attributes.values()], dtype=np.int64)
        sizes.setflags(write=False)
        return sizes

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in which attributes or values have titles."""
        return tuple(dict.fromkeys(tag for attribute in self.attributes.values() for tag in attribute.words.languages))

    @cached_property
    def amounts(self) -> tuple[str, ...]:
        """The attributes that are added up."""
        return tuple(name for name, attribute in self.attributes.items() if attribute.summed)

    def holds_amounts(self, names: Iterable[str]) -> bool:
        """Whether some of these attributes are added up."""
        return bool(self.amounts) and not set(self.amounts).isdisjoint(names)

    def clipping(self, names: Iterable[str]) -> str:
        """What sums of those of these attributes that are added up are of, in words."""
        amounts = ((name, self.attributes[name]) for name in names if name in self.amounts)
        return "; ".join(amount.counts(name) for name, amount in amounts if isinstance(amount, Amount))

    def clips(self, names: Iterable[str]) -> bool:
        """Whether some of these attributes are added up and clipped, by nobody knows how much."""
        amounts = (self.attributes[name] for name in names if name in self.amounts)
        return any(
            amount.largest is None or amount.largest > amount.high for amount in amounts if isinstance(amount, Amount)
        )

    def unit_of(self, names: Iterable[str]) -> str:
        """What sums of those of these attributes that are added up are measured in; nothing where none is."""
        amounts = ((name, self.attributes[name]) for name in names if name in self.amounts)
        return ", ".join(amount.measured_in or name for name, amount in amounts if isinstance(amount, Amount))

    @cached_property
    def parts(self) -> int:
        """Into how many equal parts a record is divided, so that each of its amounts is a whole number of them."""
        return math.lcm(1, *(self.attributes[name].coded - 1 for name in self.amounts))

    @cached_property
    def drops(self) -> bool:
        """Whether some value leaves a record out of every table: then changing a record may remove it."""
        return any("drop" in (a.unknown, a.missing) for a in self.attributes.values())

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def position(self, name: str, where: str = "") -> int:
        """Where an attribute stands in the order of declaration; `where` its name was given is for the error."""
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            shown, remedy = nearest(name, self.names)
            raise DomainError(f"unknown attribute{shown or where}; {remedy}") from None

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        """Where each of these attributes stands, in the order given."""
        shown = nearest(names, self.names)[0][1:] if isinstance(names, str) else ""
        if shown:
            raise DomainError(f"{shown} is a name, not a set of attributes; write ({shown},).")
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise DomainError(f"{kind_of(names)} is not a set of attributes; list their names.")
        names = tuple(names)
        numbers = [f" (number {n} of {len(names)})" if len(names) > 1 else "" for n in range(1, len(names) + 1)]
        positions = tuple(map(self.position, names, numbers))
        if len(set(positions)) < len(positions):
            raise DomainError(f"attribute set {names!r} names an attribute twice; name each once.")
        return positions

    def listed(self, names: Iterable[str]) -> tuple[str, ...]:
        """These attributes' names, once it is known that they are names; a name alone stands for itself."""
        return tuple(self.names[i] for i in self.positions((names,) if isinstance(names, str) else names))

    def cells(self, names: Iterable[str]) -> int:
        """How many cells the marginal on these attributes has."""
        return math.prod(int(self.sizes[i]) for i in self.positions(names))

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.names[self.position(name)]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __eq__(self, other: object) -> bool:
        # Two domains that list the same attributes in another order number their cells differently.
        return (
            isinstance(other, Domain)
            and tuple(self.attributes.items()) == tuple(other.attributes.items())
            and self.impossible == other.impossible
        )

    def __hash__(self) -> int:
        return hash((tuple(self.attributes.items()), self.impossible))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (dict(self.attributes), self.impossible, self.language)

    def __repr__(self) -> str:
        shown = [f"{name}: {self[name].size}" for name in self.names[:8]]
        return f"Domain({', '.join(shown)}{', …' if len(self) > 8 else ''})"


def _remade(attributes: Any, impossible: Any, language: str) -> Domain:
    return Domain(attributes, impossible, language=language)


def _attribute(name: str, declared: object, shown: str = "") -> Attribute:
    if isinstance(declared, Attribute):
        return declared
    if isinstance(declared, str) or not isinstance(listed(declared), Sequence):
        raise DomainError(f"attribute {shown or repr(name)} is declared as {kind_of(declared)}; use {_DECLARATIONS}.")
    try:
        return Categories(declared)  # type: ignore[arg-type]
    except DomainError as problem:
        raise DomainError(f"attribute {name!r}: {problem}") from None


_MORE = ("clipped", "measured_in", "largest")  # what an amount may say
_READERS: dict[frozenset[str], Callable[..., Attribute]] = {
    frozenset({"values"}): Categories,
    frozenset({"low", "high"}): Integers,
    **{frozenset({"low", "high", "unit", *more}): Amount for n in range(4) for more in combinations(_MORE, n)},
    frozenset({"edges"}): Bins,
    frozenset({"edges", "labels"}): lambda labels, **rest: Bins(bin_labels=labels, **rest),
    frozenset({"intervals"}): Bins.of_intervals,
    frozenset({"intervals", "labels"}): Bins.of_intervals,
    frozenset({"first", "last"}): Dates,
    frozenset({"first", "last", "unit"}): Dates,
    frozenset({"size"}): lambda size, **policy: Anonymous(size, **policy),
    frozenset({"codes"}): lambda codes, **policy: CodeList.of_settings(*codes, **policy),
}
_KINDS = (
    "values = […] (or a file), low and high (with unit: an amount, which is added up), edges = […] (with "
    "labels), intervals = [[…]], first and last (with unit), "
    "codes = { file = …, levels = […] }, or size (and levels, title, description, code, meanings)"
)
_RULES = "impossible"


def domain_of_settings(settings: Mapping[str, Any], folder: Path = Path()) -> Domain:
    """The domain that plain values (from TOML or JSON) declare: name → settings, or name → list of labels.

    Files of values lie in `folder`, unless their paths are absolute.

    A list of tables under `impossible` ([[domain.impossible]] in TOML) declares structural zeros; anything else under
    that name is an attribute of that name.
    """
    if not isinstance(settings, Mapping):
        raise DomainError("the domain is not a table of attributes; write one [domain.NAME] table for each.")
    rules = settings.get(_RULES)
    if not (isinstance(rules, list) and rules and all(isinstance(rule, Mapping) for rule in rules)):
        rules = ()
    declared = {name: value for name, value in settings.items() if not (rules and name == _RULES)}
    language = declared.pop("language") if isinstance(declared.get("language"), str) else ""
    attributes = {name: _of_settings(name, value, folder) for name, value in declared.items()}
    return Domain(attributes, rules, language=language)


def settings_of_domain(domain: Domain) -> dict[str, Any]:
    """The domain as plain values that `domain_of_settings` reads."""
    settings: dict[str, Any] = {}
    for name, attribute in domain.attributes.items():
        policy = {key: value for key in ("unknown", "missing") if (value := getattr(attribute, key)) != "error"}
        own = attribute.level_settings() if attribute.hierarchy else {}
        levels = {"levels": own} if own else {}
        settings[name] = {**attribute.settings(), **policy, **levels, **attribute.words.settings()}
    if domain.impossible:
        settings[_RULES] = [rule.settings() for rule in domain.impossible]
    if domain.language:
        settings["language"] = domain.language
    return settings


def _only_domain(path: Path) -> bool:
    try:
        return set(tomllib.loads(path.read_text(encoding="utf-8"))) == {"domain"}
    except (OSError, ValueError, RecursionError):
        return False


def _of_settings(name: str, declared: object, folder: Path = Path()) -> Attribute | list[str]:
    if isinstance(declared, list):
        return declared
    if not isinstance(declared, Mapping):
        raise DomainError(f"attribute {name!r} is declared as {kind_of(declared)}; use a table with {_KINDS}.")
    settings = dict(declared)
    policy = {key: settings.pop(key) for key in ("unknown", "missing", "levels") if key in settings}
    words = {key: settings.pop(key) for key in KEYS if key in settings}
    reader = _READERS.get(frozenset(settings))
    if reader is None:
        raise DomainError(f"attribute {name!r} has the keys {sorted(settings)}; use {_KINDS}.")
    try:
        if isinstance(settings.get("values"), Mapping):
            names, given = values_of_settings(settings["values"], folder), words.get("meanings", {})
            settings["values"] = list(names)
            listed_names = {value: name for value, name in names.items() if name}
            words["meanings"] = {**listed_names, **given} if isinstance(given, Mapping) else given
        if "codes" in settings:
            settings["codes"] = (settings["codes"], folder)
        attribute = reader(**settings, **policy)
        given = words.get("meanings", {})
        if words and attribute.words.meanings and isinstance(given, Mapping):
            words["meanings"] = {**attribute.words.settings()["meanings"], **given}
        return attribute.described(**words) if words else attribute
    except DomainError as problem:
        raise DomainError(f"attribute {name!r}: {problem}") from None
