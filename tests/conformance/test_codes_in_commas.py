"""With a decimal comma, 1.234 is a number where numbers are declared and a code where codes are."""

from __future__ import annotations

from pathlib import Path

import pytest

import residua as rs
from residua.source.spark import _sentence

TEXT = "code;x\n" + "1.234;1.234\n" * 300 + "12,5;12,5\n" * 200


@pytest.fixture
def source(tmp_path: Path) -> rs.Source:
    (tmp_path / "office.csv").write_text(TEXT)
    return rs.Source.csv(tmp_path / "office.csv", delimiter=";", decimal=",")


@pytest.mark.parametrize("computed", [False, True])
def test_codes_stay_as_they_are_and_numbers_are_read(tmp_path: Path, source: rs.Source, computed: bool) -> None:
    domain = rs.Domain({"code": ["1.234", "12,5"], "x": rs.Bins([0, 100, 2000])})
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1e4))
    data = source.with_columns({"other": "1"}) if computed else source
    release = rs.measure(rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(1e3)), data, ledger=ledger)
    assert release.table("code")["estimate"].round().tolist() == [300, 200]
    assert release.table("x")["estimate"].round().tolist() == [200, 300]
    # The fingerprint does not depend on what is declared: the same people are charged again.
    ledger.debit(1, purpose="more", dataset=source.fingerprint())


def test_discovered_values_are_as_the_file_spells_them(tmp_path: Path, source: rs.Source) -> None:
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0), discovery_delta=1e-6)
    assert rs.discover(source, "code", rs.ZCDP(0.2), delta=1e-9, ledger=ledger).values == ("1.234", "12,5")
    numbers = rs.discover(source, "x", rs.ZCDP(0.2), delta=1e-9, ledger=ledger, kind="numbers")
    assert numbers.range == (10.0, 2000.0)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("ModuleNotFoundError: No module named 'residua'", "set PYSPARK_PYTHON to a Python that has it"),
        ("[PYTHON_VERSION_MISMATCH] in worker 3.9", "another version of Python.*PYSPARK_PYTHON"),
        ("the worker has a different minor version than that in driver", "same version on every node"),
    ],
)  # fmt: skip
def test_spark_tells_a_missing_residua_from_another_python(words: str, remedy: str) -> None:
    import re

    assert re.search(remedy, _sentence("counting", RuntimeError(words), False))
