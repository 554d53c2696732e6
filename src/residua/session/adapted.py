"""An adaptation: what a session spends by itself, in steps, and what is kept of it, so that it goes on after a crash.

adaptations/0001.json     what is asked, within what; the scores once they are measured; that it has ended

Each debit of an adaptation names it and its step in the ledger, so that what it has spent is never counted from memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from residua.errors import SessionError
from residua.estimation import Estimated, estimate
from residua.files import read_document, write_document
from residua.folders import DAMAGE
from residua.measurement.ledger import Ledger
from residua.measurement.score import Scores
from residua.plans.bodies import guarantee_to_body
from residua.privacy import Guarantee
from residua.release import Release
from residua.workload import Workload

KIND, VERSION = "residua session adaptation", 1


@dataclass(frozen=True, eq=False, repr=False)
class Adapted:
    """What `session.adapt` has measured, with exact error bars, and the estimates made from it.

    Guarantee: `release` is unbiased, with exact variances and intervals, whatever was chosen on the way: the noise of
    each measurement is independent of what was chosen before it. `estimated` is biased towards a model.

    Args:
        release: everything that the session has measured, pooled.
        scores: how far the estimates of larger tables were from the data, after the look; None if not asked.
        spent: what the adaptation has debited, step by step, pcosts: "look", "scores", "rest".
    """

    release: Release
    scores: Scores | None
    spent: Mapping[str, Fraction]

    @cached_property
    def estimated(self) -> Estimated:
        """Tables of any attributes that borrow strength from all that was measured; made when first asked for."""
        return estimate(self.release)

    def __repr__(self) -> str:
        steps = ", ".join(f"{step} pcost {float(cost):.4g}" for step, cost in self.spent.items())
        return f"Adapted({steps})"


@dataclass(frozen=True, eq=False)
class Adaptation:
    """One adaptation as its document holds it.

    Args:
        path: the document.
        number: its number.
        asked: what it is for: the tables and their weights, the budget, the shares, as they are written.
        scores: once they are measured.
        ended: whether all is spent.
    """

    path: Path
    number: int
    asked: Mapping[str, Any]
    scores: Scores | None = None
    ended: bool = False

    def written(self, *, scores: Scores | None = None, ended: bool = False) -> Adaptation:
        """The same with more known, on disk."""
        made = Adaptation(self.path, self.number, self.asked, scores or self.scores, ended or self.ended)
        kept = made.scores
        body = {
            "asked": dict(self.asked),
            "ended": made.ended,
            "scores": None if kept is None else {**vars(kept), "values": kept.values.tolist()},
        }
        write_document(self.path, KIND, VERSION, body)
        return made


def asked_for(workload: Workload, budget: Guarantee, look: float, scores: float) -> dict[str, Any]:
    """What an adaptation is for, in words and numbers that are equal if and only if it is the same one."""
    tables = msgspec.json.encode([workload.sets, workload.weights.tolist(), workload.domain.sizes.tolist()])
    return {
        "tables": len(workload),
        "digest": hashlib.sha256(tables).hexdigest(),
        "budget": guarantee_to_body(budget),
        "look": look,
        "scores": scores,
    }


def adaptation_in(folder: Path, asked: Mapping[str, Any]) -> Adaptation:
    """The adaptation that asks for this, ended or not; a new one if there is none."""
    place = folder / "adaptations"
    place.mkdir(mode=0o700, exist_ok=True)
    found = sorted(file for file in place.glob("*.json") if file.stem.isdecimal())
    for file in found:
        made = _read(file)
        if made.asked == asked:
            return made
    number = max((int(file.stem) for file in found), default=0) + 1
    return Adaptation(place / f"{number:04d}.json", number, asked).written()


def _read(file: Path) -> Adaptation:
    try:
        body = read_document(file, KIND, VERSION)
        kept = body["scores"]
        scores = None
        if kept is not None:
            names = tuple(tuple(str(name) for name in one) for one in kept["attributes"])
            values = np.array(kept["values"], dtype=np.float64)
            if values.shape != (len(names),) or not np.isfinite(values).all():
                raise ValueError("its scores are none")
            scores = Scores(names, values, float(kept["stddev"]), int(kept["sequence"]), str(kept["digest"]))
        return Adaptation(file, int(file.stem), body["asked"], scores, bool(body["ended"]))
    except DAMAGE as problem:
        raise SessionError(
            f"the adaptation {str(file)!r} cannot be read ({str(problem).rstrip('.')}); restore the file from a copy, "
            "or delete it to begin anew: what it spent stays spent."
        ) from None


def spent_by(ledger: Ledger, key: str, number: int) -> dict[str, Fraction]:
    """What an adaptation has debited, by step; from the ledger itself."""
    found: dict[str, Fraction] = {}
    for entry in ledger.entries:
        if entry.detail.get("adaptation") == f"{key}:{number}":
            step = str(entry.detail.get("step", "rest"))
            found[step] = found.get(step, Fraction(0)) + entry.cost
    return found
