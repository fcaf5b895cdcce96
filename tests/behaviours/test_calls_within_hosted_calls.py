"""What stands between a call of a hosted tool and its outcome follows both, in streams as in whole answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.oracles.sdk_streams import parse_stream

Object = dict[str, Any]


def run(identifier: str, code: str) -> Object:
    return {
        "type": "server_tool_use",
        "id": identifier,
        "name": "code_execution",
        "input": {"code": code},
    }


def ran(identifier: str, output: str) -> Object:
    result = {
        "type": "code_execution_result",
        "stdout": output,
        "stderr": "",
        "return_code": 0,
        "content": [],
    }
    return {"type": "code_execution_tool_result", "tool_use_id": identifier, "content": result}


def called(identifier: str) -> Object:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    return {"type": "tool_use", "id": identifier, "name": "f", "input": {}, "caller": caller}


def said(words: str) -> Object:
    return {"type": "text", "text": words}


ONE, TWO = run("srvtoolu_1", "print(1)"), run("srvtoolu_2", "print(2)")
ANSWERS = {
    "calls before the outcome": [
        said("a"),
        ONE,
        called("c1"),
        called("c2"),
        ran("srvtoolu_1", "1"),
        said("b"),
    ],
    "no outcome": [said("a"), ONE, called("c1"), called("c2")],
    "words before the outcome": [ONE, said("a"), ran("srvtoolu_1", "1"), said("b")],
    "two side by side": [ONE, TWO, ran("srvtoolu_2", "2"), ran("srvtoolu_1", "1"), said("b")],
    "two, the second without outcome": [
        ONE,
        called("c1"),
        TWO,
        called("c2"),
        ran("srvtoolu_1", "1"),
    ],
}


def whole(content: list[Object]) -> Object:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
    return {
        **head,
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def stream(content: list[Object], ending: list[Object] | None = None) -> bytes:
    events: list[Object] = [
        {"type": "message_start", "message": {**whole([]), "stop_reason": None}}
    ]
    for index, block in enumerate(content):
        begun, more = {**block}, None
        if block["type"] == "text":
            begun["text"], more = "", {"type": "text_delta", "text": block["text"]}
        elif "input" in block:
            begun["input"] = {}
            more = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        if more is not None:
            events.append({"type": "content_block_delta", "index": index, "delta": more})
        events.append({"type": "content_block_stop", "index": index})
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 1},
    }
    events += [end, {"type": "message_stop"}] if ending is None else ending
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events
    ).encode()


def kinds(target: str, body: Object) -> list[Any]:
    """What an answer holds, in order; texts side by side as one."""
    if target == CHAT:
        message = body["choices"][0]["message"]
        return [message["content"], [call["id"] for call in message.get("tool_calls") or ()]]
    if target == RESPONSES:
        found = [
            ("text", "".join(part["text"] for part in item["content"]))
            if item["type"] == "message"
            else (item["type"], item.get("call_id") or item["code"])
            for item in body["output"]
        ]
    else:
        parts = body["candidates"][0]["content"]["parts"]
        found = [(next(iter(part)), next(iter(part.values()))) for part in parts]
    joined: list[Any] = []
    for kind, held in found:
        if kind == "text" and joined and joined[-1][0] == "text":
            joined[-1] = ("text", joined[-1][1] + held)
        elif held != "":
            joined.append((kind, held))
    return joined


@pytest.mark.parametrize("target", [CHAT, RESPONSES, GEMINI])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_stream_has_the_order_of_the_whole_answer(name: str, target: str):
    content = ANSWERS[name]
    expected = cannery.translate(whole(content), source=CLAUDE, target=target, kind="response").body
    written = cannery.translate_stream([stream(content)], source=CLAUDE, target=target)
    final = parse_stream(target, list(written)).final
    assert kinds(target, final) == kinds(target, json.loads(expected))


def test_texts_around_an_outcome_are_parted_in_a_history():
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": ANSWERS["words before the outcome"]},
    ]
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "messages": [*turns, {"role": "user", "content": "r"}],
    }
    written = json.loads(cannery.translate(body, source=CLAUDE, target=CHAT).body)
    said_again = written["messages"][1]["content"]
    assert [part["text"] for part in said_again] == ["a", "\n\nb"]


def test_what_waits_is_said_before_an_error():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    content = [ONE, said("words")]
    written = cannery.translate_stream([stream(content, [error])], source=CLAUDE, target=RESPONSES)
    data = b"".join(written)
    assert data.index(b"print(1)") < data.index(b"words") < data.index(b"busy")
