"""Whole Messages answers, both ways.

Anthropic counts cached input apart from ``input_tokens``; our usage counts all of it. Errors are
``{"type": "error", "error": {type, message}, "request_id"}``.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import MessageReader, decode_levels
from cannery.dialects.anthropic_messages.settings import Path, refuse
from cannery.dialects.anthropic_messages.writing import MessageWriter
from cannery.errors import DialectError
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, InvocationCanisterClass
from cannery.messages.content import RefusalContentClass
from cannery.messages.conversation import Conversation
from cannery.messages.requests import FinishReason, Response, Usage, new_response, new_usage
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces, refuse_error
from cannery.wire.bodies import Object, encode, read_body, read_value
from cannery.wire.contract import WireError
from cannery.wire.controls import text
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, recall

FINISH = {
    "end_turn": FinishReason.Stop,
    "max_tokens": FinishReason.Length,
    "stop_sequence": FinishReason.StopSequence,
    "tool_use": FinishReason.Tool,
    "pause_turn": FinishReason.Pause,
    "refusal": FinishReason.Refusal,
    "model_context_window_exceeded": FinishReason.ContextWindow,
}
FINISH_WORDS = {
    **{reason: word for word, reason in FINISH.items()},
    FinishReason.Filter: "refusal",
    FinishReason.Malformed: "end_turn",
    FinishReason.Error: "end_turn",
    FinishReason.Other: "end_turn",
}
UNNAMED = "msg_cannery"
_SAYS = frozenset({FinishReason.Pause})
# What every answer has, and what some of that is always.
_ALWAYS = ("id", "type", "role", "model", "stop_reason", "stop_sequence")
_CONSTANT = (("type", "message"), ("role", "assistant"))
_CACHED = {
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}

_INPUT = ("input_tokens", *_CACHED.values())


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    return read_body(NAME, body, places, decode_levels, _read_response)


class _AnswerReader(MessageReader):
    """Reads the blocks of an answer; what the server refuses in a request is kept apart, by the block's position."""

    def __init__(self, model: Any, places: Places) -> None:
        super().__init__(model, places)
        self.apart: Object = {}

    def add_block(self, block: Object, role: str, path: Path, *rest: Any) -> None:
        """Add the canister of one block."""
        files = take_files(block.get("citations")) if block.get("type") == "text" else None
        if files:
            self.apart[str(path[-1])] = {"d": {"citations": {"i": files}}}
        super().add_block(block, role, path, *rest)


def take_files(citations: Any) -> Object:
    """Take the file ids of citations, which only answers have, and give the patches that put them back."""
    files: Object = {}
    for index, citation in enumerate(citations if type(citations) is list else ()):
        if type(citation) is dict and "file_id" in citation:
            files[str(index)] = {"s": {"file_id": citation.pop("file_id")}}
    return files


def _read_response(body: Object, places: Places) -> Response:
    if "content" not in body:
        refuse_error(NAME, body, "content")
        refuse(("content",), "is required")
    content = body.pop("content")
    if "stop_reason" not in body:
        # What the answer does not say is told at its root.
        places.settings["finish"] = ()
    reader = _AnswerReader(body.get("model"), places)
    form = None
    if type(content) is list:
        reader.blocks(content, ("content",), None, is_single=False)
    else:
        form = "string"
        reader.answer(content, ("content",), None)
    model, identifier, finish, stop, usage, envelope = take_envelope(body, reader.apart)
    residue = Residue(NAME, None, envelope, form) if envelope or form else None
    canisters = Conversation.trusted(reader.canisters)
    return new_response(  # type: ignore[no-any-return]
        canisters, finish, usage, model, identifier, stop, residue, NAME
    )


def take_envelope(body: Object, apart: Object) -> tuple[Any, Any, Any, Any, Any, str | None]:
    """Take what stands around the content: model, id, finish, stop sequence, usage, and the patch for what is left.

    ``apart`` has the patches of blocks that hold more than their canisters, by their positions.
    """
    patch: Object = {"d": {"content": {"i": apart}}} if apart else {}
    facts = _take_facts(body, patch)
    usage = _take_usage(body, patch)
    if body:
        patch["s"] = body
    return *facts, usage, encode(patch).decode() if patch else None


def _take_facts(body: Object, patch: Object) -> tuple[Any, Any, Any, Any]:
    """Take the model, the id and the end of an answer; what is missing, and would be written, is noted in the patch."""
    missing = [key for key in _ALWAYS if key not in body]
    if missing:
        patch["x"] = missing
    for key, usual in _CONSTANT:
        if body.get(key) == usual:
            del body[key]
    model = body.pop("model") if type(body.get("model")) is str else absent
    identifier = body.pop("id") if type(body.get("id")) is str else absent
    word = body.get("stop_reason")
    finish = read_finish(word)
    if "stop_reason" in body and (word is None or (type(word) is str and word in FINISH)):
        del body["stop_reason"]
    stop = body.get("stop_sequence")
    if "stop_sequence" in body and (stop is None or type(stop) is str):
        del body["stop_sequence"]
    return model, identifier, finish, text(stop)


def _take_usage(body: Object, patch: Object) -> Any:
    """Take the token counts, or absent; what is left of them is noted in the patch."""
    counts = body.get("usage")
    usage = read_usage(counts)
    if usage is absent:
        return absent
    left = left_of_usage(body.pop("usage"))
    if left:
        patch.setdefault("d", {})["usage"] = left
    return usage


