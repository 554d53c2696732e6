"""Who a person is, to a ledger: the same columns in all its debits, for another column would be other people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residua.errors import LedgerError
from residua.measurement.ledger_lines import Contents


def agreed(contents: Contents, whose: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Who a person is (`Options.whose`), if the first debit that says so says the same.

    Raises:
        LedgerError: it says something else. Nothing is spent.
    """
    earlier = next((entry.detail["whose"] for entry in contents.entries if "whose" in entry.detail), None)
    if earlier is not None and dict(earlier) != dict(whose):
        columns = ", ".join(map(repr, earlier["person"]))
        raise LedgerError(
            f"to the ledger {name} a person is who has one {columns} (no_person={earlier['no_person']!r}, "
            f"weight={earlier['weight']!r}); say the same, and rename columns with Source.with_columns if need be. "
            "Nothing was spent."
        )
    return dict(whose)
