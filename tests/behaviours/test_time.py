"""Time grows with the body: four times as much takes about four times as long, whatever repeats in it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

import cannery


def repeated_ids(count: int) -> tuple[str, dict[str, Any]]:
    """The same call id in every turn, as clients that number calls per turn send it."""
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": "r"},
    ]
    return "openai_chat", {"model": "m", "messages": turn * count}


def parallel_calls(count: int) -> tuple[str, dict[str, Any]]:
    """One turn with many calls, answered by id from the last to the first."""
    calls = [{"functionCall": {"id": f"c{i}", "name": "f", "args": {}}} for i in range(count)]
    answers = [
        {"functionResponse": {"id": f"c{i}", "name": "f", "response": {"output": "r"}}}
        for i in reversed(range(count))
    ]
    contents = [{"role": "model", "parts": calls}, {"role": "user", "parts": answers}]
    return "gemini_generate", {"contents": contents}


def unknown_fields(count: int) -> tuple[str, dict[str, Any]]:
    """Many fields that nobody knows, each of which is a loss."""
    message = {"role": "user", "content": "q", **{f"x{i}": i for i in range(4 * count)}}
    return "openai_chat", {"model": "m", "messages": [message]}


def spent(source: str, body: dict[str, Any]) -> float:
    data = json.dumps(body).encode()
    times = []
    for _ in range(3):
        start = time.thread_time()
        cannery.translate(data, source=source, target="anthropic_messages")
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.parametrize("make", [repeated_ids, parallel_calls, unknown_fields])
def test_four_times_as_much_takes_no_sixteen_times_as_long(
    make: Callable[[int], tuple[str, dict[str, Any]]],
):
    spent(*make(50))
    # CPU time of this thread, the best of several, with room to spare: only a real square is caught.
    assert any(spent(*make(2_400)) < 10 * spent(*make(600)) for _ in range(4))
