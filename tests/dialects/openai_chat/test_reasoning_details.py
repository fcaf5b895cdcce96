"""Thoughts that are told only in ``reasoning_details``, as OpenRouter tells them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.messages.content import ReasoningContentClass
from cannery.messages.events import fold
from tests.oracles.sdk_streams import parse_stream

CHAT = "openai_chat"
TEXT = {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "id": None, "index": 0}
DETAILS: list[dict[str, Any]] = [
    {**TEXT, "format": "anthropic-claude-v1"},
    {"type": "reasoning.summary", "summary": "Thought.", "format": "openai-responses-v1"},
    {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "format": "x", "index": 2},
]
ITEM = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("reasoning.text")},
        optional={
            "text": st.one_of(st.none(), st.text(max_size=5)),
            "signature": st.one_of(st.none(), st.text(max_size=5)),
            "format": st.sampled_from(["unknown", "anthropic-claude-v1"]),
            "index": st.integers(0, 3),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning.summary"), "summary": st.text(max_size=5)},
        optional={"id": st.one_of(st.none(), st.text(max_size=5))},
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning.encrypted"), "data": st.text(max_size=5)},
        optional={"index": st.integers(0, 3), "new": st.booleans()},
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["reasoning.new", None, 3])}),
    st.none(),
)


def asking(message: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "q"}, message]}


def thoughts(canisters: Any) -> list[ReasoningContentClass]:
    held = [canister.held for canister in canisters]
    return [one for one in held if isinstance(one, ReasoningContentClass)]


def test_details_are_thoughts():
    request = cannery.normalize_request(
        asking({"role": "assistant", "content": "So.", "reasoning_details": DETAILS}), CHAT
    )
    text, summary, payload = thoughts(request.conversation)
    assert (text.texts, text.signature) == (("Hm.",), "c2ln")
    assert summary.summaries == ("Thought.",)
    assert payload.encrypted == "gAAA"
    assert {one.origin.dialect for one in (text, payload)} == {CHAT}


def test_other_dialects_see_the_words_and_are_told_of_the_seals():
    message = {"role": "assistant", "content": "So.", "reasoning_details": DETAILS}
    body = {
        "id": "gen-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }
    rendered = cannery.translate(body, source=CHAT, target="anthropic", kind="response")
    blocks = json.loads(rendered.body)["content"]
    said = [block.get("thinking", block.get("text")) for block in blocks]
    assert said[0] == "Hm."
    assert "Thought." in said
    assert said[-1] == "So."
    lost = {loss.path for loss in rendered.losses if loss.code == "SIGNATURE_DROPPED"}
    assert "choices[0].message.reasoning_details[2]" in lost


@given(st.lists(ITEM, max_size=4), st.sampled_from(["So.", None, ""]), st.booleans())
def test_the_same_dialect_gets_every_item_back(items: Any, content: Any, has_text: bool):
    message = {"role": "assistant", "content": content, "reasoning_details": items}
    if has_text:
        message["reasoning"] = "Hm."
    body = asking(message)
    assert json.loads(cannery.translate(body, source=CHAT, target=CHAT).body) == body


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "gen-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()


STREAM = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_details": [{"type": "reasoning.text", "text": "H", "index": 0}]}),
    chunk({"reasoning_details": [{"type": "reasoning.text", "text": "m.", "index": 0}]}),
    chunk({"reasoning_details": [{"type": "reasoning.text", "signature": "c2ln", "index": 0}]}),
    chunk({"reasoning_details": [DETAILS[1], DETAILS[2]]}),
    chunk({"content": "So."}),
    chunk({}, "stop"),
    b"data: [DONE]\n\n",
]


def test_a_stream_of_details_is_a_stream_of_thoughts():
    answer = fold(cannery.normalize_stream(STREAM, CHAT))
    text, summary, payload = thoughts(answer.canisters)
    assert (text.texts, text.signature) == (("Hm.",), "c2ln")
    assert summary.summaries == ("Thought.",)
    assert payload.encrypted == "gAAA"
    whole = json.loads(cannery.nativize_response(answer, CHAT).body)
    assert whole["choices"][0]["message"]["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "index": 0},
        *DETAILS[1:],
    ]


def test_a_stream_of_details_comes_back_and_is_heard_elsewhere():
    again = list(cannery.translate_stream(STREAM, source=CHAT, target=CHAT))
    held = [
        [(one.held, one.residue) for one in fold(cannery.normalize_stream(stream, CHAT)).canisters]
        for stream in (again, STREAM)
    ]
    assert held[0] == held[1]
    claude = b"".join(cannery.translate_stream(STREAM, source=CHAT, target="anthropic"))
    parse_stream("anthropic_messages", [claude])
    assert b'"thinking":"H"' in claude
    assert b'"thinking":"m."' in claude


@pytest.mark.parametrize("size", [1, 7])
def test_details_beside_their_text_stay_beside_it(size: int):
    stream = b"".join(
        (
            chunk({"role": "assistant", "reasoning": "Hm.", "reasoning_details": [TEXT]}),
            chunk({"content": "So."}),
            chunk({}, "stop"),
        )
    )
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    answer = fold(cannery.normalize_stream(pieces, CHAT))
    (thought,) = thoughts(answer.canisters)
    assert thought.texts == ("Hm.",)
    whole = json.loads(cannery.nativize_response(answer, CHAT).body)
    assert whole["choices"][0]["message"]["reasoning_details"] == [TEXT]
