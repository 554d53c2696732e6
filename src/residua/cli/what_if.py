"""What if: a specification with another budget, other targets or another objective, without editing the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from residua.cli.objective import NUMBERS
from residua.cli.targets import KEYS as TARGETS
from residua.errors import SpecError

_SPENDING = ("rho", "mu", "epsilon", "delta")


@dataclass(frozen=True)
class WhatIf:
    """What to change. Each means what the key of this name means in a specification; None leaves it as it is.

    Args:
        rho: in place of all that [privacy] spends; so are mu, epsilon and delta (a delta alone goes with the file's
            epsilon, and an epsilon alone with the file's delta).
        records: the most records a person has.
        minimise: what is minimised, without targets.
        stddev: a target for every query in place of all targets of the file and, unless one is given too, of its
            budget; so is margin, at this confidence.
    """

    rho: float | None = None
    mu: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    records: int | None = None
    minimise: str | None = None
    stddev: float | None = None
    margin: float | None = None
    confidence: float | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in asdict(self).values())

    def changed(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The tables of a specification file with these changes; the file's own mistakes stay for its reader."""
        content = dict(content)
        for section in ("privacy", "objective"):
            if not isinstance(content.get(section, {}), Mapping):
                return content
        privacy, objective = dict(content.get("privacy", {})), dict(content.get("objective", {}))
        spending = {key: value for key, value in asdict(self).items() if key in _SPENDING and value is not None}
        target = {key: getattr(self, key) for key in TARGETS if getattr(self, key, None) is not None}
        if "confidence" in target and "margin" not in target:
            raise SpecError("--confidence belongs to --margin; give both, or neither.")
        if spending or target:
            kept = {"epsilon": ("delta",), "delta": ("epsilon",)}.get("".join(spending), ())
            privacy = {key: value for key, value in privacy.items() if key not in _SPENDING or key in kept} | spending
        if self.records is not None:
            privacy = {key: value for key, value in privacy.items() if key != "replace"} | {"records": self.records}
        if target and isinstance(content.get("workload"), list):
            content["workload"] = [_aimed(term, target) for term in content["workload"]]
            objective = {key: value for key, value in objective.items() if key not in ("minimise", *NUMBERS)}
        if self.minimise is not None:
            own = {key: value for key, value in objective.items() if NUMBERS.get(key, self.minimise) == self.minimise}
            objective = own | {"minimise": self.minimise}
        return {**content, "privacy": privacy, "objective": objective}


def _aimed(term: Any, target: Mapping[str, Any]) -> Any:
    if not isinstance(term, Mapping):
        return term
    return {key: value for key, value in term.items() if key not in TARGETS} | dict(target)
