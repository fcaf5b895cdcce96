"""Responses of the OpenTelemetry conventions: a message per choice, with ids, finish reasons and usage."""

from __future__ import annotations

from typing import Any

from cannery.dialects.otel_genai.reading import MessageReader
from cannery.dialects.otel_genai.settings import (
    NAME,
    OUTPUT,
    around,
    respell,
    spellings,
    take,
    take_list,
    take_usage,
    write_around,
    write_usage,
)
from cannery.dialects.otel_genai.writing import write_answer
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.requests import FinishReason, Response, new_response
from cannery.wire.bodies import Fields, Object, decode, fields_reader
from cannery.wire.controls import integer, put, text
from cannery.wire.losses import Report
from cannery.wire.places import Places

_ID, _MODEL = "gen_ai.response.id", "gen_ai.response.model"
_FINISHES = "gen_ai.response.finish_reasons"
_FINISH = "finish_reason"
# Further choices, in the residue.
_OTHERS = f"{OUTPUT}[1:]"
_STOPPED_BY, _CREATED = "cannery.stop_sequence", "cannery.created"
_EXACTLY = "cannery.finish"
_REASONS = {
    "stop": FinishReason.Stop,
    "length": FinishReason.Length,
    "content_filter": FinishReason.Filter,
    "tool_call": FinishReason.Tool,
    "error": FinishReason.Error,
}
# The words of the conventions; if they are inexact, an attribute of ours has the reason itself.
_WORDS = {
    **dict.fromkeys(FinishReason, "error"),
    **{reason: word for word, reason in _REASONS.items()},
    FinishReason.StopSequence: "stop",
    FinishReason.Pause: "stop",
    FinishReason.Other: "stop",
    FinishReason.Refusal: "content_filter",
    FinishReason.ContextWindow: "length",
}


@fields_reader(NAME)
def read_response(fields: Fields, places: Places) -> Response:
    """Read the response from the attributes of a span."""
    left = {key: decode(raw) for key, raw in fields.items()}
    reader = MessageReader(places.canisters, is_answer=True)
    spelled: dict[str, str] = {}
    messages = take_list(reader, left, OUTPUT, spelled)
    if messages is None:
        reader.fail((OUTPUT,), "is required")
    finish = _take_finish(left, messages, spelled)
    # Of several choices the first is the response; the others stay as residue.
    reader.messages(messages[:1], OUTPUT)
    if len(messages) > 1:
        left[_OTHERS] = messages[1:]
    usage = take_usage(left)
    model, identifier = take(left, _MODEL, text), take(left, _ID, text)
    stopped_by, created = take(left, _STOPPED_BY, text), take(left, _CREATED, integer)
    source, residue = around(left, spelled)
    return new_response(  # type: ignore[no-any-return]
        Conversation.trusted(reader.canisters),
        finish,
        usage,
        model,
        identifier,
        stopped_by,
        residue,
        source,
        created,
    )


def _take_finish(left: Object, messages: list[Any], spelled: dict[str, str]) -> Any:
    """The finish reason, if the conventions or we have a word for it.

    Until 2026 the message held it, since then an attribute; ``spelled`` records the one used, if only one was.
    """
    first = messages[0] if len(messages) == 1 and type(messages[0]) is dict else {}
    reasons = left.get(_FINISHES)
    listed = reasons[0] if type(reasons) is list and len(reasons) == 1 else None
    said = first.get(_FINISH)
    word = said if listed is None else listed
    finish = _REASONS.get(word, absent) if type(word) is str else absent
    if finish is absent or (_FINISHES in left and word != listed):
        return absent
    if word != said and messages:
        spelled[_FINISH] = "attribute"
    elif _FINISHES not in left:
        spelled[_FINISH] = "message"
    left.pop(_FINISHES, None)
    if word == said:
        del first[_FINISH]
    exact = next((reason for reason in FinishReason if reason.value == left.get(_EXACTLY)), None)
    if exact is not None and _WORDS[exact] == word and exact is not finish:
        del left[_EXACTLY]
        return exact
    return finish


def write_response(response: Response, report: Report) -> Object:  # noqa: ARG001 - nothing is lost
    """The attributes of a response."""
    body: Object = {}
    put(body, _ID, response.identifier)
    put(body, _MODEL, response.model)
    body[OUTPUT] = [write_answer(response.canisters)] if response.canisters else []
    spelled = spellings(response)
    if isinstance(response.finish, FinishReason):
        _write_finish(body, _WORDS[response.finish], spelled.get(_FINISH))
        if response.finish not in _REASONS.values():
            body[_EXACTLY] = response.finish.value
    put(body, _STOPPED_BY, response.stop_sequence)
    put(body, _CREATED, response.created)
    if response.usage is not absent:
        body.update(write_usage(response.usage))
    whole = write_around(body, response)
    whole[OUTPUT] += whole.pop(_OTHERS, [])
    respell(whole, spelled)
    return whole


def _write_finish(body: Object, word: str, where: str | None) -> None:
    """Write the finish reason in the message and in an attribute, or where its source had it."""
    if where != "message":
        body[_FINISHES] = [word]
    if where != "attribute" and body[OUTPUT]:
        body[OUTPUT][0][_FINISH] = word
