"""Reasoning and content: signatures, order, blanks, documents, media, cache marks, prefills, Unicode."""

from __future__ import annotations

import json

import msgspec
import pytest

import cannery
from cannery.dialects import find_dialect
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    PDF,
    PNG,
    RESPONSES,
    assistant,
    call,
    calls,
    chat,
    claude,
    text,
    told,
    tool,
    tool_result,
    tool_use,
    user,
)

THOUGHT = [
    {"type": "thinking", "thinking": "hm", "signature": "SIG1"},
    text("t1"),
    tool_use("a"),
    {"type": "thinking", "thinking": "hm2", "signature": "SIG2"},
    text("t2"),
    tool_use("b"),
]
ANSWERS = user([tool_result("a", "1"), tool_result("b", "2")])


# --- reasoning ---------------------------------------------------------------------------------


def test_23_signatures_go_home_to_the_letter_and_nowhere_else():
    body = claude(user("q"), assistant(THOUGHT), ANSWERS)
    request = cannery.normalize_request(body, CLAUDE)
    assert json.loads(cannery.nativize_request(request, CLAUDE).body) == body
    for target in (CHAT, RESPONSES, GEMINI):
        found = told(body, CLAUDE, target)
        assert "SIG1" not in found.rendered.body.decode()
        assert "SIGNATURE_DROPPED" in found.losses


def test_23_a_signature_survives_a_change_of_provider_and_back():
    body = claude(user("q"), assistant(THOUGHT), ANSWERS)
    request = cannery.normalize_request(body, CLAUDE)
    cannery.nativize_request(request, CHAT)
    longer = request.replace(conversation=request.conversation.append(cannery.user("on")))
    assert "SIG2" in cannery.nativize_request(longer, CLAUDE).body.decode()


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_24_reasoning_never_becomes_answer_text(target: str):
    found = told(claude(user("q"), assistant(THOUGHT), ANSWERS), CLAUDE, target)
    assert "hm2" not in found.rendered.body.decode()
    assert "REASONING_DROPPED" in found.losses


def test_24_reasoning_is_a_thought_for_gemini():
    found = told(claude(user("q"), assistant(THOUGHT), ANSWERS), CLAUDE, GEMINI)
    parts = found.body["contents"][1]["parts"]
    assert parts[0] == {"text": "hm", "thought": True}


def test_25_order_inside_a_turn():
    found = told(claude(user("q"), assistant(THOUGHT), ANSWERS), CLAUDE, GEMINI)
    kinds = [
        "call" if "functionCall" in part else "thought" if part.get("thought") else part["text"]
        for part in found.body["contents"][1]["parts"]
    ]
    assert kinds == ["thought", "t1", "call", "thought", "t2", "call"]
    items = told(claude(user("q"), assistant(THOUGHT), ANSWERS), CLAUDE, RESPONSES).body["input"]
    said = [item.get("content") or item.get("call_id") for item in items[1:5]]
    assert said == ["t1", "a", "t2", "b"]


def test_26_a_reasoning_item_and_its_follower_lose_their_ids_together():
    body = {
        "model": "gpt-5.5",
        "input": [
            user("w"),
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC"},
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c1",
                "name": "f",
                "arguments": "{}",
            },
            {"type": "function_call_output", "call_id": "c1", "output": "x"},
        ],
    }
    request = cannery.normalize_request(body, RESPONSES)
    whole = json.loads(cannery.nativize_request(request, RESPONSES).body)
    assert whole == body
    edited = request.replace(conversation=request.conversation.without(1))
    written = json.loads(cannery.nativize_request(edited, RESPONSES).body)
    assert "id" not in written["input"][1]


def test_27_reasoning_content_is_reasoning():
    message = {"role": "assistant", "content": "a", "reasoning_content": "think"}
    body = chat(user("q"), message, user("z"))
    request = cannery.normalize_request(body, CHAT)
    assert isinstance(request.conversation[1].content, cannery.ReasoningContentClass)
    assert json.loads(cannery.nativize_request(request, CHAT).body) == body
    found = told(body, CHAT, CLAUDE)
    assert "think" not in found.rendered.body.decode()
    assert ("REASONING_DROPPED", "messages[1].reasoning_content") in found.paths


