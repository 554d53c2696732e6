"""Memory is secured before the debit: the estimate covers what measuring takes, and too little is refused unspent."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.measurement import noisy as rehearsal
from residua.measurement.noisy import noisy
from residua.noise import rounded_laplace, rounded_normal
from residua.plans.verifier import priced

SEVEN, TWO = rs.Domain.of_sizes([20] * 7), rs.Domain.of_sizes([30, 30])
PLANS: dict[str, tuple[Any, Any]] = {
    "marginals": (rs.marginals(SEVEN, ways=[3]), rs.ZCDP(rho=0.5)),
    "one large": (rs.marginals(rs.Domain.of_sizes([400, 400, 2]), [("a0", "a1"), ("a2",)]), rs.ZCDP(rho=0.5)),
    "products": (rs.product(SEVEN, {"a0": "prefixes", "a1": "ranges"}, ways=[2]), rs.ZCDP(rho=0.5)),
    "queries": (rs.queries(TWO, ["a0 < 3", "a0 + a1 > 9"]), rs.ZCDP(rho=0.5)),
    "Laplace": (rs.marginals(SEVEN, ways=[2, 3]), rs.PureDP(1.0)),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_estimate_covers_what_measuring_takes(name: str) -> None:
    measurements, _ = priced(rs.plan(*PLANS[name]))
    rounded_normal(1.0, 1), rounded_laplace(1.0, 1)  # their tables are made once per process
    tracemalloc.start()
    noisy(measurements, lambda layout: np.zeros(layout.cells, dtype=np.int64), None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * rehearsal.cells_needed(measurements) + 2**21


@pytest.mark.parametrize(("needed", "free"), [(2**20, 2**20), (2**58, None)], ids=["scarce", "cannot be had"])
def test_too_little_memory_is_refused_before_the_debit(
    needed: int, free: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "cells_needed", lambda measurements: needed)
    monkeypatch.setattr(rehearsal, "free_bytes", lambda: free)
    plan = rs.plan(rs.marginals(TWO, ways=[1]), rs.ZCDP(rho=0.5))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.5))
    with pytest.raises(PlanError, match=r"GB of memory.*nothing was spent"):
        rs.measure(plan, pa.table({"a0": [1], "a1": [2]}), ledger=ledger)
    assert not ledger.entries
