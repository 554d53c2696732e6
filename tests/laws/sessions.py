"""A small table, plans over it, and what the tests of sessions share."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

import residua as rs

DOMAIN = rs.Domain({"sex": ["F", "M"], "age": ["young", "middle", "old"], "smokes": ["no", "yes"]})
CELLS = np.arange(12).reshape(2, 3, 2) * 30 + 50


def table(cells: np.ndarray = CELLS) -> pa.Table:
    at = np.repeat(np.arange(12), cells.ravel())
    names = [
        np.array(DOMAIN[name].labels)[code]
        for name, code in zip(DOMAIN.names, np.unravel_index(at, (2, 3, 2)), strict=True)
    ]
    return pa.table(dict(zip(DOMAIN.names, names, strict=True)))


DATA = table()
ONE = rs.independent(rs.marginals(DOMAIN, ways=1), rs.ZCDP(0.5))
TWO = rs.independent(rs.marginals(DOMAIN, ways=2), rs.ZCDP(0.5))
THREE = rs.independent(rs.marginals(DOMAIN, ways=3), rs.ZCDP(0.5))
YOUNG = rs.plan(rs.queries(DOMAIN, {"young": "age = 'young'"}), rs.ZCDP(0.5))
OLD = rs.plan(rs.queries(DOMAIN, {"old": "age = 'old'"}), rs.ZCDP(0.5))
BUDGET = rs.ZCDP(0.5)
Open = Callable[..., rs.Session]


def within(release: rs.Release, names: tuple[str, ...], sigmas: float = 6.0) -> None:
    """The estimates are near the truth, as far as their stated standard deviation says."""
    shown = release.table(names)
    drop = tuple(i for i, name in enumerate(DOMAIN.names) if name not in names)
    truth = CELLS.sum(axis=drop).ravel()
    assert (abs(shown.columns["estimate"] - truth) <= sigmas * shown.columns["stddev"]).all()