def left_of_usage(counts: Object) -> Object:
    """The patch for what a count of tokens says beyond the usage that was read from it."""
    patch: Object = {}
    counted = [key for key in _INPUT if type(counts.get(key)) is int]
    if min(counts[key] for key in counted) >= 0:
        for key in counted:
            del counts[key]
    if "output_tokens" not in counts:
        patch["x"] = ["output_tokens"]
    elif type(counts["output_tokens"]) is int:
        del counts["output_tokens"]
    details = counts.get("output_tokens_details")
    if type(details) is dict and type(details.get("thinking_tokens")) is int:
        del counts["output_tokens_details"], details["thinking_tokens"]
        if details:
            patch["d"] = {"output_tokens_details": {"s": details}}
    if counts:
        patch["s"] = counts
    return patch


def read_finish(word: Any) -> Any:
    """Why the model stopped, or absent."""
    return FINISH.get(word, FinishReason.Other) if type(word) is str else absent


def read_usage(value: Any) -> Any:
    """Token counts, or absent."""
    if type(value) is not dict or type(value.get("input_tokens")) is not int:
        return absent
    cached = {name: value[key] for name, key in _CACHED.items() if type(value.get(key)) is int}
    details = value.get("output_tokens_details")
    thought = details.get("thinking_tokens") if type(details) is dict else None
    output = value.get("output_tokens")
    return new_usage(
        value["input_tokens"] + sum(cached.values()),
        output if type(output) is int else 0,
        reasoning=thought if type(thought) is int else absent,
        **cached,
    )


def write_usage(usage: Usage) -> Object:
    """Token counts in the usual form.

    This server counts each token of the input once: as new, read from the cache or written to it. Others count some of
    them twice, so that no more is said to be written than is left of the input.
    """
    body: Object = {"input_tokens": usage.input}
    for name, key in _CACHED.items():
        count: Any = getattr(usage, name)
        if count is not absent:
            body[key] = min(count, max(body["input_tokens"], 0))
            body["input_tokens"] -= body[key]
    body["output_tokens"] = usage.output
    if usage.reasoning is not absent:
        body["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return body


def write_response(response: Response, report: Report) -> Object:
    """The body of an answer."""
    is_same = response.source == NAME
    model = response.model if isinstance(response.model, str) else None
    is_foreign = response.source not in (None, NAME)
    writer = MessageWriter(
        report, is_same=is_same, is_foreign=is_foreign, for_answer=True, model=model
    )
    pieces = answer_pieces(response, NAME, report)
    content = writer.answer(pieces)
    body = write_envelope(response)
    if not is_same:
        _complete(body, response.canisters)
        # This server says which stop sequence was met.
        report_ending(response.replace(stop_sequence=absent), report, says=_SAYS)
    residue = own_residue(response, NAME)
    body["content"] = content
    if residue is None:
        return body
    body = dict(recall(body, residue.envelope))
    if residue.form == "string" and len(content) == 1:
        body["content"] = content[0]["text"]
    return body


def write_envelope(response: Response) -> Object:
    """Every field of the body but the content."""
    finish = response.finish
    body: Object = {
        "id": UNNAMED if response.identifier is absent else response.identifier,
        "type": "message",
        "role": "assistant",
        "model": "" if response.model is absent else response.model,
        "stop_reason": FINISH_WORDS[finish] if isinstance(finish, FinishReason) else None,
        "stop_sequence": None if response.stop_sequence is absent else response.stop_sequence,
    }
    if isinstance(response.usage, Usage):
        body["usage"] = write_usage(response.usage)
    return body


def _complete(body: Object, canisters: tuple[AnyCanister, ...]) -> None:
    """Say what every answer of this server says."""
    has_calls = any(isinstance(canister, InvocationCanisterClass) for canister in canisters)
    is_refused = any(isinstance(canister.held, RefusalContentClass) for canister in canisters)
    body["stop_reason"] = stop_word(body["stop_reason"], has_calls=has_calls, is_refused=is_refused)
    body.setdefault("usage", write_usage(Usage()))


def stop_word(word: str | None, *, has_calls: bool, is_refused: bool) -> str:
    """The stop reason that clients rely on: calls and refusals show in it."""
    if word is None or word == "end_turn":
        return "tool_use" if has_calls else "refusal" if is_refused else "end_turn"
    return word


# --- errors ------------------------------------------------------------------------------------

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_ERROR_KINDS = frozenset({*_ERRORS.values(), "api_error"})


def read_error(status: int, body: bytes) -> WireError:
    """The error that a body tells of, whatever it is."""
    try:
        value = read_value(NAME, body)
    except DialectError:
        value = None
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return WireError(status, error)
    if not isinstance(error, dict):
        return WireError(status, body[:500].decode("utf-8", "replace").strip() or f"HTTP {status}")
    return WireError(
        status,
        str(error.get("message") or f"HTTP {status}"),
        _text_or_none(error.get("type")),
        request_id=_text_or_none(value.get("request_id")),
    )


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    return encode(error_body(error.message, error.kind, error.status, error.request_id))


def error_body(
    message: str, kind: str | None, status: int | None = None, request_id: str | None = None
) -> dict[str, Any]:
    """An error as the server says it, of a kind that it knows."""
    known = kind if kind in _ERROR_KINDS else _ERRORS.get(status or 500, "api_error")
    body: dict[str, Any] = {"type": "error", "error": {"type": known, "message": message}}
    if request_id is not None:
        body["request_id"] = request_id
    return body


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
