"""What others wrote (labels, names, purposes, errors) is shown as text: no terminal or spreadsheet obeys it."""

import csv
import io
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import residua as rs
from residua.published.table import Table
from residua.showing import printable
from tests.cli.command import SPEC, in_terminal, inside, released

OUT = "out\x1b[31m"
HOSTILE = "x\x1b]0;owned\x07\r\nF  9,999.9"
NAMED = SPEC.replace('["F", "M"]', '["F", "M", "x\\u001b]0;owned\\u0007\\r\\nF  9,999.9"]').replace(
    'path = "people.ledger"', 'path = "people\\u001b[2J.ledger"'
)


@given(st.text())
def test_printable_text_is_one_line_without_controls(text: str) -> None:
    shown = printable(text)
    assert not {c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    assert not set(shown) & set("\u202a\u202e\u2066\u2069\u200b\ufeff")
    assert shown == text or not text.isprintable()
    shown.encode()


@pytest.mark.parametrize("form", [[], ["--csv"]])
def test_labels_reach_a_terminal_as_text(tmp_path: Path, form: list[str]) -> None:
    released(tmp_path, spec=NAMED)
    code, written = in_terminal("table", "out", "sex", *form, cwd=tmp_path)
    assert code == 0
    assert "\\x1b]0;owned\\x07" in written
    assert "\x1b]0;" not in written
    assert form or "\r\nF  9,999.9" not in written  # in CSV a quoted cell may have several lines


@pytest.mark.parametrize("words", [["plan", "spec.toml", "--all"], ["ledger", "people\x1b[2J.ledger"], ["tables", OUT]])
def test_names_and_purposes_are_escaped(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "people.csv").write_text('sex,"age\x1b[2J\nsex"\nF,1\nM,2\n')
    released(tmp_path, spec=NAMED.replace("[domain.age]", '[domain."age\\u001b[2J\\nsex"]'), out=OUT)
    done = inside(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "\\x1b" in done.out
    assert "\x1b" not in done.out + done.err


def test_an_error_is_one_line_whatever_it_quotes(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC + '\n[plan."x\\u001b[31m\\ny"]\nwhat = 1\n')
    done = inside("session", "open", "spec.toml", cwd=folder)
    assert done.refused
    assert done.err.startswith("residua: [plan.x\\x1b[31m\\ny]")
    assert done.err.count("\n") == 1


def test_a_statement_gets_no_line_from_a_name(tmp_path: Path) -> None:
    name = "a\n\nGuarantee: none at all"
    domain = rs.Domain({name: ["x", "y"]})
    plan = rs.plan(rs.explicit(domain, np.eye(2)), rs.ZCDP(0.5))
    release = rs.measure(plan, pa.table({name: ["x", "y"]}), ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(1.0)))
    release.save(tmp_path / "out")
    lines = (tmp_path / "out" / "PRIVACY.md").read_text().splitlines()
    assert not any(line.startswith("Guarantee: none") for line in lines)


def test_a_printed_table_shows_one_line_per_row() -> None:
    domain = rs.Domain({"sex": ["F", HOSTILE]})
    table = Table(domain, ("sex",), np.array([1.0, 2.0]), 1.0, 2.0)
    assert len(repr(table).splitlines()) == 3
    assert "\x1b" not in repr(table)


def test_the_spreadsheet_form_starts_no_formula_and_keeps_numbers() -> None:
    risky = ["=HYPERLINK(1)", "+1", "-2", "@x", " =3", "\t=4", "plain", "<800"]
    domain = rs.Domain({"=name": risky})
    table = Table(domain, ("=name",), np.arange(-4.0, 4.0), 1.0, 2.0)
    header, *rows = list(csv.reader(io.StringIO(table.to_csv(spreadsheet=True))))
    assert header[0] == "'=name"
    assert [row[0] for row in rows] == [f"'{label}" for label in risky[:6]] + risky[6:]
    assert [float(row[1]) for row in rows] == list(range(-4, 4))
    assert [row[0] for row in csv.reader(io.StringIO(table.to_csv()))] == ["=name", *risky]


def test_the_command_offers_the_spreadsheet_form(tmp_path: Path) -> None:
    released(tmp_path, spec=SPEC.replace('["F", "M"]', '["F", "M", "=1+1"]'))
    for words, text in ((["table", "out", "sex"], None), (["tables", "out", "--out", "csv"], "csv")):
        done = inside(*words, "--spreadsheet", cwd=tmp_path)
        assert done.code == 0, done.err
        found = done.out if text is None else next((tmp_path / text).glob("*-sex.csv")).read_text()
        assert [row[0] for row in csv.reader(io.StringIO(found))] == ["sex", "F", "M", "'=1+1"]


def test_csv_has_as_many_digits_as_the_error_justifies() -> None:
    domain = rs.Domain({"sex": ["F", "M"]})
    table = Table(domain, ("sex",), np.array([1234.56789, -0.123456]), np.array([12.3456, 345.678]), 1.96)
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["estimate"] for row in rows] == ["1234.6", "-0.1"]
    assert [row["stddev"] for row in rows] == ["12.3", "345.7"]
    for row, low, high in zip(rows, table.columns["lower"], table.columns["upper"], strict=True):
        assert low - 0.1 <= float(row["lower"]) <= low
        assert high <= float(row["upper"]) <= high + 0.1
    full = list(csv.DictReader(io.StringIO(table.to_csv(full=True))))
    assert [float(row["estimate"]) for row in full] == [1234.56789, -0.123456]
