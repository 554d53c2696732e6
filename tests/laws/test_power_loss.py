"""After power loss at any moment the ledger shows no less than what was released, and what is left wins nothing.

A part of all states in which the disk may be; `python -m benchmarks.interleavings --power-loss` takes all.
"""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest

from residua.measurement import ledger_file
from tests.interleavings import DOORS
from tests.power_loss import losses, run

FEW = {"sessions": 12, "choices": 8, "choices in strata": 5, "adapted sessions": 4}  # states; of others, 40


@pytest.mark.parametrize("door", DOORS)
def test_the_ledger_shows_no_less_than_what_was_released(door, record_property):
    deed = DOORS[door].deeds[0]
    states = list(losses(door, deed))
    few = states[:: max(len(states) // FEW.get(door, 40), 1)]
    endings = sum((run(world, image, deed) for world, image in few), Counter())
    assert endings["done"]
    record_property("power loss", f"{door}: {len(few)} of {len(states)} states: {dict(sorted(endings.items()))}")


@pytest.mark.parametrize("door", ["ledgers", "continual releases", "sessions", "releases", "scores", "executors"])
def test_a_debit_that_is_not_synced_is_found(door):
    deed = DOORS[door].deeds[0]
    with patch.object(ledger_file, "sync", lambda handle: None):
        states = list(losses(door, deed))
    with pytest.raises(AssertionError, match="learned"):
        any(run(world, image, deed) is None for world, image in states)
