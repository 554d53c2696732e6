"""Product releases against dense linear algebra: what is measured, what is estimated, tables, files."""

import importlib
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.plans.strategy import Plain
from residua.release import Release
from tests.laws.product_plans import block_matrix, gamma, random_plan

door = importlib.import_module("residua.measurement.noisy")
seeds = st.integers(0, 2**32 - 1)


def released_without_noise(plan, x):
    """The door without noise: only tests can do this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(door._DRAWN_BY, "normal", lambda scales, shape: np.zeros(shape, dtype=np.int64))
        return released(plan, x)


def counter(plan, x):
    """What a source would count of the table x of all attributes."""

    def count(layout):
        parts = []
        for group in layout:
            for members in group.members:
                away = tuple(i for i in range(x.ndim) if i not in members)
                parts.append(x.sum(axis=away).ravel())
        return np.concatenate(parts).astype(np.int64)

    return count


def released(plan, x):
    measurements = plan.compile()
    return Release(plan, measurements, door.noisy(measurements, counter(plan, x), None))


def table_of(plan, seed, most=1000):
    return np.random.default_rng(seed).integers(0, most, plan.domain.sizes)


@given(seeds)
@settings(max_examples=60)
def test_what_is_measured_is_the_integer_matrix(seed):
    plan = random_plan(seed)
    x = table_of(plan, seed)
    release = released_without_noise(plan, x)
    measurements = release.measurements
    found, rows = 0, list(plan.lattice)
    for number, t in zip(measurements.measured, measurements.grids, strict=True):
        B = block_matrix(plan, rows[number], scaled=False).astype(np.int64)
        start = measurements.layout.starts[number]
        assert (release.noisy[start : start + len(B)] == t * (B @ x.ravel())).all()
        found += len(B)
    assert found == len(release.noisy)


@given(seeds)
@settings(max_examples=30)
def test_estimates_are_the_best_linear_unbiased_ones(seed):
    """Every supported query has the dense generalised least squares estimate, and its variance."""
    plan = random_plan(seed)
    x = table_of(plan, seed)
    release = released(plan, x)
    asked = plan.workload.listed()
    W = asked.over(tuple(range(len(plan.domain)))).toarray()
    supported = np.isfinite(plan.variances(asked))
    true_plan, rows = release.plan, list(plan.lattice)
    G = np.linalg.pinv(gamma(true_plan), hermitian=True, rcond=1e-11)
    score = np.zeros(W.shape[1])
    for number, t in zip(release.measurements.measured, release.measurements.grids, strict=True):
        B = block_matrix(plan, rows[number])
        start = release.measurements.layout.starts[number]
        unit = t * np.prod([plan.strategies[i].unit for i in rows[number]])
        score += true_plan.precisions[number] * B.T @ (release.noisy[start : start + len(B)] / unit)
    inside = np.linalg.norm(W - W @ gamma(true_plan) @ G, axis=1) < 1e-6
    assert (inside == supported).all()
    for i in np.flatnonzero(supported)[:: max(1, len(W) // 8)]:
        row = asked.matrix[[i]].toarray().reshape(asked.shape)
        value, variance = release.estimator.combination({asked.names: row})
        assert value == pytest.approx(float(W[i] @ G @ score), rel=1e-6, abs=1e-4)
        assert variance == pytest.approx(float(W[i] @ G @ W[i]), rel=1e-6)
    if supported.all():
        answers = release.answers(asked)
        np.testing.assert_allclose(answers.estimates, W @ G @ score, rtol=1e-6, atol=1e-4)
        np.testing.assert_allclose(answers.stddev**2, np.einsum("ij,jk,ik->i", W, G, W), rtol=1e-6)


@given(seeds, st.sampled_from(["identity", "prefixes", "ranges", "matrix"]))
@settings(max_examples=30)
def test_without_noise_every_table_is_the_true_one(seed, kind):
    plan = random_plan(seed, full=True)
    x = table_of(plan, seed)
    release = released_without_noise(plan, x)
    rng = np.random.default_rng(seed)
    for names in plan.workload.sets:
        names = tuple(rng.permutation(list(names)))
        wanted = {
            name: rng.normal(size=(2, plan.domain[name].size)) if kind == "matrix" else kind
            for name in names
            if rng.integers(2)
        }
        table = release.table(names, queries=wanted)
        marginal = x.sum(axis=tuple(i for i, name in enumerate(plan.domain.names) if name not in names))
        order = np.argsort(np.argsort([plan.domain.position(name) for name in names]))
        truth = marginal.transpose(order)
        for axis, name in enumerate(names):
            n = plan.domain[name].size
            W = {
                "identity": np.eye(n),
                "prefixes": np.tril(np.ones((n, n))),
                "ranges": np.array([[a <= j <= b for j in range(n)] for a in range(n) for b in range(a, n)]),
                "matrix": wanted.get(name),
            }[kind if name in wanted else "identity"]
            truth = np.moveaxis(np.tensordot(W, truth, axes=(1, axis)), 0, axis)
        np.testing.assert_allclose(table.estimates, truth, rtol=1e-9, atol=1e-5)
        assert len(table.to_arrow()) == truth.size


class Crossed(Plain):
    """The plain residual as if it were any other strategy: measured and read table by table."""

    plain = False


@given(seeds)
@settings(max_examples=10)
def test_plain_strategies_read_as_a_residual_release(seed):
    """The same integers read by both paths give the same tables and the same errors."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 3)
    domain = rs.Domain.of_sizes([int(n) for n in sizes])
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
    crossed = plan.replaced(strategies=tuple(Crossed(int(n)) for n in sizes))
    assert (plan.plain, crossed.plain) == (True, False)
    measurements, crossed_measurements = plan.compile(), crossed.compile()
    assert (measurements.measured == crossed_measurements.measured).all()
    integers = door.noisy(measurements, counter(plan, rng.integers(0, 100, sizes)), None)
    one = Release(plan, measurements, integers)
    two = Release(crossed, crossed_measurements, integers)
    assert one.estimator.reconstruction is not None
    assert two.estimator.reconstruction is None
    for names in plan.workload.sets:
        np.testing.assert_allclose(one.estimates(names), two.estimates(names), atol=1e-6)
        np.testing.assert_allclose(one.table(names).stddev, two.table(names).stddev, rtol=1e-9)
        queries = dict.fromkeys(names, "prefixes")
        np.testing.assert_allclose(one.table(names, queries=queries).stddev, two.table(names, queries=queries).stddev)


