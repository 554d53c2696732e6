"""Places that cannot be written to: taken names, permissions, full disks. Nothing is spent, or the release is kept."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import residua as rs
from residua.cli import planning, steps
from residua.release import reserve
from tests.cli.command import SPEC, Ended, inside, process, released
from tests.cli.mistakes import RELEASE, everything, one_sentence, refused, spent, started


def test_an_output_that_exists_or_cannot_be_made(folder: Path) -> None:
    for made in ("out", "out/file"):
        (folder / made).mkdir()
        refused(folder, "out=", "exists already", "choose another folder")
    refused(folder, "exists already", args=("release", "spec.toml", "--out", "."))
    refused(folder, "exists already", args=("release", "spec.toml", "--out", "people.csv"))
    (folder / "link").symlink_to("nowhere")
    refused(folder, "link", "exists already", args=("release", "spec.toml", "--out", "link"))
    refused(folder, "no/such", "does not exist", "make it", args=("release", "spec.toml", "--out", "no/such/out"))
    refused(folder, "does not exist", args=("release", "spec.toml", "--out", "people.csv/out"))
    refused(folder, "too long", "choose another", args=("release", "spec.toml", "--out", "x" * 300))
    refused(folder, "too long", "choose another", args=("release", "spec.toml", "--out", "x" * 250))


def test_an_output_whose_name_is_taken_meanwhile_keeps_the_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = steps.measure

    def measure_and_take(*args: object, **kwargs: object) -> rs.Release:
        release = measure(*args, **kwargs)  # type: ignore[arg-type]
        (folder / "out").mkdir()
        (folder / "out" / "other").touch()
        return release

    monkeypatch.setattr(steps, "measure", measure_and_take)
    one_sentence(inside(*RELEASE, cwd=folder), "out", "it is whole in", "The budget is spent", "debit 1 stands")
    [kept] = folder.glob("out-*")
    assert rs.Ledger(folder / "people.ledger").contains(rs.Release.load(kept).receipt["digest"])
    assert list(folder.glob(".*partial*")) == []


def without_powers(*args: str, cwd: Path) -> Ended:
    """Runs the command as a process to which permissions apply, even root's."""
    drop = "import ctypes; libc = ctypes.CDLL(None); [libc.prctl(24, c, 0, 0, 0) for c in (1, 2)]"
    return started(f"{drop}; ", *args, cwd=cwd)


def test_folders_and_files_that_may_not_be_written_or_read(folder: Path) -> None:
    ledger = spent(folder)
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0o555)
    closed = ("release", "spec.toml", "--out", "closed/out")
    refused(folder, "closed", "Permission denied", "choose another", args=closed, run=without_powers)
    ledger.chmod(0o444)
    refused(folder, "people.ledger", "Permission denied", "nothing was spent", run=without_powers)
    (folder / "spec.toml").write_text(SPEC.replace("people.ledger", "closed/people.ledger"))
    create = ("ledger", "create", "spec.toml")
    refused(folder, "closed/people.ledger", "Permission denied", args=create, run=without_powers)
    (folder / "closed").chmod(0o755)
    before = everything(folder)
    (folder / "people.csv").chmod(0)
    one_sentence(without_powers(*RELEASE, cwd=folder), "people.csv", "may not be read", "permissions")
    (folder / "people.csv").chmod(0o644)
    assert everything(folder) == before


BIG = SPEC.replace("high = 3", "high = 99999")  # 300 003 cells, 2.4 MB


@contextlib.contextmanager
def small_disk(at: Path, size: str) -> Iterator[bool]:
    """A file system of this size, where mounting is allowed; says whether it is."""
    at.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(at)], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", str(at)], check=True)


def limited(size: int) -> Callable[..., Ended]:
    """Runs the command so that no file can grow beyond a size."""

    def run(*args: str, cwd: Path) -> Ended:
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
        return started(limit, *args, cwd=cwd)

    return run


def fill(disk: Path) -> None:
    """Takes all the room there is."""
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 4096):
            pass


