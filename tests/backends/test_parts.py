"""Long conversations in short transactions: what others do between two parts of a rebuild or of gc."""

import contextlib
import random
import sqlite3

import pytest

from cannery.backends.postgresql import catalogue as postgresql
from cannery.backends.sqlite import catalogue as sqlite_catalogue
from cannery.backends.sqlite import contents as sqlite_contents
from cannery.errors import ConversationNotFoundError
from cannery.messages import assistant, invocation, result, user
from cannery.storage import open_store
from tests.locations import new_database

PART = 7


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_catalogue, "PART", PART)
    monkeypatch.setattr("cannery.backends.sqlite.collection.PART", PART)
    monkeypatch.setattr(postgresql, "_PART", PART)
    return new_database() if request.param == "postgresql" else f"sqlite:{tmp_path / 's.db'}"


def long_history(chance, length):
    """Questions, answers, calls and results, of which some are long enough to be content."""
    history = [user("the first question")]
    calls = []
    while len(history) < length:
        text = f"word{len(history)} " * chance.choice([1, 3, 400])
        kind = chance.randrange(4)
        if kind == 0:
            calls.append(f"call-{len(calls)}")
            history.append(invocation(calls[-1], "look", "{}"))
        elif kind == 1 and calls:
            history.append(result(chance.choice(calls), text))
        else:
            history.append(chance.choice([user, assistant])(text))
    return history


def known_of(store):
    """All that the catalogue knows, without what only says when."""
    listed = sorted((one.identifier, one.title, one.count, one.tags) for one in store.list())
    words = sorted((one.identifier, one.position) for one in store.search("word1*", limit=500))
    catalogue = store.backend.catalogue
    said = [(name, catalogue.said_before(name, at)) for name, *_ in listed for at in range(60)]
    return listed, words, said


def deriving_of(store):
    """What derives a part, and the conversations that there are."""
    backend = store.backend
    if hasattr(backend, "_database"):
        deriving = sqlite_catalogue._Deriving(backend, backend._describe)

        def part(number):
            with backend._database.writing() as connection:
                return deriving.derive_part(connection, number)

        with backend._database.reading() as connection:
            query = "SELECT number FROM stored ORDER BY number"
            return part, [number for (number,) in connection.execute(query)]
    deriving = postgresql._Deriving(backend._pool, None, backend.catalogue._describe)

    def part(number):
        with backend._pool.connection() as connection:
            return deriving.derive_part(connection, number)

    query = "SELECT number FROM cannery.conversations ORDER BY number"
    return part, [number for (number,) in backend._pool.rows(query)]


@pytest.mark.parametrize("seed", range(4))
def test_others_write_between_the_parts_of_a_rebuild(location, seed):
    chance = random.Random(seed)
    with open_store(location) as store, open_store(location) as another:
        conversation = store.create(canisters=long_history(chance, 40))
        fork = conversation.fork(edge="move", at=20)
        fork.append(user("word12 in a fork"))
        actions = [
            lambda: another.get(conversation.identifier).append(user("word13 meanwhile")),
            lambda: conversation.append(invocation("call-0", "again", "{}")),
            lambda: conversation.append(result("call-0", "word14")),
            lambda: another.get(fork.identifier).rename(f"title {chance.random()}"),
            lambda: conversation.fork(at=3, edge="move").append(user("word15")),
            lambda: None,
        ]
        part, numbers = deriving_of(another)
        parts = 0
        for number in numbers:
            while part(number) and parts < 100:
                parts += 1
                chance.choice(actions)()
        assert parts >= 5
        before = known_of(store)
        store.rebuild_index()
        assert known_of(store) == before
        assert store.verify().is_sound
        history = conversation.hydrate()
        with open_store("sqlite::memory:") as fresh:
            whole = fresh.create(canisters=history).identifier
            said = fresh.backend.catalogue.said_before(whole, len(history))
        catalogue = store.backend.catalogue
        assert catalogue.said_before(conversation.identifier, len(history)) == said


def test_what_is_deleted_and_freed_between_two_parts_stays_so(location):
    with open_store(location) as store:
        conversation = store.create(canisters=long_history(random.Random(1), 40))
        other = store.create(canisters=[user("other")])
        part, (first, second) = deriving_of(store)
        assert part(first)
        conversation.delete()
        store.collect_garbage(grace=0)
        assert not part(first)
        assert not part(second)
        assert [one.identifier for one in store.list()] == [other.identifier]
        assert not store.search("word1*")
        with pytest.raises(ConversationNotFoundError):
            conversation.load()
        assert store.verify().is_sound


def test_a_long_conversation_is_freed_in_parts_as_far_as_no_fork_needs_it(location):
    with open_store(location) as store:
        history = [user(f"word{number} " * 300) for number in range(30)]
        conversation = store.create(canisters=history)
        sharing = store.create(canisters=[history[29]])
        fork = conversation.fork(at=10)
        fork.append(user("own"))
        conversation.delete()
        rehearsed = store.collect_garbage(grace=0, dry_run=True)
        freed = store.collect_garbage(grace=0)
        assert (freed.contents, freed.conversations) == (19, ())
        assert (rehearsed.contents, rehearsed.freed_bytes) == (freed.contents, freed.freed_bytes)
        assert [one.text for one in fork.hydrate()] == [*(one.text for one in history[:10]), "own"]
        assert sharing.hydrate()[0].text == history[29].text
        assert not store.search("word15")
        fork.delete()
        assert len(store.collect_garbage(grace=0).conversations) == 2
        assert store.verify().is_sound
        assert sharing.hydrate()[0].text == history[29].text


def test_content_in_many_pieces_is_out_of_reach_before_its_first_piece_goes(tmp_path, monkeypatch):
    """A writer between two steps of gc finds all of it or nothing."""
    monkeypatch.setattr(sqlite_contents, "_PIECE", 1000)
    text = "0123456789" * 2000
    with open_store(f"sqlite:{tmp_path / 's.db'}") as store:
        store.create(canisters=[user(text)]).delete()
        remove, steps = sqlite_contents.remove_pieces, []

        def removing(connection, content):
            steps.append(content)
            if len(steps) == 3:
                raise KeyboardInterrupt
            return remove(connection, content)

        monkeypatch.setattr("cannery.backends.sqlite.collection.remove_pieces", removing)
        with contextlib.suppress(KeyboardInterrupt):
            store.collect_garbage(grace=0)
        conversation = store.create(canisters=[user(text)])
        assert conversation.hydrate()[0].text == text
        store.collect_garbage(grace=0)
        assert conversation.hydrate()[0].text == text
        assert store.verify().is_sound
        with store.backend._database.reading() as connection:
            assert connection.execute("SELECT count(*) FROM contents").fetchone() == (1,)


def test_a_file_of_an_earlier_program_gets_the_index_that_parts_need(tmp_path):
    path = tmp_path / "s.db"
    history = [user("a"), invocation("call-0", "look", "{}"), result("call-0", "found")]
    with open_store(f"sqlite:{path}") as store:
        store.create(canisters=history)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX calls_at")
        connection.execute("CREATE INDEX calls_of ON calls (number)")
        connection.commit()
    with open_store(f"sqlite:{path}") as store:
        with store.backend._database.reading() as connection:
            query = "SELECT name FROM sqlite_master WHERE name IN ('calls_of', 'calls_at')"
            assert connection.execute(query).fetchall() == [("calls_at",)]
        store.rebuild_index()
        assert store.file(list(history)).added == 0
