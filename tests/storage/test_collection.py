"""gc does work in proportion to what was deleted, and never trusts an index that contradicts itself."""

import random
import sqlite3

import pytest

from cannery.backends.directory import DirectoryBackend, catalogue
from cannery.backends.directory.collection import Collector
from cannery.backends.directory.files import OperatingSystem
from cannery.messages import assistant, invocation, result, supervisor, user
from cannery.storage import Store, open_store
from cannery.storage.description import describe

LONG = "a long text that lies in a pack " * 60


class Counting(OperatingSystem):
    """Counts what is opened and listed."""

    def __init__(self, root):
        super().__init__(root)
        self.opened = 0

    def open(self, path, *, create=False):
        self.opened += 1
        return super().open(path, create=create)

    def names(self, path):
        found = super().names(path)
        self.opened += len(found)
        return found

    def folders(self, path):
        found = super().folders(path)
        self.opened += len(found)
        return found


def looks_of_gc(path, kept):
    """How many files a gc looks at that frees one of so many conversations."""
    files = Counting(str(path))
    with Store(DirectoryBackend(files, describe)) as store:
        for number in range(kept):
            store.create(canisters=[user(f"{number} {LONG}"), assistant("short")])
        store.collect_garbage(grace=0)
        store.create(canisters=[user(f"gone {LONG}")]).delete()
        store.list(limit=1)
        before = files.opened
        found = store.collect_garbage(grace=0)
        assert (len(found.conversations), found.contents) == (1, 1)
        return files.opened - before


def test_gc_looks_only_at_what_was_deleted(tmp_path):
    assert looks_of_gc(tmp_path / "large", 200) <= looks_of_gc(tmp_path / "small", 10) + 5


class Watched(OperatingSystem):
    """Counts the syncs during which others wait for the lock under which everybody writes."""

    def __init__(self, root):
        super().__init__(root)
        self.writing = None
        self.is_held = False
        self.syncs = 0
        self.most = 0

    def open(self, path, *, create=False):
        fd = super().open(path, create=create)
        self.writing = fd if path == "locks/write" else self.writing
        return fd

    def lock(self, fd, *, shared=False, wait=True):
        found = super().lock(fd, shared=shared, wait=wait)
        if fd == self.writing:
            self.is_held, self.syncs = True, 0
        return found

    def unlock(self, fd):
        if fd == self.writing:
            self.is_held, self.most = False, max(self.most, self.syncs)
        super().unlock(fd)

    def sync(self, fd):
        self.syncs += self.is_held
        super().sync(fd)

    def sync_directory(self, path):
        self.syncs += self.is_held
        super().sync_directory(path)

    def sync_all(self):
        self.syncs += self.is_held
        return super().sync_all()


@pytest.mark.parametrize("written", [1, 20, 200])
def test_writers_wait_for_few_syncs_of_gc(tmp_path, written):
    files = Watched(str(tmp_path / "store"))
    with Store(DirectoryBackend(files, describe)) as store:
        kept = [store.create(canisters=[user(f"{number} {LONG}")]) for number in range(written)]
        store.collect_garbage(grace=0)
        for number, conversation in enumerate(kept):
            conversation.append(user(f"more {number} {LONG}"))
            store.create(canisters=[user(f"gone {number} {LONG}")]).delete()
        files.most = 0
        assert len(store.collect_garbage(grace=0).conversations) == written
        # The change log and its folder, what was taken out and where it went, and the journal twice.
        assert files.most <= 7


def test_content_that_was_freed_can_be_stored_again(tmp_path):
    with open_store(tmp_path / "store") as store, open_store(tmp_path / "store") as other:
        assert other.list() == ()
        for _ in range(3):
            other.create(canisters=[supervisor("prompt " + LONG)]).delete()
            assert store.collect_garbage(grace=0).contents == 1
            kept = other.create(canisters=[supervisor("prompt " + LONG)])
            assert store.get(kept.identifier).hydrate()[0].text == "prompt " + LONG
            assert store.verify().is_sound
            kept.delete()
            assert store.collect_garbage(grace=0).contents == 1
    with open_store(tmp_path / "store") as store:
        assert store.verify().contents == 0
        again = store.create(canisters=[supervisor("prompt " + LONG)])
        assert again.hydrate()[0].text == "prompt " + LONG
        assert store.verify().is_sound


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM uses WHERE id = :kept",
        "DELETE FROM uses",
        "UPDATE contents SET users = users - 1",
        "UPDATE contents SET users = 0",
        "UPDATE contents SET users = 7",
    ],
)
def test_gc_frees_nothing_that_a_hidden_row_still_refers_to(tmp_path, damage):
    path = tmp_path / "store"
    with open_store(path) as store:
        kept = store.create(canisters=[user(LONG)])
        gone = store.create(canisters=[user(LONG)])
        gone.delete()
        store.list()
        damage_index(path, damage, {"kept": kept.identifier})
        found = store.collect_garbage(grace=0)
        assert found.conversations == (gone.identifier,)
        assert found.contents == 0
        assert kept.hydrate()[0].text == LONG
        assert store.verify().is_sound


@pytest.mark.parametrize(
    "damage", ["DELETE FROM conversations WHERE id = :kept", "UPDATE forks SET count = 0"]
)
def test_gc_frees_nothing_that_a_hidden_fork_needs(tmp_path, damage):
    path = tmp_path / "store"
    with open_store(path) as store:
        parent = store.create(canisters=[user(LONG), assistant("one"), user("two")])
        fork = parent.fork(2)
        parent.delete()
        store.list()
        damage_index(path, damage, {"kept": fork.identifier})
        assert store.collect_garbage(grace=0).conversations == ()
        assert [one.text for one in fork.hydrate()] == [LONG, "one"]
        assert store.verify().is_sound


