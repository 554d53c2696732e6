"""Every door answers in one sentence, whatever is done to the file: a few hundred mutations of each kind.

They are the same in every run, so that a change is judged and not luck (only the noise in what is measured is new);
RESIDUA_FUZZ_SEED gives others, and `python -m benchmarks.fuzzing` tries thousands of new ones. The figures are printed
at the end of the run.
"""

import os
from collections.abc import Callable

import pytest

from tests.fuzzing import DOORS, fuzz

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
