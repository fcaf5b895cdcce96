"""Control characters survive translation, however they are escaped and whatever stands beside them."""

from __future__ import annotations

import base64
import json

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, PNG, RESPONSES

CONTROLS = ["\x00", "\x7f", "\x7f00\x7f", "\x7f0\x7f\x7f1\x7f", "\x1b[31m", "\u2028", "\x85"]


def called(word: str, padding: int) -> dict:
    """A chat with an inline image of some size, and a call whose arguments hold a word."""
    data = base64.b64encode(base64.b64decode(PNG) + bytes(padding)).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    function = {"name": "f", "arguments": json.dumps({"q": word})}
    call = {"id": "c1", "type": "function", "function": function}
    return {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": f"See {word}"}, image]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": word},
            {"role": "user", "content": "Go on."},
        ],
    }


@pytest.mark.parametrize("target", [CHAT, RESPONSES, CLAUDE, GEMINI])
@pytest.mark.parametrize("padding", [3, 60_000])
@pytest.mark.parametrize("word", CONTROLS)
def test_arguments_and_texts_keep_control_characters(word: str, padding: int, target: str):
    body = called(word, padding)
    for raw in (json.dumps(body).encode(), json.dumps(body, ensure_ascii=False).encode()):
        written = cannery.translate(raw, source=CHAT, target=target).body
        request = cannery.normalize_request(written, target)
        calls = [one for one in request.conversation if one.role is cannery.Role.Invocation]
        results = [one for one in request.conversation if one.role is cannery.Role.Result]
        assert [dict(call.arguments) for call in calls] == [{"q": word}]
        assert [result.text for result in results] == [word]
        assert request.conversation[0].text == f"See {word}"