def damage_index(path, statement, values):
    with sqlite3.connect(path / "index.sqlite") as connection:
        connection.execute(statement, values)
    connection.close()


def test_packs_that_hold_little_are_written_anew(tmp_path):
    path = tmp_path / "store"
    with open_store(path) as store:
        kept = store.create(canisters=[user(LONG)])
        for number in range(8):
            noise = random.Random(number).randbytes(300 << 10)
            store.create(canisters=[user(noise.hex())]).delete()
        store.stage([random.Random(8).randbytes(4 << 20)])
        before = sum(item.stat().st_size for item in path.glob("content/*.pack"))
        assert store.collect_garbage(grace=0).contents == 9
        after = sum(item.stat().st_size for item in path.glob("content/*.pack"))
        assert after < before
        assert kept.hydrate()[0].text == LONG
        report = store.verify()
        assert report.is_sound
        assert report.contents == 1


def test_a_fork_of_what_was_deleted_is_recognised_by_an_index_that_is_new(tmp_path):
    said = [user("question"), assistant("answer"), user("more")]
    with open_store(tmp_path / "store") as store:
        parent = store.create(canisters=said[:2])
        fork = parent.fork(2)
        fork.append(said[2])
        parent.delete()
    for item in (tmp_path / "store").glob("index.sqlite*"):
        item.unlink()
    with open_store(tmp_path / "store") as store:
        filed = store.file([*said, assistant("done")])
        assert (filed.identifier, filed.known, filed.added) == (fork.identifier, 3, 1)
        assert [one.identifier for one in store.list()] == [fork.identifier]
        assert [one.identifier for one in store.search("answer")] == [fork.identifier]
        assert store.verify().is_sound


def test_gc_keeps_what_is_forked_and_deleted_while_it_looks(tmp_path, monkeypatch):
    """The index may learn that a conversation was deleted before it learns of a fork that was made earlier."""
    path = str(tmp_path / "store")
    with open_store(path) as store, open_store(path) as other:
        made = {}
        for name, who in (("own", store), ("of another process", other)):
            made[name] = who, who.create(title=name, canisters=[user(f"{name} {LONG}"), user("b")])
        # A fork that is deleted needs its parent when it is forked itself.
        middle = made["own"][1].fork(2)
        middle.append(user("c"))
        forks = {}
        doubts = Collector._doubts

        def work(collector):
            forks["of the fork"] = middle.fork(3)
            middle.delete()
            for name, (who, conversation) in made.items():
                forks[name] = who.get(conversation.identifier).fork(2)
                conversation.delete()
            # Another reader of the index looks at some, and not yet at the others.
            names = [middle.identifier, *(one.identifier for _, one in made.values())]
            collector._catalogue.look_again(names)
            return doubts(collector)

        monkeypatch.setattr(Collector, "_doubts", work)
        store.search("own")
        assert store.collect_garbage(grace=0).conversations == ()
        monkeypatch.undo()
        for name, fork in forks.items():
            said = "own" if name == "of the fork" else name
            texts = [one.text for one in store.get(fork.identifier).hydrate()]
            assert texts[:2] == [f"{said} {LONG}", "b"]
        assert store.verify().is_sound
        found = [store.search(word) for word in ("own", "another", "c")]
        assert all(found)
        store.rebuild_index()
        assert [store.search(word) for word in ("own", "another", "c")] == found
        for fork in forks.values():
            store.get(fork.identifier).delete()
        assert len(store.collect_garbage(grace=0).conversations) == 6


def test_a_long_conversation_is_indexed_in_short_transactions(tmp_path, monkeypatch):
    """Forks of it are recognised as if it had been indexed at once, and others write between the transactions."""
    path = str(tmp_path / "store")
    with open_store(path) as store:
        said = [
            (user if number % 2 == 0 else assistant)(f"message {number}") for number in range(500)
        ]
        long = store.create(canisters=said)
        fork = long.fork(450)
        fork.append(user("another way"))
        below = fork.fork(451)
        below.append(assistant("and another"))
        monkeypatch.setattr(catalogue, "_LINES", 20)
        monkeypatch.setattr(catalogue, "_TURN", 0.0002)
        file = store.backend.catalogue.file
        lengths, write = [], file.write

        def counted(work):
            def look(connection):
                found = work(connection)
                query = "SELECT length FROM conversations WHERE id = ?"
                lengths.append(connection.execute(query, (long.identifier,)).fetchone())
                return found

            return write(look)

        monkeypatch.setattr(file, "write", counted)
        store.rebuild_index()
        seen = [one[0] for one in lengths if one is not None]
        assert len(set(seen)) > 3
        assert seen == sorted(seen)
        assert {one.count for one in store.list()} == {500, 451, 452}
        for held in (long, fork, below):
            filed = store.file(held.load())
            assert (filed.added, filed.identifier) == (0, held.identifier)
        assert [one.position for one in store.search("another")] != []
        assert store.verify().is_sound


def test_forks_of_what_gc_has_cut_stay_in_its_tree(store):
    """A tree, and which call a result answers, are the same whether the catalogue is built again or not."""
    call = invocation("call-1", "look", {"at": "x"})
    parent = store.create(canisters=[user("question"), call, user("gone")])
    fork = parent.fork(2)
    below = fork.fork(2)
    parent.delete()
    store.collect_garbage(grace=0)
    answered = [user("question"), call, result("call-1", "found")]
    fork.append(answered[2])
    names = {parent.identifier, fork.identifier, below.identifier}
    for _ in range(2):
        assert {one.identifier for one in store.backend.catalogue.tree(below.identifier)} == names
        assert store.recognise(answered).match.known == 3
        store.rebuild_index()
