"""Every door answers in one sentence, whatever is done to the file: a few hundred mutations of each kind.

They are the same in every run, so that a change is judged and not luck (only the noise in what is measured is new);
RESIDUA_FUZZ_SEED gives others, and `python -m benchmarks.fuzzing` tries thousands of new ones. The figures are printed
at the end of the run.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import residua as rs
from residua.errors import ResiduaError
from tests import fuzzing
from tests.fuzzing import DOORS, Door, fuzz

MUTATIONS = 300
SEED = 3344203241


@pytest.mark.parametrize("door", DOORS)
def test_every_mutation_ends_in_acceptance_of_an_equal_thing_or_in_one_sentence(
    door: str, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("RESIDUA_FUZZ_SEED", SEED))
    endings = fuzz(door, MUTATIONS, seed)
    record_property("fuzzing", f"{door}: {MUTATIONS} mutations, seed {seed}: {endings}")
    assert not endings.wrong, "\n".join(endings.wrong)
    assert endings.counted["refused"] > MUTATIONS / 3


def _hangs(folder: Path) -> object:
    damaged = _damaged(folder)
    while damaged:
        pass
    return "as it was"


def _takes_memory(folder: Path) -> object:
    return len(b"x" * 2**29 if _damaged(folder) else b"")


def _raises(folder: Path) -> object:
    return {}["what nobody caught"] if _damaged(folder) else "as it was"


def _accepts(folder: Path) -> object:
    return (folder / "plan.json").read_bytes()


def _damaged(folder: Path) -> bool:
    try:
        rs.Plan.load(folder / "plan.json")
    except ResiduaError:
        return True
    return False


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (_hangs, "raised: Hang"),
        (_takes_memory, "takes too much"),
        (_raises, "raised: KeyError"),
        (_accepts, "accepted: not equal"),
    ],
)
def test_a_planted_defect_is_found(read: Callable[[Path], object], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "SECONDS", 0.05 if read is _hangs else fuzzing.SECONDS)
    monkeypatch.setitem(DOORS, "planted", Door(DOORS["plan"].lay, read))
    assert any(words in line for line in fuzz("planted", 20, SEED).wrong)
