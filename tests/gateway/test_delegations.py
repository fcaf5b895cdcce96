"""Sub-agents of programs that send no id are linked with the call that gave them their task, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cannery.storage import open_store
from tests.gateway.recordings import answer, chat_reply
from tests.gateway.running import Running, rows
from tests.gateway.scripted import Scripted, send

HEADERS = [("content-type", "application/json"), ("authorization", "Bearer any")]
TASK = 'Count the words of "notes.txt" – all of them'


class Asking:
    """A program of Chat, its gateway and its upstream."""

    def __init__(self, folder: Path, upstream: Scripted) -> None:
        self.upstream = upstream
        self.running = Running(folder, rows(upstream.url))

    def ask(self, messages: list[dict[str, Any]], said: str = "", **call: str) -> str:
        """Send a history that is answered with a text, or with a call."""
        reply = chat_reply(answer(said, "call_1" if call else ""))
        if call:
            message = reply["choices"][0]["message"]
            message["tool_calls"][0]["function"]["arguments"] = json.dumps(call)
        self.upstream.reply = {"status": 200, "json": reply}
        body = json.dumps({"model": "chat-model", "messages": messages}).encode()
        status, told, _ = send(self.running.url, "/v1/chat/completions", HEADERS, body)
        assert status == 200
        return told["x-cannery-conversation"]

    def kept(self) -> dict[str, Any]:
        """The metadata of all conversations."""
        self.running.settle()
        self.running.stop()
        with open_store(str(self.running.store)) as store:
            return {
                one.identifier: store.get(one.identifier).metadata for one in store.list(kinds=None)
            }


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    with Scripted() as upstream:
        found = Asking(tmp_path, upstream)
        yield found
        found.running.stop()


def called(asked: str, **arguments: str) -> list[dict[str, Any]]:
    """A history in which the model has called."""
    function = {"name": "write", "arguments": json.dumps(arguments)}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return [user(asked), {"role": "assistant", "content": "I ask an agent.", "tool_calls": calls}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_task_in_an_open_call_begins_a_subagent(asking: Asking) -> None:
    main = asking.ask([user("Let an agent do it")], "I ask an agent.", prompt=TASK, name="counter")
    worker = [
        {"role": "system", "content": "You are a worker."},
        user(f"<current_datetime>12:00</current_datetime>\n\n{TASK}"),
    ]
    agent = asking.ask(worker, "Twelve words.")
    again = asking.ask(
        [*worker, {"role": "assistant", "content": "Twelve words."}, user("Sure?")], "Yes."
    )
    kept = asking.kept()
    assert agent == again
    assert (kept[main].kind, kept[main].parent) == ("", None)
    assert (kept[agent].kind, kept[agent].parent, kept[agent].call) == ("subagent", main, "call_1")
    assert kept[agent].began_at == 2


def test_a_task_whose_call_has_its_result_begins_no_subagent(asking: Asking) -> None:
    asking.ask([user("Let an agent do it")], "I ask an agent.", prompt=TASK)
    result = {"role": "tool", "tool_call_id": "call_1", "content": "Twelve words."}
    asking.ask([*called("Let an agent do it", prompt=TASK), result], "Done.")
    other = asking.ask([user(TASK)], "Twelve words.")
    kept = asking.kept()
    assert (kept[other].kind, kept[other].parent) == ("", None)


def test_a_question_that_the_model_repeats_in_a_call_begins_no_subagent(asking: Asking) -> None:
    asking.ask([user(TASK)], "I look it up.", query=TASK)
    other = asking.ask([{"role": "system", "content": "Be brief."}, user(TASK)], "Twelve.")
    kept = asking.kept()
    assert (kept[other].kind, kept[other].parent) == ("", None)


@pytest.mark.parametrize("question", [TASK[:-1], f"{TASK} again", "Let an agent do it"])
def test_another_question_begins_no_subagent(asking: Asking, question: str) -> None:
    asking.ask([user("Let an agent do it")], "I ask an agent.", prompt=TASK)
    other = asking.ask([{"role": "system", "content": "Be brief."}, user(question)], "Twelve.")
    kept = asking.kept()
    assert (kept[other].kind, kept[other].parent) == ("", None)
