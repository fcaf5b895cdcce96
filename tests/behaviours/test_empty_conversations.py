"""A conversation in which nothing is said is refused, not filled with words of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, told, user

EMPTY: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": []},
    CLAUDE: {"model": "m", "max_tokens": 9, "messages": []},
    GEMINI: {"contents": []},
    RESPONSES: {"model": "m", "input": []},
}


@pytest.mark.parametrize("target", list(EMPTY))
@pytest.mark.parametrize("source", list(EMPTY))
def test_an_empty_conversation_is_an_error_that_says_so(source: str, target: str):
    if source == target:
        rendered = cannery.translate(EMPTY[source], source=source, target=target)
        assert json.loads(rendered.body) == EMPTY[source]
        return
    with pytest.raises(cannery.EmptyConversationError, match="the conversation is empty"):
        cannery.translate(EMPTY[source], source=source, target=target)


@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
def test_turns_without_content_are_an_empty_conversation(target: str):
    body = {"model": "m", "messages": [user(""), {"role": "assistant", "content": ""}]}
    with pytest.raises(cannery.EmptyConversationError):
        cannery.translate(body, source=CHAT, target=target)


@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
def test_a_lone_system_message_is_sent_as_a_marked_user_turn(target: str):
    body = {"model": "m", "messages": [{"role": "system", "content": "Greet me."}]}
    found = told(body, CHAT, target, model="m")
    assert "<system-message>\\nGreet me.\\n</system-message>" in found.rendered.body.decode()
    assert "starts with the assistant" not in found.rendered.body.decode()
    assert {repair.name for repair in found.rendered.repairs} == {"first_user"}


@pytest.mark.parametrize("target", [CHAT, CLAUDE, GEMINI, "sharegpt", "alpaca"])
@pytest.mark.parametrize(
    "reference, code",
    [
        ({"prompt": {"id": "p"}}, "PROMPT_MISSING"),
        ({"previous_response_id": "r", "input": []}, "HISTORY_MISSING"),
    ],
    ids=["prompt", "history"],
)
def test_a_missing_reference_is_told_before_the_emptiness(
    reference: dict[str, Any], code: str, target: str
):
    body = {"model": "m", **reference}
    for policy in ("warn", "strict"):
        with pytest.raises(cannery.LossError) as raised:
            cannery.translate(body, source=RESPONSES, target=target, policy=policy)
        assert [loss.code for loss in raised.value.losses] == [code]
    with pytest.raises(cannery.EmptyConversationError):
        cannery.translate(body, source=RESPONSES, target=target, policy="allow")


@pytest.mark.parametrize("target", [RESPONSES, CLAUDE, GEMINI, "sharegpt", "alpaca"])
def test_a_turn_that_has_no_content_is_an_empty_conversation(target: str):
    body = {"model": "m", "messages": [{"role": "assistant", "content": None}]}
    with pytest.raises(cannery.EmptyConversationError):
        cannery.translate(body, source=CHAT, target=target)


def test_instructions_after_which_nothing_is_left_are_the_input():
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    turns = [{"role": "assistant", "content": [thought]}]
    body = {"model": "m", "max_tokens": 9, "system": "Greet me.", "messages": turns}
    found = told(body, CLAUDE, RESPONSES)
    assert found.body["input"] == [{"role": "system", "content": "Greet me."}]
    assert "instructions" not in found.body
