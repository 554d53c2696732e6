"""Where random bits come from: the operating system, and nowhere else."""

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from residua.errors import PrivacyError


class Entropy(Protocol):
    """A source of independent, uniform 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` fresh words, shape (count,)."""
        ...


class SystemEntropy:
    """The operating system's cryptographic generator.

    Guarantee:
        It has no state in this process: there is no seed to set, to repeat, or to share across a fork.

    Example:
        >>> SystemEntropy().words(3).shape
        (3,)
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` fresh words, shape (count,)."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def take(entropy: Entropy, count: int) -> NDArray[np.uint64]:
    """Take `count` words and check that all arrived: a short answer would be broadcast, and words reused."""
    words = entropy.words(count)
    if words.shape != (count,) or words.dtype != np.uint64:
        raise PrivacyError(
            f"the entropy source returned {words.dtype} of shape {words.shape} where {count} words of uint64 "
            "were asked for; correct its words() method"
        )
    return words
