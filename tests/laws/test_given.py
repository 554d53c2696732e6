"""Known facts beside a release: the best linear unbiased estimates given them, as exact least squares says."""

import json
from functools import cache

import numpy as np
import pytest

import residua as rs
from residua.errors import FileError, PlanError
from residua.files import write_document
from residua.plans.operators.path import ROUNDING
from residua.release import Release
from residua.testing import Case
from tests.laws.every_plan import NAMES, made
from tests.laws.exact import Weighed, independent
from tests.statistics.copies import measured as drawn

EXACT = 1e-9  # of the standard deviation, or the variance, before any fact


@cache
def case(name):
    return Case(made(name))


@cache
def measured(name):
    """The true counts, and a release with noise that is drawn once."""
    own, random = case(name), np.random.default_rng(5)
    x = random.integers(3, 60, own.measured.rows.shape[1])
    noise = np.rint(random.standard_normal(len(own.measured.rows)) * np.sqrt(np.diag(own.measured.noise)))
    noisy = own.measured.rows @ x + noise.astype(np.int64)
    return x, Release(own.plan, own.plan.measurements, noisy)


@cache
def answerable(name):
    """Some workloads that the plan answers, with their rows and variances."""
    own, listed = case(name), []
    for asked in ("a constant", "what was asked", "combinations of what was asked"):
        workload = own.workloads[asked]
        rows = own.rows(workload)
        known = np.isfinite(own.variances(rows))
        if known.all() or (known.any() and workload.tabular):
            listed.append((asked, workload, rows, own.variances(rows)))
    return listed


@cache
def weighed(name):
    """What is measured, with the noise that the plan states: of correlated noise, a bound of what rounding adds."""
    own = case(name).measured
    noise, along = own.noise.copy(), np.isnan(own.scales)
    noise[np.ix_(along, along)] = own.bare[np.ix_(along, along)] * (1 + ROUNDING)
    return Weighed(own.rows, noise)


def facts_of(name):
    """The facts that are tried on every plan, by name, with the rows of each over all cells."""
    own, (x, release) = case(name), measured(name)
    domain, sizes = release.domain, own.sizes
    table, tried = x.reshape(sizes), {}

    def margin(*names):
        keep = domain.positions(names)
        return table.sum(axis=tuple(i for i in range(len(sizes)) if i not in keep))

    tried["total"] = {(): x.sum()}
    for each in domain.names[:2]:
        tried[f"all of {each}"] = {each: margin(each)}
        label = domain[each].labels[0]
        tried[f"some of {each}"] = {each: {label: margin(each)[0]}, (): x.sum()}
        tried[f"where {each}"] = [({each: label}, margin(each)[0]), ({each: label}, margin(each)[0])]
        for level in domain[each].hierarchy:
            groups = np.bincount(level.codes, weights=margin(each), minlength=len(level))
            tried[f"all of {level.name}"] = {f"{each}.{level.name}": groups}
            first, last = dict(zip(level.labels, groups, strict=True)), domain[each].labels[-1]
            del first[level.labels[-1]]
            tried[f"nodes of {level.name}"] = {f"{each}.{level.name}": first, each: {last: margin(each)[-1]}}
    pair = domain.names[:2]
    tried["a table"] = {pair: margin(*pair)}
    corner = tuple(domain[each].labels[0] for each in pair)
    tried["a cell and a margin"] = {pair: {corner: margin(*pair)[0, 0]}, pair[0]: margin(pair[0])}
    rows = np.vstack([np.arange(table.size) % 3 - 1.0, own.rows(own.plan.workload)[:1]])
    for what, row in zip(("a sum", "a query"), rows, strict=True):
        tried[what] = [(rs.explicit(domain, row[None]), [row @ x])]
    nearly = np.vstack([np.ones(table.size), 1.0 + 0.01 * rows[1]])  # the second adds a ten-thousandth of its variance
    tried["the total, and nearly so"] = [(rs.explicit(domain, nearly), nearly @ x)]
    return tried


def rows_of(domain, facts):
    """The facts as rows over all cells, and their values, by the counts of single cells."""
    from residua.release.given import _equality, _pairs, _zeros

    rows, values = [], []
    for each in [*(_equality(domain, *pair) for pair in _pairs(facts)), *_zeros(domain)]:
        workload, chosen = each.queries
        rows.append(workload.over(tuple(range(len(domain)))).toarray()[chosen])
        values.append(each.values[each.known].ravel())
    return np.vstack(rows), np.concatenate(values)


