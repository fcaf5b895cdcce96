"""Dialects by their short names: everywhere what they are by their own."""

from __future__ import annotations

import pytest

import cannery
from cannery.dialects import all_dialects, dialect_names, find_dialect
from cannery.errors import UnknownDialectError
from cannery.gateway.settings import parse_settings

SHORT = {
    "openai": "openai_chat",
    "responses": "openai_responses",
    "anthropic": "anthropic_messages",
    "gemini": "gemini_generate",
}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi", "odd": 1}], "odd": 2}


@pytest.mark.parametrize("short, name", SHORT.items())
def test_a_short_name_finds_the_dialect(short: str, name: str) -> None:
    assert find_dialect(short) is find_dialect(name)


def test_no_two_dialects_have_the_same_name() -> None:
    names = [name for each in all_dialects() for name in each.short_names]
    assert len({*names, *dialect_names()}) == len(names) + len(dialect_names())


@pytest.mark.parametrize("short, name", SHORT.items())
def test_a_translation_by_short_names_is_the_same(short: str, name: str) -> None:
    by_short = cannery.translate(BODY, source="chat", target=short)
    assert by_short == cannery.translate(BODY, source="openai_chat", target=name)


def test_an_answer_goes_back_to_its_own_dialect_by_a_short_name() -> None:
    said = {"role": "assistant", "content": "Hi", "odd": 1}
    body = {"id": "x", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
    response = cannery.normalize_response(body, "openai")
    rendered = cannery.nativize_response(response, "openai")
    assert rendered == cannery.nativize_response(response, "openai_chat")
    assert rendered.losses == ()


def test_an_unknown_name_is_answered_with_the_real_ones() -> None:
    with pytest.raises(UnknownDialectError, match="anthropic_messages") as caught:
        find_dialect("anthropik")
    assert "claude" not in str(caught.value)


def test_the_gateway_takes_short_names() -> None:
    text = '[[upstreams]]\nname = "a"\nurl = "http://127.0.0.1:9"\ndialect = "anthropic"\n'
    assert parse_settings(text).upstreams[0].dialects == ("anthropic",)
