"""A first domain from the types of a frame's columns, or from a file that describes them, and what is left to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from residua.domain.attributes import Attribute, Categories, Integers
from residua.domain.described import is_declared
from residua.domain.words import listed
from residua.errors import DomainError

_BYTES = {"int8": (-128, 127), "uint8": (0, 255)}
_OPEN = "declare what it may hold"
_LISTED = (
    "the categories of its type; where astype('category') made them, they come from the data: check or declare them"
)


@dataclass(frozen=True)
class DomainDraft:
    """What the types of columns say of a domain, and which columns are left to declare. No value was read.

    Args:
        attributes: column → what its type says that it holds.
        origins: column → from what that was taken, or what is left to do.
    """

    attributes: Mapping[str, Attribute]
    origins: Mapping[str, str]

    def declared(self, **by_hand: Any) -> dict[str, Any]:
        """What `Domain` takes, with these columns declared by hand; None leaves a column out.

        Raises:
            DomainError: a column whose type says nothing is neither declared nor left out.
        """
        absent = [name for name in self.origins if name not in self.attributes and name not in by_hand]
        if absent:
            raise DomainError(
                f"the types do not say what {', '.join(map(repr, absent))} may hold; declare it, "
                f"{absent[0]}=rs.Integers(0, 120) for example, or leave it out with {absent[0]}=None."
            )
        chosen = {**dict.fromkeys(self.origins), **self.attributes, **by_hand}
        return {name: attribute for name, attribute in chosen.items() if attribute is not None}

    def __str__(self) -> str:
        shown = {name: repr(self.attributes.get(name, "?")) for name in self.origins}
        return "\n".join(f"{name}: {shown[name]}  # {origin}" for name, origin in self.origins.items())


def draft_of(settings: Mapping[str, Mapping[str, Any]], made: Callable[[str, Any], Attribute]) -> DomainDraft:
    """What a file that describes columns says."""
    attributes = {name: made(name, said) for name, said in settings.items() if is_declared(said)}
    return DomainDraft(attributes, {name: "declared" if name in attributes else _OPEN for name in settings})


def draft_of_types(frame: Any) -> DomainDraft:
    """What the types of the columns of a pandas, Polars or Arrow frame say."""
    attributes: dict[str, Attribute] = {}
    origins: dict[str, str] = {}
    for name, kind in _types(frame):
        origins[name] = f"{kind if listed(kind) is kind else 'categories'}: {_OPEN}"
        if str(kind).lower() in ("bool", "boolean"):
            attributes[name], origins[name] = Categories(("false", "true")), "truth values"
        elif str(kind).lower() in _BYTES:
            attributes[name], origins[name] = Integers(*_BYTES[str(kind).lower()]), f"all that {kind} holds"
        elif (values := listed(kind)) is not kind and values and all(isinstance(value, str) for value in values):
            attributes[name], origins[name] = Categories(tuple(values)), _LISTED
    return DomainDraft(attributes, origins)


def _types(frame: Any) -> Iterator[tuple[str, Any]]:
    """Columns and their types, as the frame's own library names them."""
    schema: Any = getattr(frame, "schema", None)
    if hasattr(frame, "dtypes") and hasattr(frame.dtypes, "items"):  # pandas
        pairs = list(frame.dtypes.items())
    elif isinstance(schema, Mapping):  # Polars
        pairs = list(schema.items())
    elif hasattr(schema, "names"):  # Arrow
        pairs = list(zip(schema.names, schema.types, strict=True))
    else:
        raise DomainError(f"frame is a {type(frame).__name__}; give a pandas, Polars or Arrow frame.")
    yield from ((str(name), kind) for name, kind in pairs)
