"""A store that dies anywhere loses nothing that it has acknowledged, and can be used again."""

import contextlib
import copy
import errno
import functools
import random

import pytest

from cannery.backends.directory import commits, journal, placement
from cannery.errors import StoreUnavailableError
from tests.backends.simulated_disk import Disk, Killed, Operations, at
from tests.storage.scenarios import Model, Scenario, check, go_on, open_simulated

POWER_LOSSES = 2000


@pytest.fixture(autouse=True)
def small_journal(monkeypatch):
    """Checkpoints after a few appends, so that they are killed too."""
    monkeypatch.setattr(commits, "CAPACITY", 12_000)
    monkeypatch.setattr(journal, "_STEPS", (8 << 10, 8 << 10))


def run(disk, plan=None, steps=None, seed=0):
    """A process that works until it is done or dies; what it was told."""
    model = Model()
    operations = Operations(disk, plan)
    store = None
    try:
        store = open_simulated(operations)
        scenario = Scenario(store, model, seed)
        if steps is None:
            scenario.everything()
        else:
            scenario.anything(steps)
        store.close()
    except Killed:
        pass
    return model, operations


def reopen_and_check(disk, model):
    model = copy.deepcopy(model)
    store = open_simulated(Operations(disk))
    check(store, model)
    go_on(store, model)
    store.close()
    again = open_simulated(Operations(disk))
    check(again, model)
    again.close()


@functools.cache
def points():
    """How many operations there are to be killed at."""
    _, operations = run(Disk())
    return operations.count


def test_there_are_enough_points():
    assert points() >= 500


@pytest.mark.parametrize("part", range(4))
def test_killed_and_power_lost_at_every_operation(part):
    """What is on the disk when a process is killed, and what may be left of it without power."""
    for point in range(1 + part, points() + 1, 4):
        disk = Disk()
        model, operations = run(disk, at(point))
        assert operations.is_dead
        reopen_and_check(disk.power_loss(point, keep=0.0), model)
        reopen_and_check(disk.power_loss(point), model)
        reopen_and_check(disk, model)


@pytest.mark.parametrize("part", range(4))
def test_disk_that_drops_reorders_and_tears(part):
    for seed in range(part, POWER_LOSSES, 4):
        chance = random.Random(seed)
        disk = Disk()
        model, operations = run(disk, at(chance.randint(1, 700)), steps=14, seed=seed)
        if not operations.is_dead:
            operations.die()
        lost = disk.power_loss(seed)
        if seed % 3 == 0:
            # The power fails again while the store is being mended.
            mending = Operations(lost, at(chance.randint(1, 30)))
            with contextlib.suppress(Killed):
                open_simulated(mending)
            mending.die()
            lost = lost.power_loss(seed + 1)
        reopen_and_check(lost, model)


def test_killed_beside_a_living_process():
    for point in range(1, points() + 1, 2):
        disk = Disk()
        other = open_simulated(Operations(disk))
        model, operations = run(disk, at(point))
        operations.die()
        check(other, model)
        go_on(other, model)
        other.close()
        reopen_and_check(disk, model)


def test_killed_and_refused_where_everything_is_synced_at_once(monkeypatch):
    """As it is done when many files are new: here from the first one on."""
    most = points()
    monkeypatch.setattr(placement, "_MANY", 0)
    _, whole = run(Disk())
    assert whole.count < most
    for point in range(1, whole.count + 1, 7):
        disk = Disk()
        model, operations = run(disk, at(point))
        assert operations.is_dead
        reopen_and_check(disk.power_loss(point, keep=0.0), model)
        reopen_and_check(disk, model)
        disk = Disk()
        model, operations = run_refused(disk, at(point, errno.EIO))
        operations.die()
        reopen_and_check(disk.power_loss(point), model)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_refused_at_every_operation(code):
    """Every step either is acknowledged and stays, or fails; afterwards the store goes on."""
    for point in range(1, points() + 1):
        disk = Disk()
        model, operations = run_refused(disk, at(point, code))
        operations.die()
        reopen_and_check(disk.power_loss(point), model)


def run_refused(disk, plan):
    """Like ``run``; a step that the medium refuses is noted as undecided, and the next one is tried."""
    model = Model()
    operations = Operations(disk, plan)
    try:
        store = open_simulated(operations)
    except (StoreUnavailableError, OSError):
        operations.plan = None
        store = open_simulated(operations)
    scenario = Scenario(store, model)
    try:
        scenario.everything()
    except StoreUnavailableError:
        # Nothing of it may be half there for the living, and what was acknowledged stays.
        check(store, model)
        go_on(store, model)
    with contextlib.suppress(StoreUnavailableError):
        store.close()
    return model, operations
