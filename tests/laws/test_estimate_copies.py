"""Attributes that are others under other names: what they say of their tables, and when they are taken for one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import residua as rs
from residua.estimation.observed import Copies, Observed, Public, copies_in, simulated
from residua.linalg.arrays import centred

SIZES = (5, 3, 5, 5)


def copied(disagreeing=0, records=5_000):
    """Four attributes, the third the first under other names but for some records; where each value went."""
    random = np.random.default_rng(6)
    names = np.array([3, 0, 4, 2, 1])
    first, second, other = (random.integers(0, n, records) for n in (5, 3, 5))
    third = names[first]
    third[:disagreeing] = random.integers(0, 5, disagreeing)
    return (first, second, third, np.where(random.random(records) < 0.5, first, other)), names


def counted(codes, members):
    shape = [SIZES[i] for i in members]
    return np.bincount(np.ravel_multi_index([codes[i] for i in members], shape), minlength=np.prod(shape)).reshape(
        shape
    )


def observed(codes, variance, ways=3):
    sets = [s for k in range(1, ways + 1) for s in combinations(range(4), k)]
    truth = lambda members: centred(counted(codes, members).astype(float))  # noqa: E731
    return Observed(rs.Domain.of_sizes(list(SIZES)), dict.fromkeys(sets, variance), truth)


def test_a_table_of_copies_is_that_of_the_originals_and_so_is_what_was_measured_of_it():
    codes, names = copied()
    told = observed(codes, 4.0)
    copies = Copies(told.domain.sizes, {2: (0, np.argsort(names))})
    without = copies.without(told)
    for members in told.variances:
        own = copies.originals(members)
        np.testing.assert_array_equal(copies.table(members, counted(codes, own)), counted(codes, members))
        assert (members in without.variances) == (own == members)
    for members in without.variances:
        np.testing.assert_allclose(without.residual(members), told.residual(members), atol=1e-9)


@pytest.mark.parametrize("members", [(0, 2), (0, 1, 2)])
def test_what_a_table_of_both_says_of_one_has_the_variance_that_is_stated_in_every_direction(members):
    """The covariance of the noise, exactly: each direction of the noise of the residual is passed through."""
    names = np.array([3, 0, 4, 2, 1])
    domain, shape = rs.Domain.of_sizes(list(SIZES)), [SIZES[i] for i in members]
    columns = []
    for cell in range(int(np.prod(shape))):
        noise = np.zeros(shape)
        noise.flat[cell] = 1.0
        told = Observed(domain, {members: 7.0}, lambda _, noise=noise: centred(noise))
        copies = Copies(domain.sizes, {2: (0, np.argsort(names))})
        without = copies.without(told)
        (own,) = without.variances
        columns.append(without.residual(own).ravel())
    covariance = 7.0 * np.transpose(columns) @ columns
    identity = np.eye(len(columns[0])).reshape([SIZES[i] for i in own] * 2)
    for axis in range(2 * len(own)):
        identity = identity - identity.mean(axis=axis, keepdims=True)
    np.testing.assert_allclose(covariance, without.variances[own] * identity.reshape(covariance.shape), atol=1e-12)


def test_attributes_are_taken_for_one_where_noise_leaves_no_doubt_and_nothing_speaks_against_it():
    """40 draws of NumPy's noise, which repeat: a copy is missed once in 700, and nothing else is taken for one."""
    found = []
    for seed in range(40):
        for disagreeing, stddev in ((0, 1.0), (0, 30.0), (500, 30.0), (0, 1_000.0)):
            codes, names = copied(disagreeing)
            told = observed(codes, stddev**2)
            noisy = simulated(told.domain, told.variances, told.residual, seed)
            of = copies_in(noisy, Public(told.domain), 5_000.0).of
            assert set(of) <= {2}
            if of:
                assert of[2][0] == 0
                np.testing.assert_array_equal(of[2][1], np.argsort(names))
            found.append((disagreeing, stddev, bool(of)))
    assert sum(there for disagreeing, stddev, there in found if not disagreeing and stddev < 100) >= 78
    assert not any(there for disagreeing, stddev, there in found if disagreeing or stddev > 100)


def test_what_is_public_of_an_attribute_keeps_it_apart():
    codes, _ = copied()
    told = observed(codes, 1.0)
    assert set(copies_in(told, Public(told.domain), 5_000.0).of) == {2}
    ruled = rs.Domain({name: told.domain[name] for name in told.domain.names}, impossible=[{"a2": 0, "a3": 1}])
    again = Observed(ruled, told.variances, told.residual)
    assert not copies_in(again, Public(ruled), 5_000.0).of
