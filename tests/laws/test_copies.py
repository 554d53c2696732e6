"""Copies of whatever is kept beside a ledger win nothing: a part of all schedules of kills, copies, rollbacks, races.

`python -m benchmarks.interleavings` runs thousands. Each law here fails if a defect is planted, as the last one shows.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest

from residua.measurement import continual, ledger_file, on_spark, once
from residua.session.accounts import SessionStanding
from tests.interleavings import DOORS, Schedules, places, room, run

# Every n-th schedule: a prime, so that all places have their turn; a second or two of a processor's time each.
EVERY = {
    "ledgers": 7,
    "continual releases": 11,
    "sessions": 7,
    "choices": 61,
    "choices in strata": 97,
    "adapted sessions": 257,
    "releases": 5,
    "scores": 3,
    "records per person": 5,
    "executors": 499,
    "executors, named files": 499,
}


def test_no_door_is_left_out():
    assert EVERY.keys() == DOORS.keys()


@pytest.mark.parametrize("door", DOORS)
def test_all_that_copies_learn_in_any_order_is_paid_for(door, record_property):
    endings, number = Counter(), 0
    for schedule in itertools.islice(Schedules(door), 0, None, EVERY[door]):
        endings += run(door, schedule)
        number += 1
    assert endings["done"]
    assert endings["killed"]
    record_property("interleavings", f"{door}: {number}: {dict(sorted(endings.items()))}")


@pytest.mark.parametrize("door", DOORS)
def test_every_place_of_a_deed_is_tried(door):
    for deed in DOORS[door].deeds:
        with room() as folder:
            world = DOORS[door](folder)
            world.do("a", deed, places(door, deed))  # one place more than there are
            assert world.outcomes == {"done": 1}


PLANTED = {
    "other data with the same noise": ("continual releases", continual, "require_same_data", lambda *_: None),
    "what was lost is forgotten": ("choices", SessionStanding, "lost", 0),
    "the last attempt is kept": ("executors", once, "_named", lambda *given: _named_again(*given)),
    "a debit that is not written": (
        "ledgers",
        ledger_file,
        "append",
        lambda *given, **where: _debits_lost(*given, **where),
    ),
    "a measurement before its debit": (
        "releases",
        ledger_file,
        "append",
        lambda *given, **where: _debits_lost(*given, **where),
    ),
    "scores before their debit": (
        "scores",
        ledger_file,
        "append",
        lambda *given, **where: _debits_lost(*given, **where),
    ),
    "a look before its debit": (
        "records per person",
        ledger_file,
        "append",
        lambda *given, **where: _debits_lost(*given, **where),
    ),
}


NAMED, APPEND = once._named, ledger_file.append


def _debits_lost(handle, path, after, body):
    if "cost" not in body:
        return APPEND(handle, path, after, body)
    with tempfile.NamedTemporaryFile() as elsewhere:
        return APPEND(elsewhere.fileno(), Path(elsewhere.name), after, body)


def _named_again(source, path, handle):
    path.unlink(missing_ok=True)
    return NAMED(source, path, handle)


@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_defect_is_found(defect):
    door, owner, name, wrong = PLANTED[defect]
    schedules = list(Schedules(door))
    random.Random(7).shuffle(schedules)
    with patch.object(owner, name, wrong), pytest.raises(AssertionError, match=r"learned .*, paid"):
        any(run(door, schedule) is None for schedule in schedules)


def test_executors_that_would_write_into_a_folder_that_was_put_back_are_found():
    held = once.same_folder
    rewound = [each for each in Schedules("executors").rewindings() if "repeated" in each[0][1]]
    random.Random(7).shuffle(rewound)
    wrong = patch.object(on_spark, "same_folder", lambda folder, _: held(folder, None))
    with wrong, pytest.raises(AssertionError, match=r"learned .*, paid"):
        any(run("executors", schedule) is None for schedule in rewound)
