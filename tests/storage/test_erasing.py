"""What was erased is in no file of the store: not in a log, the journal, the index, or a free page."""

import contextlib
import json
import random
import sqlite3

import pytest

from cannery.backends.directory import index_file
from cannery.backends.directory.files import OperatingSystem
from cannery.backends.sqlite import tables
from cannery.errors import ConversationNotFoundError, DamageError, StorageError
from cannery.messages import ImageContentClass, UserCanisterClass, assistant, supervisor, user
from cannery.storage import open_store

SECRETS = ["zyxwvuts", "qponmlkj", "hgfedcba", "titlesecret", "tagsecret"]


@pytest.fixture(params=["directory", "sqlite"])
def place(request, tmp_path):
    return (
        str(tmp_path / "store") if request.param == "directory" else f"sqlite:{tmp_path / 's.db'}"
    )


def found_in(tmp_path, secrets=SECRETS):
    """Which words are in which files, in whatever case."""
    return {
        (item.name, word)
        for item in tmp_path.rglob("*")
        if item.is_file()
        for word in secrets
        if word.encode() in item.read_bytes().lower()
    }


def secret_messages():
    noise = bytes(range(256)) * 8 + SECRETS[1].encode()
    return [
        user(f"my {SECRETS[0]} is short"),
        supervisor(f"{SECRETS[2]} " + "and " * 10),
        UserCanisterClass(ImageContentClass(noise, "image/png")),
        assistant(f"{SECRETS[0]} " * 500),
    ]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_erased_words_are_in_no_file(place, tmp_path, is_deleted):
    with open_store(place) as store:
        kept = [
            store.create(
                f"kept {number}", canisters=[user(f"kept {number} needle"), assistant("a" * 3000)]
            )
            for number in range(20)
        ]
        gone = store.create(SECRETS[3], tags=(SECRETS[4],), canisters=secret_messages())
        assert len(store.search(SECRETS[0])) == 2
        assert found_in(tmp_path)
        if is_deleted:
            gone.delete()
        store.erase(gone.identifier)
        assert found_in(tmp_path) == set()
        with pytest.raises(ConversationNotFoundError):
            store.get(gone.identifier)
        assert store.search(SECRETS[0]) == ()
        assert len(store.search("needle", limit=100)) == len(store.list()) == 20
        assert [one.load()[0].text for one in kept][3] == "kept 3 needle"
        assert store.verify().is_sound
        assert found_in(tmp_path) == set()
    assert found_in(tmp_path) == set()


def test_words_that_gc_has_freed_are_in_no_file(place, tmp_path):
    with open_store(place) as store:
        store.create("kept", canisters=[user("kept needle")])
        store.create(SECRETS[3], tags=(SECRETS[4],), canisters=secret_messages()).delete()
        assert len(store.search("needle")) == 1
        assert found_in(tmp_path)
        assert store.collect_garbage().damages == ()
        assert found_in(tmp_path) == set()
        assert len(store.search("needle")) == 1
        assert found_in(tmp_path) == set()


@pytest.mark.parametrize("seed", [1, 2, 137, 165])
def test_words_that_were_moved_within_the_file_are_gone_too(place, tmp_path, seed):
    """Conversations grow in turns, so that pages are split and lines move from one to another."""
    chance = random.Random(seed)
    with open_store(place, durability="os") as store:
        kept = [store.create(f"kept {number}") for number in range(6)]
        gone = [store.create(SECRETS[3], tags=(SECRETS[4],)) for _ in range(6)]
        for number in range(150):
            length = chance.choice((1, 5, 40, 90))
            chance.choice(kept).append(user(f"kept {number} " * length))
            chance.choice(gone).append(user(f"{SECRETS[0]} {number} " * length))
        gone[0].rename(SECRETS[2])
        store.search("kept")
        for conversation in gone:
            conversation.delete()
        store.collect_garbage(grace=0)
        assert found_in(tmp_path) == set()
        assert len(store.list()) == 6
        assert store.verify().is_sound


@pytest.mark.parametrize("seed", [9, 10])
def test_titles_that_were_moved_within_the_index_are_gone_too(place, tmp_path, seed):
    chance = random.Random(seed)
    with open_store(place, durability="os") as store:
        made = []
        for number in range(250):
            word = SECRETS[0] if chance.random() < 0.3 else "kept"
            title = f"{word} {number} " * chance.choice((1, 3, 6))
            made.append(store.create(title, tags=(title[:20],), canisters=[user(title)]))
            if chance.random() < 0.1:
                store.search("kept")
            if chance.random() < 0.3:
                chance.choice(made).append(user("more " * chance.choice((1, 50))))
        for conversation in made:
            if conversation.title.startswith(SECRETS[0]):
                conversation.delete()
        assert store.collect_garbage(grace=0).damages == ()
        assert found_in(tmp_path) == set()
        assert store.verify().is_sound


