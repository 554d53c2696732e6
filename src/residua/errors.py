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
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from inspect import CO_OPTIMIZED
from numbers import Number
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

_LONGEST = 1_500
_WRITING = threading.local()  # whether values are being written, to be looked for
_MOST_LOOKED_AT = 100  # of what a collection holds
_FEW = 8  # texts or numbers, that may be shown together: a set of attributes, a range
_COLUMNS = ("__array__", "__arrow_c_stream__", "__arrow_c_array__", "__dataframe__", "as_py")
_COLLECTIONS = (list, tuple, dict, set, frozenset)
_SHOWN = (str, int, float, complex, bytes, type, type(None), Number, Path, date, BaseException, FunctionType)


def _without_data(text: str, frame: FrameType | None) -> str:
    """A sentence that names collections, and shows nothing of them: they may be data, given where others belong.

    Whichever argument or variable of ours was written into the sentence is named by its type, and so is a value that
    stands in an array, a column, a frame or a collection of anybody's making. Text and numbers alone are shown, and
    tuples of a few: they were typed.
    """
    if getattr(_WRITING, "now", False):  # an error in writing a value, which nobody sees, is not looked into in turn
        return text
    _WRITING.now = True
    try:
        return _named_in(text, frame)
    finally:
        _WRITING.now = False


def _named_in(text: str, frame: FrameType | None) -> str:
    """The sentence, with every collection of the variables of ours named by its type."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("residua"):
            for value in _variables(frame):
                with suppress(Exception):  # what is too deep or damaged to be written is in no sentence
                    if type(value) in _COLLECTIONS:
                        text = _without_collection(text, value)
                    elif _is_foreign(value):
                        text = _without_foreign(text, value)
        frame = frame.f_back
    return text


def _variables(frame: FrameType) -> list[Any]:
    """What a frame's variables hold. Older Pythons keep a copy of them with the frame: that would hold records."""
    copied = frame.f_locals
    values = [*copied.values()]
    if sys.version_info < (3, 13) and frame.f_code.co_flags & CO_OPTIMIZED:  # not the variables of a module themselves
        copied.clear()
    return values


def _is_foreign(value: Any) -> bool:
    kind = type(value)
    return not (isinstance(value, _SHOWN) or kind.__module__.startswith("residua") or kind.__name__.endswith("Type"))


def _without_collection(text: str, value: Any) -> str:
    """Flat tuples of text and whatever holds numbers alone are shown, if they are short."""
    held = [*value.values()] if isinstance(value, dict) else [*value]
    for each in held[:_MOST_LOOKED_AT]:
        if type(each) not in _COLLECTIONS and _is_foreign(each):
            text = _without_foreign(text, each)
    typed = int | float | str if isinstance(value, tuple) else int | float
    if (len(held) <= _FEW and all(isinstance(each, typed) for each in held)) or repr(next(iter(value))) not in text:
        return text
    return text.replace(repr(value), f"a {type(value).__name__}")


def _without_foreign(text: str, value: Any) -> str:
    """Nothing of an array, a column, a frame, or an object of another library or the caller's."""
    kind, is_column = type(value).__name__, any(hasattr(value, name) for name in _COLUMNS)
    if type(value).__module__.startswith("pyarrow") and hasattr(value, "validate"):
        value.validate(full=True)  # raises where it is damaged, as a file was: to look into it would end the process
    if not is_column or "\n" in text or kind in text or "array(" in text:  # a frame may be computed to be written
        for written in (repr(value), str(value), repr(str(value))[1:-1]):
            text = text.replace(written, f"a {kind}") if not written.isalnum() else text
    if "'" in text and kind != "mappingproxy":
        for cell in {*_cells(value)}:
            if repr(cell) in text:
                parts = "|".join(map(re.escape, [repr(cell), *(f'"{part}"' for part in str(cell).split())]))
                text = re.sub(rf"(?:np\.\w+\()?(?:{parts})\)?", "a value", text)
    return text


def _cells(value: Any) -> Iterator[Any]:
    """Every text in a column or collection, however deep; not the names of a frame's columns."""
    value = getattr(value, "categories", value)  # of a type of categories
    if isinstance(value, str | bytes):
        yield value
    elif hasattr(value, "__len__") and getattr(getattr(value, "dtype", None), "kind", "O") in "OUSV":
        reads = [getattr(value, name, None) for name in ("tolist", "to_list", "to_pylist", "items")]
        held: Any = () if hasattr(value, "columns") else next(filter(callable, reads), lambda: value)()
        for each in () if isinstance(held, str | bytes) else held:
            yield from _cells(each)


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
