"""Anything that a program may do with a store, in any order, beside a plain model of it; on every backend."""

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from cannery.backends.directory import commits, journal
from cannery.messages import user
from cannery.storage import open_store
from tests import servers
from tests.backends.simulated_disk import Disk, Operations
from tests.locations import key_in, new_database
from tests.storage.scenarios import Model, Scenario, check, living, open_simulated


class StoreMachine(RuleBasedStateMachine):
    """Append, fork, edit, delete, gc, reopen, die; ``open_store`` and ``die`` are the backend's."""

    conversations = Bundle("conversations")

    def __init__(self):
        super().__init__()
        self.keys = 0
        self.model = Model()
        self.open()

    def open_store(self):
        raise NotImplementedError

    def open(self):
        self.store = self.open_store()
        self.scenario = Scenario(self.store, self.model)

    def teardown(self):
        self.store.close()

    @initialize(target=conversations)
    def begin(self):
        return self.scenario.create()

    @rule(target=conversations)
    def create(self):
        return self.scenario.create()

    @rule(
        identifier=conversations,
        sizes=st.lists(st.sampled_from(["small", "large", "picture", "prompt"]), max_size=4),
    )
    def append(self, identifier, sizes):
        if sizes:
            self.scenario.append(identifier, *sizes)

    @rule(target=conversations, identifier=conversations)
    def file_some(self, identifier):
        return self.scenario.file(identifier, "small")

    @rule(target=conversations, identifier=conversations, where=st.floats(0, 1))
    def fork(self, identifier, where):
        return self.scenario.fork(
            identifier, round(where * len(self.model.conversations[identifier]))
        )

    @rule(identifier=consumes(conversations))
    def delete(self, identifier):
        self.scenario.delete(identifier)

    @rule()
    def collect(self):
        self.scenario.collect()

    @rule()
    def reopen(self):
        self.store.close()
        self.open()

    @rule()
    def die(self):
        self.end_process()
        self.open()

    def end_process(self):
        raise NotImplementedError

    @rule(identifier=conversations)
    def append_twice(self, identifier):
        """What is made again with its key is there once."""
        self.keys += 1
        canister = self.scenario.canister("small")
        conversation = self.store.get(identifier)
        revision = conversation.append(canister, key=f"key {self.keys}")
        self.model.conversations[identifier].append(canister)
        assert conversation.append(canister, key=f"key {self.keys}") == revision

    @rule()
    def stage(self):
        """What was staged and is not referred to disturbs nothing."""
        staged = self.store.stage([b"staged " * 1000])
        assert b"".join(staged.stream()) == b"staged " * 1000

    @rule(identifier=conversations)
    def search(self, identifier):
        for position, canister in enumerate(self.model.conversations[identifier]):
            if canister.text.startswith("small "):
                found = self.store.search(f'"{canister.text}"', limit=100)
                held = {(hit.identifier, hit.position) for hit in found}
                living = [
                    (name, position)
                    for name, history in self.model.conversations.items()
                    if name not in self.model.deleted
                    and canister in history[position : position + 1]
                ]
                assert held & set(living)
                assert held <= set(living)

    @rule()
    def rebuild(self):
        self.store.rebuild_index()

    @rule()
    def keep_scopes_apart(self):
        """Another scope, which says the same, is never seen."""
        other = self.store.within("other")
        filed = other.file([user("small 1"), user("elsewhere")])
        assert [one.identifier for one in other.list()] == [filed.identifier]
        other.delete(filed.identifier)

    @rule(identifier=conversations)
    def file(self, identifier):
        history = self.model.conversations[identifier]
        if history:
            filed = self.store.file(history)
            assert filed.added == 0
            held = self.model.conversations[filed.identifier]
            assert [one.text for one in held[: len(history)]] == [one.text for one in history]

    @invariant()
    def everything_is_there(self):
        check(self.store, self.model)
        assert {one.identifier for one in self.store.list()} == living(self.store)


class DirectoryMachine(StoreMachine):
    """A directory on a simulated disk, which loses power."""

    def __init__(self):
        self.capacity, commits.CAPACITY = commits.CAPACITY, 20_000
        self.steps, journal._STEPS = journal._STEPS, (8 << 10, 8 << 10)
        self.disk = Disk()
        super().__init__()

    def open_store(self):
        self.operations = Operations(self.disk)
        return open_simulated(self.operations)

    def end_process(self):
        self.operations.die()

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed):
        self.operations.die()
        self.disk = self.disk.power_loss(seed)
        self.open()

    def teardown(self):
        super().teardown()
        commits.CAPACITY = self.capacity
        journal._STEPS = self.steps


class SqliteMachine(StoreMachine):
    """One file; a process that dies leaves it as it is at that moment."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="cannery-"))
        self.lives = 0
        super().__init__()

    @property
    def path(self):
        return self.folder / f"{self.lives}.sqlite"

    def open_store(self):
        return open_store(f"sqlite:{self.path}")

    def end_process(self):
        left = self.path
        self.lives += 1
        for suffix in ("", "-wal"):
            if Path(f"{left}{suffix}").exists():
                shutil.copy(f"{left}{suffix}", f"{self.path}{suffix}")
        self.store.close()

    def teardown(self):
        super().teardown()
        shutil.rmtree(self.folder)


class PostgresqlMachine(StoreMachine):
    """A database; a process that dies leaves connections that the server must notice."""

    def __init__(self):
        self.made = contextlib.ExitStack()
        self.made.enter_context(servers.databases_dropped())
        self.url = new_database(with_bucket=True)
        super().__init__()

    def open_store(self):
        return open_store(self.url)

    def teardown(self):
        super().teardown()
        self.made.close()

    def end_process(self):
        backend = getattr(self.store.backend, "inner", self.store.backend)
        for connection in backend._pool._idle:
            with socket.socket(fileno=os.dup(connection.fileno())) as cut:
                cut.shutdown(socket.SHUT_RDWR)
        self.store.close()


class EncryptedMachine(SqliteMachine):
    """The same with a key: what holds of a store holds of an encrypted one."""

    def open_store(self):
        return open_store(f"sqlite:{self.path}", encryption_key=key_in(self.folder))


class EncryptedDirectoryMachine(DirectoryMachine):
    """An encrypted directory on a disk that loses power."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="cannery-"))
        super().__init__()

    def open_store(self):
        self.operations = Operations(self.disk)
        return open_simulated(self.operations, key_in(self.folder))

    def teardown(self):
        super().teardown()
        shutil.rmtree(self.folder)


class EncryptedPostgresqlMachine(PostgresqlMachine):
    """An encrypted database."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="cannery-"))
        super().__init__()

    def open_store(self):
        return open_store(self.url, encryption_key=key_in(self.folder))

    def teardown(self):
        super().teardown()
        shutil.rmtree(self.folder)


_SETTINGS = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestDirectory = DirectoryMachine.TestCase
TestDirectory.settings = _SETTINGS
TestEncrypted = EncryptedMachine.TestCase
TestEncrypted.settings = settings(_SETTINGS, max_examples=15)
TestEncryptedDirectory = EncryptedDirectoryMachine.TestCase
TestEncryptedDirectory.settings = settings(_SETTINGS, max_examples=15)
TestEncryptedPostgresql = EncryptedPostgresqlMachine.TestCase
TestEncryptedPostgresql.settings = settings(_SETTINGS, max_examples=6)
TestPostgresql = PostgresqlMachine.TestCase
TestPostgresql.settings = settings(_SETTINGS, max_examples=10)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = _SETTINGS
