"""The history of a ledger, for people and machines."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table as RichTable

from residua.cli.show import out, print_json
from residua.measure import Ledger
from residua.plan.bodies import guarantee_to_body, unit_to_body
from residua.privacy import describe


def print_ledger(path: Path, *, as_json: bool) -> None:
    """Every debit of a ledger, what was spent and what is left."""
    ledger = Ledger(path)
    entries, spent, remaining = ledger.entries, ledger.spent, ledger.remaining
    if as_json:
        listed = [
            {"sequence": e.sequence, "time": e.time, "purpose": e.purpose, "pcost": float(e.cost), "digest": e.digest}
            for e in entries
        ]
        print_json(
            {
                "budget": guarantee_to_body(ledger.budget),
                "unit": unit_to_body(ledger.unit),
                "spent": describe(spent).to_dict(),
                "remaining": {"pcost": float(remaining), "rho": float(remaining / 2)},
                "entries": listed,
            }
        )
        return
    out.print(f"Budget {ledger.budget!r}, for {ledger.unit}")
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for title in ("#", "time (UTC)", "purpose"):
        table.add_column(title)
    for title in ("rho", "share"):
        table.add_column(title, justify="right")
    whole = spent + remaining
    for entry in entries:
        share = f"{float(entry.cost / whole):.1%}"
        table.add_row(str(entry.sequence), entry.time, entry.purpose, f"{float(entry.cost / 2):.6g}", share)
    if entries:
        out.print(table)
    else:
        out.print("nothing spent yet")
    out.print(f"Spent  {describe(spent)}")
    out.print(f"Left   rho {float(remaining / 2):.6g} of {float(whole / 2):.6g}")