def given(release, facts):
    """The release beside facts; None where it does not tell them."""
    try:
        return release.given(facts)
    except PlanError as problem:
        if "does not tell" not in str(problem):
            raise
        return None


@pytest.mark.parametrize("name", NAMES)
def test_estimates_and_covariances_are_those_of_exact_least_squares_given_the_facts(name):
    release, tried = measured(name)[1], 0
    for what, facts in facts_of(name).items():
        known = given(release, facts)
        if known is None:
            continue
        F, f = independent(*rows_of(release.domain, facts))
        for asked, workload, all_rows, all_variances in answerable(name):
            there = np.isfinite(all_variances)
            rows, scale = all_rows[there], all_variances[there].max()
            truth, covariances = weighed(name).conditioned(release.noisy, F, f, rows)
            estimates, variances = (each[there] for each in known.estimator.answers(workload))
            np.testing.assert_allclose(
                estimates, truth, atol=EXACT * np.sqrt(scale), rtol=1e-13, err_msg=f"{what}, {asked}"
            )
            np.testing.assert_allclose(
                variances, np.diag(covariances), atol=EXACT * scale, rtol=0, err_msg=f"{what}, {asked}"
            )
            if asked.startswith("combinations"):
                stated = known.plan.covariance(workload)
                np.testing.assert_allclose(stated, covariances, atol=EXACT * scale, rtol=0, err_msg=what)
            tried += 1
    assert tried


@pytest.fixture(scope="module")
def adults():
    domain = rs.Domain(
        {"age": rs.Integers(0, 5), "sex": ["F", "M"], "work": ["no", "yes"]}, impossible=[{"age": 0, "work": "yes"}]
    )
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.5))
    random = np.random.default_rng(1)
    return Release(plan, plan.measurements, random.integers(-50, 50, plan.measurements.cells))


def test_what_is_known_is_exact_and_all_else_is_at_least_as_sure(adults):
    known = adults.given({"sex": {"F": 120, "M": 80}})
    table = known.table(["sex"])
    assert table["estimate"].tolist() == pytest.approx([120, 80])
    assert table["stddev"].tolist() == pytest.approx([0, 0], abs=1e-9)
    for names in (["age"], ["age", "sex"], ["sex", "work"], []):
        before, after = adults.table(names), known.table(names)
        assert (after["stddev"] <= before["stddev"] * (1 + 1e-9)).all()
    assert known.count({"sex": "F"}).stddev == pytest.approx(0, abs=1e-9)
    assert known.share({"sex": "F"}).estimate == pytest.approx(0.6)
    assert known.count("sex = 'F'").estimate == pytest.approx(120)
    assert known.table(["age", "work"])[{"age": 0, "work": "yes"}][0]["estimate"] == pytest.approx(0, abs=1e-9)
    assert "beside 3 facts" in repr(known)
    assert len(list(known.tables())) == len(list(adults.tables()))


def test_a_level_a_condition_a_list_and_a_workload_name_facts(adults):
    age = adults.domain["age"].labels
    first = adults.given({"age": dict.fromkeys(age, 30), (): 180})
    second = adults.given([({"age": label}, 30) for label in age])
    third = adults.given([(rs.marginals(adults.domain, [("age",)]), np.full(6, 30.0))])
    fourth = adults.given({f"age = {label}": 30 for label in age})
    for other in (second, third, fourth):
        for names in (["sex"], ["age", "sex"]):
            for column in ("estimate", "stddev"):
                assert first.table(names)[column] == pytest.approx(other.table(names)[column], abs=1e-7)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ("sex", "not a dictionary"),
        ({"sex": {"F": 1, "X": 2}}, "a text is not a value of 'sex'"),
        ({"sex": {"F": 120, "M": 80}, (): 201}, "contradict"),
        ([({"sex": "F"}, 120), ("sex = 'F'", 121)], "contradict"),
        ({("age", "work"): {(0, "yes"): 3}}, "contradict"),
        ({("age", "sex", "work"): {(1, "F", "no"): 3}}, "does not tell"),
        ({"sex = 'F'": "many"}, "give a number"),
        ({("sex", "sex"): {}}, "twice"),
        ({("sex", "agee"): {}}, "did you mean 'age'"),
        ({"sx = 'F'": 3}, "unknown attribute"),
    ],
)
def test_facts_that_mean_nothing_or_contradict_are_refused_in_a_sentence(adults, facts, said):
    with pytest.raises(rs.ResiduaError, match=said):
        adults.given(facts)


