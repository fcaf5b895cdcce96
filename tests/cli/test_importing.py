"""Importing many conversations: few syncs, and a process that is killed leaves a store that the next one completes."""

import json
import time

import pytest

COUNT = 1500


def data_set(count: int = COUNT) -> str:
    lines = []
    for number in range(count):
        turns = [
            {"from": "human", "value": f"question {number}"},
            {"from": "gpt", "value": f"answer {number}"},
        ]
        lines.append(json.dumps({"conversations": turns}))
    return "\n".join(lines)


def stored(store) -> int:
    folder = store / "conversations"
    return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.mark.parametrize("least", [1, 700])
def test_killed_in_between_and_imported_again(run, tmp_path, least):
    (tmp_path / "set.jsonl").write_text(data_set())
    store = tmp_path / "store"
    process = run.start("import", tmp_path / "set.jsonl", "--store", store)
    while process.poll() is None and stored(store) < least:
        time.sleep(0.002)
    process.kill()
    process.communicate(timeout=30)

    assert run("verify", "--store", store).code == 0
    here = len(run("list", "--store", store, "--json", "--limit", COUNT).json)
    assert here >= least
    again = run("import", tmp_path / "set.jsonl", "--store", store, "--json").json[0]
    assert again["conversations"] == COUNT
    assert (again["known"], again["created"]) == (here, COUNT - here)
    assert run("verify", "--store", store).code == 0
    nothing = run("import", tmp_path / "set.jsonl", "--store", store, "--json").json[0]
    assert (nothing["known"], nothing["added"]) == (COUNT, 0)


def test_records_that_are_said_twice_are_kept_once_if_asked_for(run, tmp_path):
    lines = data_set(300).splitlines()
    (tmp_path / "set.jsonl").write_text("\n".join([*lines, *lines[:50]]))
    merged = ("import", tmp_path / "set.jsonl", "--merge", "--json")
    summary = run(*merged, "--store", tmp_path / "store").json[0]
    assert (summary["created"], summary["known"], summary["added"]) == (300, 50, 600)
    rehearsed = run(*merged, "--store", tmp_path / "none", "--dry-run").json[0]
    counted = ("conversations", "created", "known", "added", "messages")
    assert [rehearsed[name] for name in counted] == [summary[name] for name in counted]
