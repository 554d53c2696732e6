"""Long planning says what it will take, shows how far it is, and stops when asked; what cannot fit is refused first."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import residua as rs
from residua.errors import GapWarning, LongWarning, PlanError
from residua.linalg.lattice import SetFamily
from residua.plans.planners import forecast as beside
from residua.plans.planners.forecast import attended, attends, forecast, watched
from residua.plans.planners.offers import Forecast

BUDGET = rs.GDP(1.0)
LONG = Forecast(1000.0, 1.0, "something")

SCRIPT = """
import sys, warnings
import numpy as np
from scipy import linalg
import residua as rs
from residua.plans.planners.forecast import attended
from residua.plans.planners.offers import Forecast

warnings.simplefilter("ignore")
cells = rs.Domain.of_sizes({"a": 1500})
queries = rs.explicit(cells, (np.random.default_rng(0).random((1500, 1500)) < 0.3).astype(float))
few = rs.Domain.of_sizes({"a": 400})
asked = {
    "dense": lambda: rs.plan(queries, rs.GDP(1.0), minimise=rs.MaxVariance()),
    "product": lambda: rs.plan(rs.prefixes(cells, "a"), rs.GDP(1.0), form=rs.Lattice()),
    "pure": lambda: rs.plan(rs.explicit(few, np.tril(np.ones((400, 400)))), rs.PureDP(1.0)),
    "one call": lambda: attended(lambda told: linalg.svd(np.eye(5000) + 1.0), Forecast(60.0, 0.0, "one call"), None),
}
for kind, plan in asked.items():
    print(kind, flush=True)
    try:
        plan()
        print("planned", flush=True)
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def test_ctrl_c_works_within_a_second_whatever_is_planned():
    """A real process and real planning of minutes; the last is one call, in which Python serves no signal.

    It takes a second, and up to half a minute is granted on a machine that does other things.
    """
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True) as child:
        for kind in ("dense", "product", "pure", "one call"):
            assert child.stdout.readline() == f"{kind}\n"
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            asked = time.monotonic()
            assert child.stdout.readline() == "stopped\n"
            assert time.monotonic() - asked < 30.0
    assert child.returncode == 0


@pytest.mark.parametrize("platform", ["linux", "other"])
def test_a_plan_made_beside_is_the_plan(monkeypatch, platform):
    """Arrays that cannot be written to, its own workload, progress, warnings and errors included."""
    monkeypatch.setattr(beside.sys, "platform", platform)
    domain = rs.Domain.of_sizes({"a": 6, "b": 2})
    workload = rs.prefixes(domain, "a", by=["b"])
    here = rs.plan(workload, BUDGET)
    monkeypatch.setattr(beside, "LONG", -1.0)
    monkeypatch.setattr(beside, "WORTH_SAYING", -1.0)
    told, shares = [], []
    with (
        pytest.warns(LongWarning, match="takes about 1 seconds and 1 MB of memory; Ctrl-C stops it"),
        watched(shares.append),
    ):
        made = rs.plan(workload, BUDGET, progress=lambda rounds, gap: told.append(rounds))
    assert made.workload is workload
    assert made.domain is domain
    np.testing.assert_array_equal(made.precisions, here.precisions)
    assert made.strategies == here.strategies
    assert not made.precisions.flags.writeable
    assert told
    monkeypatch.setattr(beside, "WORTH_SAYING", np.inf)
    with pytest.warns(GapWarning):
        rs.plan(rs.prefixes(domain, "a"), BUDGET, minimise=rs.MaxVariance(), form=rs.Lattice(limit=1), tolerance=1e-9)
    with pytest.raises(PlanError, match="is for marginals"):
        rs.plan(workload, BUDGET, minimise=rs.PNormVariance(2), form=rs.Lattice())


