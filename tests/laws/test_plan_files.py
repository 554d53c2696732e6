"""Saved plans come back bit for bit, and a file that was touched is refused."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

import residua as rs
from residua.errors import FileError
from residua.files import digest_of
from residua.plans import ProductPlan
from tests.laws.instances import plans, workloads

DOMAIN = rs.Domain(
    {
        "age": rs.Bins([float("-inf"), 18, 65.5, float("inf")], missing="other"),
        "sex": ["F", "M"],
        "n": rs.Integers(-2, 3, unknown="drop"),
        "x": rs.Anonymous(4),
    }
)


def same(a: ProductPlan, b: ProductPlan) -> bool:
    return (
        a.domain == b.domain
        and a.lattice.same_sets(b.lattice)
        and a.strategies == b.strategies
        and a.precisions.tobytes() == b.precisions.tobytes()
        and (a.guarantee, a.unit, a.objective, a.gap) == (b.guarantee, b.unit, b.objective, b.gap)
        and (a.workload is None) == (b.workload is None)
        and (
            a.workload is None
            or (a.workload.sets == b.workload.sets and a.workload.weights.tobytes() == b.workload.weights.tobytes())
        )
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("plans")


@given(data=st.data())
def test_any_plan_comes_back_bit_for_bit(data, folder):
    plan = data.draw(plans())
    plan = rs.top_up(plan + plan, given=plan)  # states its guarantee
    plan.save(folder / "plan.json")
    assert same(rs.Plan.load(folder / "plan.json"), plan)


@given(workload=workloads(), unit=st.sampled_from([rs.AddRemove(), rs.AddRemove(4)]))
def test_any_made_plan_comes_back_bit_for_bit(workload, unit, folder):
    for guarantee in (rs.ZCDP(0.1), rs.GDP(1 / 3), rs.ApproxDP(0.1, 1e-7)):
        plan = rs.plan(workload, guarantee, unit=unit, minimise=rs.MaxVariance())
        plan.save(str(folder / "plan.json"))
        assert same(rs.Plan.load(str(folder / "plan.json")), plan)


def test_labels_policies_and_units_come_back(folder):
    plan = rs.independent(rs.marginals(DOMAIN, ways=[1, 3]), rs.ZCDP(0.5), unit=rs.ReplaceOne())
    plan.save(folder / "plan.json")
    again = rs.Plan.load(folder / "plan.json")
    assert same(again, plan)
    assert again.domain["age"].labels == DOMAIN["age"].labels
    assert again.domain["age"].missing == "other"
    assert again.domain["n"].unknown == "drop"


def test_a_plan_of_166751_sets_comes_back(folder):
    workload = rs.marginals(rs.Domain.of_sizes([10] * 100), ways=range(4))
    plan = rs.plan(workload, rs.ZCDP(rho=0.5))
    assert len(plan.lattice) == 166_751
    plan.save(folder / "large.json")
    assert same(rs.Plan.load(folder / "large.json"), plan)


# ---- tampering


@pytest.fixture
def saved(tmp_path):
    domain = rs.Domain.of_sizes({"a": 3, "b": 2, "c": 2})
    plan = rs.plan(rs.marginals(domain, [("a", "b"), ("c",)], weight=2.0), rs.ZCDP(rho=0.5))
    plan.save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


def rewritten(path, change) -> None:
    """The file with its body changed and its digest made to fit: what only our own checks can notice."""
    document = json.loads(path.read_bytes())
    change(document["body"])
    body = msgspec.json.encode(document["body"])
    path.write_bytes(msgspec.json.encode({**document, "sha256": digest_of(body), "body": msgspec.Raw(body)}))


def test_rewriting_without_a_change_is_accepted(saved):
    rewritten(saved, lambda body: None)
    rs.Plan.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("0.5", "0.4", 1), "was changed after it was written"),
        (lambda text: text.replace('"a"', '"z"', 1), "was changed after it was written"),
        (lambda text: text.replace('"sha256":"', '"sha256":"0', 1), "was changed after it was written"),
        (lambda text: text.replace('"body":{', '"body":{ ', 1), "was changed after it was written"),
        (lambda text: text[: len(text) // 2], "not a residua plan file, or it is damaged"),
        (lambda text: text[:-1], "not a residua plan file, or it is damaged"),
        (lambda text: "", "not a residua plan file, or it is damaged"),
        (lambda text: "hello", "not a residua plan file, or it is damaged"),
        (lambda text: "[1, 2]", "not a residua plan file, or it is damaged"),
        (lambda text: '{"format": 3}', "not a residua plan file, or it is damaged"),
        (
            lambda text: text.replace("residua plan", "residua release", 1),
            "is a residua release file, not a residua plan",
        ),
        (lambda text: text.replace('"version":1', '"version":2', 1), "has version 2; this residua reads version 1"),
    ],
)
def test_a_touched_file_is_refused(saved, change, message):
    text = saved.read_text()
    assert change(text) != text
    saved.write_text(change(text))
    with pytest.raises(FileError, match=message):
        rs.Plan.load(saved)


def test_every_single_changed_byte_is_noticed(saved):
    original = saved.read_bytes()
    for at in range(len(original)):
        changed = bytearray(original)
        changed[at] ^= 1
        saved.write_bytes(bytes(changed))
        with pytest.raises(FileError):
            rs.Plan.load(saved)


def edit(key, value):
    def change(body):
        body[key] = value(body[key]) if callable(value) else value

    return change


def nested(*path, value):
    def change(body):
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body["sets"].pop(1), "sets"),
        (nested("sets", 1, "members", value=[0, 2]), "not a sorted, downward-closed family"),
        (nested("sets", 1, "members", value=[1, 0, 2]), "not a sorted, downward-closed family"),
        (nested("sets", 2, "members", value=[1, 0]), "a set is not sorted"),
        (nested("sets", 2, "members", value=[1, 1]), "a set is not sorted"),
        (nested("sets", 2, "members", value=[0, 1, 2]), "reshape"),
        (nested("sets", 2, "members", value=[0, 7]), "names an attribute the domain lacks"),
        (nested("sets", 2, "members", value=[-1, 1]), "names an attribute the domain lacks"),
        (nested("sets", 2, "members", value=[0, 2**40]), "does not hold a valid plan"),
        (edit("precisions", lambda p: p[:-1]), "give one for each of"),
        (edit("precisions", lambda p: [-1.0, *p[1:]]), "finite and not negative"),
        (edit("precisions", lambda p: ["x", *p[1:]]), "does not hold a valid plan"),
        (edit("precisions", lambda p: [2 * x for x in p]), "costs more than it claims"),
        (nested("guarantee", "rho", value=0.1), "costs more than it claims"),
        (nested("guarantee", "rho", value=-1), "rho"),
        (nested("guarantee", "kind", value="best"), "does not hold a valid plan"),
        (edit("guarantee", None), "costs more than it claims"),
        (nested("unit", "records", value=2), "costs more than it claims"),
        (nested("unit", "records", value=0), "records"),
        (nested("workload", "pieces", 0, "families", 0, "sets", value=[0, 99]), "asks for sets it lacks"),
        (nested("workload", "pieces", 0, "families", 0, "sets", value=[0]), "asks for sets it lacks"),
        (nested("workload", "pieces", 0, "families", 0, "sets", value=[1, 1]), "asks for a set twice"),
        (nested("workload", "pieces", 0, "families", 0, "weights", value=[1.0, -1.0]), "weight that is not positive"),
        (nested("workload", "pieces", 0, "families", 0, "weights", value=[1.0, None]), "weight that is not positive"),
        (nested("domain", "a", value={"size": 0}), "without values"),
        (edit("domain", [1]), "not a table of attributes"),
        (edit("gap", "small"), "does not hold a valid plan"),
        (lambda body: body.pop("unit"), "unit"),
        (lambda body: body.clear(), "does not hold a valid plan"),
    ],
)
def test_a_forged_file_with_a_fitting_digest_is_refused(saved, change, message):
    rewritten(saved, change)
    with pytest.raises(FileError, match=message) as caught:
        rs.Plan.load(saved)
    assert "does not hold a valid plan" in str(caught.value)


def test_a_body_that_is_no_table_is_refused(saved):
    document = json.loads(saved.read_bytes())
    body = b"[1]"
    saved.write_bytes(msgspec.json.encode({**document, "sha256": digest_of(body), "body": msgspec.Raw(body)}))
    with pytest.raises(FileError, match="does not hold a valid plan"):
        rs.Plan.load(saved)


def test_a_missing_file_and_a_missing_folder(tmp_path, saved):
    with pytest.raises(FileError, match=r"cannot read .*No such file"):
        rs.Plan.load(tmp_path / "none.json")
    with pytest.raises(FileError, match=r"cannot write .*No such file"):
        rs.Plan.load(saved).save(tmp_path / "no" / "plan.json")


def test_a_failed_write_leaves_the_old_file_and_no_other(saved, monkeypatch):
    import residua.files as files

    plan, before = rs.Plan.load(saved), saved.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(FileError, match="No space left on device; nothing was written"):
        plan.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["plan.json"]


def test_the_file_holds_no_executable_content(saved):
    document = json.loads(saved.read_text())
    assert set(document) == {"format", "version", "sha256", "body"}
    assert np.allclose(document["body"]["precisions"], rs.Plan.load(saved).precisions, rtol=0, atol=0)


def test_a_set_without_its_subsets_is_refused_before_they_are_listed(tmp_path):
    """Forty attributes in one set have a million million subsets."""
    import json

    from tests.resealed import body_of, reseal_document

    domain = rs.Domain.of_sizes([2] * 40)
    path = tmp_path / "plan.json"
    rs.plan(rs.marginals(domain, ways=1), rs.ZCDP(0.5)).save(path)
    body = json.loads(body_of(path.read_bytes()))
    empty = [{"size": k, "members": []} for k in range(2, 40)]
    body["sets"] += [*empty, {"size": 40, "members": list(range(40))}]
    body["precisions"].append(0.0)
    reseal_document(path, json.dumps(body).encode())
    with pytest.raises(FileError, match="downward-closed"):
        rs.Plan.load(path)
