"""A session on the small table, opened as often as a test likes."""

from pathlib import Path

import pyarrow as pa
import pytest

import residua as rs
from tests.laws.sessions import BUDGET, DATA, Open


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def session(budget: rs.ZCDP | None = BUDGET, data: pa.Table = DATA, **options: object) -> rs.Session:
        return rs.Session(data, budget, ledger=tmp_path / "a.ledger", **options)

    return session
