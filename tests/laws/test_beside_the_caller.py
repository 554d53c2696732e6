"""Threads that read ahead and write behind: in order, no further than allowed, and no error is lost."""

import threading

import pytest

from residua.formats.writer import Behind
from residua.source.files import ahead


def counted(events: list[object], last: int):
    try:
        for i in range(last):
            events.append(i)
            yield i
        raise OSError("torn")
    finally:
        events.append("closed")


def test_items_come_in_order_and_one_more_is_made_at_most():
    events: list[object] = []
    before = set(threading.enumerate())
    items = ahead(counted(events, 10))
    assert [next(items), next(items)] == [0, 1]
    items.close()
    assert events in ([0, 1, "closed"], [0, 1, 2, "closed"])
    assert set(threading.enumerate()) <= before


def test_an_error_while_reading_comes_where_it_would_have_come():
    items = ahead(counted([], 3))
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="torn"):
        next(items)


def test_no_more_is_under_way_than_allowed_and_all_is_done_at_the_end():
    done, running, most, lock = [], [0], [0], threading.Lock()

    def job(i: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.002)
        with lock:
            running[0] -= 1
            done.append(i)

    with Behind(threads=2, most=3) as behind:
        for i in range(20):
            behind.do(job, i)
            assert i - len(done) < 4
    assert sorted(done) == list(range(20))
    assert most[0] <= 2


def test_what_fails_in_a_thread_is_raised_and_nothing_follows():
    done = []

    def job(i: int) -> None:
        if i == 2:
            raise OSError("no room on the disk")
        done.append(i)

    def all_jobs() -> None:
        with Behind(threads=1, most=2) as behind:
            for i in range(50):
                behind.do(job, i)

    with pytest.raises(OSError, match="no room"):
        all_jobs()
    assert len(done) < 10
