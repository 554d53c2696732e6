"""What is said when something goes wrong after the debit: that it stands, and nothing of the data."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

from residua.errors import PlanError, ResiduaError, SourceError
from residua.measurement.ledger import Entry

T = TypeVar("T")


def without_records(problem: BaseException) -> None:
    """Makes an error hold no records: neither in the variables of its frames, nor in an engine's error behind it.

    `raise … from None` hides that from people who read a traceback, and keeps it for programs that report errors.
    """
    traceback.clear_frames(problem.__traceback__)
    suppressed = problem.__suppress_context__
    problem.__cause__ = problem.__context__ = None
    problem.__suppress_context__ = suppressed


def told_of_debit(work: Callable[[], T], entry: Entry) -> T:
    """Does what was paid for; an error says that the debit stands, and keeps no true count alive."""
    stands = f"Debit {entry.sequence} of the ledger stands"
    failure: ResiduaError
    try:
        return work()
    except SourceError as problem:
        traceback.clear_frames(problem.__traceback__)
        failure = SourceError(f"{problem} {stands}; plan again.")
    except MemoryError as problem:
        traceback.clear_frames(problem.__traceback__)
        failure = PlanError(f"there is not enough memory to measure this plan; {stands}: ask for smaller tables.")
    except BaseException as problem:
        without_records(problem)  # an error report that shows local variables must not show counts
        problem.add_note(f"{stands}: this went wrong while measuring.")
        raise
    raise failure  # outside the handlers, so that it carries no context
