"""The index of a directory learns changes of its own process from memory, and says what one built anew says."""

import sqlite3
from contextlib import closing

from cannery.messages import assistant, supervisor, user
from cannery.storage import open_store

PROMPT = supervisor("You are helpful.")
LONG = "a long text " * 200
TABLES = {
    "conversations": "SELECT id, seen, title, tags, created, updated, changed, said, parent, position, length,"
    " roles, chain, calls, spoken, base_chain, questions, unreadable FROM conversations",
    "prefixes": "SELECT c.id, p.position, p.chain, p.own, p.questions, p.calls, p.space, p.home"
    " FROM prefixes p JOIN conversations c USING (number)",
    "roles": "SELECT c.id, r.role, r.position FROM roles r JOIN conversations c USING (number)",
    "tags": "SELECT id, tag, scope, updated FROM tags",
    "uses": "SELECT id, key FROM uses",
    "contents": "SELECT key, users FROM contents",
    "forks": "SELECT parent, count FROM forks",
}


def _facts(path):
    """The rows of the index without the numbers that it gives to conversations."""
    with closing(sqlite3.connect(f"file:{path}/index.sqlite?mode=ro", uri=True)) as connection:
        return {name: sorted(connection.execute(query)) for name, query in TABLES.items()}


def test_what_is_learned_from_memory_equals_what_is_built_anew(tmp_path):
    path = tmp_path / "store"
    with open_store(path) as store:
        store.catch_up()
        history = [PROMPT, user("shared"), assistant(LONG)]
        store.file(history)
        # Content is shared by conversations that are learned together.
        store.file_many([[PROMPT, user(f"question {n}"), assistant(LONG)] for n in range(20)])
        store.create("tagged", tags=("a", "b"), canisters=[user(LONG)])
        store.file([*history, user("and then"), assistant("more")])
        store.file([*history, user("or else"), assistant("less")])
        store.catch_up()
        learned = _facts(path)
        assert max(users for _, users in learned["contents"]) > 20
        assert learned["forks"]
        store.rebuild_index()
        assert _facts(path) == learned
        assert store.verify().damages == ()
