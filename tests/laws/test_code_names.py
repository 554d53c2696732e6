"""A list of codes and names: people are shown names where codes are stored, and machines the codes."""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import residua as rs
from residua.errors import DomainError
from tests.cli.command import inside

CODES = "code;name\n09162;München\n07316;Neustadt\n01001;Neustadt\n02000;Hamburg, Hansestadt\n99999;\n"
SHOWN = ["München", "Neustadt (07316)", "Neustadt (01001)", "Hamburg, Hansestadt", "99999"]
STORED = ["09162", "07316", "01001", "02000", "99999"]
SPEC = """
[source]
path = "people.csv"
[privacy]
rho = 1e6
[ledger]
path = "a.ledger"
[[workload]]
ways = [1, 2]
[domain.region]
title = "Kreis"
values = { file = "codes.csv", encoding = "cp1252" }
[domain.sex]
values = ["m", "w"]
meanings = { w = "weiblich" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "codes.csv").write_text(CODES, encoding="cp1252")
    (tmp_path / "people.csv").write_text("region,sex\n" + "".join(f"{code},w\n{code},m\n" for code in STORED))
    (tmp_path / "spec.toml").write_text(SPEC)
    done = inside("release", "spec.toml", "--out", "out", cwd=tmp_path)
    assert done.code == 0, done.err
    return tmp_path


def first_words(text: str) -> list[str]:
    """What the rows of a printed table are called."""
    return [line.split("  ")[0].strip() for line in text.strip().splitlines()[1:6]]


def test_people_are_shown_names_and_machines_codes(folder: Path) -> None:
    release = rs.Release.load(folder / "out")
    assert release.domain["region"].labels == tuple(STORED)
    assert first_words(inside("table", "out", "region", cwd=folder).out) == SHOWN
    # rho is 1e6: noise reaches 0.05 with a chance below 10^-60
    assert [line.split("2.0")[0].strip() for line in repr(release.table("region")).splitlines()[1:6]] == SHOWN
    assert "Hamburg, Hansestadt" in release.table("region")._repr_html_()
    shares = release.share("sex", by="region")
    assert "Neustadt (01001)" in repr(shares)
    assert "weiblich" in repr(shares.at(region="09162"))
    assert "München" in repr(release.table("region").flagged())
    assert "München" in repr(rs.project(release).table("region"))
    written = inside("table", "out", "region", "--csv", cwd=folder).out
    machine: list[Any] = [
        release.table("region").to_pandas()["region"].tolist(),
        release.table("region").to_arrow()["region"].to_pylist(),
        pd.read_csv(io.StringIO(release.table("region").to_csv()), dtype="str")["region"].tolist(),
        pd.read_csv(io.StringIO(written), dtype="str")["region"].tolist(),
    ]
    assert machine == [STORED] * len(machine)


def test_the_second_of_two_columns_is_names_unless_a_column_is_asked_for(tmp_path: Path) -> None:
    for name, separator in (("a.csv", ";"), ("b.csv", ","), ("c.tsv", "\t"), ("d.csv", "|")):
        (tmp_path / name).write_text(f"code{separator}name\n1{separator}one\n2{separator}two\n")
        attribute = rs.Categories.from_file(tmp_path / name)
        assert attribute.values == ("1", "2")
        assert {value: said.title[""] for value, said in attribute.words.meanings.items()} == {"1": "one", "2": "two"}
        assert not rs.Categories.from_file(tmp_path / name, "code").words.meanings
        assert rs.Categories.from_file(tmp_path / name, "code", names="name").words == attribute.words
    (tmp_path / "e.csv").write_text("code;name, long\n1;a, b\n")  # a comma in the header is none between columns
    assert rs.Categories.from_file(tmp_path / "e.csv").words.meanings["1"].title[""] == "a, b"
    (tmp_path / "f.csv").write_text("a,b,c\n1,2,3\n")
    assert not rs.Categories.from_file(tmp_path / "f.csv").words.meanings


def test_lists_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "codes.csv"
    file.write_text(CODES + "09162;Minga\n", encoding="cp1252")
    with pytest.raises(DomainError, match="not encoded in UTF-8; save it as UTF-8, or name its encoding"):
        rs.Categories.from_file(file)
    with pytest.raises(DomainError, match="'09162' is listed twice"):
        rs.Categories.from_file(file, encoding="cp1252")
    with pytest.raises(DomainError, match="encoding='cp9' is not known"):
        rs.Categories.from_file(file, encoding="cp9")
    with pytest.raises(DomainError, match="has no column 'title'"):
        rs.Categories.from_file(file, names="title", encoding="cp1252")


def test_names_given_by_hand_stand_before_those_of_the_file(folder: Path) -> None:
    spec = SPEC.replace('title = "Kreis"', 'meanings = { 09162 = "Minga" }')
    (folder / "other.toml").write_text(spec)
    domain = rs.Domain.load(folder / "other.toml")
    assert domain["region"].words.meanings["09162"].title[""] == "Minga"
    assert domain["region"].words.meanings["02000"].title[""] == "Hamburg, Hansestadt"
    assert domain == rs.Release.load(folder / "out").domain  # words change nothing that is counted


def test_a_name_with_the_delimiter_in_it_is_said_to_need_quotes(tmp_path: Path) -> None:
    path = tmp_path / "codes.csv"
    path.write_text("code,name\n09162,München, Stadt\n")
    with pytest.raises(DomainError, match=r"a row of 3 fields where the first has 2; .* into quotes"):
        rs.Categories.from_file(path)
