"""Levels along an ordered axis: their groups are runs of values, hence differences of two running sums."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, vstack

from residua.domain import Level
from residua.linalg.path import over_running_sums
from residua.workload.nested import Hierarchy, Inside, LevelRows

Levelled = Hierarchy | LevelRows | Inside


def runs_in_order(level: Level) -> bool:
    """Whether every group of the level is one run of values."""
    codes = np.asarray(level.codes)
    return int(np.count_nonzero(np.diff(codes))) == len(level) - 1


def level_rows(asked: Levelled) -> csr_array:
    """One row over running sums for each group that is asked for, (groups, n)."""
    if isinstance(asked, Hierarchy):
        return csr_array(vstack([*(_groups(level, asked.size) for level in asked.levels), _values(asked.size)]))
    if isinstance(asked, LevelRows):
        return _groups(asked.level, asked.size)
    rows = _values(asked.size) if asked.level is None else _groups(asked.level, asked.size)
    return csr_array(rows[asked.chosen])


def _groups(level: Level, n: int) -> csr_array:
    codes = np.asarray(level.codes)
    return over_running_sums(csr_array((np.ones(n), (codes, np.arange(n))), shape=(len(level), n)))


def _values(n: int) -> csr_array:
    return over_running_sums(csr_array((np.ones(n), (np.arange(n), np.arange(n))), shape=(n, n)))
