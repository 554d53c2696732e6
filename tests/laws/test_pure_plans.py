"""Laws of Laplace plans: price, variances, verifier, files, ledger, marginals pooled as dense least squares would."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from scipy.sparse import identity

import residua as rs
from residua.errors import FileError, LedgerError, PlanError, VerificationError
from residua.plans.matrix.measurements import replacement_sum
from residua.plans.noise import rounded_laplace_variance
from residua.plans.product.table_estimator import noise_terms
from residua.plans.search.split import EpsilonSplit
from residua.plans.tails import reaches
from residua.plans.verifier import priced
from residua.privacy.exact import pure_to_gdp_pcost
from tests.exact_noise import rounded_laplace_pmf

DOMAIN = rs.Domain.of_sizes({"a": 3, "b": 2, "c": 4})
QUERIES = rs.explicit(DOMAIN, np.tril(np.ones((6, 6))), on=["a", "b"])
MARGINALS = rs.marginals(DOMAIN, [("a", "b"), ("b", "c"), ("c",)])
DATA = pa.table({"a": [0, 1, 2] * 40, "b": [0, 1] * 60, "c": [0, 1, 2, 3] * 30})
UNITS = [rs.AddRemove(), rs.AddRemove(records=3), rs.ReplaceOne()]
ASKED = {"queries": QUERIES, "marginals": MARGINALS}


@pytest.mark.parametrize("scale", [0.5, 1.0, 7.25, 40.0])
def test_the_variance_of_rounded_laplace_noise_is_exact(scale):
    summed = sum(2 * k * k * float(rounded_laplace_pmf(scale, k)) for k in range(1, int(60 * scale) + 10))
    assert rounded_laplace_variance(scale) == pytest.approx(summed, rel=1e-12)


def test_shares_whose_noise_cannot_be_sampled_are_refused_and_tiny_scales_overflow_nothing():
    assert rounded_laplace_variance(1e-12) == 0
    plan = rs.plan(MARGINALS, rs.PureDP(1.0))
    for share in (2.0**53, 2.0**-53):
        with pytest.raises(PlanError, match="so large or so small"):
            _ = plan.replaced(shares=np.where(plan.shares > 0, share, 0.0)).measurements


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ASKED)
def test_the_price_is_what_the_noise_costs_the_unit(kind, unit):
    """Guarantee: measuring this plan is unit_epsilon-DP, within guarantee, for the unit of protection."""
    plan = rs.plan(ASKED[kind], rs.PureDP(0.7), unit=unit)
    _, cost = priced(plan)
    assert 0.7 * (1 - 1e-9) <= cost <= Fraction(0.7)
    assert plan.unit_epsilon >= float(cost) * (1 - 1e-15)
    assert plan.unit_pcost >= plan.unit_epsilon**2 * (1 - 1e-15)
    if kind == "queries":
        B = plan.strategy.astype(object)
        pairs = [abs(B[:, i] - B[:, j]).sum() for i in range(B.shape[1]) for j in range(B.shape[1])]
        one = max(abs(column).sum() for column in B.T)
        norm = max(pairs) if unit == rs.ReplaceOne() else unit.records * one
        assert cost >= Fraction(int(norm)) / Fraction(plan.scale)
        assert max(replacement_sum(plan.strategy), one) == max(*pairs, one)


@pytest.mark.parametrize("kind", ASKED)
def test_the_verifier_rejects_an_altered_plan(kind, tmp_path):
    plan = rs.plan(ASKED[kind], rs.PureDP(1.0))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.PureDP(5.0))
    if kind == "queries":
        altered = [plan.replaced(strategy=plan.strategy * 2), plan.replaced(scale=plan.scale * 0.999)]
        bent = plan.strategy.copy()
        bent[0, int(np.abs(plan.strategy).sum(axis=0).argmax())] += plan.strategy.max()
        altered.append(plan.replaced(strategy=bent))
    else:
        altered = [plan.replaced(shares=plan.shares * 1.001)]
    altered += [plan.replaced(guarantee=rs.PureDP(0.999)), plan.replaced(guarantee=rs.ZCDP(50.0))]
    for other in altered:
        with pytest.raises(VerificationError, match=r"costs epsilon.*altered, plan again. Nothing was spent"):
            rs.measure(other, DATA, ledger=ledger)
    assert ledger.spent_exactly == 0


def test_an_altered_plan_file_is_refused(tmp_path):
    for kind, asked in ASKED.items():
        plan = rs.plan(asked, rs.PureDP(1.0))
        path = tmp_path / f"{kind}.json"
        plan.save(path)
        again = rs.Plan.load(path)
        assert type(again) is type(plan)
        assert again.candidates == plan.candidates
        assert again.lower_bound == plan.lower_bound
        np.testing.assert_allclose(again.variances(asked), plan.variances(asked), rtol=1e-12)
        text = path.read_text()
        path.write_text(text.replace('"epsilon":1.0', '"epsilon":0.5').replace('"epsilon": 1.0', '"epsilon": 0.5'))
        assert path.read_text() != text
        with pytest.raises(FileError):
            rs.Plan.load(path)


def test_targets_are_met_with_the_epsilon_they_need():
    for asked in ASKED.values():
        plan = rs.plan(asked, targets=25.0, noise="laplace")
        worst = float(plan.variances(asked).max())
        assert 25.0 * (1 - 1e-6) <= worst <= 25.0
        assert plan.guarantee.epsilon == pytest.approx(plan.epsilon)
        priced(plan)


def test_max_variance_plans_beat_total_plans_on_their_own_measure():
    W = rs.explicit(rs.Domain.of_sizes({"x": 12}), np.tril(np.ones((12, 12))))
    for asked in (W, MARGINALS):
        total, worst = rs.plan(asked, rs.PureDP(1.0)), rs.plan(asked, rs.PureDP(1.0), minimise=rs.MaxVariance())
        assert worst.variances(asked).max() <= total.variances(asked).max() * (1 + 1e-9)
        for plan, loss in ((total, total.variances(asked).sum()), (worst, worst.variances(asked).max())):
            assert plan.lower_bound <= loss
            assert plan.gap == pytest.approx(loss / plan.lower_bound - 1, rel=1e-6)
            assert plan.candidates[0].loss == pytest.approx(loss, rel=1e-6)


def _dense(plan):
    """The measured marginals as rows over all cells, and each row's noise variance."""
    shape = [int(n) for n in plan.domain.sizes]
    rows, variances = [], []
    members = list(plan.lattice)
    for number, t, s in zip(plan.tables.measured, plan.tables.grids, plan.tables.scales, strict=True):
        for cell in np.ndindex(*[shape[i] for i in members[number]]):
            indicator = np.zeros(shape)
            index = [slice(None)] * len(shape)
            for i, value in zip(members[number], cell, strict=True):
                index[i] = value
            indicator[tuple(index)] = 1.0
            rows.append(indicator.ravel())
            variances.append(rounded_laplace_variance(float(s)) / float(t) ** 2)
    return np.array(rows), np.array(variances)


