"""Every error residua raises on purpose.

    ResiduaError                      root
    ├── DomainError      (ValueError) a declaration that is not a domain
    ├── WorkloadError    (ValueError) a workload that cannot be asked of this domain
    ├── PrivacyError     (ValueError) a guarantee or budget that means nothing, or a conversion no theorem allows
    ├── PlanError        (ValueError) a plan that cannot be made, or a question it cannot answer
    ├── SourceError      (ValueError) data that cannot be read as the domain declares
    ├── VerificationError (ValueError) what would be measured is not what was promised; nothing was spent
    ├── LedgerError      (RuntimeError) the ledger refuses: exhausted, tampered with, or of another dataset
    │   └── LedgerMovedError          another debit came between computing a cost and debiting it
    ├── SessionError     (RuntimeError) a session that cannot go on: of another dataset, in use, or already finished
    ├── FileError        (OSError)    a file of ours that is missing, damaged, or of another version
    └── SpecError        (ValueError) a specification file with a mistake in it

A message is one sentence or two: what is wrong, which argument, and the remedy. It never holds a true count.
"""

import re
import sys
from collections import deque
from collections.abc import MappingView
from contextlib import suppress
from types import FrameType
from typing import Any

_LONGEST = 1_500
_FEW = 8  # texts or numbers, that may be shown together: a set of attributes, a range
_QUOTED = re.compile(r"'([^']*)'")
_FOREIGN = ("__array__", "__arrow_c_stream__", "__arrow_c_array__", "__dataframe__", "as_py")


def _without_data(text: str, frame: FrameType | None) -> str:
    """A sentence that names collections, and shows nothing of them: they may be data, given where others belong.

    Whichever argument or variable of ours was written into the sentence is named by its type, and so is a value that
    stands in an array, a column or a frame. Text and numbers alone are shown, and tuples of a few: they were typed.
    """
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("residua"):
            for value in [*frame.f_locals.values()]:
                with suppress(Exception):  # what is too deep or damaged to be written is in no sentence
                    if isinstance(value, list | tuple | dict | set | frozenset | deque | MappingView):
                        text = _without_collection(text, value)
                    elif not isinstance(value, type) and any(hasattr(value, name) for name in _FOREIGN):
                        text = _without_column(text, value)
        frame = frame.f_back
    return text


def _without_collection(text: str, value: Any) -> str:
    """Flat tuples of text and whatever holds numbers alone are shown, if they are short."""
    held = [*value.values()] if isinstance(value, dict) else [*value]
    typed = int | float | str if isinstance(value, tuple) else int | float
    if (len(held) <= _FEW and all(isinstance(each, typed) for each in held)) or repr(next(iter(value))) not in text:
        return text
    return text.replace(repr(value), f"a {type(value).__name__}")


def _without_column(text: str, value: Any) -> str:
    kind = type(value).__name__
    if type(value).__module__.startswith("pyarrow"):
        value.validate(full=True)  # raises where it is damaged, as a file was: to look into it would end the process
    if "\n" in text or kind in text or "array(" in text:
        for written in (repr(value), str(value), repr(str(value))[1:-1]):
            text = text.replace(written, f"a {kind}") if not written.isalnum() else text
    quoted = {*_QUOTED.findall(text)}
    if not quoted or getattr(getattr(value, "dtype", None), "kind", "O") not in "OUSV":
        return text
    listed = next((getattr(value, name) for name in ("tolist", "to_list", "to_pylist") if hasattr(value, name)), list)
    for cell in quoted & {each for each in listed() if isinstance(each, str)}:
        text = re.sub(rf"(?:np\.str_\()?{re.escape(repr(cell))}\)?", "a value", text)
    return text


def named(value: object) -> str:
    """What was given in place of something else: text and numbers as written, all that could be data by its type."""
    shown = isinstance(value, str | int | float | complex | bytes | type | None)
    return repr(value) if shown else f"a {type(value).__name__}"


class ResiduaError(Exception):
    """Root of every error residua raises on purpose."""

    exit_code = 2  # of the command: what was asked cannot be, as written

    def __init__(self, *args: object) -> None:
        first, *more = args or ("",)
        text = _without_data(first, sys._getframe(1)) if isinstance(first, str) else first
        super().__init__(*([text, *more] if args else ()))

    def __str__(self) -> str:
        # What was given may be of any length and hold anything; the sentence around it is short, and one line.
        text = super().__str__()
        if not text.isprintable():
            text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


class DomainError(ResiduaError, ValueError):
    """A declaration that is not a domain."""


class WorkloadError(ResiduaError, ValueError):
    """A workload that cannot be asked of this domain."""


class PrivacyError(ResiduaError, ValueError):
    """A guarantee or budget that means nothing, or a conversion no theorem allows."""


class PlanError(ResiduaError, ValueError):
    """A plan that cannot be made, or a question it cannot answer."""


class SourceError(ResiduaError, ValueError):
    """Data that cannot be read as the domain declares."""

    exit_code = 3


class VerificationError(ResiduaError, ValueError):
    """What would be measured is not what was promised; nothing was spent."""

    exit_code = 70


class LedgerError(ResiduaError, RuntimeError):
    """The ledger refuses: exhausted, tampered with, or of another dataset."""

    exit_code = 4


class LedgerMovedError(LedgerError):
    """Another debit came between computing a cost and debiting it; nothing was spent."""


class FileError(ResiduaError, OSError):
    """A file of ours that is missing, damaged, or of another version."""

    exit_code = 5


class SessionError(ResiduaError, RuntimeError):
    """A session that cannot go on: of another dataset or ledger, in use elsewhere, or already finished."""


class SpecError(ResiduaError, ValueError):
    """A specification file with a mistake in it."""


class GapWarning(UserWarning):
    """A planner stopped before its tolerance; the plan is valid and states the gap it reached."""


class LongWarning(UserWarning):
    """Planning or combining plans will take long, or much memory; the message says how long, or how much."""
