"""Which files only their owner may read, and that the umask decides for all others."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import residua as rs
from tests.laws.sessions import BUDGET, DATA, DOMAIN, ONE, TWO
from tests.saved import saved


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o027])
def test_confidential_files_are_the_owners_and_the_umask_decides_for_all_others(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        session = rs.Session(DATA, BUDGET, ledger=tmp_path / "one.ledger")
        session.choose({"one": ONE, "two": TWO}).finish("two").save(tmp_path / "release")
        ONE.save(tmp_path / "plan.json")
        DOMAIN.save(tmp_path / "domain.toml")
        released = rs.Release.load(tmp_path / "release")
        released.table(["sex"]).to_csv(tmp_path / "sex.csv")
        rs.project(released).save(tmp_path / "projection")
    state = tmp_path / "one.ledger.session"
    confidential = [tmp_path / "one.ledger", state / "session.json", state / "lock"]
    assert {mode(path) for path in confidential} == {0o600}
    assert {mode(path) for path in (state, state / "parts", state / "choices")} == {0o700}
    rest = [path for path in tmp_path.rglob("*") if path.is_file() and path not in confidential]
    assert len(rest) > 20
    assert {mode(path) for path in rest} == {0o666 & ~mask}


def test_a_session_that_was_copied_open_to_others_goes_on_and_is_closed_to_them(tmp_path: Path) -> None:
    shutil.copytree(saved() / "session", tmp_path / "session")
    shutil.copy(saved() / "session.ledger", tmp_path / "session.ledger")
    (tmp_path / "session").chmod(0o755)
    (tmp_path / "session" / "session.json").chmod(0o644)
    session = rs.Session(saved() / "data.csv", ledger=tmp_path / "session.ledger", state=tmp_path / "session")
    assert len(session.status.parts) == 2
    assert mode(tmp_path / "session") == 0o700
    assert mode(tmp_path / "session" / "session.json") == 0o600


def test_the_noise_of_a_continual_release_is_the_owners_alone_wherever_its_folder_comes_from(tmp_path: Path) -> None:
    """A folder that was there before, and a copy that is open to others, are closed when they are opened."""
    domain = rs.Domain({"month": rs.Integers(1, 6)})
    plan = rs.plan(rs.prefixes(domain, "month"), rs.ZCDP(0.5), form=rs.Axis())
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(0.5))
    folder = tmp_path / "stream"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    noise = folder / "confidential-noise.json"
    stream = rs.Continual(folder, ledger=ledger, plan=plan)
    assert (mode(folder), mode(noise)) == (0o700, 0o600)
    folder.chmod(0o777)
    noise.chmod(0o644)
    assert rs.Continual(folder, ledger=ledger).periods == stream.periods == 0
    assert (mode(folder), mode(noise)) == (0o700, 0o600)


def test_session_json_alone_does_not_tell_whether_a_guess_of_the_data_is_right(tmp_path: Path) -> None:
    """Every digest that its own numbers allow is tried with the true fingerprint; none is in the file."""
    import hashlib
    import hmac
    import json

    from residua.source import source_of

    session = rs.Session(DATA, BUDGET, ledger=tmp_path / "one.ledger")
    body = json.loads((session.path / "session.json").read_bytes())["body"]
    fingerprint = source_of(DATA).fingerprint()
    held = [str(value) for value in body.values()]
    for salt in ["", *held]:
        for guess in (f"{salt}:{fingerprint}", f"{salt}{fingerprint}"):
            assert hashlib.sha256(guess.encode()).hexdigest() not in held
        assert hmac.new(salt.encode(), fingerprint.encode(), "sha256").hexdigest() not in held
    assert "salt" not in body
    rs.Session(DATA, ledger=tmp_path / "one.ledger")  # and the ledger beside it does tell
