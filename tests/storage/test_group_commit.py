"""One thread works for all that wait; one that is interrupted holds up nobody."""

import os
import threading
import time

import pytest

from cannery.backends.directory import group_commit
from cannery.backends.directory.group_commit import Gathering


@pytest.fixture(params=["a bell", "a lock each"], autouse=True)
def waking(request, monkeypatch):
    if request.param == "a lock each":
        monkeypatch.delattr(os, "eventfd")


class Work:
    """Makes nothing, but only when it may, and notes for whom."""

    def __init__(self):
        self.batches = []
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, outcomes, is_lazy):
        self.batches.append(([outcome.build for outcome in outcomes], is_lazy))
        self.begun.set()
        assert self.may_end.wait(30)
        for outcome in outcomes:
            outcome.is_settled = True


def start(gathered, builds, durability, caught):
    def run():
        try:
            outcomes = gathered.submit(builds, durability)
            caught.append([outcome.failure() for outcome in outcomes])
        except KeyboardInterrupt as interrupt:
            caught.append(interrupt)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_for(gathered, count):
    until = time.monotonic() + 30
    while len(gathered._queue) < count:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_who_comes_meanwhile_shares_the_next_round():
    work, caught = Work(), []
    gathered = Gathering(work)
    threads = [start(gathered, ["first"], "sync", caught)]
    assert work.begun.wait(30)
    for number, builds in enumerate((["a", "b"], ["c"], ["d"]), 1):
        threads.append(start(gathered, builds, "os", caught))
        wait_for(gathered, number)
    work.may_end.set()
    for thread in threads:
        thread.join(30)
    assert work.batches == [(["first"], False), (["a", "b", "c", "d"], True)]
    assert sorted(map(len, caught)) == [1, 1, 1, 2]
    assert not any(failure for failures in caught for failure in failures)


def test_a_leader_who_is_interrupted_passes_the_lead_on(monkeypatch):
    work, caught = Work(), []
    gathered = Gathering(work)

    def interrupt(_):
        raise KeyboardInterrupt

    threads = [start(gathered, ["first"], "sync", caught)]
    assert work.begun.wait(30)
    threads.append(start(gathered, ["never"], "group", caught))
    wait_for(gathered, 1)
    threads.append(start(gathered, ["last"], "sync", caught))
    wait_for(gathered, 2)
    monkeypatch.setattr(group_commit.time, "sleep", interrupt)
    work.may_end.set()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert work.batches == [(["first"], False), (["last"], False)]
    assert [isinstance(one, KeyboardInterrupt) for one in caught].count(True) == 1


def test_those_behind_a_first_who_is_interrupted_come_again(monkeypatch):
    work, caught = Work(), []
    gathered = Gathering(work)
    sleep = group_commit._Order.sleep

    def wait_or_leave(order):
        if order.outcomes[0].build == "never":
            wait_for(gathered, 3)
            raise KeyboardInterrupt
        sleep(order)

    monkeypatch.setattr(group_commit._Order, "sleep", wait_or_leave)
    threads = [start(gathered, ["first"], "sync", caught)]
    assert work.begun.wait(30)
    for number, build in enumerate(("never", "second", "third"), 1):
        threads.append(start(gathered, [build], "sync", caught))
        if number < 3:
            wait_for(gathered, number)
    threads[1].join(30)
    work.may_end.set()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    made = sorted(build for builds, _ in work.batches for build in builds)
    assert made == ["first", "second", "third"]
    assert [isinstance(one, KeyboardInterrupt) for one in caught].count(True) == 1


def test_every_order_of_many_threads_is_made_once():
    made = []

    def make(outcomes, is_lazy):
        for outcome in outcomes:
            made.append(outcome.build)
            outcome.is_settled = True
        time.sleep(0.0001)

    gathered = Gathering(make)

    def order_all(name):
        for number in range(50):
            (outcome,) = gathered.submit([(name, number)], "sync")
            assert outcome.failure() is None

    threads = [threading.Thread(target=order_all, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(made) == [(name, number) for name in range(16) for number in range(50)]
    assert all(
        [number for one, number in made if one == name] == list(range(50)) for name in range(16)
    )
