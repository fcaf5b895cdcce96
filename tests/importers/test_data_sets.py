"""Rows of data sets stay what they are: as many, in order, equal ones too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cannery.importers import find_format, format_names, import_into
from cannery.importers.pieces import facts_of
from cannery.storage import Store, open_store


def chat_of(*texts: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


ROWS: dict[str, list[dict[str, Any]]] = {
    "sharegpt": [
        {"conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}, *more]}
        for q, a, more in [
            ("Hi", "Hello", []),
            ("Hi", "Hello", [{"from": "human", "value": "More"}, {"from": "gpt", "value": "Sure"}]),
            ("Hi", "Hello", []),
            ("Hi", "Good day", []),
            ("Bye", "So long", []),
        ]
    ],
    "openai_finetuning": [
        {"messages": chat_of(*texts)}
        for texts in [
            ("Hi", "Hello"),
            ("Hi", "Hello", "More", "Sure"),
            ("Hi", "Hello"),
            ("Hi", "Good day"),
            ("Bye", "So long"),
        ]
    ],
    "alpaca": [
        {"instruction": "Add", "input": "", "output": output}
        for output in ("1", "1", "2", "3", "1")
    ],
}


def write(folder: Path, rows: list[dict[str, Any]], name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def held(store: Store) -> list[list[str]]:
    """What every conversation says, oldest first."""
    found = [store.get(each.identifier) for each in reversed(store.list())]
    return [[canister.text for canister in each.load()] for each in found]


def words(row: dict[str, Any]) -> list[str]:
    if "instruction" in row:
        return [row["instruction"], row["output"]]
    turns = row.get("conversations") or row["messages"]
    return [turn.get("value", turn.get("content")) for turn in turns]


def test_the_data_sets_are_known():
    known = {name for name in format_names() if find_format(name).is_data_set}
    assert set(ROWS) <= known


@pytest.mark.parametrize("name", ROWS)
def test_five_rows_in_five_rows_out_in_order(name: str, tmp_path: Path):
    path = write(tmp_path, ROWS[name])
    with open_store("sqlite::memory:") as store:
        first = import_into(store, path)
        assert first.formats["rows.jsonl"].startswith(f"{name}: ")
        assert held(store) == [words(row) for row in ROWS[name]]
        assert all(each.parent is None for each in store.list())
        again = import_into(store, path)
        assert len(store.list()) == 5
    assert (first.created, first.forked, first.known) == (5, 0, 0)
    assert (again.created, again.added, again.known) == (0, 0, 5)


@pytest.mark.parametrize("name", ROWS)
def test_a_dry_run_counts_rows(name: str, tmp_path: Path):
    path = write(tmp_path, ROWS[name])
    dry = import_into(None, path, dry_run=True)
    with open_store("sqlite::memory:") as store:
        wet = import_into(store, path)
        later = import_into(store, path, dry_run=True)
    assert (dry.created, dry.added, dry.known) == (wet.created, wet.added, wet.known)
    assert (later.created, later.added, later.known) == (0, 0, 5)


def test_rows_are_merged_when_that_is_asked_for(tmp_path: Path):
    path = write(tmp_path, ROWS["sharegpt"])
    with open_store("sqlite::memory:") as store:
        import_into(store, path, merge=True)
        assert len(store.list()) == 3


def test_a_data_set_that_grew_adds_its_new_rows(tmp_path: Path):
    rows = ROWS["sharegpt"]
    with open_store("sqlite::memory:") as store:
        import_into(store, write(tmp_path, rows[:3]))
        summary = import_into(store, write(tmp_path, [*rows[:3], rows[0], rows[4]]))
        assert (summary.created, summary.known) == (2, 3)
        assert len(store.list()) == 5


def test_rows_that_differ_in_another_field_are_different_rows(tmp_path: Path):
    row = ROWS["sharegpt"][0]
    path = write(tmp_path, [{**row, "source": "a"}, {**row, "source": "b"}])
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        found = [store.get(each.identifier).load()[0] for each in reversed(store.list())]
        assert [facts_of(each)["fields"] for each in found] == [{"source": "a"}, {"source": "b"}]


def test_a_preference_is_a_conversation_and_a_fork(tmp_path: Path):
    row = {
        "conversations": [{"from": "human", "value": "Hi"}],
        "chosen": {"from": "gpt", "value": "Hello"},
        "rejected": {"from": "gpt", "value": "Go away"},
    }
    with open_store("sqlite::memory:") as store:
        path = write(tmp_path, [row, row])
        summary = import_into(store, path)
        roots = [each for each in store.list() if each.parent is None]
        forks = [each for each in store.list() if each.parent is not None]
        assert (len(roots), len(forks)) == (2, 2)
        assert {each.parent for each in forks} == {each.identifier for each in roots}
        assert import_into(store, path).added == 0
    assert (summary.created, summary.forked) == (2, 2)


def test_a_chat_that_begins_like_a_row_leaves_the_row_as_it_is(tmp_path: Path):
    row = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
    chat = {"title": "T", "messages": chat_of("Hi", "Hello", "More")}
    with open_store("sqlite::memory:") as store:
        import_into(store, write(tmp_path, [row]))
        import_into(store, write(tmp_path, [chat], "chat.jsonl"))
        assert sorted(held(store)) == [["Hi", "Hello"], ["Hi", "Hello", "More"]]
        assert all(each.parent is None for each in store.list())


def test_a_row_that_was_deleted_comes_back(tmp_path: Path):
    path = write(tmp_path, ROWS["alpaca"][:1])
    with open_store("sqlite::memory:") as store:
        for _ in range(3):
            assert import_into(store, path).created == 1
            assert import_into(store, path).created == 0
            store.delete(store.list()[0].identifier)


def test_a_row_that_cannot_be_read_is_a_problem(tmp_path: Path):
    path = write(tmp_path, [*ROWS["sharegpt"][:2], {"conversations": [{"from": 1, "value": 2}]}])
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
        assert len(store.list()) == 2
    (problem,) = summary.problems
    assert problem.startswith("rows.jsonl: line 3: ")
    assert problem.endswith("left out")
