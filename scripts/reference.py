"""Writes docs/reference.md: every public name, from its signature and its docstring, in the order of the pipeline.

Run by `bash scripts/docs`. A public name that stands in no group below is an error, and so is one without a docstring;
a test compares the committed page with what this makes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import residua

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
STUB = Path(residua.__file__).with_suffix(".pyi").read_text()
PROVISIONAL = frozenset(re.findall(r" as (\w+)  # provisional$", STUB, re.MULTILINE))
INTRODUCTION = """# Reference

Every public name, in the order of the pipeline: `import residua as rs`. Made from the signatures and docstrings by
`bash scripts/docs`; examples are in [the guide](guide.md) and in the docstrings (`help(rs.plan)`), the symbols in
[the notation](notation.md). What is marked *provisional* may change in a minor version ([stability](stability.md)).
"""
# A name with a colon is not exported: it is what public functions return. Its package stands before the colon.
GROUPS: tuple[tuple[str, str], ...] = (
    ("Declare: what the table may hold", "Domain Categories CodeList Integers Bins Dates Amount Anonymous between"),
    ("Ask: which numbers are wanted", "marginals prefixes ranges hierarchy product queries explicit workload:Workload"),
    ("Promise: guarantees, and whom they protect", "ZCDP GDP ApproxDP PureDP AddRemove Person ReplaceOne"),
    (
        "Plan: the best noise, before any data is seen",
        "plan Plan TotalVariance MaxVariance LargestVariances PNormVariance Stakeholders ConvexLoss Lattice Matrix"
        " Axis Tree Blockwise independent clips",
    ),
    ("Combine plans", "common residual top_up by_group"),
    (
        "Measure: the one door to data",
        "Source Weights Ledger allot measure measure_survey Continual records_per_person RecordsPerPerson discover "
        "Discovery score measurement:Scores",
    ),
    (
        "Publish: estimates with error bars",
        "Release Given Table release:Estimate change combined pooled weighted release:Weighted",
    ),
    (
        "Quote: numbers people quote, from releases, sessions, projections and plans",
        "quoting:Quotable quoting:Quoted published:Flagged plans.quotes:Forecasts",
    ),
    ("Project: tables that agree and are not negative", "project Projected projection:Realisable for_mbi"),
    (
        "Estimate: tables that borrow strength",
        "estimate Estimated estimation:EstimatedTable estimation:TableAccuracy estimation:SyntheticRows plan_estimates",
    ),
    ("Look before you choose", "Session session:Choice session:Adapted"),
    ("Beside the pipeline", "analysis"),
    ("Errors and warnings", "ResiduaError GapWarning"),
)
OURS = {
    "Plan",
    "Release",
    "Table",
    "Projected",
    "Workload",
    "Estimate",
    "Choice",
    "Adapted",
    "Scores",
    "Quotable",
    "Quoted",
    "Flagged",
    "Forecasts",
}
HIDDEN = {"OldNames", "Quotable", "Forecasts"}  # whose members have new names, or an entry of their own


@dataclass(frozen=True)
class Docstring:
    """A docstring in its parts."""

    text: str

    @property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return " ".join(self.text.split("\n\n")[0].split())

    @property
    def sentence(self) -> str:
        """The first sentence."""
        return re.split(r"(?<=\.)\s(?=[A-Z`])", self.summary, maxsplit=1)[0]

    @cached_property
    def arguments(self) -> dict[str, str]:
        """Argument → what it is, from the section `Args`."""
        section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", self.text, re.MULTILINE)
        described: dict[str, str] = {}
        for line in section[1].splitlines() if section else ():
            start = re.match(r" {4}(\*{0,2}\w+): (.*)", line)
            if start:
                name = start[1]
                described[name] = start[2]
            elif line.strip():
                described[name] += " " + line.strip()
        return described


def docstring_of(thing: object, name: str) -> Docstring:
    """The docstring of a public thing.

    Raises:
        ValueError: it has none.
    """
    text = inspect.getdoc(thing)
    if not text:
        raise ValueError(f"{name} has no docstring; write one.")
    return Docstring(text)


def call(name: str, thing: Any) -> str:
    """How it is called: names and defaults, no types."""
    shown = [each.replace(annotation=each.empty) for each in _parameters(thing)]
    return name + re.sub(r"=<[^>]*>", "=…", str(inspect.Signature(shown)))


def arguments(thing: Any, said: Docstring, indent: str = "") -> Iterator[str]:
    """One line per argument that the docstring explains, with its type."""
    types = {each.name: each.annotation for each in _parameters(thing)} if said.arguments else {}
    for name, words in said.arguments.items():
        annotation = types.get(name.lstrip("*"), inspect.Parameter.empty)
        kind = "" if annotation is inspect.Parameter.empty else f" (`{_type(annotation)}`)"
        yield f"{indent}- `{name}`{kind}: {words}"


def members(cls: type) -> dict[str, Any]:
    """The public methods and properties of a class in their order, what it inherits of ours first."""
    documented: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__.startswith("residua") and (owner is cls or owner.__name__ not in HIDDEN):
            public = {name: member for name, member in vars(owner).items() if not name.startswith("_")}
            documented |= {name: member for name, member in public.items() if _is_documented(member)}
    return documented


def entry(address: str) -> Iterator[str]:
    """All lines about one public name."""
    package, _, name = address.rpartition(":")
    thing = getattr(import_module(f"residua.{package}") if package else residua, name)
    said = docstring_of(thing, name)
    shown = name if package else f"rs.{name}"
    yield from ("", f"### {shown}", "")
    if name in PROVISIONAL:
        yield from ("*Provisional.*", "")
    if inspect.ismodule(thing):
        yield said.summary
        for own in _functions(thing):
            yield from _described(f"rs.{name}.{own.__name__}", own)
        return
    if name not in OURS and not (isinstance(thing, type) and issubclass(thing, BaseException)):
        yield from ("```", call(shown, thing), "```", "")
    yield said.summary
    listed = list(arguments(thing, said))
    if listed:
        yield from ("", *listed)
    if isinstance(thing, type) and not issubclass(thing, BaseException):
        yield from _members_of(thing, said)


def _members_of(cls: type, said: Docstring) -> Iterator[str]:
    plain = [name for name in getattr(cls, "__annotations__", {}) if _is_plain(cls, name, said)]
    if plain and cls.__name__ in OURS:
        yield from ("", "Holds " + ", ".join(f"`{name}`" for name in plain) + ".")
    documented = members(cls)
    if documented:
        yield from ("", "Facts and methods:", "")
    for name, member in documented.items():
        if isinstance(member, staticmethod | classmethod):
            yield from _method(f"{cls.__name__}.{name}", member.__get__(None, cls))
        elif inspect.isfunction(member):
            yield from _method(f".{name}", member.__get__(object(), cls))
        else:
            yield f"- `.{name}`: {docstring_of(member, name).sentence}"


def _method(name: str, method: Any) -> Iterator[str]:
    said = docstring_of(method, name)
    yield f"- `{call(name, method)}`: {said.sentence}"
    yield from arguments(method, said, "  ")


def _described(name: str, function: Any) -> Iterator[str]:
    said = docstring_of(function, name)
    yield from ("", "```", call(name, function), "```", "", said.summary)
    listed = list(arguments(function, said))
    if listed:
        yield from ("", *listed)


def _functions(module: Any) -> list[Any]:
    return [thing for thing in (getattr(module, name) for name in module.__all__) if inspect.isfunction(thing)]


def _parameters(thing: Any) -> list[inspect.Parameter]:
    given = inspect.signature(thing).parameters.values()
    # Options by name without a type are those of earlier versions.
    return [each for each in given if each.kind != each.VAR_KEYWORD or "Unpack" in str(each.annotation)]


def _type(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _is_documented(member: Any) -> bool:
    return isinstance(member, (staticmethod, classmethod, property, cached_property)) or inspect.isfunction(member)


def _is_plain(cls: type, name: str, said: Docstring) -> bool:
    typed = str(cls.__annotations__[name])
    return not name.startswith("_") and not typed.startswith("ClassVar") and name not in said.arguments


def drawn() -> str:
    """The whole page.

    Raises:
        ValueError: a public name is in no group, or in one but not public.
    """
    grouped = {name for _, names in GROUPS for name in names.split() if ":" not in name}
    if grouped != set(residua.__all__):
        odd = ", ".join(sorted(grouped ^ set(residua.__all__)))
        raise ValueError(f"{odd}: every public name stands in one group of scripts/reference.py; put it there.")
    lines = [INTRODUCTION.rstrip()]
    for heading, names in GROUPS:
        lines += ["", f"## {heading}"]
        for name in names.split():
            lines += entry(name)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(drawn())
