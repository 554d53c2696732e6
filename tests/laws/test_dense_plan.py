"""Dense plans against plain linear algebra: cost, variances, covariances, exact prices, integer rounding."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.errors import FileError, PlanError, VerificationError
from residua.plans import MatrixPlan
from residua.plans.matrix.measurements import MatrixMeasurements
from residua.release import Release
from tests.laws.instances import verified_cost
from tests.statistics.copies import measured


def prefix(n):
    domain = rs.Domain({"x": rs.Integers(0, n - 1)})
    return rs.explicit(domain, np.tril(np.ones((n, n))))


@st.composite
def workloads(draw):
    """Small integer workloads: wide, tall, rank-deficient, with zero rows, zero columns and equal columns."""
    cells, rows = draw(st.integers(2, 8)), draw(st.integers(1, 10))
    entries = st.lists(st.integers(-2, 2), min_size=cells, max_size=cells)
    matrix = np.array(draw(st.lists(entries, min_size=rows, max_size=rows)))
    if draw(st.booleans()):
        matrix[:, -1] = matrix[:, 0]
    if not matrix.any():
        matrix[0, 0] = 1
    domain = rs.Domain({"x": rs.Integers(0, cells - 1)})
    return rs.explicit(domain, matrix)


def dense_gamma(plan):
    """Γ on all original cells, from the integers alone."""
    wide = np.where(plan.columns >= 0, plan.strategy[:, np.maximum(plan.columns, 0)], 0).astype(float)
    return wide.T @ wide / plan.scale**2


@given(workloads(), st.sampled_from(["total", "max", "targets"]))
@settings(max_examples=60)
def test_facts_equal_plain_linear_algebra(workload, kind):
    if kind == "targets":
        plan = rs.plan(workload, targets=3.0)
        assert (plan.variances(workload) <= 3.0).all()
        assert plan.variances(workload).max() == pytest.approx(3.0, rel=1e-2)
    else:
        plan = rs.plan(workload, rs.ZCDP(0.5), minimise=rs.MaxVariance() if kind == "max" else None)
        assert plan.pcost == pytest.approx(1.0, rel=1e-6)
        assert plan.pcost <= 1.0
    assert plan.gap <= 2e-3
    gamma = dense_gamma(plan)
    assert np.allclose(plan.profile.ravel(), np.diag(gamma), rtol=1e-9)
    assert plan.pcost == pytest.approx(np.diag(gamma).max())
    W = workload.matrix.toarray()
    covariance = W @ np.linalg.pinv(gamma, rcond=1e-9, hermitian=True) @ W.T
    assert np.allclose(plan.covariance(workload), covariance, rtol=1e-5, atol=1e-7 * abs(covariance).max())
    assert np.allclose(plan.variances(workload), np.diag(covariance), rtol=1e-5, atol=1e-7 * abs(covariance).max())
    R = plan.reconstruction(workload)
    wide = np.where(plan.columns >= 0, plan.strategy[:, np.maximum(plan.columns, 0)], 0).astype(float)
    assert np.allclose(R @ wide, W, atol=1e-7)  # unbiased
    assert plan.supports(workload)


@given(workloads())
@settings(max_examples=30)
def test_the_price_is_exact_and_rounding_costs_less_than_a_millionth(workload):
    plan = rs.plan(workload, rs.ZCDP(0.5), tolerance=1e-3)
    measurements = plan.compile()
    norms = [sum(int(b) ** 2 for b in column) for column in plan.strategy.T]
    truth = Fraction(max(norms)) / Fraction(plan.scale) ** 2
    cost = verified_cost(measurements, plan.guarantee, plan.unit)
    assert truth <= cost <= truth + Fraction(1, 2**190)
    from residua.plans.solver.solve import least_total

    ideal = least_total(workload.matrix, 1.0, 1e-3)
    assert plan.variances(workload).sum() == pytest.approx(ideal.achieved, rel=1e-6)


@given(workloads())
@settings(max_examples=30)
def test_replacement_cost_is_the_worst_pair(workload):
    try:
        plan = rs.plan(workload, rs.ZCDP(0.5), unit=rs.ReplaceOne())
    except PlanError:
        assert (workload.matrix.toarray()[:, 0] == workload.matrix.toarray().T).all()
        return
    # In whole numbers: the number of records, which costs nothing here, may be known much better than all else.
    wide = np.where(plan.columns >= 0, plan.strategy[:, np.maximum(plan.columns, 0)], 0).astype(object)
    norms = [((wide[:, i] - wide[:, j]) ** 2).sum() for i in range(wide.shape[1]) for j in range(i)]
    worst = Fraction(int(max(norms))) / Fraction(plan.scale) ** 2
    assert plan.unit_pcost == pytest.approx(float(worst), rel=1e-8)
    assert worst <= 1
    assert worst <= verified_cost(plan.compile(), plan.guarantee, plan.unit) <= worst * Fraction(10**9 + 1, 10**9)


def test_fitness_for_use_of_prefixes_and_the_two_cells():
    for n, cost in ((2, 1.3333), (4, 1.7588), (8, 2.2817), (16, 2.9054), (64, 4.4580)):
        plan = rs.plan(prefix(n), targets=1.0, tolerance=1e-6)
        assert plan.pcost == pytest.approx(cost, abs=2e-4)
        scaled = rs.plan(prefix(n), rs.GDP(mu=1.0), targets=1.0, tolerance=1e-6)  # the smallest k for a budget
        assert scaled.variances(prefix(n)).max() == pytest.approx(cost, abs=2e-4)


def test_baselines_are_never_better():
    workload = prefix(32)
    best = rs.plan(workload, rs.GDP(mu=1.0)).variances(workload).sum()
    fit = rs.plan(workload, rs.GDP(mu=1.0), minimise=rs.MaxVariance()).variances(workload).max()
    independent = rs.independent(workload, rs.GDP(mu=1.0)).variances(workload)
    assert np.allclose(independent, 32.0, rtol=1e-6)
    assert best < independent.sum()
    assert fit < 32


def test_mixtures_free_cells_and_personal_costs():
    domain = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"]})
    workload = rs.queries(domain, ["age >= 5 and sex = 'F'"]) + 4 * rs.marginals(domain, [("sex",)])
    plan = rs.plan(workload, rs.ZCDP(0.5))
    assert plan.profile.shape == (10, 2)
    assert plan.cell_pcost({"sex": "F", "age": 7}) == pytest.approx(plan.profile[7, 0])
    assert not plan.free()[7, 0]
    loose = rs.queries(domain, ["age >= 5 and sex = 'F'", "sex = 'M'"])
    refined = rs.plan(loose, targets=[1.0, 100.0], form=rs.Matrix(refined=True), tolerance=1e-6)
    assert np.allclose(refined.profile[5:, 0], 1.0, rtol=1e-4)
    assert np.allclose(refined.profile[:, 1], 0.01, rtol=1e-3)  # men pay only for what is asked of them
    assert refined.free()[:, 1].all()
    assert refined.free()[:5, 0].all()  # nobody asks about girls
    assert plan.variance(["sex"]).shape == (2,)
    assert not plan.supports(["age"])
    with pytest.raises(PlanError, match="does not answer"):
        plan.variance(["age"])
    with pytest.raises(PlanError, match="each of"):
        plan.cell_pcost({"sex": "F"})


MATRICES = [
    np.tril(np.ones((6, 6))),
    np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0.0]]),
    np.array([[0.1, 0.37, 0.9, 0, 0, 0.11]]),
]


@pytest.mark.parametrize("matrix", MATRICES, ids=["full rank", "whole numbers", "fractions"])
def test_releases_are_unbiased_with_the_stated_spread(matrix, tmp_path):
    domain = rs.Domain({"x": rs.Integers(0, 5)})
    workload = rs.explicit(domain, matrix)
    plan = rs.plan(workload, rs.ZCDP(0.5))
    x = np.array([10, 20, 5, 0, 0, 7])
    measurements, runs = plan.compile(), 3000
    integers = measured(measurements, x, runs)  # through the measuring step's own noise
    answered = plan.reconstruction(workload) @ integers.T
    data = pa.table({"x": np.repeat(np.arange(6), x)})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(1.0)))
    own = plan.reconstruction(workload) @ release.noisy
    assert np.allclose(release.answers(workload).estimates, own, rtol=1e-9, atol=1e-6)
    z = (answered.T - matrix @ x) / np.sqrt(plan.variances(workload))
    allowed = 5.8  # standard errors: below one false alarm in a million over all comparisons
    assert abs(z.mean(axis=0) * np.sqrt(runs)).max() < allowed
    cube = (z**2).mean(axis=0) ** (1 / 3)
    assert (abs(cube - (1 - 2 / (9 * runs))) / np.sqrt(2 / (9 * runs))).max() < allowed


def test_files(tmp_path):
    domain = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"]})
    workload = rs.queries(domain, ["age >= 5 and sex = 'F'", "age"])
    plan = rs.plan(workload, targets=[4.0, 100.0])
    plan.save(tmp_path / "p.json")
    loaded = rs.Plan.load(tmp_path / "p.json")
    assert np.array_equal(loaded.strategy, plan.strategy)
    assert loaded.scale == plan.scale
    assert loaded.workload.labels == workload.labels
    assert np.array_equal(loaded.variances(loaded.workload), plan.variances(workload))
    text = (tmp_path / "p.json").read_text()
    (tmp_path / "p.json").write_text(text.replace('"scale":', '"scale" :'))
    with pytest.raises(FileError, match="changed"):
        rs.Plan.load(tmp_path / "p.json")
    data = pa.table({"age": [1, 7, 8], "sex": ["F", "F", "M"]})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(10.0)))
    release.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    assert isinstance(again, Release)
    assert np.array_equal(again.answers(workload).estimates, release.answers(workload).estimates)
    women = np.multiply.outer([0] * 5 + [1] * 5, [1, 0])
    assert again.combination({("age", "sex"): women}).stddev <= 2.0


def test_the_verifier_refuses_what_was_altered(tmp_path):
    plan = rs.plan(prefix(6), rs.ZCDP(0.5))
    good = plan.compile()

    def changed(**changes):
        fields = {name: getattr(good, name) for name in ("sizes", "attributes", "columns", "strategy", "scale")}
        return MatrixMeasurements(**{**fields, **changes})

    for measurements, message in (
        (changed(scale=good.scale / 2), "costs"),
        (changed(strategy=good.strategy * 2), "costs"),
        (changed(strategy=good.strategy + 0.5), "whole numbers"),
        (changed(scale=float("nan")), "outside"),
        (changed(scale=0.0), "outside"),
        (changed(strategy=good.strategy * 0), "nothing to measure"),
        (changed(columns=good.columns[:-1]), "does not fit"),
        (changed(strategy=good.strategy * 2**20, scale=2.0**40), "overflow"),
    ):
        with pytest.raises(VerificationError, match=message):
            verified_cost(measurements, plan.guarantee, plan.unit)
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(10.0))
    with pytest.raises(VerificationError):
        rs.measure(plan.replaced(scale=plan.scale * 0.999), pa.table({"x": [0]}), ledger=ledger)
    assert ledger.spent_exactly == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: rs.plan(w, targets=[1.0]), "one for each of the workload's 6"),
        (lambda w: rs.plan(w, targets=[1.0, 1, 1, 1, 1, 0]), "query 5.*positive"),
        (lambda w: rs.plan(w, targets=float("nan")), "positive"),
        (lambda w: rs.plan(w, targets={"query 0": 1.0}), "no variance for 'query 1'"),
        (lambda w: rs.plan(w, targets={"nope": 1.0}), "names 'nope', which the workload does not ask for"),
        (lambda w: rs.plan(w, targets="many"), "not a number"),
        (lambda w: rs.plan(w, rs.ZCDP(0.5), form=rs.Matrix(refined=True)), "refined"),
        (lambda w: rs.plan(w, rs.ZCDP(0.5), tolerance=0.0), "tolerance"),
        (lambda w: rs.plan(rs.explicit(w.domain, np.zeros((2, 6))), rs.ZCDP(0.5)), "zero"),
        (lambda w: rs.plan(w, rs.ZCDP(0.5)).variances(prefix(7)), "different domains"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(rs.ResiduaError, match=message):
        call(prefix(6))


def test_biased_plans_state_bias_and_variance_apart():
    workload = prefix(16)
    exact = rs.plan(workload, rs.GDP(mu=1.0))
    totals = [exact.variances(workload).sum()]
    for alpha in (0.05, 0.2):
        plan = rs.plan(workload, rs.GDP(mu=1.0), form=rs.Matrix(bias=alpha))
        error = plan.workload.matrix.toarray() - workload.matrix.toarray()
        found = np.linalg.norm(error, axis=0).max() / np.sqrt(workload.queries)
        assert plan.bias == pytest.approx(found)
        assert plan.bias <= alpha * (1 + 1e-6)
        assert plan.supports(plan.workload)
        assert plan.workload.labels == workload.labels
        totals.append(plan.variances(plan.workload).sum())
    assert totals[0] > totals[1] > totals[2]
    assert rs.plan(workload, rs.GDP(mu=1.0), form=rs.Matrix(bias=0.0)).bias == 0.0
    for bad in (-1.0, float("nan"), True):
        with pytest.raises(PlanError, match="bias"):
            rs.plan(workload, rs.GDP(mu=1.0), form=rs.Matrix(bias=bad))
    with pytest.raises(PlanError, match="nothing needs to be measured"):
        rs.plan(workload, rs.GDP(mu=1.0), form=rs.Matrix(bias=1e6))


@pytest.mark.parametrize(
    "how",
    [
        {"guarantee": rs.GDP(1.0), "minimise": rs.MaxVariance()},
        {"guarantee": rs.PureDP(1.0)},
        {"guarantee": rs.PureDP(1.0), "minimise": rs.MaxVariance()},
        {"targets": 1.0},
    ],
    ids=["maximum", "pure", "pure maximum", "targets"],
)
def test_a_bias_saves_noise_for_other_objectives_and_noise_too(how):
    workload = prefix(12)
    exact, biased = rs.plan(workload, **how), rs.plan(workload, form=rs.Matrix(bias=0.2), **how)
    error = biased.workload.matrix.toarray() - workload.matrix.toarray()
    assert biased.bias == pytest.approx(np.linalg.norm(error, axis=0).max() / np.sqrt(12))
    assert biased.bias <= 0.2 * (1 + 1e-6)
    before, after = exact.variances(workload), biased.variances(biased.workload)
    if "targets" in how:
        assert (after <= 1 + 1e-6).all()
        assert biased.unit_pcost < 0.9 * exact.unit_pcost
    else:
        measure = np.max if "minimise" in how else np.sum
        assert measure(after) < 0.95 * measure(before)


def test_records_choose_the_bias_with_the_least_error():
    workload, budget = prefix(12), rs.GDP(1.0)

    def error(plan, records):
        return plan.variances(plan.workload or workload).mean() + (records * plan.bias) ** 2

    for records in (1, 4):
        chosen = rs.plan(workload, budget, form=rs.Matrix(records=records))
        assert chosen.bias > 0
        for bias in (0.5, 0.8, 1.4):
            other = rs.plan(workload, budget, form=rs.Matrix(bias=bias * chosen.bias))
            assert error(chosen, records) <= error(other, records) * 1.02
        assert error(chosen, records) < error(rs.plan(workload, budget), records)
    assert rs.plan(workload, budget, form=rs.Matrix(records=10_000)).bias == 0
    for form, message in ((rs.Matrix(records=0), "whole number"), (rs.Matrix(records=3, bias=0.1), "leave bias")):
        with pytest.raises(PlanError, match=message):
            rs.plan(workload, budget, form=form)


@pytest.mark.parametrize("kind", ["marginals", "products"])
def test_the_matrix_form_lists_marginals_and_products_query_by_query(kind):

    domain = rs.Domain.of_sizes({"a": 5, "b": 2})
    workload = rs.marginals(domain, ways=[1, 2]) if kind == "marginals" else rs.prefixes(domain, "a", by=["b"])
    for options in (
        {"guarantee": rs.GDP(mu=1.0), "form": rs.Matrix()},
        {"guarantee": rs.GDP(mu=1.0), "form": rs.Matrix(bias=0.1)},
        {"targets": 2.0, "form": rs.Matrix(refined=True)},
    ):
        plan, listed = rs.plan(workload, **options), rs.plan(workload.listed(), **options)
        assert isinstance(plan, MatrixPlan)
        assert np.array_equal(plan.strategy, listed.strategy)
        assert (plan.scale, plan.bias, plan.workload.labels) == (listed.scale, listed.bias, listed.workload.labels)


def test_comparison_has_the_best_plans_best():
    workload = prefix(32)
    found = {one.name: one for one in rs.analysis.compare(workload, rs.ZCDP(0.5))}
    assert min(found.values(), key=lambda one: one.rmse).name == "least total variance"
    assert min(found.values(), key=lambda one: one.max_ratio).name == "fitness for use"
    assert found["independent noise"].max_ratio == pytest.approx(32.0, rel=1e-6)
    assert {name.split(",")[0] for name in found} == {
        "independent noise", "identity", "hierarchical", "Haar wavelet", "least total variance", "fitness for use",
    }  # fmt: skip
    for one in found.values():
        assert one.plan.pcost == pytest.approx(1.0, rel=1e-6)
        assert one.pcost_for_targets == pytest.approx(one.max_ratio, rel=1e-6)
    marginal = rs.marginals(rs.Domain.of_sizes([4, 3]), ways=[1, 2])
    assert [one.name for one in rs.analysis.compare(marginal, rs.ZCDP(0.5), targets=4.0)] == [
        "independent noise", "marginal template", "least total variance", "fitness for use",
    ]  # fmt: skip


def test_factorisation_norms():
    assert rs.analysis.factorisation_norm(prefix(2), tolerance=1e-6) == pytest.approx(
        np.sqrt(2.6180339887 / 2), rel=1e-5
    )
    domain = rs.Domain.of_sizes([4, 3])
    marginal = rs.marginals(domain, ways=[1, 2])

    dense = rs.analysis.factorisation_norm(marginal.listed(), tolerance=1e-6)
    assert dense == pytest.approx(rs.analysis.factorisation_norm(marginal), rel=1e-5)
    with pytest.raises(PlanError, match="not a workload"):
        rs.analysis.factorisation_norm("x")


def test_marginals_planned_densely_are_the_residual_plan():
    """Two codes, one optimum: least total variance of marginals from the closed form and from the dense solver."""

    marginal = rs.marginals(rs.Domain.of_sizes([3, 2, 2]), ways=[1, 2]) + 3 * rs.marginals(
        rs.Domain.of_sizes([3, 2, 2]), [("a0", "a1")]
    )
    residual = rs.plan(marginal, rs.GDP(mu=1.0))
    dense = rs.plan(marginal.listed(), rs.GDP(mu=1.0), tolerance=1e-6)
    assert np.allclose(dense.variances(marginal), residual.variances(marginal), rtol=1e-3)


def test_ranges_are_recognised_and_planned_the_same():
    from residua.plans.solver.queries import as_intervals
    from residua.plans.solver.solve import least_privacy, least_total

    n = 12
    matrix = np.array([[float(a <= i <= b) for i in range(n)] for a in range(n) for b in range(a, n)] * 2)
    matrix[5] *= 3.0
    ranges = as_intervals(matrix)
    p = np.random.default_rng(3).random(len(matrix))
    G = ranges.gram(np.ones(len(matrix)))
    assert np.allclose(ranges.gram(p), matrix.T @ (p[:, None] * matrix))
    assert np.allclose(ranges.diagonal(G), np.einsum("ij,jk,ik->i", matrix, G, matrix))
    assert np.allclose(ranges.block(3, 9), matrix[3:9])
    assert as_intervals(np.array([[1.0, 0.0, 1.0]])) is None
    assert as_intervals(np.array([[1.0, 2.0]])) is None
    domain = rs.Domain({"x": rs.Integers(0, n - 1)})
    workload = rs.explicit(domain, matrix)
    assert rs.plan(workload, targets=2.0).pcost == pytest.approx(least_privacy(matrix, 2.0, 1e-5).achieved, rel=2e-3)
    total = rs.plan(workload, rs.GDP(mu=1.0)).variances(workload).sum()
    assert total == pytest.approx(least_total(matrix, 1.0, 1e-5).achieved, rel=2e-3)
