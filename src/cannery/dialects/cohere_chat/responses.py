"""Whole Cohere answers, both ways, and errors."""

from __future__ import annotations

from typing import Any

from cannery.dialects.cohere_chat.reading import CohereReader
from cannery.dialects.cohere_chat.settings import NAME
from cannery.dialects.cohere_chat.writing import CohereWriter
from cannery.families.openai.errors import read_openai_error
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason, Response, Usage, new_response, new_usage
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces, call_stem, error_value
from cannery.wire.bodies import Fields, Object, decode, encode, read_fields
from cannery.wire.contract import WireError
from cannery.wire.controls import text
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, own_residue, recall, take_usual

MADE_ID = "cannery"
FINISHES = {
    "COMPLETE": FinishReason.Stop,
    "STOP_SEQUENCE": FinishReason.StopSequence,
    "MAX_TOKENS": FinishReason.Length,
    "TOOL_CALL": FinishReason.Tool,
    "ERROR": FinishReason.Error,
}
FINISH_WORDS = {
    **dict.fromkeys(FinishReason, "COMPLETE"),
    **{reason: word for word, reason in FINISHES.items()},
    FinishReason.ContextWindow: "MAX_TOKENS",
}
# The words that stand for nothing that a client could tell from a complete answer.
_FILTERED = (FinishReason.Filter, FinishReason.Refusal)
_COUNTS = ("input_tokens", "output_tokens")


def read_finish(word: Any) -> Any:
    """Why the model stopped, or absent."""
    return FINISHES.get(word, FinishReason.Other) if type(word) is str and word else absent


def finish_word(finish: Any, *, has_calls: bool) -> str:
    """The finish reason that clients rely on: calls show in it, also where the source gives no reason."""
    if has_calls and finish in (absent, FinishReason.Stop):
        return "TOOL_CALL"
    return FINISH_WORDS.get(finish, "COMPLETE")


def take_counts(usage: Any) -> tuple[Any, Object | None]:
    """Token counts, taken out of their object, and the patch of what is left; absent for what has none."""
    tokens = usage.get("tokens") if type(usage) is dict else None
    if type(tokens) is not dict or any(type(tokens.get(key)) is not int for key in _COUNTS):
        return absent, None
    counts = {key: tokens.pop(key) for key in _COUNTS}
    del usage["tokens"]
    cached: Any = usage.pop("cached_tokens") if type(usage.get("cached_tokens")) is int else absent
    dropped: list[str] = []
    take_usual(usage, "billed_units", counts, dropped)
    patch = nested(usage, {"tokens": {"s": tokens} if tokens else None}, dropped)
    return new_usage(*counts.values(), cache_read=cached), patch


def write_counts(usage: Usage) -> Object:
    """Token counts in the usual form."""
    counts = {"input_tokens": usage.input, "output_tokens": usage.output}
    body: Object = {"billed_units": counts, "tokens": {**counts}}
    return body if usage.cache_read is absent else {**body, "cached_tokens": usage.cache_read}


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    return read_fields(NAME, body, places, _read_response)


def _read_response(fields: Fields, places: Places) -> Response:
    body = {key: decode(field) for key, field in fields.items()}
    identifier = body.get("id")
    reader = CohereReader(NAME, places.canisters)
    reader.is_answer, reader.call_stem = True, call_stem(identifier)
    message = reader.object(reader.field(body, "message", ""), "message")
    del body["message"]
    apart, dropped = _read_message(reader, message)
    around: list[str] = []
    finish = read_finish(body.get("finish_reason"))
    if "finish_reason" not in body:
        # What the answer does not say is told at what holds it.
        places.settings["finish"] = ()
    take_usual(body, "id", identifier if type(identifier) is str else MADE_ID, around)
    take_usual(body, "finish_reason", finish_word(finish, has_calls=False), around)
    usage, counted = take_counts(body.get("usage"))
    if usage is not absent:
        del body["usage"]
    patch = nested(body, {"message": nested(apart, {}, dropped), "usage": counted}, around)
    return new_response(  # type: ignore[no-any-return]
        Conversation.trusted(reader.canisters),
        finish,
        usage,
        absent,
        text(identifier),
        absent,
        None if patch is None else Residue(NAME, None, write_json(patch)),
        NAME,
    )


def _read_message(reader: CohereReader, message: Object) -> tuple[Object, list[str]]:
    """Read the message of an answer: what only the answer keeps of it, and the keys that it lacks."""
    apart: Object = {}
    dropped: list[str] = []
    take_usual(message, "role", "assistant", dropped)
    if "role" in message:
        apart["role"] = message.pop("role")
    if type(message.get("content")) is str:
        # The content of an answer is a list.
        apart["content"] = message["content"]
    citations = message.pop("citations", absent)
    reader.assistant(message, "assistant", ("message",))
    if citations is not absent and not reader.cite(citations):
        apart["citations"] = citations
    return apart, dropped


def write_response(response: Response, report: Report) -> Object:
    """The body of an answer."""
    is_same = response.source == NAME
    writer = CohereWriter(NAME, report, is_same=is_same, for_answer=True)
    pieces = answer_pieces(response, NAME, report)
    message: Object = writer.assistant(pieces) if pieces else {"role": "assistant"}
    if not is_same:
        report_ending(response, report, says=frozenset({FinishReason.Error}))
        if response.finish in _FILTERED:
            detail = f"the target has no finish reason {response.finish.value!r}"
            report.lose("FINISH_CHANGED", "@finish", detail)
        if "content" not in message and "tool_calls" not in message:
            message["content"] = []
    has_calls = not is_same and "tool_calls" in message
    body: Object = {
        "id": MADE_ID if response.identifier is absent else response.identifier,
        "finish_reason": finish_word(response.finish, has_calls=has_calls),
        "message": message,
    }
    if isinstance(response.usage, Usage):
        body["usage"] = write_counts(response.usage)
    residue = own_residue(response, NAME)
    return body if residue is None else recall(body, residue.envelope)


def read_error(status: int, body: bytes) -> WireError:
    """The error that a body tells of: a message, or what a router in front of the server says."""
    value = error_value(NAME, body)
    told = value.get("message") if type(value) is dict else None
    if type(told) is not str or not told:
        return read_openai_error(NAME, status, body)
    identifier = value.get("id")
    return WireError(status, told, request_id=identifier if type(identifier) is str else None)


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    told = {"message": error.message}
    return encode(told if error.request_id is None else {"id": error.request_id, **told})
