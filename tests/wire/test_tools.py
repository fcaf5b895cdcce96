"""Functions of tools: what is read of one in any dialect, and free text where a dialect has none."""

from __future__ import annotations

import json

import msgspec
import pytest

from cannery import nativize_request, normalize_request
from cannery.messages.absence import absent
from cannery.messages.requests import Tool
from cannery.wire.tools import take_facts

QUESTION = {
    "anthropic_messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "bedrock_converse": {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
    "gemini_generate": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    "gemini_interactions": {"model": "gemini-3-pro", "input": "Hi"},
}


@pytest.mark.parametrize("is_raw", [False, True])
def test_facts_of_another_type_stay(is_raw):
    fields = {"description": 1, "parameters": [], "strict": "yes", "more": {"a": 1}}
    given = {key: msgspec.Raw(json.dumps(held)) for key, held in fields.items()}
    left = given if is_raw else dict(fields)
    assert take_facts(left) == (absent, absent, absent)
    assert left.keys() == fields.keys()


@pytest.mark.parametrize("is_raw", [False, True])
def test_facts_are_taken(is_raw):
    fields = {"description": "d", "input_schema": {"type": "object"}, "strict": False, "more": 1}
    given = {key: msgspec.Raw(json.dumps(held)) for key, held in fields.items()}
    left = given if is_raw else dict(fields)
    description, schema, strict = take_facts(left, "input_schema")
    assert (description, json.loads(schema), strict) == ("d", {"type": "object"}, False)
    assert left.keys() == {"more"}


@pytest.mark.parametrize("dialect", QUESTION)
def test_a_free_text_tool_that_was_added_is_a_function(dialect):
    request = normalize_request(QUESTION[dialect], dialect)
    added = request.replace(tools=(Tool("shell", is_freeform=True),))
    rendered = nativize_request(added, dialect)
    assert "FREEFORM_WRAPPED" in [loss.code for loss in rendered.losses]
    assert b'"required":["input"]' in rendered.body