@given(seeds)
@settings(max_examples=40)
def test_tables_agree_with_each_other(seed):
    plan = random_plan(seed, full=True)
    release = released(plan, table_of(plan, seed))
    for names in plan.workload.sets:
        whole = release.estimates(names)
        for axis, _ in enumerate(names):
            less = names[:axis] + names[axis + 1 :]
            np.testing.assert_allclose(whole.sum(axis=axis), release.estimates(less), rtol=1e-9, atol=1e-7)


STATES = {"CA": ["Kern", "Napa", "Yolo"], "NY": ["Erie", "Kings"]}
COUNTIES = rs.Categories(
    ["Kern", "Erie", "Napa", "Kings", "Yolo"], levels={"state": STATES, "nation": {"US": ["CA", "NY"]}}
)


@pytest.fixture
def geography():
    """A release of a hierarchy by sex, with a strategy of its own on the county."""
    domain = rs.Domain({"sex": ["F", "M"], "county": COUNTIES})
    plan = random_plan(7, full=True, domain=domain)
    workload = rs.hierarchy(domain, "county", by=["sex"]) + rs.hierarchy(domain, "county")
    plan = plan.replaced(workload=workload.on(plan.lattice))
    return released(plan, np.array([[10, 20, 30, 40, 50], [5, 4, 3, 2, 1]]))


