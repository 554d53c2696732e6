"""Planning small matrices takes one thread, large ones as many as the machine gives."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import residua as rs
from residua.machine import LARGE, threads_for
from residua.plans.planners.forecast import side_of


def blas() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_small_matrices_take_one_thread_and_large_ones_what_there_is():
    with threads_for(LARGE):  # every library is loaded
        pass
    with threadpool_limits(2, user_api="blas"):
        before = blas()
        assert 2 in before
        with threads_for(LARGE):
            assert set(blas()) == {1}
        with threads_for(LARGE + 1):
            assert blas() == before
        assert blas() == before


@pytest.mark.parametrize("values", [40, 2000])
def test_a_plan_is_made_with_one_thread(values):
    """Along an axis, however long, nothing large is decomposed."""
    domain = rs.Domain({"x": rs.Integers(0, values - 1)})
    seen = []
    with threadpool_limits(2, user_api="blas"):
        rs.plan(rs.prefixes(domain, "x"), rs.ZCDP(0.5), progress=lambda rounds, gap: seen.append(set(blas())))
        assert 2 in blas()
    assert seen
    assert all(threads == {1} for threads in seen)


def test_how_large_matrices_are():
    domain = rs.Domain({"x": rs.Integers(0, 1999), "y": ["a", "b"]})
    assert side_of(rs.prefixes(domain, "x")) == 2000
    assert side_of(rs.prefixes(domain, "y")) == 2
    assert side_of(rs.marginals(domain, ways=1)) == 1
    assert side_of(rs.queries(domain, ["y = 'a'"])) == 2
