"""Attributes of spans as instrumentations write them: read, written again to the letter, and said to providers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from tests.conformance.matrix import DIALECTS, assert_same_json

OTEL = "otel_genai"
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

AGENT: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-5",
    "gen_ai.request.temperature": 0.2,
    "gen_ai.request.stop_sequences": ["END"],
    INSTRUCTIONS: [{"type": "text", "content": "Be brief."}],
    INPUT: [
        {"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "I need the tool."},
                {
                    "type": "tool_call",
                    "id": "c1",
                    "name": "weather",
                    "arguments": {"city": "Paris"},
                },
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": "rainy"}],
        },
        {
            "role": "user",
            "name": "Ada",
            "parts": [
                {"type": "text", "content": "And this?"},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": PNG},
                {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
                {"type": "file", "modality": "document", "file_id": "file_1"},
            ],
        },
    ],
    "gen_ai.tool.definitions": [
        {"type": "function", "name": "weather", "parameters": {"type": "object"}},
        {"type": "web_search", "name": "search"},
    ],
}


def home(body: Any, kind: str = "request") -> Any:
    raw = json.dumps(body).encode()
    value = getattr(cannery, f"normalize_{kind}")(raw, OTEL)
    rendered = getattr(cannery, f"nativize_{kind}")(value, OTEL)
    assert_same_json(rendered.body, raw)
    assert not rendered.losses
    assert not rendered.repairs
    return value


def test_a_span_of_an_agent_is_read():
    request = home(AGENT)

    assert [canister.role.value for canister in request.conversation] == [
        *("supervisor", "user", "assistant", "invocation", "result"),
        *("user", "user", "user", "user"),
    ]
    assert request.model == "gpt-5"
    assert request.controls.temperature == 0.2
    assert request.controls.stop == ("END",)
    assert [tool.name for tool in request.tools] == ["weather", "search"]


@pytest.mark.parametrize("target", DIALECTS)
def test_a_span_of_an_agent_is_said_to_providers(target):
    rendered = cannery.translate(json.dumps(AGENT).encode(), source=OTEL, target=target)

    for words in ("Be brief.", "Weather in Paris?", "weather", "rainy", "And this?"):
        assert words in rendered.body.decode()
    paths = {loss.path for loss in rendered.losses}
    marks = ('"thought":true', '"thinking"', '"type":"thought"')
    is_thought = any(mark in rendered.body.decode() for mark in marks)
    assert is_thought or f'["{INPUT}"][1].parts[0]' in paths
    searches = ('"web_search', '"googleSearch"', '"google_search"')
    is_offered = any(mark in rendered.body.decode() for mark in searches)
    assert is_offered is not ('["gen_ai.tool.definitions"][1]' in paths)


@pytest.mark.parametrize("spell", [json.dumps, lambda value: json.dumps(value, indent=1)])
def test_lists_may_be_json_text(spell):
    keys = (INPUT, INSTRUCTIONS, "gen_ai.tool.definitions")
    request = home({key: spell(value) if key in keys else value for key, value in AGENT.items()})

    assert request.conversation == home(AGENT).conversation
    longer = request.replace(conversation=request.conversation.append(cannery.user("More.")))
    written = json.loads(cannery.nativize_request(longer, OTEL).body)
    assert json.loads(written[INPUT])[-1]["parts"] == [{"type": "text", "content": "More."}]
    assert json.loads(written[INPUT])[:-1] == AGENT[INPUT]


def test_instructions_may_be_whole_messages():
    body = {
        **AGENT,
        INSTRUCTIONS: [{"role": "system", "parts": [{"type": "text", "content": "S"}]}],
    }

    assert home(body).conversation[0].text == "S"


def test_calls_without_ids_are_paired_by_their_order():
    calls = [{"type": "tool_call", "name": name} for name in ("a", "b")]
    answers = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "response": name}]}
        for name in ("A", "B")
    ]
    request = home({INPUT: [{"role": "assistant", "parts": calls}, *answers]})

    pairs = {each.identifier: each.name for each in request.conversation[:2]}
    assert [(pairs[each.invocation_id], each.text) for each in request.conversation[2:]] == [
        ("a", "A"),
        ("b", "B"),
    ]


@pytest.mark.parametrize(
    "arguments", [{}, {"a": 1.5}, '{"a":1}', '{"a": 1}', "", "no JSON", [1], 3, None, True]
)
def test_arguments_in_any_spelling(arguments):
    call = {"type": "tool_call", "id": "c", "name": "f", "arguments": arguments}

    home({INPUT: [{"role": "assistant", "parts": [call]}]})


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a":1}', "{}", "no JSON", "", None, 3])
def test_free_text_in_any_spelling(arguments):
    call = {"type": "tool_call", "id": "c", "name": "f", "arguments": arguments}

    home({INPUT: [{"role": "assistant", "parts": [{**call, "cannery.freeform": True}]}]})


@pytest.mark.parametrize("text", ["{}", '{"a":1}', "no JSON", ""])
def test_free_text_that_looks_like_an_object_keeps_its_fields(text):
    call = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": text}
    body = {"model": "m", "input": [{**call, "id": "ctc_1", "status": "completed", "x_new": 1}]}

    kept = cannery.translate(body, source="openai_responses", target=OTEL, policy="allow")
    again = cannery.translate(kept.body, source=OTEL, target="openai_responses")

    assert_same_json(again.body, json.dumps(body).encode())


@pytest.mark.parametrize("response", ["text", "", None, {"a": [1]}, [1, "x"], 3, False])
def test_responses_of_any_type(response):
    part = {"type": "tool_call_response", "id": "c", "response": response}

    home({INPUT: [{"role": "tool", "parts": [part]}]})


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [{"type": "text", "content": "a", "x": {"y": 1}}],
        [{"type": "novel", "z": 1}],
        [{"type": "blob", "modality": "image", "content": PNG}],
        [{"type": "blob", "modality": "image", "content": PNG, "mime_type": None}],
        [{"type": "blob", "modality": "smell", "content": PNG}],
        [{"type": "text", "content": None}],
        [{"type": "tool_call", "name": "f"}],
        [{"type": "tool_call_response", "response": 1}],
        [{"type": "compaction", "content": "summary"}],
        [{"type": "text", "content": "a", "cannery.residue": {"dialect": "openai_chat"}, "x": 1}],
        [{"type": "cannery.opaque", "dialect": "x"}],
        [{"type": "text", "content": "a", "cannery.citations": 3, "cannery.document": 1}],
    ],
)
@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool", "function"])
def test_odd_parts_come_back(role, parts):
    message = {"role": role, "parts": parts, "name": None}

    home({INPUT: [{"role": "user", "parts": [{"type": "text", "content": "q"}]}, message, message]})
    home({OUTPUT: [message]}, "response")


@pytest.mark.parametrize(
    "around",
    [
        {"gen_ai.response.finish_reasons": ["stop"]},
        {"gen_ai.response.finish_reasons": ["stop", "stop"]},
        {"gen_ai.response.finish_reasons": ["novel"]},
        {"gen_ai.response.finish_reasons": []},
        {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 2},
        {"gen_ai.usage.input_tokens": 3},
        {"gen_ai.response.id": "r", "gen_ai.response.model": "m", "error.type": "x"},
    ],
)
@pytest.mark.parametrize("reason", [{}, {"finish_reason": "stop"}, {"finish_reason": "length"}])
def test_answers_come_back(around, reason):
    message = {"role": "assistant", "parts": [{"type": "text", "content": "Hi"}], **reason}

    home({**around, OUTPUT: [message]}, "response")
    home({**around, OUTPUT: [message, message]}, "response")
    home({**around, OUTPUT: json.dumps([message])}, "response")


def test_an_answer_says_why_it_ended():
    message = {"role": "assistant", "parts": [], "finish_reason": "tool_call"}

    assert home({OUTPUT: [message]}, "response").finish is cannery.FinishReason.Tool
    ended = {
        "gen_ai.response.finish_reasons": ["length"],
        OUTPUT: [{**message, "finish_reason": None}],
    }
    assert home(ended, "response").finish is cannery.FinishReason.Length


@pytest.mark.parametrize(
    "body, path",
    [
        ({}, f'["{INPUT}"]'),
        ({INPUT: "nonsense"}, f'["{INPUT}"]'),
        ({INPUT: "{}"}, f'["{INPUT}"]'),
        ({INPUT: [1]}, f'["{INPUT}"][0]'),
        ({INPUT: [{"parts": []}]}, f'["{INPUT}"][0].role'),
        ({INPUT: [{"role": "user"}]}, f'["{INPUT}"][0].parts'),
        ({INPUT: [{"role": "user", "parts": ["x"]}]}, f'["{INPUT}"][0].parts[0]'),
        ({INPUT: [{"role": "user", "parts": [{}]}]}, f'["{INPUT}"][0].parts[0].type'),
        ({INPUT: [{"role": "admin", "parts": []}]}, f'["{INPUT}"][0].role'),
        ({INPUT: [], INSTRUCTIONS: {}}, f'["{INSTRUCTIONS}"]'),
        ({INPUT: [], "gen_ai.tool.definitions": [1]}, '["gen_ai.tool.definitions"][0]'),
    ],
)
def test_refusals_name_the_path(body, path):
    with pytest.raises(cannery.DialectError) as raised:
        cannery.normalize_request(json.dumps(body).encode(), OTEL)

    assert raised.value.path == path


def test_a_span_has_no_streams():
    with pytest.raises(cannery.DialectError, match="streams"):
        list(cannery.normalize_stream([b""], OTEL))


def test_a_span_is_recognised():
    assert cannery.detect_dialect(json.dumps(AGENT).encode())[0] == OTEL


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = st.sampled_from(
    [
        *(
            "content",
            "id",
            "name",
            "arguments",
            "response",
            "modality",
            "mime_type",
            "uri",
            "file_id",
        ),
        *("cannery.residue", "cannery.file", "cannery.reasoning", "cannery.error", "cannery.opens"),
        *("cannery.content", "cannery.freeform", "dialect", "tag", "value", "x"),
    ]
)
TYPES = st.sampled_from(
    [
        *("text", "reasoning", "tool_call", "tool_call_response", "blob", "uri", "file", "novel"),
        *("refusal", "cannery.opaque", "cannery.data", "cannery.silence", "compaction"),
    ]
)
VALUES = JSON | st.sampled_from(["image", "document", "image/png", PNG, "c1", "openai_chat"])
PARTS = st.builds(
    lambda kind, more: {**more, "type": kind}, TYPES, st.dictionaries(KEYS, VALUES, max_size=5)
)
MESSAGES = st.builds(
    lambda role, parts, more: {**more, "role": role, "parts": parts},
    st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"]),
    st.lists(PARTS, max_size=3),
    st.dictionaries(st.sampled_from(["name", "x", "cannery.joined"]), JSON, max_size=1),
)


def test_a_mark_of_answers_is_a_field_like_any_other_in_a_request():
    parts = [{"type": "text", "content": "a"}, {"type": "text", "content": "b"}]
    parts[1]["cannery.opens"] = True

    home({INPUT: [{"role": "system", "parts": parts}, {"role": "user", "parts": parts}]})


@given(messages=st.lists(MESSAGES, max_size=4), instructions=st.lists(PARTS, max_size=2))
def test_any_messages_come_back(messages, instructions):
    request = home({INPUT: messages, INSTRUCTIONS: instructions, "x": 1})
    for target in DIALECTS:
        try:
            cannery.nativize_request(request, target, policy="allow")
        except cannery.EmptyConversationError:
            continue


@given(message=MESSAGES, more=st.lists(MESSAGES, max_size=1))
def test_any_answer_comes_back(message, more):
    home({OUTPUT: [message, *more]}, "response")
