"""The history of a ledger, for people and machines."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from residua.cli.show import err, out, print_json
from residua.cli.sources import open_source
from residua.cli.spec import Spec, budget_of, read_spec
from residua.errors import SpecError
from residua.measurement import Ledger, allot
from residua.measurement.ledger_entries import Entry
from residua.plans.noise import Currency
from residua.plans.statements import unit_to_body
from residua.privacy import ZCDP, describe
from residua.privacy.costs import DELTAS, printed
from residua.privacy.exact import round_up
from residua.privacy.guarantees import guarantee_to_body
from residua.screen import PlainTable


def ledger_options(spec: Spec) -> dict[str, Any]:
    """What [ledger] says beside its path and budget."""
    return {name: spec.ledger[name] for name in ("witness", "discovery_delta") if name in spec.ledger}


def accept_data(path: Path, spec: Path | None, why: str | None) -> None:
    """Declares that the data of a specification holds the people of a ledger.

    Raises:
        SpecError: only one of the two is given, or the specification names no data.
    """
    if spec is None or why is None:
        raise SpecError(
            'declare both: --accept SPEC.toml, whose data holds the same people, and --why "corrected codes".'
        )
    ledger = Ledger(path)
    ledger.accept(open_source(read_spec(spec)), why=why)
    err.print(f"The data of {spec} is now on record as holding the people of {ledger.population!r}; nothing was spent.")


def allotted(path: Path, child: Path, amounts: Mapping[str, float | None], **how: Any) -> Ledger:
    """Moves a part of a budget into a ledger of its own.

    Raises:
        SpecError: no amount.
    """
    budget = budget_of("allot", {name: amount for name, amount in amounts.items() if amount is not None})
    if budget is None:
        raise SpecError("say how much: --rho, --mu, --epsilon with --delta, or --epsilon alone.")
    return allot(Ledger(path), child, budget, **how)


def print_made(ledger: Ledger, rest: str, *, as_json: bool) -> None:
    """A ledger that was made: for people in a line, for machines as any other."""
    if as_json:
        print_ledger(ledger.path, as_json=True)
    else:
        out.print(f"Made {ledger.path}: {ledger.budget!r} for {ledger.unit}{rest}. Never delete it.")


def print_ledger(path: Path, *, as_json: bool) -> None:
    """Every debit of a ledger, what was spent, what is left, and what the total stands for."""
    ledger = Ledger(path)
    if as_json:
        print_json(_facts(ledger))
        return
    entries, spent, remaining = ledger.entries, ledger.spent_exactly, ledger.remaining_exactly
    name, half = ("epsilon", 1) if ledger.currency == "epsilon" else ("rho", 2)
    out.print(f"Of     {ledger.population}")
    out.print(f"Budget {ledger.budget!r}, for {ledger.unit}")
    table = PlainTable(["#", "time (UTC)", "purpose"], ["noise", name, "share"])
    whole = spent + remaining
    for entry in entries:
        share = f"{float(entry.cost / whole):.1%}"
        noise = entry.noise(ledger.currency).replace("laplace", "Laplace")
        amount = f"{float(entry.cost / half):.6g}"
        table.add_row(str(entry.sequence), entry.time, entry.purpose, noise, amount, share)
    if entries:
        out.print(table)
    else:
        out.print("nothing spent yet")
    for known in ledger.accepted:
        out.print(f"Same people by declaration of {known.time}: {known.why}")
    out.print(f"Spent  {_in_words(ledger, spent)}")
    left = f"{float(remaining / half):.6g}" if remaining * 10**9 > whole else "0 (less than a billionth)"
    out.print(f"Left   {name} {left} of {float(whole / half):.6g}")
    if ledger.discovery_delta:
        out.print(f"Delta  {ledger.discovery_delta_spent:g} of {ledger.discovery_delta:g} spent on discovering values")
    out.print(f"Means  {ledger.meaning}")


def _facts(ledger: Ledger) -> dict[str, Any]:
    spent, remaining = ledger.spent_exactly, ledger.remaining_exactly
    left: dict[str, float] = {"pcost": float(remaining), "rho": float(remaining / 2)}
    if ledger.currency == "epsilon":
        left = {"epsilon": float(remaining)}
    return {
        "population": ledger.population,
        "accepted": [{"time": known.time, "why": known.why, "digest": known.digest} for known in ledger.accepted],
        "budget": guarantee_to_body(ledger.budget),
        "unit": unit_to_body(ledger.unit),
        "spent": _spent_facts(ledger, spent),
        "remaining": left,
        "discovery_delta": {"allowed": ledger.discovery_delta, "spent": ledger.discovery_delta_spent},
        "meaning": ledger.meaning,
        "entries": [_entry_facts(entry, ledger.currency) for entry in ledger.entries],
    }


def _entry_facts(entry: Entry, currency: Currency) -> dict[str, Any]:
    pure = entry.cost if currency == "epsilon" else entry.epsilon
    amounts = {} if pure is None else {"epsilon": float(pure)}
    if currency == "pcost":
        amounts["pcost"] = float(entry.cost)
    named = {"sequence": entry.sequence, "time": entry.time, "purpose": entry.purpose}
    if entry.delta:
        amounts["delta"] = round_up(entry.delta)
    return {**named, "noise": entry.noise(currency), **amounts, "digest": entry.digest}


def _only_zcdp(ledger: Ledger) -> bool:
    """Whether the total is a rho and no mu: Laplace noise counted under ZCDP, or a part that may be spent on it."""
    return isinstance(ledger.budget, ZCDP) and any(entry.may_be_laplace for entry in ledger.entries)


def _spent_facts(ledger: Ledger, spent: Fraction) -> dict[str, Any]:
    if ledger.currency == "epsilon":
        return {"epsilon": round_up(spent)}
    if _only_zcdp(ledger):
        rho = ZCDP(round_up(spent / 2))
        curve = [{"delta": d, "epsilon": rho.epsilon(d)} for d in DELTAS]
        return {"pcost": round_up(spent), "rho": rho.rho, "approx_dp": curve}
    return describe(spent).to_dict()


def _in_words(ledger: Ledger, spent: Fraction) -> str:
    facts = _spent_facts(ledger, spent)
    if "epsilon" in facts:
        return f"epsilon {printed(facts['epsilon'])}"
    if not _only_zcdp(ledger):
        return str(describe(spent))
    curve = ", ".join(f"{printed(point['epsilon'])} at delta {point['delta']:g}" for point in facts["approx_dp"])
    return f"pcost {printed(facts['pcost'])}, rho {printed(facts['rho'])}, epsilon {curve}"
