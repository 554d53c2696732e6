"""`residua discover`: what a column holds, paid for, written into a specification that is not finished yet."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from residua.cli.objectives import SPENDING, section
from residua.cli.show import out, print_json, progress_bar
from residua.cli.sources import open_source
from residua.cli.spec import Spec, budget_of, read_content, read_spec, spec_of
from residua.cli.steps import open_ledger
from residua.errors import SpecError
from residua.files import write_atomically
from residua.measurement import Discovery, discover

_PLACEHOLDER: dict[str, Any] = {"domain": {"any": {"values": ["any"]}}, "workload": [{"ways": [1]}]}


def read_for_ledger(path: Path) -> Spec:
    """A specification, of which attributes may still be undeclared: its source, ledger, budget and unit."""
    content = read_content(path)
    declared = section(content, "domain").values()
    return _draft(content, path) if any(said == {"values": []} for said in declared) else read_spec(path)


def _draft(content: dict[str, Any], path: Path) -> Spec:
    kept = {name: said for name, said in content.items() if name in ("source", "privacy", "ledger")}
    return spec_of(kept | _PLACEHOLDER, path)


def run_discovery(
    path: Path, column: str, amounts: dict[str, float | None], how: dict[str, Any], *, as_json: bool, show_values: bool
) -> None:
    """Spends on a discovery, writes the attribute into the specification, and says what is promised.

    Raises:
        SpecError: no budget, or a specification whose section of the column cannot be replaced. Nothing is spent.
    """
    budget = budget_of("discover", {name: amount for name, amount in amounts.items() if amount is not None})
    if budget is None:
        raise SpecError("say how much to spend: --rho, --mu or --epsilon, and --delta.")
    content = read_content(path)
    unit = {name: said for name, said in section(content, "privacy").items() if name not in SPENDING}
    spec = _draft({**content, "privacy": {**unit, "rho": 1.0}}, path)
    _replaced(path, column, {"values": ["any"]})  # refused before anything is spent
    data, ledger = open_source(spec, show_values=show_values), open_ledger(spec)
    with progress_bar() as show:
        discovery = discover(data, column, budget, ledger=ledger, progress=show, **how)
    _print(discovery, path, spec, as_json=as_json)


def _print(discovery: Discovery, path: Path, spec: Spec, *, as_json: bool) -> None:
    settings = discovery.settings() if discovery.found else None
    if settings is not None:
        new = _replaced(path, discovery.name, settings, discovery.statement)
        write_atomically(path, new.encode(), ours=lambda _: True)
    if as_json:
        facts = {"attribute": settings, "statement": discovery.statement, "sequence": discovery.sequence}
        print_json({"specification": str(path), "ledger": str(spec.ledger_path), "column": discovery.name, **facts})
        return
    if settings is None:
        out.print(f"No value of {discovery.name!r} is held by enough to be found; {path} is as it was.")
    else:
        size = discovery.attribute.declared
        out.print(f"Wrote [domain.{discovery.name}] of {path}: {size:,} {discovery.attribute.kind}.")
    out.print(discovery.statement)
    out.print(f"Ledger      {spec.ledger_path} debited; see: residua ledger {spec.ledger_path}")


def _replaced(path: Path, column: str, settings: dict[str, Any], statement: str = "") -> str:
    """The specification's text with one attribute declared; all else as it was, comments included.

    Raises:
        SpecError: the text cannot be changed there alone.
    """
    text = path.read_text("utf-8")
    key = next(iter(tomllib.loads(tomli_w.dumps({column: 0}))))
    head, _, body = tomli_w.dumps({"domain": {column: settings}}).partition("\n")
    block = "".join([head, "\n", *(f"# {line}\n" for line in textwrap.wrap(statement, 116)), body])
    names = "|".join(re.escape(name) for name in {key, f'"{key}"', f"'{key}'", head[len("[domain.") : -1]})
    there = re.compile(rf"^[ \t]*\[domain\.(?:{names})\][^\n]*\n(?:(?![ \t]*\[)[^\n]*\n?)*", re.MULTILINE)
    new, times = there.subn(lambda _: block + "\n", text, count=1)
    if not times:
        new = f"{text.rstrip()}\n\n{block}"
    wanted = tomllib.loads(text)
    section(wanted, "domain")
    wanted["domain"] = {**wanted.get("domain", {}), column: settings}
    try:
        same = tomllib.loads(new) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise SpecError(
            f"the attribute {column!r} is not declared in a table of its own in {path.name}; write [domain.{key}] on a "
            "line of its own, and what it may hold below. Nothing was spent."
        )
    return new
