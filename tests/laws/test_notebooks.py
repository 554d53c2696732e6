"""Values show themselves in notebooks, those that hold true counts do not; plans print; progress=True draws a bar."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from fractions import Fraction

import pytest

import residua
import residua as rs
from residua import showing
from residua.report.plan_text import plan_lines
from residua.screen import text_of
from tests.laws.test_report import Reader
from tests.published import HOSTILE, NAME, domain, plan, release


def shown() -> dict[str, object]:
    table = release().table(["sex", NAME])
    return {
        "Domain": domain(),
        "Marginals": plan().workload,
        "Products": rs.prefixes(domain(), "age", by=["sex"]),
        "Queries": rs.queries(domain(), ["age <= 3"]),
        "Plan": plan(),
        "Release": release(),
        "Table": table,
        "Answers": release().answers(rs.queries(domain(), ["sex = 'F'"])),
        "Projected": rs.project(release()),
        "a projected table": rs.project(release()).table(["sex"]),
    }


def test_values_show_themselves_and_labels_are_text():
    for name, value in shown().items():
        page = Reader(value._repr_html_())
        assert page.tags[0] == ("div", {"class": "residua cell"}), name
        assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "link"}
        assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    assert HOSTILE in Reader(shown()["Table"]._repr_html_()).text


def test_only_what_is_public_shows_itself():
    """Nothing of the sources and the measuring step has a picture, but the ledger, which holds no count."""
    found = set()
    for package in ("source", "measurement", "noise"):
        root = importlib.import_module(f"residua.{package}")
        for info in pkgutil.iter_modules(root.__path__, f"{root.__name__}."):
            module = importlib.import_module(info.name)
            classes = [one for _, one in inspect.getmembers(module, inspect.isclass) if one.__module__ == info.name]
            found |= {one.__name__ for one in classes if hasattr(one, "_repr_html_") or issubclass(one, showing.Shown)}
    assert found == {"Ledger"}


def test_a_ledger_shows_its_debits(tmp_path):
    ledger = rs.Ledger(tmp_path / "people.ledger", rs.ZCDP(0.5))
    ledger.debit(Fraction(1, 4), purpose=HOSTILE, dataset="sha256:1")
    page = Reader(ledger._repr_html_())
    assert HOSTILE in page.text
    assert "ZCDP(rho=0.125)" in page.text


def test_printing_a_plan_shows_what_the_command_shows():
    assert str(plan()).split("\n") == text_of(plan_lines(plan())).split("\n")
    assert "stddev" in str(plan())
    assert repr(plan()).startswith("ProductPlan(")
    many = rs.plan(rs.marginals(rs.Domain.of_sizes([2] * 50), ways=1), rs.ZCDP(1.0))
    assert "10 more marginals (plan.variances(" in str(many)


def test_the_seam_names_functions_that_are_there():
    assert set(showing._HOMES) == {"fragment", "plan_text", "write_report", "export", "given", "rounded"}
    for name, home in showing._HOMES.items():
        assert showing.shown_by(name).__module__ == f"residua.{home}"
    assert residua.showing is showing


# ---- progress


def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a notebook would show, update by update."""
    told: list[str] = []

    def display(html: str):
        told.append(html)
        return told.append

    monkeypatch.setattr(showing, "_notebook", lambda: display)
    monkeypatch.setattr(showing, "_SECONDS", 0.0)
    return told


def test_progress_true_draws_a_bar_and_takes_it_away(monkeypatch, tmp_path):
    told = drawn(monkeypatch)
    small = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes"]})
    workload = rs.marginals(small, ways=[1, 2])
    made = rs.plan(workload, rs.ZCDP(0.5), minimise=rs.MaxVariance(), progress=True)
    assert "planning" in told[0]
    assert told[-1] == ""
    told.clear()
    import pyarrow as pa

    data = pa.table({"sex": ["F", "M"] * 50, "answer": ["no", "yes"] * 50})
    found = rs.measure(made, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.5)), progress=True)
    assert any("<progress" in html for html in told)
    assert told[-1] == ""
    told.clear()
    rs.project(found, progress=True)
    assert told[-1:] in ([], [""])  # nothing is drawn where nothing had to be moved
    told.clear()
    session = rs.Session(data, rs.ZCDP(0.5), ledger=tmp_path / "s.ledger", progress=True)
    session.release(rs.plan(workload, rs.ZCDP(0.25)))
    assert any("<progress" in html for html in told)


def test_no_bar_where_nobody_looks(capfd):
    rs.plan(plan().workload, rs.ZCDP(0.5), minimise=rs.MaxVariance(), progress=True)
    rs.plan(plan().workload, rs.ZCDP(0.5), progress=False)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_a_bar_is_taken_away_when_the_work_fails(monkeypatch):
    told = drawn(monkeypatch)

    @showing.with_bar("working")
    def work(*, progress=None):
        progress(1, 0.5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(progress=True)
    assert "working" in told[0]
    assert told[-1] == ""


def test_a_terminal_gets_a_bar_of_rich(monkeypatch):
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with showing.drawn_bar("working") as report:
        report(3, 0.25)
        report("reading", 5, 10)
    assert "working" in screen.getvalue() or "reading" in screen.getvalue()
