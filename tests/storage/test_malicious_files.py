"""A SQLite file that somebody else has written: what it says of sizes and types is not believed."""

import contextlib
import os
import sqlite3

import pytest

from cannery.errors import CanneryError, StoreUnavailableError
from cannery.messages import assistant, user
from cannery.storage import open_store


@pytest.fixture
def file(tmp_path):
    with open_store(f"sqlite:{tmp_path}/store.db") as store:
        store.create(identifier="one", canisters=[user("needle one"), assistant("answer")])
        store.create(identifier="two", canisters=[user("needle two")])
    return tmp_path / "store.db"


def change(file, statement):
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE stored SET stop = 1099511627776 WHERE id = 'one'",
        "UPDATE lines SET place = place + 4000000000 WHERE place = 4294967297",
        "DELETE FROM lines WHERE place = 4294967296",
        "UPDATE stored SET metadata = 'text' WHERE id = 'one'",
        "UPDATE lines SET line = 'text' WHERE place = 4294967296",
        "UPDATE lines SET line = zeroblob(1000) WHERE place = 4294967296",
    ],
)
def test_one_conversation_is_damaged_and_no_other(file, statement):
    change(file, statement)
    with open_store(f"sqlite:{file}") as store:
        for _ in range(2):
            assert any("one" in damage.where for damage in store.verify().damages)
            with pytest.raises(CanneryError):
                store.get("one").load()
            assert [one.text for one in store.get("two").load()] == ["needle two"]
            assert "two" in {one.identifier for one in store.search("needle")}
            store.rebuild_index()


def test_a_conversation_that_has_lost_lines_can_be_erased(file):
    change(file, "DELETE FROM lines")
    with open_store(f"sqlite:{file}") as store:
        store.rebuild_index()
        store.erase("one")
        store.delete("two")
        store.collect_garbage(grace=0)
        assert list(store.backend.identifiers()) == []


def test_a_store_without_its_identity_is_damaged(file):
    change(file, "DELETE FROM facts")
    with open_store(f"sqlite:{file}") as store, pytest.raises(CanneryError, match="identity"):
        store.get("one").append(user("more"))


def test_a_backup_that_cannot_be_written_is_an_error_of_ours(file, monkeypatch):
    with open_store(f"sqlite:{file}") as store:
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(24, "no more")))
        with pytest.raises(StoreUnavailableError, match="no more"):
            store.backup(file.with_name("backup.db"))
    assert [one.name for one in file.parent.glob("backup*")] == []
