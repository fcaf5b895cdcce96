"""What was erased is in no file of the store: not in a log, the journal, the index, or a free page."""

import random

import pytest

from cannery.backends.directory import index_file
from cannery.backends.directory.files import OperatingSystem
from cannery.backends.sqlite import tables
from cannery.errors import ConversationNotFoundError, StorageError
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
