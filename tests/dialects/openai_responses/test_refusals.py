"""Values of the wrong type are refused with their path, and references that nobody else can follow block."""

from __future__ import annotations

import json

import pytest

import cannery

NAME = "openai_responses"
OTHERS = ("openai_chat", "anthropic_messages", "gemini_generate")
ITEM = {"role": "user", "content": "hi"}


def translated(target="openai_chat", policy="warn", **fields):
    body = {"model": "gpt-5", "input": [ITEM], **fields}
    return cannery.translate(body, source=NAME, target=target, policy=policy)


@pytest.mark.parametrize(
    "fields, path",
    [
        ({"input": [{**ITEM, "content": True}]}, "input[0].content"),
        ({"input": [ITEM, {**ITEM, "content": {"text": "hi"}}]}, "input[1].content"),
        ({"input": [{**ITEM, "content": 5}]}, "input[0].content"),
        ({"input": [{**ITEM, "content": ["hi"]}]}, "input[0].content[0]"),
        ({"input": [{**ITEM, "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        (
            {"input": [{**ITEM, "content": [{"type": "input_text", "text": None}]}]},
            "input[0].content[0].text",
        ),
        (
            {"input": [{**ITEM, "content": [{"type": "refusal", "refusal": 1}]}]},
            "input[0].content[0].refusal",
        ),
        ({"input": {"role": "user"}}, "input"),
        ({"input": ["hi"]}, "input[0]"),
        ({"input": [{"type": "function_call_output", "output": {"a": 1}}]}, "input[0].output"),
        ({"input": [{"type": "function_call_output", "output": True}]}, "input[0].output"),
        ({"input": [{"type": "function_call", "name": 7}]}, "input[0].name"),
        ({"input": [{"type": 3}]}, "input[0].type"),
        ({"tools": {"type": "function", "name": "f"}}, "tools"),
        ({"tools": "f"}, "tools"),
        ({"tools": [{"type": "function", "name": "f"}, "g"]}, "tools[1]"),
        ({"instructions": ["be brief"]}, "instructions"),
        ({"instructions": {"text": "be brief"}}, "instructions"),
        ({"instructions": 5}, "instructions"),
    ],
)
@pytest.mark.parametrize("target", [NAME, "openai_chat"])
def test_a_value_of_the_wrong_type_is_refused_with_its_path(fields, path, target):
    with pytest.raises(cannery.DialectError) as refused:
        translated(target, **fields)

    assert refused.value.path == path


@pytest.mark.parametrize("field", ["tools", "instructions"])
def test_null_says_nothing_and_comes_back(field):
    assert translated(**{field: None}).losses == ()
    assert json.loads(translated(NAME, **{field: None}).body)[field] is None


def test_no_content_is_no_text_of_anybody():
    """A null comes back as a null, and another dialect never sees one."""
    fields = {"input": [ITEM, {"role": "user", "content": None}]}

    assert json.loads(translated(NAME, **fields).body)["input"] == fields["input"]
    for target in OTHERS:
        assert b"null" not in translated(target, **fields).body


@pytest.mark.parametrize(
    "fields, code, path",
    [
        ({"previous_response_id": "resp_1"}, "HISTORY_MISSING", "previous_response_id"),
        ({"conversation": "conv_1"}, "HISTORY_MISSING", "conversation"),
        ({"conversation": {"id": "conv_1"}}, "HISTORY_MISSING", "conversation"),
        ({"prompt": {"id": "pmpt_1", "variables": {"a": "b"}}}, "PROMPT_MISSING", "prompt"),
        (
            {"input": [{"type": "item_reference", "id": "msg_1"}, ITEM]},
            "HISTORY_MISSING",
            "input[0]",
        ),
        ({"input": [ITEM, {"id": "msg_1"}, ITEM]}, "HISTORY_MISSING", "input[1]"),
    ],
)
@pytest.mark.parametrize("target", OTHERS)
def test_a_reference_that_another_provider_cannot_follow_blocks(fields, code, path, target):
    for policy in ("warn", "strict"):
        with pytest.raises(cannery.LossError):
            translated(target, policy, **fields)
    losses = translated(target, "allow", **fields).losses

    assert (code, "blocked", path) in {(loss.code, loss.severity, loss.path) for loss in losses}
    assert translated(NAME, "strict", **fields).losses == ()


@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "prompt"])
def test_a_reference_to_nothing_does_not_block(field):
    assert translated("openai_chat", "strict", **{field: None}).losses == ()