def test_27_thoughts_are_kept_from_a_server_that_takes_them():
    rules = msgspec.structs.replace(find_dialect(CHAT).rules, takes_reasoning_text=True)
    request = cannery.normalize_request(claude(user("q"), assistant(THOUGHT), ANSWERS), CLAUDE)
    rendered = cannery.nativize_request(request, CHAT, rules=rules)
    said = json.loads(rendered.body)["messages"][1]
    assert (said["reasoning_content"], said["content"]) == ("hm\n\nhm2", [text("t1"), text("t2")])
    assert {loss.code for loss in rendered.losses} == {"SIGNATURE_DROPPED", "ORDER_CHANGED"}


# --- content -----------------------------------------------------------------------------------


def test_28_blank_text_is_a_400():
    parts = user([text(" "), text("hi")])
    found = told(chat(parts, assistant(""), user("x")), CHAT, CLAUDE)
    assert found.body["messages"] == [user([text("hi"), text("x")])]
    assert "empty_text" in found.repairs


def test_28_a_cache_mark_on_blank_text_moves_to_its_neighbour():
    mark = {"mode": "explicit", "ttl": "30m"}
    parts = [text("hi"), text("  ", prompt_cache_breakpoint=mark)]
    found = told(chat(user(parts)), CHAT, CLAUDE)
    assert "cache_control" in found.body["messages"][0]["content"][0]


def test_29_text_parts_are_joined_with_something_between():
    parts = [text("foo"), text("bar")]
    there = told(chat(user("q"), calls(call("a")), tool("a", parts)), CHAT, GEMINI).body
    assert there["contents"][2]["parts"][0]["functionResponse"]["response"] in (
        {"output": "foobar"},
        {"output": ["foo", "bar"]},
    )
    found = told(claude(user("q"), system=[text("foo"), text("bar")]), CLAUDE, RESPONSES).body
    assert "foobar" in json.dumps(found) or '"foo"' in json.dumps(found)


@pytest.mark.parametrize("target", [CHAT, RESPONSES, GEMINI])
def test_30_a_pdf_is_dropped_or_becomes_an_image(target: str):
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    block = {"type": "document", "source": source, "title": "Q3"}
    body = claude(user([block, text("sum it up")]))
    there = told(body, CLAUDE, target)
    written = there.rendered.body.decode()
    assert PDF in written
    assert "image" not in written
    assert told(there.body, target, CLAUDE).body["messages"] == body["messages"]


def test_31_a_wrong_media_type_is_a_400():
    url = f"data:image/jpg;base64,{PNG}"
    found = told(chat(user([{"type": "image_url", "image_url": {"url": url}}])), CHAT, CLAUDE)
    source = found.body["messages"][0]["content"][0]["source"]
    assert source == {"type": "base64", "media_type": "image/png", "data": PNG}
    assert found.repairs == {"media_types"}


def test_31_urls_are_not_fetched():
    url = "https://images.invalid/a.png"
    found = told(chat(user([{"type": "image_url", "image_url": {"url": url}}])), CHAT, CLAUDE)
    assert found.body["messages"][0]["content"][0]["source"] == {"type": "url", "url": url}


def test_31_both_base64_alphabets_are_read():
    data = {"mime_type": "image/png", "data": PNG.replace("+", "-").replace("/", "_").rstrip("=")}
    body = {"contents": [{"role": "user", "parts": [{"inlineData": data}]}]}
    found = told(body, GEMINI, CLAUDE, model="claude-opus-5-5")
    assert found.body["messages"][0]["content"][0]["source"]["data"] == PNG