def test_a_large_file_is_not_written_anew_by_gc_which_says_so_and_erasing_does(
    place, tmp_path, monkeypatch
):
    monkeypatch.setattr(index_file, "_LARGEST", 0)
    monkeypatch.setattr(tables, "_LARGEST", 0)
    with open_store(place) as store:
        gone, more = (store.create(SECRETS[3], canisters=secret_messages()) for _ in range(2))
        store.search("needle")
        gone.delete()
        (damage,) = store.collect_garbage(grace=0).damages
        assert "until `cannery erase`" in damage.problem
        store.erase(more.identifier)
        assert found_in(tmp_path) == set()
        assert store.collect_garbage(grace=0).damages == ()


def damage_metadata(place, tmp_path, identifier):
    """Damage all copies of a conversation's metadata."""
    if place.startswith("sqlite:"):
        with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as connection:
            query = "UPDATE stored SET metadata = ? WHERE id = ?"
            connection.execute(query, (b"damaged", identifier))
            connection.commit()
    else:
        path = tmp_path / "store" / "conversations" / identifier / "conversation.json"
        path.write_bytes(b"damaged")


@pytest.mark.parametrize("is_rebuilt", [False, True])
@pytest.mark.parametrize("scope", ["", "alice"])
@pytest.mark.parametrize("is_fork", [False, True])
def test_words_of_a_conversation_whose_metadata_is_damaged_can_be_erased(
    place, tmp_path, scope, is_fork, is_rebuilt
):
    with open_store(place) as store:
        within = store.within(scope or None)
        other = within.create("kept", canisters=[user("kept"), assistant("a" * 3000)])
        gone = other.fork(2, title="fork", tags=()) if is_fork else within.create(SECRETS[3])
        gone.append(*secret_messages())
        store.search("kept")
    damage_metadata(place, tmp_path, gone.identifier)
    with open_store(place) as store:
        if is_rebuilt:
            store.rebuild_index()
        with pytest.raises(DamageError):
            store.within("bob").erase(gone.identifier)
        store.erase(gone.identifier)
        assert found_in(tmp_path) == set()
        assert len(store.get(other.identifier).hydrate()) == 2
        assert store.verify().is_sound


def test_shared_content_stays_until_the_last_that_refers_to_it_is_erased(place, tmp_path):
    with open_store(place) as store:
        one, two = (store.create(canisters=secret_messages()) for _ in range(2))
        before = list(two.hydrate())
        store.erase(one.identifier)
        assert list(two.hydrate()) == before
        assert found_in(tmp_path)
        store.erase(two.identifier)
        assert found_in(tmp_path) == set()
        assert store.verify().is_sound


def test_what_a_fork_shares_stays_with_it(place, tmp_path):
    with open_store(place) as store:
        parent = store.create(SECRETS[3], canisters=[user("shared"), user(SECRETS[0])])
        fork = parent.fork(1, title="fork")
        store.erase(parent.identifier)
        assert [one.text for one in fork.load()] == ["shared"]
        assert found_in(tmp_path) == set()
        store.erase(fork.identifier)
        assert found_in(tmp_path, ["shared"]) == set()
        with pytest.raises(ConversationNotFoundError):
            store.erase("nobody")


@pytest.mark.parametrize("is_content", [False, True])
def test_words_of_a_damaged_message_are_taken_out_of_the_index(place, tmp_path, is_content):
    """The index can take out only words that it is told; what cannot be read any more it tells itself."""
    name = "store" if place.endswith("store") else "s.db"
    with open_store(place) as store:
        kept = store.create(canisters=[user("kept needle"), user("zyx")])
        text = f"Héllo {SECRETS[0]}, {SECRETS[1]} {SECRETS[0]}. " * (100 if is_content else 1)
        gone = store.create(canisters=[user("other"), user(text), user("more")])
        store.search("needle")
    seen = b"CNT1" if is_content else b'"text":"H'
    if name == "s.db":
        table = "pieces" if is_content else "lines"
        column = "data" if is_content else "line"
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as connection:
            value = "x'00'" if is_content else f"CAST(replace({column}, 'H', 'J') AS BLOB)"
            connection.execute(f"UPDATE {table} SET {column} = {value}")  # noqa: S608 - names of a test
            connection.commit()
    else:
        folder = tmp_path / name / ("content" if is_content else "conversations")
        for file in folder.rglob("*.pack" if is_content else "*.jsonl"):
            data = file.read_bytes()
            at = data.find(seen)
            if at >= 0:
                file.write_bytes(data[: at + 80] + b"J" + data[at + 81 :])
    with open_store(place) as store:
        assert any(one.is_lost for one in store.verify().damages)
        store.erase(gone.identifier)
        assert found_in(tmp_path) == set()
        assert [one.position for one in store.search("needle")] == [0]
        assert [one.position for one in store.search("zyx")] == [1]
        assert store.get(kept.identifier).load()
        assert store.verify().is_sound