def test_pooled_variances_are_those_of_dense_least_squares():
    plan = rs.plan(MARGINALS, rs.PureDP(1.0), minimise=rs.MaxVariance())
    spread = np.where(plan.shares > 0, plan.shares, 0.1)  # overlapping tables of several kinds
    plan = replace(plan, shares=spread)
    A, v = _dense(plan)
    covariance = np.linalg.pinv(A.T @ (A / v[:, None]))
    W = np.zeros((3, 3, 2, 4))
    for a in range(3):
        W[a, a] = 1.0
    dense = W.reshape(3, -1) @ covariance @ W.reshape(3, -1).T
    np.testing.assert_allclose(plan.covariance(["a"]), dense, rtol=1e-8, atol=1e-10)
    assert plan.variance(["a"]) == pytest.approx(dense[0, 0])
    # The noise an interval is made of is the noise there is.
    for names in (["a"], ["a", "b"], []):
        cell = np.zeros([DOMAIN[name].size for name in names])
        cell.flat[0] = 1.0
        ((c, s, k),) = noise_terms(plan.tables, {DOMAIN.positions(names): cell})
        assert (c**2 * rounded_laplace_variance(s) * k).sum() == pytest.approx(plan.variance(names), rel=1e-3)


def test_pooled_estimates_are_dense_least_squares_and_agree(tmp_path):
    plan = rs.plan(MARGINALS, rs.PureDP(1.0))
    plan = replace(plan, shares=np.where(plan.shares > 0, plan.shares / 3, 0.03))
    plan = plan.replaced(guarantee=rs.PureDP(plan.epsilon))
    release = rs.measure(plan, DATA, ledger=rs.Ledger(tmp_path / "a.ledger", rs.PureDP(9.0)))
    A, v = _dense(plan)
    y = np.empty(len(A))
    start = 0
    for number, t in zip(plan.tables.measured, plan.tables.grids, strict=True):
        cells = math.prod(int(plan.domain.sizes[i]) for i in plan.lattice.members(int(number)))
        at = release.measurements.layout.starts[number]
        y[start : start + cells] = release.noisy[at : at + cells] / float(t)
        start += cells
    x, *_ = np.linalg.lstsq(A / np.sqrt(v)[:, None], y / np.sqrt(v), rcond=None)
    table = x.reshape(3, 2, 4)
    np.testing.assert_allclose(release.estimates(["a", "b"]), table.sum(axis=2), atol=1e-6)
    np.testing.assert_allclose(release.estimates(["c", "b"]), table.sum(axis=0).T, atol=1e-6)
    np.testing.assert_allclose(release.estimates(["b"]), release.estimates(["b", "c"]).sum(axis=1), atol=1e-6)


