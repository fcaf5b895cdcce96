"""What nobody has changed for longer than its scope keeps it is deleted, told, and freed by gc."""

from datetime import UTC, datetime, timedelta

import pytest

from cannery.errors import ConversationNotFoundError, InputError
from cannery.messages import assistant, user
from cannery.storage import KeepDays, open_store
from cannery.storage import retention as module
from tests.locations import new_database


@pytest.fixture(params=["directory", "sqlite", "postgresql"])
def store(request, tmp_path):
    place = str(tmp_path / "store")
    if request.param != "directory":
        is_file = request.param == "sqlite"
        place = f"sqlite:{tmp_path / 's.db'}" if is_file else new_database()
    with open_store(place) as opened:
        yield opened


def later(days):
    return datetime.now(UTC) + timedelta(days=days)


def filled(store):
    """A conversation of each of three scopes."""
    return {
        scope: store.within(scope).create(
            f"of {scope}", tags=("t",), canisters=[user(f"hi {scope}")]
        )
        for scope in ("", "alice", "bob")
    }


def test_what_is_older_than_its_scope_keeps_it_is_deleted(store):
    made = filled(store)
    keep = KeepDays(90, {"alice": 30, "bob": 0})
    assert store.expire(keep, now=later(20)) == ()
    told = []
    expired = store.expire(keep, now=later(31), told=told.append)
    assert [(one.identifier, one.scope, one.keep_days) for one in expired] == [
        (made["alice"].identifier, "alice", 30)
    ]
    assert told == list(expired)
    with pytest.raises(ConversationNotFoundError):
        store.get(made["alice"].identifier)
    assert [one.scope for one in store.expire(keep, now=later(91))] == [""]
    assert [one.scope for one in store.list()] == ["bob"]
    assert len(store.collect_garbage().conversations) == 2
    assert store.verify().is_sound


def test_a_rehearsal_deletes_nothing(store):
    filled(store)
    before = store.list()
    assert len(store.expire(1, now=later(2), dry_run=True)) == 3
    assert store.list() == before


def test_a_store_with_a_scope_deletes_only_there(store):
    filled(store)
    assert [one.scope for one in store.within("alice").expire(1, now=later(2))] == ["alice"]
    assert store.within("bob").expire(KeepDays(None, {"alice": 1}), now=later(2)) == ()
    assert len(store.list()) == 2


def test_forks_keep_what_they_share(store):
    parent = store.create(canisters=[user("shared"), assistant("also"), user("own secret")])
    fork = parent.fork(2)
    cutoff = datetime.now(UTC) + timedelta(microseconds=1)
    fork.append(user("goes on"))
    fork.rename("changed later")
    expired = store.expire(1, now=cutoff + timedelta(days=1))
    assert [one.identifier for one in expired] == [parent.identifier]
    store.collect_garbage()
    assert [one.text for one in fork.load()] == ["shared", "also", "goes on"]
    assert store.verify().is_sound
    assert store.search("secret") == ()


def test_a_conversation_that_goes_on_meanwhile_stays(store, monkeypatch):
    made = store.create(canisters=[user("hi")])
    original = module._delete

    def delete(*args):
        made.append(user("I am back"))
        return original(*args)

    monkeypatch.setattr(module, "_delete", delete)
    assert store.expire(1, now=later(2)) == ()
    assert len(made.load()) == 2


def test_more_than_a_page_is_deleted(store, monkeypatch):
    monkeypatch.setattr(module, "_PAGE", 3)
    for number in range(10):
        store.create(canisters=[user(f"hi {number}")])
    assert len(store.expire(1, now=later(2))) == 10
    assert store.list() == ()


def test_words_and_titles_are_gone_from_the_files(tmp_path):
    with open_store(tmp_path / "store") as store:
        parent = store.create("titlesecret", tags=("tagsecret",), canisters=[user("shared")])
        other = parent.fork(1)
        now = datetime.now(UTC) + timedelta(days=1, microseconds=1)
        store.change_metadata(other.identifier, title="another", tags=())
        assert len(store.expire(1, now=now)) == 1
        store.collect_garbage()
        for item in tmp_path.rglob("*"):
            if item.is_file():
                assert b"titlesecret" not in item.read_bytes()
                assert b"tagsecret" not in item.read_bytes()


@pytest.mark.parametrize("days", [-1, float("nan"), 1e9])
def test_days_that_are_none_are_refused(store, days):
    with pytest.raises(InputError, match="keep_days"):
        store.expire(days)
    with pytest.raises(InputError, match="keep_days"):
        store.expire(KeepDays(None, {"a": days}))
