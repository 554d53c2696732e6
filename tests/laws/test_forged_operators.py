"""Plan files of operators: what a plan saves it loads, whatever it asks; forged files are refused at once."""

import json

import numpy as np
import pytest

import residua as rs
from residua.errors import FileError
from residua.plans.statements import packed
from tests.laws.every_plan import made
from tests.resealed import body_of, reseal_document


def test_a_plan_with_many_groups_is_loaded_again(tmp_path):
    """Groups are repeated term by term: there may be more of them than two per value."""
    domain = rs.Domain({"b": ["x", "y"], "a": rs.Integers(0, 2, levels={"g": [0, 1, 3]})})
    asked = rs.prefixes(domain, "a")
    for kind, names in (("g", ()), ("hierarchy", ()), ("hierarchy", ("b",)), ("g", ("b",))):
        asked = asked + rs.product(domain, {"a": kind}, sets=[("a", *names)])
    plan = rs.plan(asked, rs.ZCDP(0.5), form=rs.Axis(apart=True))
    plan.save(tmp_path / "plan.json")
    again = rs.Plan.load(tmp_path / "plan.json")
    assert again.cost == plan.cost
    assert np.array_equal(again.variances(asked), plan.variances(asked))


def tree(body):
    body["parts"][0]["operator"]["precisions"][1] = packed(np.zeros(0))


def levels(body):
    operator = body["parts"][0]["operator"]
    operator["counts"] = [6] * 400
    operator["precisions"] = [packed(np.ones(1))] * 402


@pytest.mark.parametrize("change", [tree, levels])
def test_a_forged_tree_is_refused(change, tmp_path):
    domain = rs.Domain({"t": rs.Integers(0, 5, levels={"g": [0, 2, 6]})})
    plan = rs.plan(rs.hierarchy(domain, "t"), rs.ZCDP(0.5), form=rs.Tree())
    _refused(plan, change, tmp_path)


def poles(body):
    (noise,) = body["axes"]
    noise["poles"] = np.geomspace(1e-6, 1e6, 400).tolist()
    noise["weights"] = [1.0] * 400


def test_noise_of_very_many_parts_is_refused(tmp_path):
    plan = rs.plan(rs.prefixes(rs.Domain({"t": rs.Integers(0, 9)}), "t"), rs.ZCDP(0.5), form=rs.Axis())
    _refused(plan, poles, tmp_path)


def wide(body):
    body["parts"][0]["operator"]["strategies"] = [[[1] * 9_000]]
    body["parts"][0]["operator"]["scales"] = [9.0]


def test_buckets_of_very_many_parts_are_refused(tmp_path):
    _refused(made("runs"), wide, tmp_path)


def _refused(plan, change, tmp_path):
    plan.save(path := tmp_path / "plan.json")
    body = json.loads(body_of(path.read_bytes()))
    change(body)
    reseal_document(path, json.dumps(body).encode())
    with pytest.raises(FileError):
        rs.Plan.load(path)
