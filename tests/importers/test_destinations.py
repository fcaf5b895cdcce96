"""Where histories go: back under their own ids, beside what is there, and with every title they had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cannery
from cannery.cli.exports import written
from cannery.importers import import_into
from cannery.importers.destinations import Facts, Rehearsal
from cannery.storage import Store, open_store
from tests.importers.test_formats import node, words, write

PICTURE = cannery.ImageContentClass(b"\x89PNG\r\n", "image/png")


def export(store: Store, path: Path, *identifiers: str) -> Path:
    chosen = [store.get(name) for name in identifiers]
    everything = chosen or [store.get(each.identifier) for each in store.list()]
    pieces = written(everything, "jsonl", None)  # type: ignore[arg-type]
    path.write_bytes(b"".join(piece.data for piece in pieces))
    return path


def state(store: Store) -> dict[str, Any]:
    """Everything that a store says: facts about each conversation but when they changed, and its canisters."""
    found = {}
    for each in store.list():
        conversation = store.get(each.identifier)
        facts = msgspec.structs.asdict(conversation.metadata)
        del facts["updated"]
        found[each.identifier] = facts, list(conversation.hydrate())
    return found


@pytest.fixture(name="filled")
def _filled():
    with open_store("sqlite::memory:") as store:
        talk = [cannery.user("Hi"), cannery.assistant("Hello"), cannery.user("More" * 600)]
        root = store.create(title="The root", tags=("work", "é"), model="gpt-5")
        root.append(talk)
        fork = root.fork(2, title="A fork")
        fork.append(cannery.user("Otherwise"))
        deeper = fork.fork(3, title="A fork of a fork", tags=())
        deeper.append(cannery.assistant("Indeed"), cannery.UserCanisterClass(PICTURE))
        chat = store.create(title="A chat", profile="chat")
        chat.save({"role": "user", "content": "Question"})
        yield store


def test_an_export_gives_the_same_conversations_back(filled: Store, tmp_path: Path):
    path = export(filled, tmp_path / "all.jsonl")
    with open_store("sqlite::memory:") as store:
        first = import_into(store, path)
        assert state(store) == state(filled)
        again = import_into(store, path)
        assert state(store) == state(filled)
    assert first.formats == {
        "all.jsonl": "conversations: each line is a conversation with its canisters"
    }
    assert (first.created, first.forked, first.unknown) == (2, 2, {})
    assert (again.added, again.created, again.forked, again.known) == (0, 0, 0, 4)


def test_an_export_adds_nothing_to_the_store_it_comes_from(filled: Store, tmp_path: Path):
    before = state(filled)
    assert import_into(filled, export(filled, tmp_path / "all.jsonl")).added == 0
    assert state(filled) == before


def test_a_newer_export_adds_what_is_new(filled: Store, tmp_path: Path):
    with open_store("sqlite::memory:") as store:
        import_into(store, export(filled, tmp_path / "old.jsonl"))
        newest = next(each for each in filled.list() if each.title == "A fork of a fork")
        filled.get(newest.identifier).append(cannery.assistant("One more"))
        summary = import_into(store, export(filled, tmp_path / "new.jsonl"))
        assert (summary.added, summary.continued, summary.created) == (1, 1, 0)
        assert state(store) == state(filled)
        older = import_into(store, tmp_path / "old.jsonl")
        assert (older.added, older.known) == (0, 4)


def test_a_fork_without_its_parent_stands_alone(filled: Store, tmp_path: Path):
    fork = next(each for each in filled.list() if each.title == "A fork of a fork")
    path = export(filled, tmp_path / "fork.jsonl", fork.identifier)
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
        (alone,) = store.list()
        assert (alone.identifier, alone.parent, alone.title) == (fork.identifier, None, fork.title)
        assert store.get(alone.identifier).hydrate() == filled.get(fork.identifier).hydrate()
        assert summary.created == 1


def test_what_was_deleted_comes_back_under_another_id(filled: Store, tmp_path: Path):
    path = export(filled, tmp_path / "all.jsonl")
    chat = next(each for each in filled.list() if each.title == "A chat")
    filled.delete(chat.identifier)
    assert import_into(filled, path).created == 1
    (back,) = (each for each in filled.list() if each.title == "A chat")
    assert back.identifier != chat.identifier


def test_a_conversation_that_went_another_way_becomes_a_fork(filled: Store, tmp_path: Path):
    path = export(filled, tmp_path / "all.jsonl")
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        root = next(each for each in store.list() if each.title == "The root")
        store.get(root.identifier).append(cannery.assistant("Here"))
        filled.get(root.identifier).append(cannery.assistant("There"))
        summary = import_into(store, export(filled, tmp_path / "other.jsonl"))
        assert (summary.forked, summary.added) == (1, 1)
        assert import_into(store, tmp_path / "other.jsonl").added == 0


def test_damaged_lines_are_kept_and_the_rest_is_imported(filled: Store, tmp_path: Path):
    path = export(filled, tmp_path / "all.jsonl")
    bad = [
        {
            "id": "../x",
            "created": "2026-01-01T00:00:00Z",
            "updated": "2026-01-01T00:00:00Z",
            "canisters": [],
        },
        {"id": "a", "created": "no time", "canisters": []},
        {
            "id": "b",
            "created": "2026-01-01T00:00:00Z",
            "updated": "2026-01-01T00:00:00Z",
            "canisters": [{"role": 1}],
        },
    ]
    path.write_bytes(
        path.read_bytes() + b"".join(json.dumps(each).encode() + b"\n" for each in bad)
    )
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
        assert summary.unknown == {"unreadable": 3}
        assert (summary.unknown_kept, len(summary.problems)) == (3, 3)
        assert len(store.list()) == 4
        assert import_into(store, path).added == 0


# --- titles and other facts ----------------------------------------------------------------------


def chatgpt(title: str, texts: list[str], **more: Any) -> dict[str, Any]:
    mapping: dict[str, Any] = {"0": {"id": "0", "message": None, "parent": None, "children": ["1"]}}
    for number, text in enumerate(texts, 1):
        role = "user" if number % 2 else "assistant"
        slug = {"metadata": {"model_slug": f"model-{number}"}} if role == "assistant" else {}
        mapping[str(number)] = node(str(number), str(number - 1), role, words(text), **slug)
    return {"title": title, "create_time": 1_600_000_000, "mapping": mapping, **more}


@pytest.mark.parametrize("order", [1, -1])
def test_a_chat_that_begins_another_keeps_its_title(order: int, tmp_path: Path):
    long, short = chatgpt("Long", ["a", "b", "c"]), chatgpt("Short", ["a", "b"])
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([long, short][::order]))
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        import_into(store, path)
        (found,) = store.list()
        metadata = store.get(found.identifier).metadata
    assert {metadata.title, *metadata.other_titles} == {"Long", "Short"}
    assert len(metadata.other_titles) == 1


def test_chatgpt_keeps_model_time_and_marks(tmp_path: Path):
    chat = chatgpt("T", ["a", "b", "c", "d"], gizmo_id="g-1", is_archived=True, is_starred=False)
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chat]))
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        (found,) = store.list()
        conversation = store.get(found.identifier)
        models = [
            each.residue.model
            for each in conversation.load()
            if each.residue and each.residue.model
        ]
    assert found.model == "model-4"
    assert models == ["model-2", "model-4"]
    assert found.created.year == 2020
    assert set(found.tags) == {"chatgpt", "gizmo:g-1", "archived"}


def test_a_dry_run_makes_no_fork_of_a_shared_system_prompt():
    rehearsal = Rehearsal(None)
    for question in ("one", "two"):
        history = [cannery.supervisor("Be brief."), cannery.user(question)]
        [placed] = rehearsal.put([(history, Facts(""))])
        assert (placed.is_new, placed.is_fork) == (True, False)


def test_a_dry_run_counts_what_several_files_share(tmp_path: Path):
    turns = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
    more = [*turns, {"from": "human", "value": "c"}]
    edited = [turns[0], {"from": "gpt", "value": "x"}]
    path = write(tmp_path, *({"conversations": each} for each in (turns, more, edited, turns)))
    dry = import_into(None, path, dry_run=True, merge=True)
    with open_store("sqlite::memory:") as store:
        known = import_into(store, path, merge=True)
    counts = ("created", "forked", "continued", "known", "added")
    assert [getattr(dry, name) for name in counts] == [1, 1, 1, 1, 4]
    assert [getattr(known, name) for name in counts] == [1, 1, 1, 1, 4]