@pytest.mark.parametrize("platform", ["linux", "other"])
def test_who_watches_is_told_the_share_of_the_time_foretold(monkeypatch, platform):
    monkeypatch.setattr(beside.sys, "platform", platform)
    plan, shares = rs.plan(rs.marginals(rs.Domain.of_sizes([2]), ways=1), BUDGET), []
    with watched(shares.append):
        # Long enough to be looked at on a busy machine: at a hundredth of the time foretold, and far beyond it.
        attended(lambda told: (time.sleep(2.0), plan)[1], Forecast(200.0, 0.0, "sleep"), None, [plan.domain])
        attended(lambda told: (time.sleep(2.0), plan)[1], Forecast(0.1, 0.0, "sleep"), None, [plan.domain])
    assert shares
    assert 0 <= min(shares) < 0.5
    assert max(shares) == 0.99


def test_work_that_is_killed_is_an_error_in_one_sentence():
    with pytest.raises(PlanError, match="ended from outside"):
        attended(lambda told: beside.signal.raise_signal(signal.SIGKILL), Forecast(9.0, 0.0, ""), None)


def test_what_is_short_is_done_on_the_spot():
    assert not attends(forecast(rs.prefixes(rs.Domain.of_sizes([64]), "a0")))
    assert attends(LONG)


def test_forecasts_grow_with_the_work(monkeypatch):
    monkeypatch.setattr("residua.plans.planners.forecast._unit", lambda: 1e-9)  # of any machine

    def wide(cells, queries):
        return rs.explicit(rs.Domain.of_sizes([cells]), np.eye(cells)[:queries])

    small, large = forecast(wide(400, 300)), forecast(wide(800, 600))
    assert large.seconds > 4 * small.seconds
    assert large.bytes > 3 * small.bytes
    assert forecast(wide(400, 300), maximum=True).seconds > small.seconds
    assert forecast(wide(400, 300), pure=True).seconds > small.seconds
    assert forecast(rs.marginals(rs.Domain.of_sizes([1000, 1000]), ways=2)).seconds == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda domain: rs.plan(rs.ranges(domain, "a"), rs.PureDP(1.0), minimise=rs.MaxVariance()),
        lambda domain: rs.plan(rs.prefixes(domain, "a") + rs.marginals(domain, [()]), targets=1.0),
        lambda domain: rs.plan(rs.product(domain, {"a": "prefixes", "b": "identity"}), rs.PureDP(1.0)),
        lambda domain: rs.independent(rs.prefixes(domain, "a"), rs.PureDP(1.0)),
        lambda domain: rs.independent(rs.prefixes(domain, "a"), BUDGET),
    ],
)
def test_what_is_too_long_for_a_matrix_is_refused_before_anything_is_allocated(make):
    with pytest.raises(
        rs.ResiduaError, match=r"needs about .* GB .*; ask for|too many|cells of 'a'|takes matrices|over many values"
    ):
        make(rs.Domain.of_sizes({"a": 2**20, "b": 2}))


def test_tables_are_not_planned_one_by_one(monkeypatch):
    """20 million tables take half a minute by arrays, and would take a quarter of an hour by loops over them."""

    def one(*_):
        raise AssertionError("sets are looked at one by one")

    monkeypatch.setattr(SetFamily, "members", one)
    monkeypatch.setattr(SetFamily, "__iter__", one)
    domain = rs.Domain.of_sizes([3] * 9)
    for asked in (rs.marginals(domain, ways=range(4)), rs.product(domain, {"a0": "prefixes"}, ways=range(3))):
        assert rs.plan(asked, BUDGET).gap < 0.05


def test_a_cell_for_other_values_is_named_as_what_takes_long():
    domain = rs.Domain({"income": rs.Integers(0, 99_999, unknown="other"), "sex": ["F", "M"]})
    with pytest.raises(PlanError, match="'income' has a cell for other values"):
        rs.plan(rs.prefixes(domain, "income", by=["sex"]), rs.GDP(1.0))
