"""A growing conversation keeps its translated beginning byte for byte, so that caches of prompts stay warm.

Over recorded sessions and every pair of the four API dialects: what was sent to an upstream with one request is the
beginning of what is sent with the next one, wherever the client itself keeps its beginning and the model has answered.
Marks that tell a provider where to cache move with every request; they are no part of the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cannery.translation import translate
from tests.gateway.test_replays import _dialect, sessions

KEYS = {
    "openai_chat": "messages",
    "openai_responses": "input",
    "anthropic_messages": "messages",
    "gemini_generate": "contents",
}
MARKS = ("cache_control", "prompt_cache_breakpoint")
# What stands before the messages in a prompt.
BEFORE = ("instructions", "system", "systemInstruction", "tools")
SESSIONS = sessions()


def pairs(session: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Bodies of which the second goes on where the first ends."""
    last: dict[Any, dict[str, Any]] = {}
    for request in session["requests"]:
        if request.get("method", "POST") != "POST" or request["kind"] != "main":
            continue
        key = request.get("session")
        before, body = last.get(key), request["body"]
        last[key] = body
        messages = KEYS[_dialect(request["path"])]
        if before is not None and _begins(before, body, messages):
            yield before, body


def _begins(before: dict[str, Any], body: dict[str, Any], messages: str) -> bool:
    """Whether a client has left everything as it was, but for marks of its own cache."""
    rest = [key for key in {*before, *body} if key not in (messages, "client_metadata", "metadata")]
    count = len(before[messages])
    return (
        all(_plain(before.get(key)) == _plain(body.get(key)) for key in rest)
        and len(body[messages]) > count
        and body[messages][count].get("role", "assistant") in ("assistant", "model")
        and _plain(before[messages]) == _plain(body[messages][:count])
    )


def _plain(value: Any) -> Any:
    """A value without marks of a cache; one text in a list is a text."""
    if isinstance(value, dict):
        kept = {key: _plain(item) for key, item in value.items() if key not in MARKS}
        for name in ("content", "output"):
            parts = kept.get(name)
            if isinstance(parts, list) and len(parts) == 1 and set(parts[0]) == {"type", "text"}:
                kept[name] = parts[0]["text"]
        return kept
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _sent(body: dict[str, Any], source: str, target: str) -> tuple[bytes, dict[str, Any]]:
    """The messages as they are sent, without the end of their list, and what stands before them."""
    if target == "gemini_generate":
        body = {**body, "model": "gemini-2.5-pro"}
    sent = json.loads(
        translate(json.dumps(body).encode(), source=source, target=target, policy="allow").body
    )
    messages = json.dumps(_plain(sent.pop(KEYS[target])), ensure_ascii=False).encode()
    return messages.removesuffix(b"]"), {key: _plain(sent.get(key)) for key in BEFORE}


@pytest.mark.parametrize("target", KEYS)
@pytest.mark.parametrize("source", KEYS)
def test_a_growing_conversation_keeps_its_translated_prefix(source: str, target: str) -> None:
    checked = 0
    for session in SESSIONS:
        dialects = {_dialect(one["path"]) for one in session["requests"] if one["body"] is not None}
        if source not in dialects or source == target:
            continue
        for before, body in pairs(session):
            first, around = _sent(before, source, target)
            second, around_it = _sent(body, source, target)
            assert second.startswith(first), session["name"]
            assert around == around_it, session["name"]
            checked += 1
    assert checked >= 2 or source == target
