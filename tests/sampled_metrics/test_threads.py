"""Linear algebra on one thread, and on as many as before afterwards."""

from threading import Barrier, Thread

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sampled_metrics._threads import one_thread
from sampled_metrics.bounds import bets, identification
from sampled_metrics.numerics import mixtures
from sampled_metrics.protocol import Protocol


def threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two():
    with threadpool_limits(2, user_api="blas"):
        if not threads() or set(threads()) != {2}:
            pytest.skip("BLAS cannot be asked, or has one thread only")
        yield


def test_an_interval_is_solved_on_one_thread(monkeypatch):
    seen = []
    likeliest = mixtures.likeliest

    def noted(*arguments):
        seen.extend(threads())
        return likeliest(*arguments)

    monkeypatch.setattr(bets, "likeliest", noted)
    identification.interval([61, 30, 10], Protocol(51, 2), "recall@10")
    assert set(seen) == {1}
    assert set(threads()) == {2}


def test_threads_are_restored_after_calls_that_overlap():
    both_within, one_left = Barrier(2), Barrier(2)

    @one_thread
    def first():
        both_within.wait(timeout=60)
        assert set(threads()) == {1}

    @one_thread
    def last():
        both_within.wait(timeout=60)
        one_left.wait(timeout=60)

    thread = Thread(target=last)
    thread.start()
    first()
    one_left.wait(timeout=60)
    thread.join()
    assert set(threads()) == {2}
