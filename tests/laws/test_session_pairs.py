"""Any plan after any other in one session: refused before anything is spent, or paid for and readable ever after."""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError

DOMAIN = rs.Domain({"day": rs.Integers(0, 29), "sex": ["F", "M"]})
DATA = pa.table({"day": [i % 30 for i in range(600)], "sex": ["F", "M"] * 300})
BUDGET = rs.ZCDP(0.05)
KINDS = {
    "one table": lambda: rs.plan(rs.marginals(DOMAIN, [("sex",)]), BUDGET),
    "marginals": lambda: rs.plan(rs.marginals(DOMAIN, ways=1), BUDGET),
    "prefixes": lambda: rs.plan(rs.prefixes(DOMAIN, "day", by=["sex"]), BUDGET),
    "axis": lambda: rs.plan(rs.prefixes(DOMAIN, "day"), BUDGET, form=rs.Axis()),
    "crossed axis": lambda: rs.plan(rs.prefixes(DOMAIN, "day", by=["sex"]), BUDGET, form=rs.Axis()),
    "queries": lambda: rs.plan(rs.queries(DOMAIN, ["day < 9", "sex = 'F'"]), BUDGET),
    "blockwise": lambda: rs.plan(rs.queries(DOMAIN, ["day < 9 and sex = 'F'"]), BUDGET, form=rs.Blockwise()),
    "strata": lambda: rs.by_group(rs.plan(rs.marginals(DOMAIN, [("day",)]), BUDGET), by=["sex"]),
}


@functools.cache
def planned(kind):
    return KINDS[kind]()


@pytest.mark.parametrize("first", KINDS)
def test_what_is_paid_for_can_be_read(tmp_path, first):
    for number, second in enumerate(KINDS):
        session = rs.Session(DATA, rs.ZCDP(5.0), ledger=tmp_path / f"{number}.ledger")
        session.release(planned(first))
        debits = len(session.ledger.entries)
        try:
            session.release(planned(second))
        except PlanError:
            assert len(session.ledger.entries) == debits, (first, second)
        assert session.known is not None