def test_32_more_cache_marks_than_allowed():
    mark = {"mode": "explicit", "ttl": "30m"}
    turns = [
        user([text(str(turn), prompt_cache_breakpoint=mark)]) if turn % 2 == 0 else assistant("x")
        for turn in range(13)
    ]
    found = told(chat(*turns), CHAT, CLAUDE)
    assert json.dumps(found.body).count("cache_control") == 4
    assert "cache_control" not in json.dumps(found.body["messages"][:6])
    assert "cache_marks" in found.repairs
    few = told(chat(*turns[:7]), CHAT, CLAUDE)
    assert json.dumps(few.body).count("cache_control") == 4
    assert few.repairs == set()


def test_33_a_trailing_assistant_turn_is_a_prefill():
    body = chat(user("q"), assistant("The answer is"))
    native = told({**body, "model": "claude-sonnet-4-5"}, CHAT, CLAUDE)
    assert native.body["messages"][-1] == assistant("The answer is")
    found = told(body, CHAT, GEMINI)
    assert "The answer is" in json.dumps(found.body)
    assert "PREFILL_DROPPED" in found.losses


def test_33_a_trailing_turn_with_calls_is_never_removed():
    for target in (CLAUDE, GEMINI, RESPONSES):
        found = told(chat(user("q"), calls(call("keep_me"))), CHAT, target)
        assert "keep_me" in found.rendered.body.decode()


def test_34_lone_surrogates_and_control_characters():
    body = b'{"model":"m","messages":[{"role":"user","content":"a\\ud800b\\u0000c"}]}'
    request = cannery.normalize_request(body, CHAT)
    assert request.conversation[0].text == "a\ufffdb\x00c"
    for target in (CLAUDE, GEMINI, RESPONSES):
        assert "a\ufffdb" in cannery.nativize_request(request, target).body.decode()


def test_35_interleaved_parallel_calls_are_mixed_up():
    def chunk(**delta: object) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return b"data: " + json.dumps({**body, "choices": [choice]}).encode() + b"\n\n"

    def piece(index: int, words: str, **more: object) -> bytes:
        function = {"arguments": words, **({"name": more["name"]} if more else {})}
        made = {"index": index, "function": function}
        return chunk(
            tool_calls=[{**made, **({"id": more["name"], "type": "function"} if more else {})}]
        )

    finish = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    end = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [finish],
    }
    stream = b"".join(
        [
            chunk(role="assistant"),
            piece(0, "", name="a"),
            piece(1, "", name="b"),
            piece(0, '{"x":'),
            piece(1, '{"y":'),
            piece(0, "1}"),
            piece(1, "2}"),
            b"data: " + json.dumps(end).encode() + b"\n\ndata: [DONE]\n\n",
        ]
    )
    for target in (CHAT, CLAUDE, GEMINI, RESPONSES):
        written = list(cannery.translate_stream([stream], source=CHAT, target=target))
        response = cannery.fold(cannery.normalize_stream(written, target))
        made = [
            (canister.name, canister.arguments)
            for canister in response.canisters
            if canister.role is cannery.Role.Invocation
        ]
        assert made == [("a", {"x": 1}), ("b", {"y": 2})]


@pytest.mark.parametrize("target", ["ollama_chat", "ollama_generate"])
def test_text_parts_stand_side_by_side_in_a_field_that_is_one_string(target: str):
    texts = [{"type": "text", "text": "foo"}, {"type": "text", "text": "bar"}]
    note = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": texts}]}
    for blocks, expected in (
        (texts, "foobar"),
        ([texts[0], note, texts[1]], "foo\n\n## Supplemental Information ##\n\nd\n\nbar"),
    ):
        body["messages"] = [{"role": "user", "content": blocks}]
        rendered = cannery.translate(body, source="anthropic_messages", target=target)
        said = json.loads(rendered.body)
        assert said.get("prompt", said.get("messages", [{}])[0].get("content")) == expected
        assert {loss.code for loss in rendered.losses} <= {"DOCUMENT_TO_TEXT"}