def test_content_in_a_damaged_part_of_a_pack_is_not_called_erased(tmp_path):
    with open_store(tmp_path / "store") as store:
        gone, other = (
            store.create(canisters=[user(f"{word} " * 200)]) for word in (SECRETS[0], "kept")
        )
        store.search("kept")
    (pack,) = (tmp_path / "store" / "content").glob("*.pack")
    data = pack.read_bytes()
    at = data.index(b"CNT1") + 8
    pack.write_bytes(data[:at] + b"J" + data[at + 1 :])
    with open_store(tmp_path / "store") as store:
        with pytest.raises(StorageError, match=r"may not be erased.*pack"):
            store.erase(gone.identifier)
        store.erase(other.identifier)


def plain(text):
    """A line that another program writes."""
    said = {"role": "user", "content": {"type": "text", "text": text}}
    return json.dumps({**said, "timestamp": "2025-11-18T10:30:00Z"}).encode() + b"\n"


@pytest.mark.parametrize("is_shared", [False, True])
def test_lines_of_other_programs_that_a_fork_does_not_share_are_erased(tmp_path, is_shared):
    with open_store(tmp_path / "store") as store:
        identifier = store.create(canisters=[user("first")]).identifier
    log = tmp_path / "store" / "conversations" / identifier / "messages.jsonl"
    with log.open("ab") as file:
        file.write(plain("second") + plain(SECRETS[0]))
    with open_store(tmp_path / "store") as store:
        parent = store.get(identifier)
        fork = parent.fork(2 if is_shared else 1)
        parent.append(user(SECRETS[1]))
        fork.append(user("last"))
        store.erase(parent.identifier)
        assert found_in(tmp_path) == set()
        kept = ["first", "second", "last"] if is_shared else ["first", "last"]
        assert [one.text for one in fork.load()] == kept


@pytest.mark.parametrize("damaged", [0, 1, 2, 3])
def test_a_damaged_line_is_kept_if_a_fork_may_need_it_and_erasing_says_so(tmp_path, damaged):
    with open_store(tmp_path / "store") as store:
        parent = store.create(canisters=[user(word) for word in ("a", "b", *SECRETS[:2])])
        fork = parent.fork(2)
    log = tmp_path / "store" / "conversations" / parent.identifier / "messages.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[damaged] = lines[damaged].replace(b"user", b"uSer")
    log.write_bytes(b"".join(lines))
    with open_store(tmp_path / "store") as store:
        if damaged == 1:
            with pytest.raises(StorageError, match="may not be erased"):
                store.erase(parent.identifier)
            assert found_in(tmp_path, SECRETS[1:]) == set()
        else:
            store.erase(parent.identifier)
            assert found_in(tmp_path) == set()
        reading = store.get(fork.identifier).read()
        kept = [word for at, word in enumerate("ab") if at != damaged]
        assert [one.text for one in reading.canisters] == kept


def test_what_cannot_be_erased_is_said(tmp_path):
    path = tmp_path / "store"
    with open_store(path) as store:
        gone = store.create(canisters=[user(SECRETS[0])])
        parent = store.create(canisters=[user("a"), user("b")])
        fork = parent.fork(1)
    (path / "conversations" / fork.identifier / "conversation.json").write_bytes(b"damaged")
    with open_store(path) as store, pytest.raises(StorageError, match="may not be erased"):
        store.erase(gone.identifier)


def test_the_journal_is_cut_when_something_is_erased(tmp_path):
    path = tmp_path / "store"
    with open_store(path) as store, open_store(path) as other:
        gone = store.create(canisters=[user(SECRETS[0])])
        other.create(canisters=[user("other")])
        store.erase(gone.identifier)
        assert OperatingSystem(str(path)).facts("journal").size <= 4096
        other.create(canisters=[user("goes on")])
        assert len(store.list()) == len(other.list()) == 2


def test_a_name_is_erased_of_what_was_deleted_before(place, tmp_path):
    with open_store(place) as store:
        parent = store.create(SECRETS[3], tags=(SECRETS[4],), canisters=[user("a"), user("b")])
        fork = parent.fork(1, title="fork", tags=())
        parent.delete()
        store.erase(parent.identifier)
        assert found_in(tmp_path) == set()
        assert [one.text for one in fork.load()] == ["a"]
