"""Each dialect as the client's beside each as the upstream's: what a session, an answer and an error say stays said."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.dialects import find_dialect
from cannery.messages.absence import absent
from cannery.messages.events import Delta, Event, Failure, PartStart, Start, fold, unfold
from cannery.wire.contract import WireError
from tests.conformance.matrix import DIALECTS, PAIRS
from tests.strategies.pieces import PNG, standard

Object = dict[str, Any]
PDF = "JVBERi0xLjQKJcOkw7zDtsOfCg=="
LOOK = {"name": "look", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": standard(PNG)},
}


def user(*content: Object) -> Object:
    return {"role": "user", "content": [*content]}


def text(words: str) -> Object:
    return {"type": "text", "text": words}


def result(*content: Object, **fields: Any) -> Object:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": [*content], **fields}


def asked(*messages: Object, **fields: Any) -> Object:
    return {"model": "m", "max_tokens": 9, "messages": [*messages], **fields}


def called(answered: Object) -> Object:
    return asked(
        user(text("q")), {"role": "assistant", "content": [CALL]}, user(answered), tools=[LOOK]
    )


def pdf() -> Object:
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    return {"type": "document", "source": source, "title": "My file.pdf"}


SESSIONS: dict[str, Object] = {
    "an image in a result": called(result(text("seen"), IMAGE)),
    "two images in a result without words": called(result(IMAGE, IMAGE)),
    "a failed result": called(result(text("broke"), is_error=True)),
    "a PDF": asked(user(pdf(), text("Read."))),
    "stop sequences": asked(user(text("q")), stop_sequences=["END", "STOP"]),
}
# What a target cannot say, which is a named loss there.
LOST = {
    ("a PDF", "cohere_chat"): "MEDIA_DROPPED",
    ("a PDF", "ollama_chat"): "MEDIA_DROPPED",
    ("stop sequences", "openai_responses"): "CONTROL_DROPPED",
}


def said(request: cannery.Request) -> list[Any]:
    """What a conversation and its settings say, whatever the ids and the spelling of arguments."""
    found: list[Any] = [request.controls.stop]
    for canister in request.conversation:
        held: Any = canister.held
        if canister.role.value == "invocation":
            found.append((canister.name, json.loads(held)))
        elif held is not absent:
            parts = held.parts if getattr(held, "kind", "") == "parts" else [held]
            contents = [_content(each) for each in parts]
            found.append((canister.role.value, contents, getattr(canister, "is_error", None)))
    return found


def _content(held: Any) -> Any:
    if isinstance(held, str):
        return held
    return held.text if held.kind == "text" else (held.kind, held.data)


@pytest.mark.parametrize("one, other", PAIRS)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_comes_back_from_the_other(name: str, one: str, other: str):
    begun = cannery.translate(SESSIONS[name], source="anthropic_messages", target=one)
    there = cannery.translate(begun.body, source=one, target=other)
    back = cannery.translate(there.body, source=other, target=one)
    given, found = (cannery.normalize_request(each.body, one) for each in (begun, back))
    lost = LOST.get((name, other))
    if lost is None:
        assert said(found) == said(given)
    elif (name, one) not in LOST:
        assert said(found) != said(given)
        assert lost in [loss.code for loss in there.losses]


ERRORS = [
    (400, "invalid_request_error"),
    (401, "authentication_error"),
    (403, "permission_error"),
    (404, "not_found_error"),
    (413, "request_too_large"),
    (429, "rate_limit_error"),
    (500, "api_error"),
    (529, "overloaded_error"),
]


@pytest.mark.parametrize("one, other", PAIRS)
@pytest.mark.parametrize("status, kind", ERRORS)
def test_an_error_keeps_its_status_and_its_words(status: int, kind: str, one: str, other: str):
    error = WireError(status, "No such thing.", kind)
    for name in (one, other):
        dialect = find_dialect(name)
        error = dialect.read_error(error.status, dialect.write_error(error))
    assert (error.status, error.message) == (status, "No such thing.")


def heard(stream: bytes, dialect: str) -> tuple[str, list[Event]]:
    """The words that a stream said, and how it failed."""
    events = [*cannery.normalize_stream([stream], dialect)]
    words = "".join(event.text for event in events if isinstance(event, Delta))
    return words, [event for event in events if isinstance(event, Failure)]


@pytest.mark.parametrize("one, other", PAIRS)
@pytest.mark.parametrize("status, kind", ERRORS)
def test_an_error_in_a_stream_comes_behind_what_was_said(
    status: int, kind: str, one: str, other: str
):
    begun: list[Event] = [Start("x", "m", 1, one), PartStart(0, "text"), Delta(0, "Hel")]
    failing = [*begun, Failure("No such thing.", kind, status=status)]
    for events in (failing, begun):
        stream = b"".join(cannery.nativize_stream(events, one))
        written = b"".join(cannery.translate_stream([stream], source=one, target=other))
        words, failures = heard(written, other)
        assert words == "Hel"
        assert len(failures) == 1
        if events is failing:
            assert failures[0].message == "No such thing."


def claude_answer(stop: str, *content: Object) -> bytes:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": [*content],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    return json.dumps(body).encode()


ANSWERS = {
    "nothing": claude_answer("end_turn"),
    "a refusal": claude_answer("refusal", text("No.")),
    "a stop sequence": claude_answer("stop_sequence", text("ok")),
    "its limit": claude_answer("max_tokens", text("ok")),
    "parallel calls": claude_answer("tool_use", text("I look."), CALL, {**CALL, "id": "toolu_2"}),
}


def told(response: cannery.Response) -> list[Any]:
    """What an answer says, and why it ended; a text of nothing says as much as none."""
    found: list[Any] = [response.finish]
    for canister in response.canisters:
        held: Any = canister.held
        if canister.role.value == "invocation":
            found.append((canister.name, json.loads(held)))
        elif held is not absent and held != "":
            found.append(_content(held))
    return found


@pytest.mark.parametrize("one, other", PAIRS)
@pytest.mark.parametrize("name", ANSWERS)
def test_a_stream_says_what_the_whole_answer_says(name: str, one: str, other: str):
    given = cannery.normalize_response(ANSWERS[name], "anthropic_messages")
    whole = cannery.nativize_response(given, one)
    stream = b"".join(cannery.nativize_stream(unfold(given), one))
    body = cannery.translate(whole.body, source=one, target=other, kind="response").body
    written = b"".join(cannery.translate_stream([stream], source=one, target=other))
    found = fold(cannery.normalize_stream([written], other))
    assert told(found) == told(cannery.normalize_response(body, other))


@pytest.mark.parametrize("target", DIALECTS)
def test_a_refusal_that_becomes_another_ending_is_named(target: str):
    response = cannery.normalize_response(ANSWERS["a refusal"], "anthropic_messages")
    rendered = cannery.nativize_response(response, target)
    found = cannery.normalize_response(rendered.body, target).finish
    is_kept = found.value in ("refusal", "content_filter", "filter")
    changed = [loss.path for loss in rendered.losses if loss.code == "FINISH_CHANGED"]
    assert changed == ([] if is_kept else ["stop_reason"])
