"""`residua verify` and `sign`: a release is what it says, or the command says what is not so."""

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import residua as rs
from residua.files import read_document, write_document
from tests.cli.command import Ended, inside, released


def keys(folder: Path, name: str) -> None:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pem").write_bytes(private)
    (folder / f"{name}.pub").write_bytes(public)


def forged(folder: Path) -> None:
    """Other measurements, with digests that are right: anyone can compute them."""
    import numpy as np

    from residua.files import digest_of

    integers = np.load(folder / "measurements.npy")
    np.save(folder / "measurements.npy", integers + 1)
    body = read_document(folder / "release.json", "residua release", 1)
    body["files"]["measurements.npy"] = digest_of((folder / "measurements.npy").read_bytes())
    write_document(folder / "release.json", "residua release", 1, body)


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    released(tmp_path)
    keys(tmp_path, "office")
    keys(tmp_path, "stranger")
    done = inside("sign", "out", "--key", "office.pem", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    return tmp_path


def verified(folder: Path, *options: str) -> Ended:
    return inside("verify", "out", *options, cwd=folder)


def test_a_release_that_is_what_it_says(signed: Path) -> None:
    done = verified(signed, "--ledger", "people.ledger", "--key", "office.pub")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("yes  ") == 4
    assert "people.ledger paid for it: released as out." in done.out
    said = json.loads(verified(signed, "--ledger", "people.ledger", "--json").out)
    assert said["verified"] is True
    rs.Release.load(signed / "out")  # a signature beside does not disturb


def test_one_changed_byte_is_noticed(signed: Path) -> None:
    path = signed / "out" / "measurements.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    done = verified(signed)
    assert done.code == 1
    assert "DO NOT TRUST THIS RELEASE." in done.out


def test_a_forged_release_passes_without_a_key_and_not_with_it(signed: Path) -> None:
    forged(signed / "out")
    assert verified(signed, "--ledger", "people.ledger").code == 0  # digests alone tell damage, not forgery
    done = verified(signed, "--key", "office.pub")
    assert done.code == 1
    assert "is NOT signed by the owner of office.pub" in done.out


def test_another_key_is_another_owner(signed: Path) -> None:
    assert verified(signed, "--key", "stranger.pub").code == 1
    assert inside("sign", "out", "--key", "stranger.pem", cwd=signed).code == 0
    assert verified(signed, "--key", "stranger.pub").code == 0
    assert verified(signed, "--key", "office.pub").code == 1


def test_the_ledger_that_did_not_pay(signed: Path) -> None:
    rs.Ledger.create(signed / "other.ledger", rs.ZCDP(1.0))
    done = verified(signed, "--ledger", "other.ledger")
    assert done.code == 1
    assert "other.ledger is not the one that paid for it" in done.out
    first, _ = (signed / "people.ledger").read_text().splitlines()
    shutil.copymode(signed / "people.ledger", signed / "other.ledger")
    (signed / "set back.ledger").write_text(first + "\n")  # a backup of before the release
    done = verified(signed, "--ledger", "set back.ledger")
    assert done.code == 1
    assert "the receipt is forged, or the ledger was set back" in done.out


def test_a_release_that_was_paid_for_with_less(signed: Path) -> None:
    (signed / "out").rename(signed / "small")
    spec = (signed / "spec.toml").read_text()
    released(signed, spec=spec.replace("rho = 0.5", "rho = 0.1"))
    receipt = read_document(signed / "out" / "release.json", "residua release", 1)["receipt"]
    body = read_document(signed / "small" / "release.json", "residua release", 1)
    body["receipt"] = receipt
    write_document(signed / "small" / "release.json", "residua release", 1, body)
    done = inside("verify", "small", "--ledger", "people.ledger", cwd=signed)
    assert done.code == 1
    assert "is of another cost than the release's" in done.out


def test_what_is_no_key_is_one_sentence_and_nothing_is_written(signed: Path) -> None:
    (signed / "out" / "signature.json").unlink()
    (signed / "nonsense.pem").write_text("no key")
    for key in ("nonsense.pem", "office.pub", "nowhere.pem"):
        done = inside("sign", "out", "--key", key, cwd=signed)
        assert (done.code, len(done.err.splitlines())) == (5, 1)
    assert not (signed / "out" / "signature.json").exists()
    done = verified(signed, "--key", "office.pub")
    assert done.code == 5
    assert "is not signed" in done.err
