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

from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches
from itertools import islice
from numbers import Number
from pathlib import Path

_LONGEST = 1_500
_TYPED = 200  # characters that somebody types as one name
_COMPARED = 10_000  # names or labels
_TOLD = 8
_DIGITS = 5  # of a number that tells nothing: -999, 1.5, False, and not 23817


def named(value: object) -> str:
    """What stands where something else belongs: text, numbers, paths and guarantees as written, the rest by its type.

    A text that is longer than anybody types is named by its length. What stands *in* a collection may be data, however
    short: `nearest` says what is shown of it.
    """
    if isinstance(value, str) and len(value) > _TYPED:
        return f"a text of {len(value):,} characters"
    shown = isinstance(value, str | Number | Path | date | type | None) or type(value).__name__ == "bool"
    return repr(value) if shown or type(value).__module__.startswith("residua.privacy") else kind_of(value)


def kind_of(value: object) -> str:
    """What stands in a collection where something else belongs, by its type: it may be data.

    What tells nothing of anybody is shown: numbers of up to three digits, truth values, None and empty texts.
    """
    few = isinstance(value, Number) and len(written := str(value)) <= _DIGITS
    if few or value is None or (isinstance(value, str) and not value.strip()):
        return written if few else repr(value)
    return "a text" if isinstance(value, str) else f"a {type(value).__name__}"


def nearest(value: object, declared: Iterable[object]) -> tuple[str, str]:
    """How a name or label that is not declared is shown, and the remedy.

    It may be data: ` 'agee'` is shown because it is near to a declared `'age'`, and nothing is shown of others.

    Example:
        >>> nearest("agee", ["age", "sex"]), nearest("Anna", ["age", "sex"])
        ((" 'agee'", "did you mean 'age'?"), ('', "there are 'age', 'sex'."))
    """
    first = [*islice(declared, _COMPARED)]
    by_letters = {str(each).casefold(): each for each in first}
    typed = value.casefold() if isinstance(value, str) and len(value) <= _TYPED else ""
    near = get_close_matches(typed, by_letters, n=1)
    if near:
        return f" {value!r}", f"did you mean {by_letters[near[0]]!r}?"
    few = kind_of(value)
    return "" if few.startswith("a ") else f" {few}", f"there are {listing(first)}."


def listing(names: Iterable[object]) -> str:
    """The first of these names or labels, in quotes, and whether there are more."""
    several = [*names]
    more = f" and {len(several) - _TOLD:,} more" if len(several) > _TOLD else ""
    return ", ".join(map(repr, several[:_TOLD])) + more


class ResiduaError(Exception):
    """Root of every error residua raises on purpose."""

    exit_code = 2  # of the command: what was asked cannot be, as written

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
