"""Single things that once got through a door as a raw exception: each is refused in one sentence."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import residua as rs
from residua.cli.spec import read_spec
from residua.errors import ResiduaError
from tests.cli.command import SPEC
from tests.resealed import sealed
from tests.saved import saved

DEEP = 200_000


def spec(folder: Path, text: str) -> object:
    (folder / "spec.toml").write_text(text)
    return read_spec(folder / "spec.toml")


def plan(folder: Path, content: bytes) -> object:
    (folder / "plan.json").write_bytes(content)
    return rs.Plan.load(folder / "plan.json")


DOORS: dict[str, Callable[[Path], object]] = {
    "nested TOML": lambda folder: spec(folder, "a = " + "[" * DEEP),
    "nested TOML domain": lambda folder: (spec(folder, "a = " + "[" * DEEP), rs.Domain.load(folder / "spec.toml")),
    "many records": lambda folder: spec(folder, SPEC.replace("rho = 0.5", f"rho = 0.5\nrecords = {10**400}")),
    "a heavy weight": lambda folder: spec(folder, SPEC.replace("ways =", f"weight = {10**400}\nways =")),
    "nested JSON": lambda folder: plan(folder, b"[" * DEEP),
    "nested JSON, sealed": lambda folder: plan(folder, sealed("residua plan", 1, b"[" * DEEP + b"]" * DEEP)),
    "a body that is no table": lambda folder: plan(folder, sealed("residua plan", 1, b"3")),
    "a version that is no number": lambda folder: plan(folder, b'{"format":"residua plan","version":"1"}'),
    "a budget beyond all floats": lambda folder: rs.plan(rs.marginals(rs.Domain({"a": ["x"]}), ways=1), rs.ZCDP(1e308)),
    "a plan": lambda folder: rs.Plan.load("a\0b"),
    "a release": lambda folder: rs.Release.load("a\0b"),
    "a projection": lambda folder: rs.Projected.load("a\0b"),
    "a ledger": lambda folder: rs.Ledger("a\0b", rs.ZCDP(0.5)),
    "a session": lambda folder: rs.Session(saved() / "data.csv", rs.ZCDP(0.5), ledger=folder / "a", state="a\0b"),
    "a source": lambda folder: rs.Source.csv("a\0b"),
    "a domain": lambda folder: rs.Domain.load("a\0b"),
    "a specification": lambda folder: read_spec(Path("a\0b")),
    "a folder to save to": lambda folder: rs.Release.load(saved() / "residual_release").save("a\0b"),
    "a long name": lambda folder: rs.Release.load(saved() / "residual_release").save(folder / ("a" * 300)),
}


@pytest.mark.parametrize("what", DOORS)
def test_it_is_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    with pytest.raises(ResiduaError) as refused:
        DOORS[what](tmp_path)
    sentence = str(refused.value)
    assert sentence.isprintable()
    assert sentence.endswith(".")


def test_every_flipped_bit_of_a_plans_header_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    path = Path(shutil.copy(saved() / "residual.json", tmp_path / "plan.json"))
    content, original = path.read_bytes(), rs.Plan.load(path)
    refused = 0
    for at in range(content.index(b'"body":')):
        changed = bytes([content[at] ^ 1 << at % 8])
        path.write_bytes(content[:at] + changed + content[at + 1 :])
        try:
            assert rs.Plan.load(path).equivalent(original)
        except ResiduaError:
            refused += 1
    assert refused > 50
