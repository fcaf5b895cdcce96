"""Whole Messages answers, both ways.

Anthropic counts cached input apart from ``input_tokens``; our usage counts all of it. Errors are
``{"type": "error", "error": {type, message}, "request_id"}``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import MessageReader, decode_levels
from cannery.dialects.anthropic_messages.settings import Path, refuse
from cannery.dialects.anthropic_messages.writing import MessageWriter
from cannery.families.blocks.answers import Counts, ending_word, endings, left_of_counts
from cannery.families.blocks.reading import text_or_none
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.requests import FinishReason, Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces, read_nested_error, refuse_error
from cannery.wire.bodies import Object, encode, read_body
from cannery.wire.contract import WireError
from cannery.wire.controls import integer, text
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, recall, set_again

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
_COUNTS = Counts(
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
)
_DETAILS, _THOUGHT = "output_tokens_details", "thinking_tokens"
stop_word = partial(ending_word, "refusal")


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    return read_body(NAME, body, places, decode_levels, _read_response)


class _AnswerReader(MessageReader):
    """Reads the blocks of an answer; what the server refuses in a request is kept apart, by the block's position."""

    def __init__(self, places: Places, model: Any) -> None:
        super().__init__(NAME, places, model)
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
    reader = _AnswerReader(places, body.get("model"))
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
    usage = read_usage(body.get("usage"))
    if usage is absent:
        return absent
    counts, written = body.pop("usage"), write_usage(usage)
    inner: dict[str, Object | None] = {}
    if usage.reasoning is not absent:
        details = counts[_DETAILS]
        inner[_DETAILS] = set_again({key: details[key] for key in details if key != _THOUGHT})
        counts[_DETAILS] = written[_DETAILS]
    left = left_of_counts(counts, written, inner)
    if left is not None:
        patch.setdefault("d", {})["usage"] = left
    return usage


def read_finish(word: Any) -> Any:
    """Why the model stopped, or absent."""
    return FINISH.get(word, FinishReason.Other) if type(word) is str else absent


def read_usage(value: Any) -> Any:
    """Token counts, or absent."""
    details = value.get(_DETAILS) if type(value) is dict else None
    thought = details.get(_THOUGHT) if type(details) is dict else None
    return _COUNTS.read(value, reasoning=integer(thought))


def write_usage(usage: Usage) -> Object:
    """Token counts in the usual form."""
    body = _COUNTS.write(usage)
    if usage.reasoning is not absent:
        body[_DETAILS] = {_THOUGHT: usage.reasoning}
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
    content = writer.blocks(pieces, "assistant")
    body = write_envelope(response)
    if not is_same:
        body["stop_reason"] = stop_word(body["stop_reason"], **endings(response.canisters))
        body.setdefault("usage", write_usage(Usage()))
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
    return read_nested_error(NAME, status, body, _read_error)


def _read_error(status: int, error: Object, value: Object) -> WireError:
    message = str(error.get("message") or f"HTTP {status}")
    kind, request_id = text_or_none(error.get("type")), text_or_none(value.get("request_id"))
    return WireError(status, message, kind, request_id=request_id)


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