def test_a_release_that_does_not_fit_on_the_disk(folder: Path) -> None:
    (folder / "spec.toml").write_text(BIG)
    out = ("release", "spec.toml", "--out", "disk/out")
    with small_disk(folder / "disk", "2m") as mounted:
        if mounted:
            refused(folder, "no room for the release", "No space left", "nothing was spent", args=out)
            refused(folder, "no room for the release", "No space left", args=out, run=process)
            fill(folder / "disk")
            refused(folder, "disk", "No space left", args=out)
    refused(folder, "no room for the release", "File too large", "nothing was spent", run=limited(1_000_000))


def padded(ledger: Path, to: int) -> None:
    """A ledger with one debit, of exactly this many bytes."""
    made = rs.Ledger(ledger, rs.ZCDP(1.0))
    fingerprint = rs.Source.csv(ledger.parents[1] / "people.csv").fingerprint()
    empty = ledger.read_bytes()
    made.debit(Fraction(1, 8), purpose="earlier", dataset=fingerprint, detail={"pad": ""})
    spare = to - ledger.stat().st_size
    ledger.write_bytes(empty)
    rs.Ledger(ledger).debit(Fraction(1, 8), purpose="earlier", dataset=fingerprint, detail={"pad": "x" * spare})
    assert ledger.stat().st_size == to


def test_a_ledger_on_a_full_disk(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace("people.ledger", "disk/people.ledger"))
    said = ("disk/people.ledger", "the disk is full", "nothing was spent", "make space")
    with small_disk(folder / "disk", "64k") as mounted:
        if mounted:
            padded(folder / "disk" / "people.ledger", 4096 - 50)  # the next line needs one more page
            fill(folder / "disk")
            refused(folder, *said)
            (folder / "disk" / "people.ledger").unlink()
            fill(folder / "disk")
            create = ("ledger", "create", "spec.toml")
            refused(folder, "cannot create the ledger", "disk/people.ledger", "No space left", "has space", args=create)
    padded(folder / "disk" / "people.ledger", 1_000_000)
    refused(folder, *said, run=limited(1_000_050))


def test_room_that_was_reserved_stays_reserved(folder: Path) -> None:
    """The disk fills up after the debit; the release is written all the same."""
    release = released(folder, spec=BIG)
    with (
        small_disk(folder / "disk", "8m") as mounted,
        reserve(folder / "disk" / "again", release.planned, release.planned.compile()) as place,
    ):
        held = (place.partial / "measurements.npy").stat().st_blocks * 512
        assert held >= release.noisy.nbytes
        if mounted:
            fill(folder / "disk")
        place.commit(release)
        assert rs.Release.load(folder / "disk" / "again").receipt == release.receipt


@pytest.mark.parametrize("name", ["people.ledger", "people.csv", "spec.toml", "link", "out", "no/such.plan"])
def test_a_plan_is_saved_over_a_plan_only(folder: Path, name: str) -> None:
    spent(folder)
    (folder / "link").symlink_to("people.csv")
    (folder / "out").mkdir(exist_ok=True)
    refused(folder, "save", "; ", args=("plan", "spec.toml", "--save", name))


def test_a_plan_may_be_saved_again(folder: Path) -> None:
    for rho in (0.5, 0.25):
        (folder / "spec.toml").write_text(SPEC.replace("rho = 0.5", f"rho = {rho}"))
        assert inside("plan", "spec.toml", "--save", "a.plan", cwd=folder).code == 0
        assert rs.Plan.load(folder / "a.plan").guarantee == rs.ZCDP(rho)


def test_output_data_and_ledger_are_looked_at_before_the_planning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "best_plan", lambda *args, **options: pytest.fail("planned"))
    refused(folder, "exists already", args=("release", "spec.toml", "--out", "people.csv"))
    (folder / "other.csv").write_text("sex,years\nF,1\n")
    for wrong, said in (("nowhere.csv", "no file"), ("other.csv", "no column 'age'")):
        (folder / "spec.toml").write_text(SPEC.replace("people.csv", wrong))
        refused(folder, said)
    (folder / "spec.toml").write_text(SPEC.replace("people.ledger", "nowhere/people.ledger"))
    refused(folder, "there is no ledger", "residua ledger create", "If it was lost, restore it")
    (folder / "spec.toml").write_text(SPEC.replace("people.ledger", "people.csv"))
    refused(folder, "people.csv", "ledger")
