"""Filing many at once is filing them one after the other, and an index from memory is one from the files."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from cannery.backends.directory import recent
from cannery.errors import ConflictError, ConversationNotFoundError, InputError
from cannery.messages import (
    ReasoningContentClass,
    assistant,
    conversation_digest,
    invocation,
    result,
    supervisor,
    user,
)
from cannery.storage import Filed, Filing, Match, open_store
from tests.backends.simulated_disk import Disk, Operations
from tests.storage.scenarios import open_simulated

START = datetime(2026, 1, 1, tzinfo=UTC)


def texts(conversation):
    return [one.text for one in conversation.load()]


def facts(filed):
    """What became of a history, and where something was added, what it says there."""
    held = filed.conversation.load(0, filed.known + filed.added) if filed.added else ()
    digest = conversation_digest(held, reasoning=False)
    return filed.known, filed.added, filed.is_new, filed.is_fork, digest


def histories(seed, count=40):
    """Histories of which many go on from each other, fork, share a prompt or say the same."""
    chance = random.Random(seed)
    made = [[]]
    for number in range(count):
        base = list(chance.choice(made))
        history = base[: chance.randint(0, len(base))]
        if not history and chance.random() < 0.7:
            history = [supervisor("Be brief.", START)]
        for _ in range(chance.randint(0, 3)):
            when = START + timedelta(seconds=chance.randint(0, 9))
            word = f"{chance.randint(0, 3)}"
            history += chance.choice(
                [
                    [user(word, when)],
                    [assistant(word, when)],
                    [assistant("", when)],
                    [assistant(ReasoningContentClass(word), when), assistant(word, when)],
                    [invocation(f"c{number}", "f"), result(f"c{number}", word)],
                ]
            )
        made.append(history)
    return [history for history in made if history]


@pytest.mark.parametrize("seed", range(8))
def test_many_at_once_are_one_after_the_other(store, seed):
    chance = random.Random(seed)
    waiting = histories(seed)
    with open_store("sqlite::memory:") as other:
        while waiting:
            count = chance.randint(1, 9)
            part, waiting = waiting[:count], waiting[count:]
            together = store.file_many(part)
            alone = [other.file(history) for history in part]
            assert list(map(facts, together)) == list(map(facts, alone))
        assert len(store.list()) == len(other.list())
    assert store.verify().is_sound


def test_thoughts_and_empty_turns_at_the_end_are_filed_once(store):
    thought = ReasoningContentClass("hm")
    history = [user("a"), assistant(thought), assistant("")]
    first = store.file(history)
    for filed in (store.file(history), *store.file_many([history])):
        assert (filed.identifier, filed.known, filed.added) == (first.identifier, 3, 0)
    filed = store.file([*history, assistant("b")])
    assert (filed.identifier, filed.known, filed.added) == (first.identifier, 3, 1)
    other = store.file([user("x"), assistant(ReasoningContentClass("one"))])
    filed = store.file_many([[user("x"), assistant(ReasoningContentClass("two"))]])[0]
    assert (filed.identifier, filed.known, filed.added) == (other.identifier, 1, 1)


def test_one_sync_for_all():
    disk = Disk()
    operations = Operations(disk)
    store = open_simulated(operations)
    first = store.create(canisters=[user("a"), assistant("b")])
    store.file([user("warm")])
    synced = []
    sync = operations.sync
    operations.sync = lambda fd: (synced.append(fd), sync(fd))
    filed = store.file_many(
        [[user(f"q{number}"), assistant("x" * 2000)] for number in range(20)]
        + [[user("a"), assistant("b"), user("c")]]
    )
    assert len(synced) == 1
    assert [one.is_new for one in filed] == [True] * 20 + [False]
    assert filed[-1].conversation == first
    store.close()


def test_what_is_wrong_with_one_does_not_hold_up_the_others(store):
    store.create(identifier="taken", canisters=[user("other")])
    filed = store.file_many(
        [
            [user("a")],
            Filing([user("b")], identifier="taken"),
            Filing([user("c")], identifier="../c"),
            [user("d"), "no canister"],
            Filing([user("e")], title="E", tags=("t",), model="m", identifier="e"),
            Filing([user("f")], title=5),
        ]
    )
    assert isinstance(filed[1], ConflictError)
    assert [isinstance(one, InputError) for one in filed] == [False, False, True, True, False, True]
    metadata = store.get("e").metadata
    assert (metadata.title, metadata.tags, metadata.model) == ("E", ("t",), "m")
    assert len(store.list()) == 3


def test_a_match_that_is_given_is_not_looked_up(store, monkeypatch):
    held = store.create(canisters=[user("a"), assistant("b")])
    monkeypatch.setattr(type(store.backend.catalogue), "match", None)
    history = [user("a"), assistant("b"), user("c")]
    filed = store.file_many(
        [
            Filing(history, match=Match(2, held.identifier, 2, 2)),
            Filing(history, match=None, identifier="own"),
            Filing([*history, user("d")], match=Match(3, held.identifier, 3, 3)),
        ]
    )
    assert [facts(one)[:4] for one in filed] == [
        (2, 1, False, False),
        (0, 3, True, False),
        (3, 1, False, False),
    ]
    assert texts(held) == ["a", "b", "c", "d"]
    assert texts(store.get("own")) == ["a", "b", "c"]


def test_a_match_that_others_have_overtaken_is_looked_up(store):
    held = store.create(canisters=[user("a")])
    held.append(assistant("meanwhile"))
    gone = store.create(canisters=[user("x")])
    gone.delete()
    filed = store.file_many(
        [
            Filing([user("a"), assistant("b")], match=Match(1, held.identifier, 1, 1)),
            Filing([user("x"), user("y")], match=Match(1, gone.identifier, 1, 1), identifier="y"),
        ]
    )
    assert [facts(one)[:4] for one in filed] == [(1, 1, False, True), (0, 2, True, False)]
    assert [texts(one.conversation) for one in filed] == [["a", "b"], ["x", "y"]]
    assert filed[0].conversation.parent == held.identifier
    assert filed[1].identifier == "y"


def tables(store):
    """What the catalogue says of the living, by conversation and not by number."""

    def look(connection):
        names = dict(connection.execute("SELECT number, id FROM conversations"))
        gone = {one for (one,) in connection.execute("SELECT id FROM conversations WHERE deleted")}
        found = {}
        for table in ("conversations", "prefixes", "calls", "roles", "tags"):
            cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - names are ours
            columns = [column[0] for column in cursor.description]
            found[table] = sorted(
                repr(
                    {
                        key: names[value] if key in {"number", "root"} else value
                        for key, value in zip(columns, row, strict=True)
                        if key not in {"seal", "searched", "changed_by", "change"}
                    }
                )
                for row in cursor
                if names[row[columns.index("number")]] not in gone
            )
        return found

    catalogue = store.backend.catalogue
    if hasattr(catalogue, "_ask"):
        return catalogue._ask(look)
    with catalogue._pool.connection() as connection, connection.transaction():
        connection.execute("SET LOCAL search_path TO cannery")
        return look(connection)


def test_what_is_to_be_exact_is_filed_as_planned_or_not_at_all(store):
    first = store.create(canisters=[user("one", START)])
    history = [user("one", START), user("two", START)]
    plans = [
        Filing(history, match=Match(1, first.identifier, 1, 1), is_exact=True),
        Filing(history, match=Match(1, first.identifier, 1, 1), is_exact=True),
        Filing(history, identifier=first.identifier, match=None, is_exact=True),
        Filing(history, match=Match(1, "none", 1, 1), is_exact=True),
        Filing([user("three", START)], match=None, is_exact=True),
    ]
    fork = Filing(
        [user("one", START), user("other", START)],
        match=Match(1, first.identifier, 1, 2),
        identifier="fork",
        is_exact=True,
    )
    twin = Filing(fork.history, match=fork.match, identifier="twin", is_exact=True)
    *filed, forked, again, taken = store.file_many([*plans, fork, twin, fork])
    assert [one.is_fork for one in (forked, again)] == [True, True]
    assert (forked.known, forked.added, texts(forked.conversation)) == (1, 1, ["one", "other"])
    assert forked.conversation.parent == again.conversation.parent == first.identifier
    assert type(taken) is ConflictError
    kinds = [type(outcome) for outcome in filed]
    assert kinds == [Filed, ConflictError, ConflictError, ConversationNotFoundError, Filed]
    assert texts(first) == ["one", "two"]
    assert len(store.list()) == 4


@pytest.mark.parametrize("seed", range(6))
def test_the_index_from_memory_is_the_index_from_the_files(store, seed, monkeypatch):
    chance = random.Random(seed)
    for history in histories(seed):
        filed = store.file_many([history])[0]
        what = chance.random()
        if what < 0.1:
            filed.conversation.rename(f"title {what}")
        elif what < 0.2:
            filed.conversation.append(user("more", START), invocation("c", "f"))
        elif what < 0.25:
            filed.conversation.fork(1, edge="move")
        elif what < 0.3:
            filed.conversation.delete()
    learned = tables(store)
    monkeypatch.setattr(recent.Recent, "of", lambda self, identifier, places: None)
    store.rebuild_index()
    assert [name for name, rows in tables(store).items() if rows != learned[name]] == []


def test_what_is_filed_here_is_not_read_back(store, monkeypatch):
    first = store.file([user("a"), assistant("b")])
    store.file([user("a"), assistant("b"), user("c")])
    monkeypatch.setattr(type(store.backend), "read", None)
    filed = store.file([user("a"), assistant("b"), user("c"), assistant("d")])
    assert (filed.identifier, filed.added) == (first.identifier, 1)


def test_what_another_process_writes_is_read(path):
    with open_store(path) as mine, open_store(path) as other:
        first = mine.file([user("a"), assistant("b")]).conversation
        other.get(first.identifier).append(user("c"))
        mine.get(first.identifier).append(assistant("d"))
        history = [user("a"), assistant("b"), user("c"), assistant("d")]
        for store in (mine, other):
            filed = store.file(history)
            assert (filed.identifier, filed.added) == (first.identifier, 0)


def test_histories_that_are_known_are_looked_up_once_for_all(tmp_path, monkeypatch):
    asked = [[user(f"{number}", START), assistant("yes", START)] for number in range(5)]
    with open_store(tmp_path) as store:
        first = store.file_many(asked)
        store.list()
        looks = []
        read = store.backend.catalogue.file.read
        monkeypatch.setattr(
            store.backend.catalogue.file, "read", lambda work: looks.append(work) or read(work)
        )
        again = store.file_many([*asked[1:], asked[0][:1]])
        assert len(looks) == 1
    assert [one.identifier for one in again] == [one.identifier for one in (*first[1:], first[0])]
    assert [(one.known, one.added) for one in again] == [(2, 0)] * 4 + [(1, 0)]
    assert not any(one.is_new or one.is_fork for one in again)


def test_a_history_that_has_to_be_filed_alone_keeps_when_it_was_begun(store):
    gone = Match(1, "gone", 1, 1)
    (filed,) = store.file_many([Filing([user("a"), assistant("b")], match=gone, created=START)])
    assert filed.is_new
    assert filed.conversation.metadata.created == START


def test_a_conversation_that_began_elsewhere_is_listed_when_it_was_held(store):
    said = [user("a", timestamp=START), assistant("b", timestamp=START + timedelta(minutes=1))]
    store.file_many([Filing(said, created=START)])
    (listed,) = store.list()
    assert (listed.created, listed.updated) == (START, START + timedelta(minutes=1))
    assert store.list(since=START + timedelta(days=1)) == ()
    store.change_metadata(listed.identifier, title="T", updated=listed.updated)
    assert store.list()[0].updated == listed.updated


def test_a_history_whose_conversation_is_damaged_is_filed_again(path):
    """What holds it can be neither read nor appended to, and the client goes on."""
    history = [user("hi"), assistant("hello")]
    with open_store(path) as store:
        first = store.file(history).identifier
    (path / "conversations" / first / "conversation.json").write_bytes(b"damaged")
    with open_store(path) as store:
        again = store.file(history)
        assert again.identifier != first
        more = store.file([*history, user("and?")])
        assert (more.identifier, more.added) == (again.identifier, 1)
