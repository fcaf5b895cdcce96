"""The verbs on a store in PostgreSQL."""

import json
import re

import pytest

from cannery.messages import assistant, user
from cannery.storage import open_store
from tests.locations import new_database


@pytest.fixture
def url():
    return new_database()


def test_every_verb_of_a_store_works(run, url):
    with open_store(url) as store:
        first = store.file([user("hello needle"), assistant("yes")]).identifier
        other = store.create(title="other", canisters=[user("a secret")]).identifier

    def ran(*words):
        done = run(*words, CANNERY_STORE=url)
        assert done.code == 0, done.err
        return done.out

    assert {one["id"] for one in json.loads(ran("list", "--json"))} == {first, other}
    assert "hello needle" in ran("show", first)
    assert first in ran("search", "needle")
    assert "2 conversations" in ran("stats")
    assert "on disk" not in ran("stats")
    fork = re.search(r"\w{26}", ran("fork", first, "--at", "1"))[0]
    assert fork in ran("show", first, "--tree")
    ran("tag", first, "kept")
    assert [one["id"] for one in json.loads(ran("list", "--tag", "kept", "--json"))] == [first]
    ran("reindex")
    ran("delete", "--yes", fork)
    ran("erase", "--yes", other)
    assert "sound" in ran("verify")
    ran("gc")
    assert [one["id"] for one in json.loads(ran("list", "--json"))] == [first]
    assert "needle" in ran("export", first)


def test_a_copy_is_made_with_the_tools_of_the_server(run, url, tmp_path):
    done = run("backup", str(tmp_path / "copy"), CANNERY_STORE=url)
    assert done.code == 1
    assert "pg_dump" in done.err
    assert "Traceback" not in done.err


def test_no_verb_shows_a_password(run):
    place = "postgresql://me:very-secret@127.0.0.1:1/x"
    for words in (("list",), ("config",), ("config", "--json"), ("doctor",)):
        done = run(*words, CANNERY_STORE=place)
        assert "very-secret" not in done.out + done.err
        assert "Traceback" not in done.err