def test_the_split_descends_from_the_cube_root_rule():
    sizes = DOMAIN.sizes
    masses = MARGINALS.weights * MARGINALS.cells
    split = EpsilonSplit(MARGINALS.lattice, sizes, MARGINALS.numbers, masses, False)
    rule = np.zeros(len(MARGINALS.lattice))
    rule[MARGINALS.numbers] = np.cbrt(masses)
    better = split.improved(rule)
    assert better.sum() == pytest.approx(1)
    assert split.loss(better) <= split.loss(rule)
    # Apart from pooling the rule is the optimum: no other split of one's own tables alone does better.
    own = (masses * 2 / (rule[MARGINALS.numbers] / rule.sum()) ** 2).sum()
    assert own == pytest.approx(2 * np.cbrt(masses).sum() ** 3)


def test_a_joint_table_is_measured_where_that_is_cheaper():
    plan = rs.plan(rs.marginals(rs.Domain.of_sizes({"x": 2, "y": 2}), ways=1), rs.PureDP(1.0))
    assert [each["attributes"] for each in plan.details["measured"]] == [["x", "y"]]
    assert plan.variance(["x"]) == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize("miss", [0.3, 0.05, 1e-4, 1e-9])
def test_reaches_are_quantiles_where_these_are_known(miss):
    """Guarantee: at least the true quantile, within about 0.1 % of it."""
    one = float(reaches(np.array([[2.0, 0.0]]), miss)[0])
    assert -2 * math.log(miss) <= one <= -2 * math.log(miss) * 1.001
    # Two equal terms: P(|L₁ + L₂| > q) = e^−q (1 + q/2).
    q = float(reaches(np.array([[1.0, 1.0]]), miss)[0])
    assert miss * 0.99 <= math.exp(-q) * (1 + q / 2) <= miss
    same = float(reaches(np.array([[1.0]]), miss, np.array([2.0]))[0])
    assert same == pytest.approx(q, rel=1e-6)
    # Many equal terms are all but normal.
    many = float(reaches(np.full((1, 20_000), 1.0), miss)[0]) / math.sqrt(40_000)
    assert many == pytest.approx(stats.norm.isf(miss / 2), rel=2e-3 if miss > 1e-3 else 2e-2)


def test_ledgers_convert_what_they_can_and_refuse_what_they_cannot(tmp_path):
    pure, normal = rs.plan(QUERIES, rs.PureDP(0.5)), rs.plan(QUERIES, rs.ZCDP(0.1))
    ledger = rs.Ledger(tmp_path / "pure.ledger", rs.PureDP(0.8))
    with pytest.raises(LedgerError, match=r"Gaussian noise cannot keep.*plan with PureDP, or keep a ledger"):
        rs.measure(normal, DATA, ledger=ledger)
    assert ledger.spent_exactly == 0
    release = rs.measure(pure, DATA, ledger=ledger)
    assert ledger.spent_exactly == priced(pure)[1]
    assert "epsilons add up" in ledger.meaning
    assert release.receipt["epsilon"] >= float(ledger.spent_exactly)
    with pytest.raises(LedgerError, match=r"exhausted: epsilon 0\.3 left, the plan needs epsilon 0\.5"):
        rs.measure(pure, DATA, ledger=ledger)
    for budget, worth in ((rs.ZCDP(1.0), Fraction(0.5) ** 2), (rs.GDP(2.0), pure_to_gdp_pcost(Fraction(0.5)))):
        mixed = rs.Ledger(tmp_path / f"{type(budget).__name__}.ledger", budget)
        assert "mu-GDP" in mixed.meaning
        rs.measure(pure, DATA, ledger=mixed)
        assert float(mixed.spent_exactly) == pytest.approx(float(worth), rel=1e-9)
        assert mixed.entries[0].epsilon == priced(pure)[1]
        rs.measure(normal, DATA, ledger=mixed)
        assert mixed.entries[1].epsilon is None
        assert "Laplace noise of epsilon counts as" in mixed.meaning
        assert ("mu and the exact Gaussian curve do not apply" in mixed.meaning) == isinstance(budget, rs.ZCDP)


