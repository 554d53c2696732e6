"""Every door answers in one sentence, whatever is done to the file: a few hundred mutations of each kind, new each run.

The seeds are printed at the end of the run with the figures; with one of them as RESIDUA_FUZZ_SEED the same mutations
come again, and `python benchmarks/fuzzing.py` tries thousands.
"""

import os
import random
from collections.abc import Callable

import pytest

from tests.fuzzing import DOORS, fuzz

MUTATIONS = 300


@pytest.mark.parametrize("door", DOORS)
def test_every_mutation_ends_in_acceptance_of_an_equal_thing_or_in_one_sentence(
    door: str, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("RESIDUA_FUZZ_SEED", random.SystemRandom().randrange(2**32)))
    endings = fuzz(door, MUTATIONS, seed)
    record_property("fuzzing", f"{door}: {MUTATIONS} mutations, seed {seed}: {endings}")
    assert not endings.wrong, "\n".join(endings.wrong)
    assert endings.counted["refused"] > MUTATIONS / 3
