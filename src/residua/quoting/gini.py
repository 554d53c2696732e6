"""The Gini coefficient of a numeric attribute: how unequally its sum is shared, from 0 (equally) to 1.

With counts x over values v it is `Q/P`, `Q = xᵀ M_Q x` with `M_Q = |v_i − v_j|/2` and `P = xᵀ M_P x`, the number of
records times the sum of values. Noise makes squares too large: `E x̂ᵀ M x̂ = xᵀ M x + tr(M Σ)`; the trace is known and is
taken off. Then `Q̂ − g P̂` estimates 0 without bias exactly when g is the Gini coefficient. Its variance is
`4 xᵀ M Σ M x + 2 tr(M Σ M Σ)`, `M = M_Q − g M_P`; it is estimated by `4 x̂ᵀ M Σ M x̂`, which is larger by `2 tr(M Σ M Σ)`
on average: that makes up for the skewness of squares where counts are as small as their noise. The interval is
Fieller's for `Q/P`, unbounded (hence 0 to 1) where the noise of P reaches zero.

Values within a bin are taken for its midpoint, so that inequality within bins is left out.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.quoting.answering import Answering
from residua.quoting.asking import SURE, Sure, cells, quoted
from residua.quoting.fieller import Moments, fieller
from residua.quoting.pairs import Found, Level, unknown
from residua.quoting.quoted import Quoted
from residua.quoting.terms import By, groups_of
from residua.quoting.values import Values, numbers_of
from residua.workload import Where

_MOST_ENTRIES = 2**27


def gini(
    answering: Answering,
    attribute: str,
    by: By = (),
    where: Where | None = None,
    values: Values | None = None,
    sure: Sure = SURE,
) -> Quoted:
    """The Gini coefficient of a numeric attribute whose values are not negative."""
    groups = groups_of(answering.domain, by, where)
    position = groups.require_free(attribute, "attribute")
    numbers = numbers_of(answering.domain, attribute, values)
    if numbers.dates or numbers.values[numbers.counted].min() < 0 or not numbers.values[numbers.counted].max() > 0:
        raise PlanError(
            f"the values of {attribute!r} are not all positive or 0, so that no sum is shared; give values."
        )
    v = numbers.values[numbers.counted]
    if cells(groups.shape) * len(v) ** 2 > _MOST_ENTRIES:
        raise PlanError(f"{cells(groups.shape):,} groups of {len(v):,} values are too many; ask for fewer groups.")
    term = groups.term({position: np.eye(len(numbers.values))[numbers.counted]})
    x = groups.arranged(answering.estimates(term), term, position)
    covariance = answering.covariances(term, term, (position,))
    level = sure.level(cells(groups.shape))
    found = _points(x, v)
    if covariance is not None:
        found = _found(x, groups.arranged_pairs(covariance, term, position), v, level)
    return quoted(answering, sure, f"Gini coefficient of {attribute}", groups.axes, found, numbers.remark)


def _forms(v: Floats) -> tuple[Floats, Floats]:
    return np.abs(v[:, None] - v[None, :]) / 2, (v[:, None] + v[None, :]) / 2


def _points(x: Floats, v: Floats) -> Found:
    above, below = (np.einsum("...i,ij,...j->...", x, M, x) for M in _forms(v))
    with np.errstate(divide="ignore", invalid="ignore"):
        return unknown(np.asarray(above / below))


def _found(x: Floats, covariance: Floats, v: Floats, level: Level) -> Found:
    forms = _forms(v)
    mixed = [M @ covariance for M in forms]  # M Σ, (groups, k, k)
    centred = [
        np.einsum("...i,...i->...", x @ M, x) - np.trace(MS, axis1=-2, axis2=-1)
        for M, MS in zip(forms, mixed, strict=True)
    ]
    pushed = [x @ M for M in forms]  # M x
    whole = np.empty((*x.shape[:-1], 2, 2))
    for i in range(2):
        half = np.einsum("...i,...ij->...j", pushed[i], covariance)
        for j in range(2):
            whole[..., i, j] = 4 * np.einsum("...j,...j->...", half, pushed[j])
    moments = Moments(centred[0], centred[1], whole[..., 0, 0], whole[..., 0, 1], whole[..., 1, 1])
    width = NormalDist().inv_cdf(0.5 + level.confidence ** (1 / level.together) / 2)
    lower, upper, open_ended = fieller(moments, width, width, 0.0, 1.0)
    count = int(open_ended.sum())
    said = (f"{count:,} of {open_ended.size:,} intervals are from 0 to 1: the noise is too large",) if count else ()
    return Found(moments.ratio, np.where(open_ended, np.inf, moments.stddev), lower, upper, said)
