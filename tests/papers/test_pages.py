"""The pages of `python -m benchmarks.paper`: verdicts, figures that are SVG, and one file that needs nothing else."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.paper.charts import lines, matrices
from benchmarks.paper.page import page
from benchmarks.paper.tables import ALONE, CUT, DIFFERS, EQUAL, NOT_RUN, UNKNOWN, Asked, Drawing, Entry, Table

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        (Entry(1.234, 1.2344), EQUAL),
        (Entry(1.234, 1.2349), CUT),
        (Entry(1.234, 1.2355, within=0.002), EQUAL),
        (Entry(1.234, 1.3, because="another seed"), DIFFERS),
        (Entry(1.234, 1.3), UNKNOWN),
        (Entry(1.234, 1.2329), UNKNOWN),
        (Entry(None, 1.0), ALONE),
        (Entry(1.0, None), NOT_RUN),
        (Entry(None, None), ""),
    ],
)
def test_verdicts(entry, verdict):
    assert entry.verdict == verdict


def test_a_page_says_why_and_needs_nothing_else():
    rows = [
        ("one", [Entry(1.0, 1.0), Entry(2.0, 3.0, because="a <misprint>")]),
        ("two", [Entry(1.0, 2.0), Entry(None, None)]),
    ]
    table = Table("Table 1", "A title", ["a", "b"], rows, "A remark.")
    assert table.reasons("one") == "equal; differs: a <misprint>"
    assert table.unexplained() == ["Table 1, two, a: 1.000 / 2.000"]
    chart = lines("Title & more", {"a": [(1, 2), (10, 0), (100, 5)]}, "x", "y", log="xy")
    shown = page("A paper", "About.", [table], [Drawing("Figure 1", "Caption", chart)], ["data"])
    assert "a &lt;misprint&gt;" in shown
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(", shown)
    with pytest.raises(ValueError, match="2 entries for 1 columns"):
        Table("Table 1", "", ["a"], rows)


def test_charts_are_svg():
    for svg in (
        lines("t", {"a": [(0, 1), (1, 3)], "b": [(0.5, 2)]}, "x", "y", dashed=["b"]),
        lines("t", {"a": [(1, 1e-3), (1000, 10)]}, "x", "y", log="xy", marks=False, square=True),
        lines("flat", {"a": [(1, 5), (2, 5)]}, "x", "y"),
        matrices("m", {"A": np.eye(3), "B": -np.ones((2, 4)) / 3}),
    ):
        assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_the_command_writes_a_page_and_its_figures(tmp_path):
    command = [sys.executable, "-m", "benchmarks.paper", "matrix-mechanism", "--to", str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "6 figures" in said
    assert "not known" not in said
    assert len(list(tmp_path.glob("matrix-mechanism-*.svg"))) == 6
    shown = (tmp_path / "matrix-mechanism.html").read_text(encoding="utf-8")
    assert all(f"Figure {k}" in shown for k in range(1, 6))
    assert Asked(data=("a/brazil.npy",)).file("brazil.npy") == "a/brazil.npy"
