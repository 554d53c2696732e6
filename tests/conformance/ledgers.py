"""A ledger that is debited while something else happens: after the data was checked, before it is counted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import residua as rs


class Interrupted(rs.Ledger):
    """A ledger before whose debits something happens."""

    def __init__(self, path: Path, budget: Any, first: Callable[[], object], **options: Any) -> None:
        super().__init__(path, budget, **options)
        self._first = first

    def debit(self, *args: Any, **options: Any) -> Any:
        self._first()
        return super().debit(*args, **options)
