"""Hand-off to `mbi` (private-pgm): the release's measurements as mbi takes them, for synthetic rows.

What was measured is handed over, not estimates made from it: each residual (or strategy row) with its own independent
noise, so that mbi's squared loss is the exact negative log likelihood of the release, up to a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.domain import Domain, impossible_cells
from residua.errors import PlanError, named
from residua.linalg.arrays import Floats
from residua.machine import missing
from residua.plans.estimator import Clique
from residua.release.base import Release

_MOST_CELLS = 2**22


@dataclass(frozen=True)
class Centred:
    """The query of a residual: a table minus its mean along every axis, flat. Works on mbi's factors."""

    def __call__(self, factor: Any) -> Any:
        """The residual of a factor."""
        values = factor.datavector(flatten=False)
        for axis in range(values.ndim):
            values = values - values.mean(axis=axis, keepdims=True)
        return values.ravel()

    def op_norm_sq(self) -> float:
        """The largest factor by which a squared length can grow: centring is a projection."""
        return 1.0


@dataclass(frozen=True, eq=False)
class StrategyQueries:
    """The queries of a strategy: rows of coefficients over a table's cells. Works on mbi's factors."""

    matrix: Floats

    def __call__(self, factor: Any) -> Any:
        """The answers of a factor."""
        return self.matrix @ factor.datavector()

    def op_norm_sq(self) -> float:
        """The largest factor by which a squared length can grow."""
        return float(np.linalg.norm(self.matrix, 2)) ** 2


@dataclass(frozen=True, eq=False)
class MbiProblem:
    """What mbi's estimators take.

    Args:
        domain: an `mbi.Domain`.
        measurements: a list of `mbi.LinearMeasurement`.
        constraints: a list of `mbi.Constraint`, the structural zeros.
        total: the release's estimate of the total, for `known_total`.
        labels: the domain the codes stand for.
    """

    domain: Any
    measurements: list[Any]
    constraints: list[Any]
    total: float
    labels: Domain

    def decoded(self, rows: Any) -> dict[str, list[Any]]:
        """mbi's synthetic rows with labels instead of codes: attribute → one value per row."""
        columns = rows.to_dict()
        return {
            name: np.array(self.labels[name].labels, dtype=object)[np.asarray(columns[name])].tolist()
            for name in self.labels
            if name in columns
        }


def query_of(measured: Clique) -> Centred | StrategyQueries:
    """What was asked of a set of attributes, as mbi takes it."""
    return Centred() if measured.rows is None else StrategyQueries(measured.rows)


def for_mbi(release: Release) -> MbiProblem:
    """The release as mbi takes it: `mbi.estimation.MirrorDescent().estimate(p.domain, p.measurements, p.total)`.

    mbi infers one distribution over all attributes it is told of, exactly: its cost grows with the cliques that its
    junction tree needs. Release a few low-way tables of the attributes that are to be synthesised.

    Raises:
        ResiduaError: mbi is not installed.
        PlanError: there is no way to hand over this release.
    """
    if not isinstance(release, Release):
        raise PlanError(
            f"release={named(release)} cannot be handed over to mbi; measure one, or load it with Release.load."
        )
    try:
        import mbi
    except ImportError:
        raise missing('mbi is not installed; install it with: pip install "residua[synthetic]"') from None
    cliques, names = release.estimator.cliques(), release.domain.names
    used = sorted({i for one in cliques for i in one.members})
    domain = mbi.Domain([names[i] for i in used], [int(release.domain.sizes[i]) for i in used])
    measured = [
        mbi.LinearMeasurement(one.values, tuple(names[i] for i in one.members), one.stddev, query_of(one))
        for one in cliques
        if one.members  # the empty clique is the total, which mbi takes by itself
    ]
    return MbiProblem(domain, measured, _constraints(mbi, release.domain, domain), _total(release), release.domain)


def _constraints(mbi: Any, declared: Domain, domain: Any) -> list[Any]:
    constraints = []
    for rule in declared.impossible:
        if not set(rule.names) <= set(domain.attributes) or declared.cells(rule.names) > _MOST_CELLS:
            continue
        mask = impossible_cells(Domain({name: declared[name] for name in rule.names}, [rule]), rule.names)
        if mask is not None:
            constraints.append(mbi.Constraint(domain.project(rule.names), invalid=np.argwhere(mask)))
    return constraints


def _total(release: Release) -> float:
    try:
        return max(1.0, float(release.estimates(())))
    except PlanError:
        raise PlanError("the release does not tell the total, which mbi needs; ask for it, too: ways=[0, …].") from None
