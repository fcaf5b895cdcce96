"""Whole Messages responses, both ways.

Anthropic counts cached input apart from ``input_tokens``; our usage counts all of it. Errors are ``{"type": "error",
"error": {type, message}, "request_id"}``.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import MessageReader, decode_levels
from cannery.dialects.anthropic_messages.settings import Path, refuse
from cannery.dialects.anthropic_messages.writing import MessageWriter
from cannery.families.blocks.reading import text_or_none
from cannery.messages.requests import FinishReason, Response
from cannery.wire.answers import (
    Answers,
    Fact,
    answer_pieces,
    endings,
    read_nested_error,
    refuse_error,
)
from cannery.wire.bodies import Object, body_reader, encode
from cannery.wire.contract import WireError
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue

FINISHES = Finishes(
    {
        "end_turn": FinishReason.Stop,
        "max_tokens": FinishReason.Length,
        "stop_sequence": FinishReason.StopSequence,
        "tool_use": FinishReason.Tool,
        "pause_turn": FinishReason.Pause,
        "refusal": FinishReason.Refusal,
        "model_context_window_exceeded": FinishReason.ContextWindow,
    },
    {FinishReason.Filter: "refusal"},
)
COUNTS = Counts(
    {
        "input": "input_tokens",
        "output": "output_tokens",
        "cache_read": "cache_read_input_tokens",
        "cache_write": "cache_creation_input_tokens",
        "reasoning": "output_tokens_details.thinking_tokens",
    },
    apart=("cache_read", "cache_write"),
)
UNNAMED = "msg_cannery"
ANSWERS = Answers(
    NAME,
    FINISHES,
    COUNTS,
    (
        Fact("id", "identifier", UNNAMED),
        Fact("type", usual="message"),
        Fact("role", usual="assistant"),
        Fact("model", "model", ""),
        Fact("stop_sequence", "stop_sequence", None),
    ),
    "stop_reason",
    always_counts=True,
    says=("stop_sequence",),
)


class _AnswerReader(MessageReader):
    """Reads the blocks of a response; fields that the server refuses in a request are kept apart, by block position."""

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
    """Take the file ids of citations, which only responses have, and give the patches that restore them."""
    files: Object = {}
    for index, citation in enumerate(citations if type(citations) is list else ()):
        if type(citation) is dict and "file_id" in citation:
            files[str(index)] = {"s": {"file_id": citation.pop("file_id")}}
    return files


@body_reader(NAME, decode_levels)
def read_response(body: Object, places: Places) -> Response:
    """Read the response from a body."""
    if "content" not in body:
        refuse_error(NAME, body, "content")
        refuse(("content",), "is required")
    content = body.pop("content")
    reader = _AnswerReader(places, body.get("model"))
    form = None
    if type(content) is list:
        reader.blocks(content, ("content",), None, is_single=False)
    else:
        form = "string"
        reader.answer(content, ("content",), None)
    return ANSWERS.read(body, reader.canisters, places, content_patch(reader.apart), form=form)


def content_patch(apart: Object) -> Object:
    """The patches of blocks that hold more than their canisters, by position."""
    return {"content": {"i": apart}} if apart else {}


def write_response(response: Response, report: Report) -> Object:
    """The body of a response."""
    is_same = response.source == NAME
    model = response.model if isinstance(response.model, str) else None
    is_foreign = response.source not in (None, NAME)
    writer = MessageWriter(
        report, is_same=is_same, is_foreign=is_foreign, for_answer=True, model=model
    )
    pieces = answer_pieces(response, NAME, report)
    content = writer.blocks(pieces, "assistant")
    body = ANSWERS.write(response, report, {"content": content}, **endings(response.canisters))
    residue = own_residue(response, NAME)
    if residue is not None and residue.form == "string" and len(content) == 1:
        body["content"] = content[0]["text"]
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
    """The error in a body, whatever its form."""
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
    """An error in the server's form, of a kind that it knows."""
    known = kind if kind in _ERROR_KINDS else _ERRORS.get(status or 500, "api_error")
    body: dict[str, Any] = {"type": "error", "error": {"type": known, "message": message}}
    if request_id is not None:
        body["request_id"] = request_id
    return body
