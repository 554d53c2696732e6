"""Two verifiers, one price: `verifier/residua_verify.py` knows nothing of residua, and both must say the same.

A thousand random plans of every kind are priced by both. Where residua's price is exact both agree; where it is a
bound, the other is no larger; and a defect in either, or in the file, is found.
"""

import base64
import importlib.util
import json
import math
import random
import shutil
import subprocess
import sys
import zlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.cli.auditing import print_audit
from residua.plans import MatrixPlan
from residua.plans.noise import LAPLACE, NORMAL
from residua.plans.operators.tree import TreeNodes
from residua.plans.product.set_measurements import ResidualMeasurements
from residua.plans.statements import unit_to_body
from residua.release import pooled
from tests.laws.every_plan import NAMES, made
from tests.laws.product_plans import random_plan
from tests.resealed import reseal, reseal_document

FILE = Path(__file__).parents[2] / "verifier" / "residua_verify.py"
ROUNDING = Fraction(1, 2**38)  # by which the noise of a plan may be rounded up when it is measured
OF_EACH, PRODUCTS, MATRICES, TREES = 12, 300, 150, 60
LINES = 700  # so that a reviewer reads them in an afternoon


def _load():
    spec = importlib.util.spec_from_file_location("residua_verify", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["residua_verify"] = module
    spec.loader.exec_module(module)
    return module


second = _load()


def random_unit(chance, domain):
    names = [name for name, size in zip(domain.names, domain.sizes, strict=True) if size > 1] or domain.names
    records = chance.randint(1, 4)
    limits = {name: chance.randint(1, 3) for name in chance.sample(names, chance.randint(1, min(2, len(names))))}
    return chance.choice(
        [rs.AddRemove(records), rs.ReplaceOne(), rs.ReplaceOne(), rs.Person(records), rs.Person(records, per=limits)]
    )


def compared(plan, unit):
    """Both prices; the second is never above, and the same where the first is known to be exact."""
    own = plan.measurements.price(unit)
    other, _ = second.price(json.loads(json.dumps(plan.to_body())), None, unit_to_body(unit))
    assert other <= own * (1 + ROUNDING), f"{plan!r}, {unit}: the second verifier says {float(other)}, not {float(own)}"
    if unit.contribution is not None and not unit.contribution.limits:
        assert other >= own * (1 - Fraction(1, 10**9)), f"{plan!r}, {unit}: {float(other)} is not {float(own)}"
    return own, other


@pytest.mark.parametrize("name", NAMES)
def test_both_price_every_kind_of_plan_alike(name):
    chance = random.Random(name)
    for _ in range(OF_EACH):
        plan = made(name).scaled(chance.uniform(0.2, 5.0))
        compared(plan, random_unit(chance, plan.domain))


@pytest.mark.parametrize("part", range(10))
def test_both_price_random_products_alike(part):
    chance = random.Random(part)
    for number in range(PRODUCTS // 10):
        plan = random_plan(1000 * part + number)
        compared(plan, random_unit(chance, plan.domain))


def test_both_price_random_matrices_alike():
    chance, numbers = random.Random(5), np.random.default_rng(5)
    for number in range(MATRICES):
        sizes = {f"a{i}": int(n) for i, n in enumerate(numbers.integers(1, 5, 2))}
        domain, count = rs.Domain.of_sizes(sizes), int(numbers.integers(1, 6))
        cells = int(np.prod(list(sizes.values())))
        columns = np.append(np.arange(count), numbers.integers(-1, count, max(cells - count, 0)))[:cells]
        count = int(columns.max()) + 1
        rows = numbers.integers(-9, 10, (int(numbers.integers(1, 5)), count))
        if not rows.any():
            continue
        noise, guarantee = (LAPLACE, rs.PureDP(9.0)) if number % 3 == 0 else (NORMAL, rs.ZCDP(9.0))
        scale = float(numbers.uniform(1, 50))
        plan = MatrixPlan(domain, (0, 1), columns, rows, scale, guarantee=guarantee, noise=noise)
        compared(plan, random_unit(chance, domain))


def test_both_price_random_trees_alike():
    chance, numbers = random.Random(6), np.random.default_rng(6)
    for _ in range(TREES):
        plan = made("tree, crossed")
        parts = {}
        for members, operator in plan.parts.items():
            if isinstance(operator, TreeNodes):
                some = tuple(each * numbers.uniform(0.2, 5.0, len(each)) for each in operator.precisions)
                operator = replace(operator, precisions=some)
            parts[members] = operator
        plan = plan.with_parts(parts)
        compared(plan, random_unit(chance, plan.domain))


def test_a_thousand_plans_are_priced():
    assert OF_EACH * len(NAMES) + PRODUCTS + MATRICES + TREES >= 1000


@pytest.mark.parametrize("name", NAMES)
def test_the_stated_guarantee_covers_the_price_of_every_plan(name, tmp_path):
    made(name).save(tmp_path / "plan.json")
    assert second.verify(str(tmp_path / "plan.json"))["covered"]


# ---- releases, and the command


LEFT_OUT = {"marginals, limited": 0.1, "tables, limited": 0.3}
POOLED = ("matrix, queries", "by group", "axis, crossed")
RELEASED = (
    *("marginals", "products, limited", "matrix, queries", "blockwise", "axis, crossed", "by group", "tables"),
    *("tree, crossed", "pure tree", "runs", "axis, levels", "two axes", *LEFT_OUT),
)
RECORDS = {
    "t": pa.table({"t": ["0", "1", "5", "2"], "b": [0, 1, 2, 0], "one": ["only"] * 4}),
    "day": pa.table({"day": [0, 3, 6, 7], "b": ["x", "y"] * 2, "one": ["only"] * 4}),
    "sex": pa.table({"sex": ["F", "M"] * 2, "a": [0, 1, 2, 3], "b": [0, 1, 2, 4]}),
    "a": pa.table({"a": [0, 1, 2, 6] * 5, "b": [0, 1, 2, 0] * 5, "one": ["only"] * 20, "who": list(range(20))}),
}


def released(name, ledger, **options):
    plan = made(name)
    data = next(table for column, table in RECORDS.items() if column in plan.domain.names)
    return rs.measure(
        plan,
        rs.Source.frame(data, person="who") if isinstance(plan.unit, rs.Person) else data,
        ledger=ledger,
        **options,
    )


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("releases")
    for name in RELEASED:
        plan = made(name)
        most = rs.PureDP(99.0) if isinstance(plan.guarantee, rs.PureDP) else rs.ZCDP(99.0)
        ledger = rs.Ledger(folder / f"{name}.ledger", most, unit=plan.unit)
        options = {"left_out": LEFT_OUT[name]} if name in LEFT_OUT else {}
        first = released(name, ledger, **options)
        first.save(folder / name)
        if name in POOLED:
            pooled([first, released(name, ledger)]).save(folder / f"{name}, pooled")
    return folder


@pytest.mark.parametrize("name", [*RELEASED, *(f"{name}, pooled" for name in POOLED)])
def test_a_release_is_priced_by_what_it_keeps_of_its_measurements(name, releases):
    verdict = second.verify(str(releases / name))
    assert verdict["covered"]
    assert verdict["receipt"] >= verdict.get("pcost", verdict.get("epsilon"))
    statement = (releases / name / "PRIVACY.md").read_text()
    assert "residua_verify.py" in statement
    assert "residua audit" in statement


def run(*arguments):
    # Isolated: neither residua nor anything else that is installed can be imported by mistake.
    return subprocess.run([sys.executable, "-I", "-S", FILE, *arguments], capture_output=True, text=True, check=False)


def test_the_command_tells_by_its_exit_code(releases, tmp_path):
    done = run(str(releases / "marginals"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["covered"]
    plan = tmp_path / "plan.json"
    made("marginals").save(plan)
    assert run(str(plan)).returncode == 0
    assert run(str(plan), str(plan)).returncode == 2
    plan.write_bytes(plan.read_bytes().replace(b"0.5", b"0.4"))
    assert run(str(plan)).returncode == 2  # the digest does not fit
    body = made("marginals").to_body()
    reseal_document(plan, json.dumps({**body, "guarantee": {"kind": "zcdp", "rho": 0.4}}).encode())
    assert run(str(plan)).returncode == 1


def test_residua_audits_beside_it(releases, capsys):
    for name in RELEASED:
        assert print_audit(releases / name, as_json=True)
        facts = json.loads(capsys.readouterr().out)
        verdict = second.verify(str(releases / name))
        price = verdict.get("pcost", verdict.get("epsilon"))
        assert facts["prices"][0]["price"] >= price * (1 - 1e-15)
        assert "residua_verify.py" in facts["independently"]
    assert print_audit(releases / "marginals", as_json=False)
    assert "covers the price" in capsys.readouterr().out


# ---- planted defects


def forged(tmp_path, name, change):
    made(name).save(tmp_path / "plan.json")
    body = json.loads((tmp_path / "plan.json").read_bytes())["body"]
    change(body)
    reseal_document(tmp_path / "plan.json", json.dumps(body).encode())
    return second.verify(str(tmp_path / "plan.json"))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("matrix", lambda body: body.update(scale=body["scale"] / 2)),
        ("marginals", lambda body: body["guarantee"].update(rho=0.4999999)),
        ("marginals, k records", lambda body: body["guarantee"].update(epsilon=0.999)),
        ("marginals, k records", lambda body: body["guarantee"].update(delta=0.999e-6)),
        ("marginals, k records", lambda body: body["unit"].update(records=4)),
        ("marginals, limited", lambda body: body["unit"].update(per={})),
        ("blockwise", lambda body: body.update(precisions=[2 * tau for tau in body["precisions"]])),
        (
            "axis",
            lambda body: body["parts"][0]["operator"].update(factor=body["parts"][0]["operator"]["factor"] / 1.01),
        ),
        ("tables", lambda body: body.update(shares=[1.001 * share for share in body["shares"]])),
        ("by group", lambda body: body["members"][0].update(precisions=[1.0, 1.0])),
    ],
)
def test_a_forged_plan_is_found(name, change, tmp_path):
    assert not forged(tmp_path, name, change)["covered"]


FORGED = {
    "no records": ("marginals, k records", lambda body: body["unit"].update(records=0)),
    "negative records": ("marginals, limited", lambda body: body["unit"].update(records=-1)),
    "a fraction of a record": ("marginals, k records", lambda body: body["unit"].update(records=0.1)),
    "no limit": ("marginals, limited", lambda body: body["unit"].update(per={"a": -1})),
    "an unknown unit": ("marginals, k records", lambda body: body.update(unit={"kind": "nobody", "records": 1})),
    "no number": ("marginals", lambda body: body.update(precisions=[math.nan] * len(body["precisions"]))),
    "negative precisions": ("marginals", lambda body: body.update(precisions=[-x for x in body["precisions"]])),
    "negative shares": ("tables", lambda body: body.update(shares=[-x for x in body["shares"]])),
    "a share too many": ("tables", lambda body: body["shares"].append(9.0)),
    "a set twice": (
        "marginals",
        lambda body: (body["sets"].append({"size": 1, "members": [0]}), body["precisions"].append(1e-9)),
    ),
    "no values": ("marginals", lambda body: body["sizes"].update(a=0)),
    "half a value": ("marginals", lambda body: body["sizes"].update(a=6.5)),
    "too many values": ("marginals", lambda body: body["sizes"].update(a=10**12)),
    "a huge number": ("marginals", lambda body: body["sizes"].update(a=10**400)),
    "levels of other nodes": ("tree", lambda body: body.update(levels=body["levels"][1:])),
    "a network of another length": ("axis", lambda body: body["axes"][0]["network"].update(grounds=BOMB[:0])),
    "too few groups": ("by group", lambda body: body.update(chosen=[-1])),
    "groups with Laplace noise": ("by group", lambda body: body.update(members=[made("tables").to_body()] * 2)),
    "two kinds of noise": (
        "runs",
        lambda body: body["parts"].append({"members": [], "operator": {"kind": "total", "variance": 1e-12}}),
    ),
    "a Laplace tree by members": ("pure tree", lambda body: body["parts"][0].update(members=[0])),
    "another noise": ("tree", lambda body: body["parts"][0]["operator"].update(noise="none")),
    "levels from the end": ("tree", lambda body: body["parts"][0]["operator"].update(start=-1)),
    "levels that widen": ("tree", lambda body: body["parts"][0]["operator"].update(counts=[10**9] * 3)),
    "a text for a number": ("marginals", lambda body: body["guarantee"].update(rho="1e9")),
    "a negative guarantee": ("marginals, crossed", lambda body: body["guarantee"].update(mu=-1.0)),
    "a delta of 2": ("marginals, k records", lambda body: body["guarantee"].update(delta=2.0)),
    "a list for a table": ("marginals", lambda body: body.update(sizes=[1, 2])),
    "a text for a table": ("marginals", lambda body: body.update(unit="x")),
    "a bomb": ("axis", lambda body: body["axes"][0].update(q=BOMB)),
}
BOMB = base64.b85encode(zlib.compress(bytes(2**28), 9)).decode()
BODIES = {"nested": b"[" * 200_000, "empty": b"", "null": b"null", "twice": b'{"kind":"dense","kind":"pure"}'}


def refused(capsys, monkeypatch, path):
    """Whether the command ends with exit code 2 and one sentence, without another word."""
    monkeypatch.setattr(sys, "argv", ["residua_verify.py", str(path)])
    code, said = second.main(), capsys.readouterr()
    return code == 2 and not said.out and said.err.startswith("residua_verify: cannot tell: ") and said.err[-1:] == "\n"


@pytest.mark.parametrize("forgery", [*FORGED, *BODIES])
def test_a_file_that_no_plan_writes_is_refused_in_a_sentence(forgery, tmp_path, capsys, monkeypatch):
    path = tmp_path / "plan.json"
    made("axis").save(path)
    raw = BODIES.get(forgery)
    if raw is None:
        name, change = FORGED[forgery]
        body = json.loads(json.dumps(made(name).to_body()))
        change(body)
        raw = json.dumps(body).encode()
    reseal_document(path, raw)
    assert refused(capsys, monkeypatch, path)


def test_a_key_that_is_missing_is_never_covered(tmp_path, capsys, monkeypatch):
    path = tmp_path / "plan.json"
    made("marginals").save(path)
    needed = {"kind", "sizes", "unit", "guarantee", "sets", "precisions", "measured", "strategies"}
    for key in needed:
        body = json.loads(json.dumps(made("marginals").to_body()))
        assert needed <= body.keys()
        del body[key]
        reseal_document(path, json.dumps(body).encode())
        assert refused(capsys, monkeypatch, path), key
    assert refused(capsys, monkeypatch, tmp_path)
    assert refused(capsys, monkeypatch, tmp_path / "nothing")


def rewritten(folder, copy, change):
    shutil.copytree(folder, copy)
    body = json.loads((copy / "measured.json").read_bytes())["body"]
    arrays = change({name: np.array(numbers) for name, numbers in body.items()})
    reseal_document(
        copy / "measured.json", json.dumps({name: array.tolist() for name, array in arrays.items()}).encode()
    )
    reseal(copy)
    return str(copy)


def test_halved_noise_in_a_release_is_found(releases, tmp_path):
    change = lambda arrays: {**arrays, "scales": arrays["scales"] / 2}  # noqa: E731
    for name in RELEASED:
        assert not second.verify(rewritten(releases / name, tmp_path / name, change))["covered"], name


def test_grids_that_are_not_those_of_the_plan_are_found(releases, tmp_path):
    coarser = {
        "halved": lambda arrays: {**arrays, "grids": np.maximum(arrays["grids"] // 2, 1)},
        "left out": lambda arrays: {name: array for name, array in arrays.items() if name != "grids"},
    }
    for name, change in coarser.items():
        with pytest.raises(second.Refused, match="more noise than its plan"):
            second.verify(rewritten(releases / "marginals", tmp_path / name, change))


def test_a_receipt_below_the_cost_is_found(releases, tmp_path):
    for name in ("marginals", *LEFT_OUT):
        shutil.copytree(releases / name, tmp_path / name)
        release = tmp_path / name / "release.json"
        body = json.loads(release.read_bytes())["body"]
        currency = "epsilon" if "epsilon" in body["receipt"] else "pcost"
        body["receipt"][currency] *= 0.999
        reseal_document(release, json.dumps(body).encode())
        assert not second.verify(str(tmp_path / name))["covered"]
        del body["receipt"][currency]
        reseal_document(release, json.dumps(body).encode())
        assert run(str(tmp_path / name)).returncode == 2


def test_arrays_that_no_release_writes_are_refused(releases, tmp_path):
    """More of them, texts for numbers, numbers that are none."""
    arrays = json.loads((releases / "marginals" / "measured.json").read_bytes())["body"]
    forged = [[], {**arrays, "scales": ["1"] * len(arrays["scales"])}, {**arrays, "scales": arrays["scales"] + [1.0]}]
    for number, body in enumerate([*forged, {**arrays, "scales": [math.inf] * len(arrays["scales"])}]):
        copy = Path(shutil.copytree(releases / "marginals", tmp_path / str(number)))
        reseal_document(copy / "measured.json", json.dumps(body).encode())
        reseal(copy)
        done = run(str(copy))
        assert done.returncode == 2, body
        assert done.stderr.count("\n") == 1


def test_a_dropped_measurement_is_found(releases, tmp_path):
    change = lambda arrays: {name: array[:-1] for name, array in arrays.items()}  # noqa: E731
    for name in RELEASED:
        with pytest.raises(second.Refused):
            second.verify(rewritten(releases / name, tmp_path / name, change))


def test_a_defect_in_residuas_verifier_is_found(monkeypatch):
    true = ResidualMeasurements.added.__func__
    less = classmethod(lambda cls, several: true(cls, several) * (1 - Fraction(1, 10**6)))
    monkeypatch.setattr(ResidualMeasurements, "added", less)
    with pytest.raises(AssertionError, match="the second verifier says"):
        compared(made("marginals").replaced(), rs.AddRemove())


@pytest.mark.parametrize("name", ["weights", "plain"])
def test_a_defect_in_the_second_verifier_is_found(name, monkeypatch):
    weights, plain = second.Weights.__call__, second.plain
    wrong = {
        "weights": (second.Weights, "__call__", lambda *given: [2 * weight for weight in weights(*given)]),
        "plain": (second, "plain", lambda i, n: plain(i, max(n - 1, 1))),
    }
    monkeypatch.setattr(*wrong[name])
    with pytest.raises((AssertionError, IndexError)):
        compared(made("marginals"), rs.AddRemove())


def test_a_replaced_record_is_not_underpriced_where_factors_are_many():
    """Two columns of every factor have half their norm in common: two cells a quarter, which was taken for a half."""
    sizes = {f"a{i}": 2 for i in range(17)}
    sets = [{"size": 1, "members": list(range(17))}, {"size": 2, "members": [0, 1]}]
    rows = {"rows": [[1, 0], [1, 1], [0, 1]]}
    body = {"kind": "product", "sizes": sizes, "drops": False, "sets": sets, "strategies": [rows] * 17}
    body |= {"precisions": [1e-9] * 17 + [1.0], "measured": None}
    price, _ = second.price(body, unit={"kind": "replace"})
    assert price >= Fraction(3, 2) * (1 - Fraction(1, 10**9))  # (4 + 4 - 2 * 1) / 4 by the pair alone


def test_the_file_stands_alone_and_is_short():
    code = FILE.read_text()
    imported = {line.split()[1].split(".")[0] for line in code.splitlines() if line.startswith(("import ", "from "))}
    assert imported <= set(sys.stdlib_module_names) | {"__future__"}
    assert len(code.splitlines()) <= LINES


def test_factors_without_a_sign_are_not_lumped_together():
    """X alike while Y differs: sets with one of them are switched on without those with the other."""
    unit_rows = [[int(i == j) for j in range(20)] for i in range(19)]
    body = {
        "kind": "product",
        "sizes": {"a": 2, "b": 2, "x": 20, "y": 20},
        "unit": {"kind": "replace"},
        "drops": False,
        "strategies": [{"rows": None}, {"rows": None}, {"rows": unit_rows}, {"rows": unit_rows}],
        "sets": [{"size": 2, "members": [0, 2, 1, 2]}, {"size": 3, "members": [0, 1, 3]}],
        "precisions": [1.0, 1.0, 1.0],
        "measured": None,
        "guarantee": {"kind": "gdp", "mu": 10.0},
    }
    price, _ = second.price(body)
    assert float(price) >= 4.5 - 1e-9  # the worst pair of cells, by all of them
