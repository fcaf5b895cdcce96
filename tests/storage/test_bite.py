"""The tests bite: without a sync, a checksum or the lock, they fail.

Each test takes one protection away and runs the same checks that guard it; they must object.
"""

import random
import threading
import time

import pytest

from cannery.backends.directory import DirectoryBackend, commits, journal, lines, packs
from cannery.backends.directory.files import OperatingSystem
from cannery.errors import CanneryError
from cannery.messages import ImageContentClass, UserCanisterClass, user
from cannery.storage import Store, open_store
from cannery.storage.description import describe
from tests.backends.simulated_disk import Disk, Operations, at
from tests.storage.scenarios import Model, Scenario, check, open_simulated


class WithoutSyncOf(Operations):
    """A process whose programmer forgot some syncs."""

    forgotten = ()

    def __init__(self, disk, plan=None):
        super().__init__(disk, plan)
        self.opened = {}

    def open(self, path, *, create=False):
        fd = super().open(path, create=create)
        self.opened[fd] = path
        return fd

    def sync(self, fd):
        if not any(word in self.opened[fd] for word in self.forgotten):
            super().sync(fd)

    def sync_directory(self, path):
        if "directories" not in self.forgotten:
            super().sync_directory(path)


def objections(operations_class, runs=60):
    """How many of some power losses are found out to have cost something."""
    found = 0
    for seed in range(runs):
        chance = random.Random(seed)
        disk = Disk()
        model = Model()
        operations = operations_class(disk, at(chance.randint(60, 700)))
        try:
            scenario = Scenario(open_simulated(operations), model, seed)
            scenario.everything()
        except BaseException as death:
            if not operations.is_dead:
                raise AssertionError("died of something else") from death
        operations.die()
        try:
            check(open_simulated(Operations(disk.power_loss(seed, keep=0.3))), model)
        except (AssertionError, CanneryError):
            found += 1
    return found


@pytest.fixture(autouse=True)
def small_journal(monkeypatch):
    monkeypatch.setattr(commits, "CAPACITY", 12_000)
    monkeypatch.setattr(journal, "_STEPS", (8 << 10, 8 << 10))


def test_with_every_sync_nothing_is_lost():
    assert objections(WithoutSyncOf) == 0


@pytest.mark.parametrize(
    "forgotten", ["journal", "messages.jsonl", ".pack", ".json", "directories"]
)
def test_without_a_sync_something_is_lost(forgotten):
    operations = type("Forgetful", (WithoutSyncOf,), {"forgotten": (forgotten,)})
    assert objections(operations) > 0


def test_without_the_order_of_journal_and_files_something_is_lost(monkeypatch):
    """Placing before syncing: lines may reach the disk whose content does not."""
    sync = journal.Journal.sync
    monkeypatch.setattr(journal.Journal, "sync", lambda self: None)
    note = journal.Journal.note_placed

    def late(self, progress):
        note(self, progress)
        if not progress.pending:
            sync(self)

    monkeypatch.setattr(journal.Journal, "note_placed", late)
    assert objections(WithoutSyncOf, 150) > 0


def test_without_the_checksum_of_a_line_a_wrong_one_is_read(path, monkeypatch):
    with open_store(path) as store:
        conversation = store.create()
        conversation.append(user("right"))
    log = path / "conversations" / conversation.identifier / "messages.jsonl"
    log.write_bytes(log.read_bytes().replace(b"right", b"wrong"))
    with open_store(path) as store:
        assert not store.verify().is_sound
        monkeypatch.setattr(
            lines, "ordinal_of", lambda line: int(line[: -len('.00000000"}')].rpartition(b'"')[2])
        )
        assert store.get(conversation.identifier).load()[0].text == "wrong"


def test_without_the_hash_of_content_a_wrong_one_is_read(path, monkeypatch):
    data = random.Random(0).randbytes(3000)
    with open_store(path) as store:
        identifier = store.create().identifier
        store.get(identifier).append(UserCanisterClass(ImageContentClass(data, "image/png")))
    (pack,) = path.glob("content/*.pack")
    stored = bytearray(pack.read_bytes())
    stored[-1] ^= 1
    pack.write_bytes(stored)
    with open_store(path) as store:
        with pytest.raises(CanneryError):
            store.get(identifier).hydrate()
        monkeypatch.setattr(
            packs,
            "_decode_at",
            lambda data, at, *_: data[at + packs.HEADER.size :][:3000],
        )
        assert store.get(identifier).hydrate()[0].content.data != data


class Unlocked(OperatingSystem):
    """Processes that do not wait for each other, and take their time where they should be alone."""

    def lock(self, fd, *, shared=False, wait=True):
        time.sleep(0.0005)
        return True

    def unlock(self, fd):
        pass


@pytest.mark.parametrize("files, is_safe", [(OperatingSystem, True), (Unlocked, False)])
def test_without_the_lock_lines_are_lost(path, files, is_safe):
    # Luck may spare one attempt, but not five.
    places = [path / str(number) for number in range(1 if is_safe else 5)]
    assert all(attempt(place, files) for place in places) is is_safe


def attempt(path, files):
    """Four writers who know nothing of each other but the lock; whether nothing was lost."""
    with open_store(path) as store:
        identifier = store.create().identifier
    stores = [Store(DirectoryBackend(files(str(path)), describe)) for _ in range(4)]
    problems = []

    def write(store, writer):
        try:
            for number in range(60):
                store.get(identifier).append(user(f"{writer} {number}"))
        except Exception as problem:  # noqa: BLE001 - anything goes wrong without a lock
            problems.append(problem)

    threads = [
        threading.Thread(target=write, args=(store, writer)) for writer, store in enumerate(stores)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        found = {one.text for one in stores[0].get(identifier).read().canisters}
    except CanneryError:
        return False
    return not problems and len(found) == 240