def test_a_hierarchy_is_one_table_a_level_and_levels_add_up(geography):
    tables = {table.title: table for table in geography.tables()}
    assert list(tables) == [
        "sex × county: nation",
        "sex × county: state",
        "sex × county",
        "county: nation",
        "county: state",
        "county",
    ]
    values = tables["sex × county"].estimates
    state = tables["sex × county: state"]
    codes = np.array(COUNTIES.level("state").codes)
    for group in range(2):
        np.testing.assert_allclose(state.estimates[:, group], values[:, codes == group].sum(axis=1), rtol=0, atol=1e-9)
    np.testing.assert_allclose(tables["sex × county: nation"].estimates[:, 0], state.estimates.sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(tables["county: state"].estimates, state.estimates.sum(axis=0), atol=1e-9)
    assert state.columns["county"] == ["CA", "NY", "CA", "NY"]
    alone = geography.table(["county", "sex"], queries={"county": "state"})
    np.testing.assert_allclose(alone.estimates, state.estimates.T)
    np.testing.assert_allclose(alone.stddev, state.stddev.T)
    women = geography.count({"sex": "F", "county": ["Kern", "Napa", "Yolo"]})
    assert women.estimate == pytest.approx(state.estimates[0, 0])
    assert women.stddev == pytest.approx(state.stddev[0, 0])
    whole = geography.table(["county"], queries={"county": "hierarchy"})
    assert whole.columns["county"][:4] == ["nation=US", "state=CA", "state=NY", "Kern"]


def test_files_come_back_equal(geography, tmp_path):
    geography.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    assert again.planned.strategies == geography.planned.strategies
    assert not again.planned.plain
    for one, two in zip(geography.tables(), again.tables(), strict=True):
        assert one.title == two.title
        assert one.to_csv() == two.to_csv()
    assert "noisy integers" in (tmp_path / "out" / "PRIVACY.md").read_text()
    assert again.domain["county"].hierarchy == COUNTIES.hierarchy
    assert list(again.answers(again.planned.workload)["query"]) == list(geography.planned.workload.query_labels())


def test_columns_hold_one_type_even_beside_the_cell_of_others():
    domain = rs.Domain({"age": rs.Integers(0, 3, missing="other", levels={"half": [0, 2, 3]})})
    release = released(random_plan(3, full=True, domain=domain), np.array([1, 2, 3, 4, 5]))
    assert release.table(["age"]).to_arrow()["age"].to_pylist() == ["0", "1", "2", "3", "(other)"]
    assert release.table(["age"], queries={"age": "half"}).columns["age"] == ["0 to 1", "2 to 3", "(other)"]
    prefixes = release.table(["age"], queries={"age": "prefixes"})
    assert prefixes.columns["age"] == ["<=0", "<=1", "<=2", "<=3", "(other)"]
    ranges = release.table(["age"], queries={"age": "ranges"})
    assert ranges.columns["age"][:3] == ["0", "0..1", "0..2"]
    np.testing.assert_allclose(ranges.estimates[1], prefixes.estimates[1])


@pytest.mark.parametrize(
    ("attributes", "queries", "named"),
    [
        (["sex"], {"county": "state"}, ["'county'", "add it"]),
        (["county"], {"county": "province"}, ["'county'", "an unknown kind", "'state'", "levels"]),
        (["sex"], {"sex": "hierarchy"}, ["'sex'", "no levels"]),
        (["county"], {"county": np.ones((1, 4))}, ["'county'", "4 columns", "5 values"]),
        (["country"], {"country": "prefixes"}, ["'country'", "did you mean"]),
        (["sex", "sex"], {"sex": "prefixes"}, ["twice"]),
    ],
)
def test_tables_that_mean_nothing_are_refused_by_name(geography, attributes, queries, named):
    with pytest.raises(rs.ResiduaError) as caught:
        geography.table(attributes, queries=queries)
    assert all(part in str(caught.value) for part in named), caught.value


def test_what_was_not_measured_is_refused(geography):
    plan = geography.planned
    partial = plan.replaced(
        precisions=np.where(np.arange(len(plan.lattice)) == len(plan.lattice) - 1, 0, plan.precisions)
    )
    release = released(partial, np.ones((2, 5), dtype=np.int64))
    for ask in (
        lambda: release.table(["sex", "county"]),
        lambda: release.table(["sex", "county"], queries={"county": "state"}),
        lambda: release.count({"sex": "F", "county": "Kern"}),
        lambda: release.answers(rs.prefixes(plan.domain, "county", by=["sex"])),
    ):
        with pytest.raises(rs.ResiduaError, match="not answer"):
            ask()
    assert len(release.table(["county"], queries={"county": "state"})) == 2


def test_the_door_refuses_more_records_than_64_bits_hold():
    plan = random_plan(11, full=True, domain=rs.Domain.of_sizes({"a": 4, "b": 3}))
    with pytest.raises(rs.ResiduaError, match="64-bit"):
        released(plan, np.full((4, 3), 2**58))


def test_dense_releases_answer_products_too(tmp_path):
    import pyarrow as pa

    domain = rs.Domain.of_sizes({"a": 3, "b": 2})
    plan = rs.plan(rs.explicit(domain, np.eye(6)), rs.ZCDP(rho=0.5))
    data = pa.table({"a": [0, 1, 2], "b": [0, 1, 1]})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(rho=1)))
    table = release.table(["b", "a"], queries={"a": "prefixes"})
    np.testing.assert_allclose(table.estimates, release.estimates(["b", "a"]).cumsum(axis=1), atol=1e-6)
    assert reduce(max, table.stddev.ravel()) > 0