@pytest.mark.parametrize("budget", [rs.ZCDP(0.5), rs.PureDP(1.0)])
def test_a_fact_that_the_release_contradicts_is_named_at_every_number(budget):
    domain = rs.Domain({"age": rs.Integers(0, 5), "sex": ["F", "M"]}, impossible=[{"age": 0, "sex": "M"}])
    plan, x = rs.plan(rs.marginals(domain, ways=[1, 2]), budget), np.full((6, 2), 20)
    x[0, 1] = 0
    release = Release(plan, plan.measurements, drawn(plan.measurements, x, 1)[0])
    true = {(): 220, "sex": {"F": 120}}
    assert release.given(true).doubted == ()  # one false alarm in a million
    wrong = release.given({**true, (): 2000})
    assert wrong.doubted == ("the total",)
    for note in (wrong.table(["sex"]).note, wrong.share(["sex"]).note):
        assert "further from the release than noise explains" in note
    assert "marginal on ('sex',)" in release.given({"sex": [0, 0]}).counted


def test_nodes_that_contradict_each_other_are_refused():
    release = measured("tree, crossed")[1]
    counts = dict(zip(release.domain["t"].labels, [10.0] * 6, strict=True))
    assert release.given({"t": counts, "t.g": {"x": 30.0}}).facts
    for other in (31.0, 29.0):
        with pytest.raises(PlanError, match="contradict each other"):
            release.given({"t": {**counts}, "t.g": {"x": other}})
        with pytest.raises(PlanError, match="contradict each other"):
            release.given({"t": {label: counts[label] for label in "012"}, "t.g": {"x": other}})


def test_structural_zeros_are_facts_by_themselves(adults):
    table = adults.given({}).table(["age", "work"])
    assert table[{"age": 0, "work": "yes"}][0]["stddev"] == pytest.approx(0, abs=1e-7)
    plan = rs.plan(rs.marginals(rs.Domain({"sex": ["F", "M"]}), ways=1), rs.ZCDP(0.5))
    with pytest.raises(PlanError, match="facts is empty"):
        Release(plan, plan.measurements, np.zeros(plan.measurements.cells, dtype=np.int64)).given({})


def test_facts_are_not_measured_or_pooled(adults):
    known = adults.given({(): 200})
    with pytest.raises(PlanError):
        rs.pooled([known])
    with pytest.raises(PlanError, match="not a release"):
        rs.project(known)


@pytest.mark.parametrize("name", ["marginals", "matrix, queries", "tree, crossed", "axis"])
def test_a_release_is_saved_and_loaded_beside_its_facts(name, tmp_path):
    release = measured(name)[1]
    for number, facts in enumerate(facts_of(name).values()):
        known = given(release, facts)
        if known is None:
            continue
        known.save(tmp_path / f"{number}")
        again = rs.Given.load(tmp_path / f"{number}")
        assert repr(again) == repr(known)
        workload = case(name).plan.workload
        for mine, theirs in zip(*(each.estimator.answers(workload) for each in (again, known)), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert np.array_equal(rs.Release.load(tmp_path / f"{number}").noisy, release.noisy)


def test_facts_that_were_altered_are_refused(adults, tmp_path):
    adults.given({(): 200, "sex = 'F'": 120}).save(tmp_path / "known")
    facts = tmp_path / "known" / "facts.json"
    text = facts.read_text()
    facts.write_text(text.replace("120", "121"))
    with pytest.raises(FileError):
        rs.Given.load(tmp_path / "known")
    body = json.loads(text)["body"]
    for field, altered in (("at", [9]), ("values", ["x"]), ("values", [1e999]), ("asked", None)):
        write_document(facts, "residua facts", 1, {"facts": [{**body["facts"][0], field: altered}]})
        with pytest.raises(FileError):
            rs.Given.load(tmp_path / "known")
    facts.unlink()
    with pytest.raises(FileError):
        rs.Given.load(tmp_path / "known")


@pytest.mark.parametrize("facts", [{"sex": [120, 80]}, {"sex = 'F'": 120}])
def test_tables_beside_facts_are_shown_and_exported(adults, facts, tmp_path):
    known = adults.given(facts)
    assert "Beside it" in known._repr_html_()
    assert all("known facts, taken as true" in each.note for each in (known.table(["sex"]), *known.tables()))
    for format in ("csv", "long-csv"):
        known.export(tmp_path / format, format)
    assert len(list((tmp_path / "csv").glob("*.csv"))) == len(list(known.tables()))
    assert "120" in (tmp_path / "csv" / "0002-sex.csv").read_text()
