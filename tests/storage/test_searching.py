"""A search finds what is sound and there, whatever became of the rest meanwhile."""

import sqlite3

from cannery.messages import user
from cannery.storage import open_store


def test_what_is_erased_while_a_search_is_under_way_is_not_shown(location, monkeypatch):
    with open_store(location) as store, open_store(location) as other:
        kept, gone = (store.create(canisters=[user(f"needle {name}")]) for name in ("a", "b"))
        catalogue = type(store.backend.catalogue)
        search = catalogue.search

        def late(self, *asked):
            found = search(self, *asked)
            other.erase(gone.identifier)
            return found

        assert len(store.search("needle")) == 2
        monkeypatch.setattr(catalogue, "search", late)
        assert [one.identifier for one in store.search("needle")] == [kept.identifier]


def test_what_is_damaged_hides_nothing_else(tmp_path):
    file = tmp_path / "store.db"
    with open_store(f"sqlite:{file}") as store:
        kept, damaged = (store.create(canisters=[user(f"needle {name}")]) for name in ("a", "b"))
    with sqlite3.connect(file) as connection:
        query = "UPDATE stored SET metadata = substr(metadata, 1, 20) WHERE id = ?"
        connection.execute(query, (damaged.identifier,))
    connection.close()
    with open_store(f"sqlite:{file}") as store:
        assert [one.identifier for one in store.search("needle")] == [kept.identifier]
        assert any(damaged.identifier in one.where for one in store.verify().damages)
