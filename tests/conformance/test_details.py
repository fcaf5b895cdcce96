"""How closely an image is to be looked at is said or named on the shortest way as on the general one."""

from __future__ import annotations

import json

import pytest

import cannery
from cannery import translation
from tests.conformance.general import general
from tests.conformance.test_slices import PIXEL

CHAT = "openai_chat"
PATH = "messages[1].content[1].image_url.detail"


def asked(detail: str, *, in_result: bool = False) -> bytes:
    image = {"url": f"data:image/png;base64,{PIXEL}", "detail": detail}
    parts = [{"type": "text", "text": "See."}, {"type": "image_url", "image_url": image}]
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": parts}]
    if in_result:
        messages[1]["content"] = "q"
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": parts},
        ]
    return json.dumps({"model": "m", "messages": messages}).encode()


@pytest.mark.parametrize("in_result", [False, True])
@pytest.mark.parametrize("detail", ["auto", "low", "high", "closer"])
@pytest.mark.parametrize("target", ["anthropic_messages", "gemini_generate", "openai_responses"])
def test_both_ways_say_the_same(target: str, detail: str, in_result: bool):
    body = asked(detail, in_result=in_result)
    fast = cannery.translate(body, source=CHAT, target=target)
    slow = general(body, CHAT, target)
    assert json.loads(fast.body) == json.loads(slow.body)
    assert (fast.losses, fast.repairs) == (slow.losses, slow.repairs)


@pytest.mark.parametrize("target", ["anthropic_messages", "gemini_generate", "openai_responses"])
def test_the_shortest_way_is_taken(target: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(translation, "translate_plain", None)
    monkeypatch.setattr(translation, "translate_line", None)
    found = cannery.translate(asked("high"), source=CHAT, target=target)
    lost = {(loss.code, loss.path) for loss in found.losses if loss.severity == "lost"}
    assert lost == (set() if target == "openai_responses" else {("FIELD_DROPPED", PATH)})
    usual = cannery.translate(asked("auto"), source=CHAT, target=target)
    assert not [loss for loss in usual.losses if loss.severity == "lost"]
