"""A store that cannot be written can be read, and says why it refuses the rest."""

import os
import subprocess
import sys

import pytest

from cannery.backends.directory import DirectoryBackend
from cannery.backends.directory import overlay as overlay_module
from cannery.backends.directory.overlay import Overlay
from cannery.errors import StoreUnavailableError
from cannery.messages import assistant, supervisor, user
from cannery.storage import Store, open_store
from cannery.storage.description import describe

LONG = "a long needle " * 200


def filled(path):
    with open_store(path) as store:
        first = store.create("one", canisters=[supervisor("s"), user("a needle"), assistant(LONG)])
        fork = first.fork(2)
        fork.append(assistant("another"))
        gone = store.create("gone", canisters=[user("x" * 3000)])
        gone.delete()
    return first.identifier, fork.identifier


def snapshot(path):
    return {item: item.read_bytes() for item in path.rglob("*") if item.is_file()}


def open_overlay(path):
    return Store(DirectoryBackend(Overlay(str(path)), describe, is_read_only=True))


def test_everything_is_read_and_nothing_is_written(path):
    first, fork = filled(path)
    before = snapshot(path)
    with open_store(path) as store:
        history = list(store.get(first).hydrate())
    assert snapshot(path).keys() >= before.keys()
    before = snapshot(path)
    with open_overlay(path) as store:
        assert list(store.get(first).hydrate()) == history
        assert [one.text for one in store.get(fork).load()] == ["s", "a needle", "another"]
        assert {one.identifier for one in store.list()} == {first, fork}
        assert {hit.position for hit in store.search("needle")} == {1, 2}
        assert store.verify().is_sound
        assert store.collect_garbage(dry_run=True).contents == 1
        assert store.recognise([supervisor("x")]).match is None
    assert snapshot(path) == before


def test_what_writes_is_refused_and_says_why(path):
    first, _ = filled(path)
    before = snapshot(path)
    with open_overlay(path) as store:
        conversation = store.get(first)
        for write in (
            store.create,
            lambda: conversation.append(user("x")),
            lambda: conversation.rename("x"),
            lambda: conversation.fork(1),
            conversation.delete,
            lambda: store.file([user("new")]),
            store.collect_garbage,
            store.rebuild_index,
        ):
            with pytest.raises(StoreUnavailableError, match="can only be read"):
                write()
        known, new = store.file_many([[supervisor("s"), user("a needle")], [user("new")]])
        assert known.added == 0
        assert isinstance(new, StoreUnavailableError)
    assert snapshot(path) == before


def test_a_journal_that_was_left_behind_is_replayed_in_memory(path):
    first, _ = filled(path)
    script = (
        "import os, sys; from cannery.storage import open_store; from cannery.messages import user;"
        "s = open_store(sys.argv[1], durability='os'); s.get(sys.argv[2]).append(user('late ' * 400));"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, path, first], check=True)
    before = snapshot(path)
    with open_overlay(path) as store:
        assert store.get(first).hydrate()[-1].text == "late " * 400
        assert store.verify().is_sound
    assert snapshot(path) == before
    with open_store(path) as store:
        assert store.get(first).hydrate()[-1].text == "late " * 400


def test_a_folder_that_may_not_be_written_is_opened_for_reading(path, monkeypatch):
    first, _ = filled(path)
    # Root may write everywhere, so the system is not asked.
    real = os.access
    monkeypatch.setattr(
        overlay_module.os, "access", lambda place, mode: mode != os.W_OK and real(place, mode)
    )
    with open_store(path) as store:
        assert store.backend.is_read_only
        assert store.get(first).title == "one"
    with open_store(path.parent / "new") as store:
        assert not store.backend.is_read_only