def test_a_ledger_of_pure_dp_says_so_in_its_file(tmp_path):
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.PureDP(0.75))
    header = json.loads(ledger.path.read_text())
    assert header["epsilon_allowed"] == "3/4"
    assert "pcost_allowed" not in header
    assert rs.Ledger(ledger.path).remaining_exactly == Fraction(3, 4)
    assert rs.Ledger(ledger.path).currency == "epsilon"


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 30.0, 5000.0])
def test_pure_dp_is_gaussian_dp_with_the_mu_stated(epsilon):
    mu = math.sqrt(pure_to_gdp_pcost(Fraction(epsilon)))
    alpha = np.concatenate([[1 / (1 + math.exp(min(epsilon, 600)))], np.logspace(-250, -1e-9, 400)])
    gaussian = stats.norm.cdf(stats.norm.isf(alpha) - mu)
    growth = np.exp(np.minimum(epsilon + np.log(alpha), 50.0))
    pure = np.maximum.reduce([np.zeros_like(alpha), 1 - growth, math.exp(-min(epsilon, 600)) * (1 - alpha)])
    assert (gaussian <= pure * (1 + 1e-6) + 1e-15).all()
    if epsilon <= 30:  # no smaller mu will do: the kink is touched
        assert gaussian[0] == pytest.approx(pure[0], rel=1e-6)


def test_simultaneous_intervals_are_wider_and_biased_none(tmp_path):
    plan = rs.plan(QUERIES, rs.PureDP(1.0))
    release = rs.measure(plan, DATA, ledger=rs.Ledger(tmp_path / "a.ledger", rs.PureDP(9.0)))
    one, all_ = (release.answers(QUERIES, simultaneous=s).columns for s in (None, "release"))
    assert ((all_["upper"] - all_["lower"]) > (one["upper"] - one["lower"])).all()
    turned = release.table(["b", "a"]).to_arrow().sort_by([("a", "ascending"), ("b", "ascending")])
    plain = release.table(["a", "b"]).to_arrow()
    np.testing.assert_allclose(turned["upper"].to_numpy(), plain["upper"].to_numpy(), rtol=1e-9)
    with pytest.raises(PlanError, match="confidence"):
        release.table(["a"], confidence=1.0)
    release.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    np.testing.assert_array_equal(again.noisy, release.noisy)
    assert "rounded Laplace noise" in (tmp_path / "out" / "PRIVACY.md").read_text()


def test_too_many_cells_and_costless_replacements_are_refused():
    domain = rs.Domain.of_sizes({"x": 5000})
    wide = rs.explicit(domain, identity(5000, format="csr"))
    with pytest.raises(PlanError, match="too many for a Laplace strategy"):
        rs.plan(wide, rs.PureDP(1.0))
    with pytest.raises(PlanError, match="changes none of these answers"):
        rs.plan(rs.explicit(rs.Domain.of_sizes({"x": 4}), np.ones((1, 4))), rs.PureDP(1.0), unit=rs.ReplaceOne())


def test_comparing_under_pure_dp():
    compared = {each.name: each for each in rs.analysis.compare(QUERIES, rs.PureDP(1.0))}
    assert compared["least total variance"].rmse <= min(one.rmse for one in compared.values()) * (1 + 1e-9)
    assert all(one.plan.unit_epsilon <= 1.0 for one in compared.values())
    assert all(one.pcost_for_targets == pytest.approx(one.max_ratio, rel=1e-5) for one in compared.values())
