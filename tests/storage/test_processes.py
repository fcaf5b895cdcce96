"""Real processes: many writers, killed writers, gc beside them, failing system calls."""

import contextlib
import errno
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from cannery.backends.directory import OperatingSystem
from cannery.errors import StorageError, StoreUnavailableError
from cannery.messages import assistant, user
from cannery.storage import open_store
from tests import servers
from tests.locations import key_in
from tests.storage import workers
from tests.storage.workers import finish, kill, start

WRITERS = 8
GC_SECONDS = float(os.environ.get("CANNERY_GC_SECONDS", "10"))

HOLDER = """
import fcntl, sys, time
for name in ("commit", "write"):
    file = open(f"{sys.argv[1]}/locks/{name}", "r+")
    globals()[name] = file
    fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def rounds_of(location, count):
    """So many rounds, and a tenth of them on a server, where each takes longer and others prove the server itself."""
    return count // 10 if location.startswith("postgresql:") else count


def test_writers_lose_nothing_and_keep_their_order(location):
    appends = rounds_of(location, 1000)
    with open_store(location) as store:
        identifier = store.create().identifier
        levels = ["sync", "group", "os", "sync"] * 2
        finish(
            [
                start(workers.append, location, identifier, writer, appends, levels[writer])
                for writer in range(WRITERS)
            ]
        )
        found = [one.text for one in store.get(identifier).load() if one.content.is_hydrated]
        assert len(found) == WRITERS * appends
        for writer in range(WRITERS):
            own = [text for text in found if text.startswith(f"{writer} ")]
            assert own == [f"{writer} {number}" for number in range(appends)]
        report = store.verify()
        assert report.is_sound
        assert report.contents == 1


def test_killed_writers_lose_nothing_that_was_acknowledged(location):
    kill_writers(location, rounds_of(location, 200))


def test_killed_writers_of_an_encrypted_store_lose_nothing(location, tmp_path):
    kill_writers(location, rounds_of(location, 50), key_in(tmp_path))


def kill_writers(location, rounds, *key):
    """Kill a writer again and again: what it was told is there, in order, and at most one message beyond."""

    def opened():
        return open_store(location, encryption_key=key[0] if key else None)

    with opened() as store:
        identifier = store.create().identifier
    chance = random.Random(0)
    told = 0
    for _ in range(rounds):
        process, heard = start(workers.append_and_tell, location, identifier, told, *key)
        first = heard.recv()
        time.sleep(chance.random() * 0.02)
        acknowledged = [first, *kill(process, heard)]
        if location.startswith("postgresql:"):
            # The server may still commit what the writer sent last.
            servers.postgres().wait_for_sessions(location)
        with opened() as store:
            numbers = [int(one.text.split()[0]) for one in store.get(identifier).load(told)]
        assert numbers[: len(acknowledged)] == acknowledged
        assert len(numbers) <= len(acknowledged) + 1
        told = numbers[-1] + 1
    with opened() as store:
        assert [int(one.text.split()[0]) for one in store.get(identifier).load()] == list(
            range(told)
        )
        assert store.verify().is_sound


def test_a_killed_holder_of_the_lock_blocks_nobody(path):
    with open_store(path) as store:
        conversation = store.create()
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout.readline() == "held\n"
        done = threading.Event()
        thread = threading.Thread(target=lambda: (conversation.append(user("x")), done.set()))
        thread.start()
        assert not done.wait(0.2)
        holder.kill()
        assert done.wait(30)
        thread.join()
        holder.communicate()


def test_gc_beside_writers(location, tmp_path):
    seconds = GC_SECONDS / (1 if ":" not in location else 5)
    stop = tmp_path / "stop"
    with open_store(location) as store:
        begun = time.monotonic()
        writers = [
            start(workers.churn, location, writer, 3 * seconds, stop) for writer in range(WRITERS)
        ]
        rounds = freed = 0
        while any(process.is_alive() for process, _ in writers):
            freed += store.collect_garbage().contents
            rounds += 1
            # On a machine with more to do than it can, writers that never wait for a disk leave gc little time.
            if rounds > 2 and freed and time.monotonic() - begun > seconds:
                stop.touch()
        finish(writers)
        freed += store.collect_garbage().contents
        assert rounds > 2
        assert freed > 0
        report = store.verify()
        assert report.is_sound, report.damages[:3]
        store.collect_garbage()
        assert store.verify().contents <= 20
        assert all(one.title.startswith("kept") for one in store.list())


def test_gc_beside_gc_and_writers(location):
    with open_store(location) as store:
        collectors = [start(workers.collect, location) for _ in range(3)]
        finish([start(workers.churn, location, writer, GC_SECONDS / 5) for writer in range(4)])
        assert all(process.is_alive() for process, _ in collectors)
        for process, heard in collectors:
            kill(process, heard)
        report = store.verify()
        assert report.is_sound, report.damages[:3]
        store.collect_garbage()
        assert store.verify().contents <= 20


def test_gc_killed_at_any_time(location):
    with open_store(location) as store:
        kept = store.create()
    chance = random.Random(0)
    rounds = max(rounds_of(location, 25), 8)
    for number in range(rounds):
        with open_store(location) as store:
            doomed = store.create()
            doomed.append(user(f"doomed {number} " * 200))
            store.get(kept.identifier).append(user(f"kept {number} " * 200))
            doomed.delete()
        process, heard = start(workers.collect, location)
        assert heard.recv() == "open"
        time.sleep(chance.random() * 0.02)
        kill(process, heard)
        with open_store(location) as store:
            texts = [one.text for one in store.get(kept.identifier).hydrate()]
            assert texts == [f"kept {index} " * 200 for index in range(number + 1)]
            assert store.verify().is_sound
    with open_store(location) as store:
        store.collect_garbage()
        assert store.verify().contents == rounds


def test_a_fork_of_the_process_must_open_again(location):
    with open_store(location) as store:
        conversation = store.create()
        child = os.fork()
        if not child:
            try:
                conversation.append(user("x"))
            except StorageError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        conversation.append(user("x"))


class Failing(OperatingSystem):
    """A medium on which every write is short, and one call fails."""

    def __init__(self, root):
        super().__init__(root)
        self.code = None

    def _fail(self):
        if self.code is not None:
            raise OSError(self.code, os.strerror(self.code))

    def write(self, fd, data, offset):
        self._fail()
        super().write(fd, data, offset)

    def sync(self, fd):
        self._fail()
        super().sync(fd)


def test_short_writes_are_completed(path, monkeypatch):
    whole = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda fd, data, at: whole(fd, data[: max(1, len(data) // 3)], at)
    )
    with open_store(path) as store:
        conversation = store.create()
        conversation.append(user("a" * 5000), assistant("b"))
        assert [one.text for one in conversation.hydrate()] == ["a" * 5000, "b"]
        monkeypatch.setattr(os, "pwrite", lambda fd, data, at: min(len(data) - 1, 0))
        with pytest.raises(StoreUnavailableError):
            conversation.append(user("c"))
        monkeypatch.setattr(os, "pwrite", whole)
        conversation.append(user("d"))
        assert [one.text for one in conversation.hydrate()] == ["a" * 5000, "b", "d"]
        assert store.verify().is_sound


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_medium_that_refuses_is_said_so_and_can_come_back(path, code):
    from cannery.backends.directory import DirectoryBackend
    from cannery.storage import Store
    from cannery.storage.description import describe

    files = Failing(str(path))
    with Store(DirectoryBackend(files, describe)) as store:
        conversation = store.create()
        conversation.append(user("a"))
        files.code = code
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                conversation.append(user("refused"))
            with contextlib.suppress(StoreUnavailableError):
                assert [one.text for one in conversation.load()] == ["a"]
        files.code = None
        conversation.append(user("b"))
        assert [one.text for one in conversation.load() if one.text != "refused"] == ["a", "b"]
        assert store.verify().is_sound
