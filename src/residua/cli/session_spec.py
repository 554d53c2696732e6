"""A specification with several named plans, for a session.

[[plan.NAME.workload]]   what the plan asks, as in [[workload]]
[plan.NAME]              independent = true for equal independent noise instead of the best
[plan.NAME.privacy]      rho | mu | epsilon and delta; [privacy] of the file if left out
[plan.NAME.objective]    as [objective]
[session]                state = "folder"; beside the ledger if left out
                         by = ["attribute", …]: a choice within each group of these
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residua.cli.spec import Spec, known_keys, read_content, spec_of
from residua.errors import SpecError
from residua.files import require_path
from residua.privacy import Guarantee

_PLAN = {"workload", "privacy", "objective", "independent"}
_SPENDING = {"rho", "mu", "epsilon", "delta"}


@dataclass(frozen=True, eq=False)
class NamedPlan:
    """One candidate.

    Args:
        spec: what it asks, and within what.
        independent: whether its noise is just independent, not the best.
        digest: of all in the file that decides what it measures; formatting and comments do not count.
    """

    spec: Spec
    independent: bool
    digest: str


@dataclass(frozen=True, eq=False)
class SessionSpec:
    """What a specification says about a session, checked."""

    plans: Mapping[str, NamedPlan]
    budget: Guarantee | None
    state: Path
    by: tuple[str, ...] = ()

    @property
    def any(self) -> Spec:
        """What all plans share: domain, source, ledger and unit."""
        return next(iter(self.plans.values())).spec

    @property
    def digests(self) -> dict[str, str]:
        """What each plan is made from, by name."""
        return {name: plan.digest for name, plan in self.plans.items()}


def read_session_spec(path: Path) -> SessionSpec:
    """Reads and checks a specification file with named plans.

    Raises:
        SpecError: the file is missing, is not TOML, or says something that means nothing.
    """
    content = read_content(path)
    named = content.get("plan")
    if not isinstance(named, Mapping) or not named:
        raise SpecError(f"{path.name} has no named plans; write [[plan.NAME.workload]] for each candidate.")
    plans = {name: _plan(content, name, settings, path) for name, settings in named.items()}
    first = next(iter(plans.values())).spec
    if first.left_out is not None:
        raise SpecError("[privacy] left_out is for residua release; a session does not estimate it: remove it.")
    known_keys("[session]", content.get("session", {}), {"state", "by"})
    stated = content.get("session", {}).get("state")
    if stated is not None and not isinstance(stated, str):
        raise SpecError(f"[session] state = {stated!r} is not a path; name the session's folder.")
    default = first.ledger_path.with_name(f"{first.ledger_path.name}.session")
    state = default if stated is None else first.folder / stated
    require_path(state)
    return SessionSpec(plans, first.ledger_budget, state, _by(content.get("session", {}), first))


def _by(settings: Mapping[str, Any], spec: Spec) -> tuple[str, ...]:
    by = settings.get("by", [])
    known = isinstance(by, list) and all(isinstance(name, str) and name in spec.domain.names for name in by)
    if not known or len(set(by)) < len(by):
        raise SpecError(f"[session] by = {by!r} is not a list of attributes of the domain; name each once.")
    return tuple(by)


def _plan(content: Mapping[str, Any], name: str, settings: Any, path: Path) -> NamedPlan:
    where = f"[plan.{name}]"
    known_keys(where, settings, _PLAN)
    independent = settings.get("independent", False)
    if not isinstance(independent, bool):
        raise SpecError(f"{where} independent = {independent!r} is not true or false; write one of them.")
    privacy = settings.get("privacy")
    if privacy is not None:
        known_keys(f"[plan.{name}.privacy]", privacy, _SPENDING)
    if not isinstance(content.get("privacy", {}), Mapping):
        raise SpecError("privacy is not a table; write [privacy] and its keys below.")
    shared = dict(content.get("privacy", {}))
    if privacy is not None:  # the unit stays the file's own: a session protects one
        shared = {**{key: value for key, value in shared.items() if key not in _SPENDING}, **privacy}
    own = {
        **{key: value for key, value in content.items() if key not in ("plan", "workload")},
        "workload": settings.get("workload"),
        "privacy": shared,
        "objective": settings.get("objective", content.get("objective", {})),
    }
    spec = spec_of(own, path, where)
    if independent and spec.guarantee is None:
        raise SpecError(f"{where} independent noise needs a budget; write [plan.{name}.privacy] rho = 0.5.")
    decides = {key: own[key] for key in ("domain", "workload", "privacy", "objective")}
    if by := (content.get("session") or {}).get("by"):
        decides["by"] = by
    digest = hashlib.sha256(json.dumps([decides, independent], default=str).encode()).hexdigest()
    return NamedPlan(spec, independent, digest)
