"""Whole Responses answers, both ways.

An answer that came from elsewhere needs complete items with ids: they are derived from the answer's
own identifier, so the same answer gives the same bytes. Reasoning from elsewhere is shown as a
summary and carries no payload.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.openai_responses.reading import ItemReader
from cannery.dialects.openai_responses.settings import NAME
from cannery.dialects.openai_responses.writing import (
    ItemWriter,
    item_groups,
    item_id,
    reasoning_item,
)
from cannery.families.openai.settings import read_usage as read_counts
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, InvocationCanisterClass
from cannery.messages.content import ReasoningContentClass
from cannery.messages.conversation import Conversation
from cannery.messages.requests import FinishReason, Response, Usage, new_response
from cannery.wire.answers import answer_pieces, refuse_error
from cannery.wire.bodies import Object, guarded, read_object
from cannery.wire.contract import Piece
from cannery.wire.controls import integer, text
from cannery.wire.endings import report_ending
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, patch_text, recall, remember

INCOMPLETE = {
    "max_output_tokens": FinishReason.Length,
    "content_filter": FinishReason.Filter,
}
INCOMPLETE_WORDS = {
    FinishReason.Length: "max_output_tokens",
    FinishReason.ContextWindow: "max_output_tokens",
    FinishReason.Filter: "content_filter",
    FinishReason.Refusal: "content_filter",
}
_SAYS = frozenset({FinishReason.Error})
NO_IDENTIFIER = "resp_cannery"
_COUNTS = ("input_tokens", "output_tokens")
_DETAILS = {
    "cache_read": ("input_tokens_details", "cached_tokens"),
    "cache_write": ("input_tokens_details", "cache_write_tokens"),
    "reasoning": ("output_tokens_details", "reasoning_tokens"),
}


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_response(value, places))  # type: ignore[no-any-return]


def _read_response(body: Object, places: Places) -> Response:
    reader = ItemReader(body.get("model"), is_answer=True)
    refuse_error(NAME, body, "output")
    output = reader.list(reader.field(body, "output", ""), "output")
    reader.items(list(map(_sendable, output)), "output")
    places.canisters.extend(reader.paths)
    response: Any = new_response(
        Conversation.trusted(reader.canisters),
        read_finish(body, reader.canisters),
        read_usage(body.get("usage")),
        text(body.get("model")),
        text(body.get("id")),
        source=NAME,
        created=integer(body.get("created_at")),
    )
    written = _write_body(response, Report())
    if written["error"] is not None:
        # What a writer makes up is nothing that an answer said, even where it says the same.
        written["error"] = dict.fromkeys(written["error"], absent)
    patch = patch_text(written, body)
    remember(response, dialect=NAME, envelope=patch)
    return response  # type: ignore[no-any-return]


def _sendable(item: Any) -> Any:
    """An item without what only answers have, which a server would refuse in a request; the residue keeps it."""
    if type(item) is not dict:
        return item
    gone = {"created_by"}
    kind, output = item.get("type"), item.get("output")
    if kind == "custom_tool_call_output":
        gone.add("status")
    elif kind == "shell_call_output" and type(output) is list:
        item = {**item, "output": [_without(one, gone) for one in output]}
    return _without(item, gone)


def _without(item: Any, gone: set[str]) -> Any:
    if type(item) is not dict or gone.isdisjoint(item):
        return item
    return {key: value for key, value in item.items() if key not in gone}


def read_finish(body: Object, canisters: list[AnyCanister]) -> Any:
    """Why the answer ended, or absent while it is under way."""
    calls = any(isinstance(canister, InvocationCanisterClass) for canister in canisters)
    match body.get("status"):
        case "completed":
            return FinishReason.Tool if calls else FinishReason.Stop
        case "incomplete":
            details = body.get("incomplete_details")
            reason = details.get("reason") if type(details) is dict else None
            return INCOMPLETE.get(str(reason), FinishReason.Other)
        case "failed" | "cancelled":
            return FinishReason.Error
        case _:
            return absent


def read_usage(value: Any) -> Any:
    """Token counts, or absent."""
    return read_counts(value, _COUNTS, _DETAILS)


def write_usage(usage: Usage) -> Object:
    """Token counts; every detail is said, since the types require it."""
    body: Object = {
        "input_tokens": usage.input,
        "input_tokens_details": {},
        "output_tokens": usage.output,
        "output_tokens_details": {},
        "total_tokens": usage.input + usage.output,
    }
    for name, (group, key) in _DETAILS.items():
        count = getattr(usage, name)
        body[group][key] = 0 if count is absent else count
    return body


def write_response(response: Response, report: Report) -> Object:
    """The body of an answer."""
    body = _write_body(response, report)
    residue = own_residue(response, NAME)
    return body if residue is None else recall(body, residue.envelope)


def _write_body(response: Response, report: Report) -> Object:
    identifier = response.identifier if isinstance(response.identifier, str) else NO_IDENTIFIER
    if response.source != NAME:
        report_ending(response, report, says=_SAYS)
    writer = AnswerWriter(report, identifier, at_home=response.source == NAME)
    pieces = answer_pieces(response, NAME, report)
    body = answer_body(
        identifier,
        response.model if isinstance(response.model, str) else "",
        response.created if isinstance(response.created, int) else 0,
    )
    body["output"] = writer.items(pieces)
    finish = response.finish if isinstance(response.finish, FinishReason) else None
    return {**body, **ending(finish, response.usage)}


def answer_body(identifier: str, model: str, created_at: int) -> Object:
    """An answer under way, with every field that the types require."""
    return {
        "id": identifier,
        "object": "response",
        "created_at": created_at,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def ending(finish: FinishReason | None, usage: Any) -> Object:
    """The fields that say how an answer ended."""
    fields: Object = {"status": "completed", "incomplete_details": None, "error": None}
    reason = None if finish is None else INCOMPLETE_WORDS.get(finish)
    if reason is not None:
        fields["status"] = "incomplete"
        fields["incomplete_details"] = {"reason": reason}
    elif finish is FinishReason.Error:
        fields["status"] = "failed"
        fields["error"] = {"code": "server_error", "message": "the model gave up"}
    fields["usage"] = write_usage(usage) if isinstance(usage, Usage) else None
    return fields


class AnswerWriter(ItemWriter):
    """Writes the items of an answer, each complete."""

    def __init__(self, report: Report, identifier: str, *, at_home: bool) -> None:
        super().__init__(report, at_home=at_home)
        self.identifier = identifier

    def items(self, pieces: list[Piece]) -> list[Object]:
        """The items of all pieces."""
        self.report_silent(pieces)
        written: list[Object] = []
        for group in item_groups(pieces):
            self.position = len(written)
            item = self.item(group, None)
            if item is not None:
                written.append(item)
        return written

    def is_detached(self, canister: AnyCanister) -> bool:  # noqa: ARG002 - ItemWriter asks for it
        """Never: an answer is what its server made it."""
        return False

    def message(self, group: list[Piece]) -> Object | None:
        """One message."""
        if own_residue(group[0].canister, NAME) is not None:
            return super().message(group)
        parts = [part for piece in group for part in self.parts(piece, "assistant")]
        return self.complete_message(parts) if parts else None

    def complete_message(self, parts: list[Object]) -> Object:
        """A message of the model with all that the types require."""
        return {
            "type": "message",
            "id": item_id(self.identifier, "message", self.position),
            "status": "completed",
            "role": "assistant",
            "content": parts,
        }

    def call(self, piece: Piece) -> Object:
        """A call of a function or a custom tool."""
        call = super().call(piece)
        if own_residue(piece.canister, NAME) is not None:
            return call
        return self.complete_call(call)

    def complete_call(self, call: Object) -> Object:
        """A call with its id; custom calls have no status."""
        kind = call["type"]
        status = {"status": "completed"} if kind == "function_call" else {}
        return {**call, "id": item_id(self.identifier, kind, self.position), **status}

    def reasoning(
        self,
        piece: Piece,
        follower: Piece | None,  # noqa: ARG002 - ItemWriter asks for it
    ) -> Object | None:
        """A reasoning item: this dialect's own as it was, any other as a summary to be shown."""
        content: ReasoningContentClass = piece.canister.held
        residue = own_residue(piece.canister, NAME)
        if residue is not None:
            return recall(reasoning_item(content), residue.part)  # type: ignore[no-any-return]
        report_residue(piece.canister, self.report, piece.place)
        if content.signature or content.encrypted:
            self.report.lose("SIGNATURE_DROPPED", piece.place)
        return self.shown_reasoning([*content.texts, *content.summaries])

    def shown_reasoning(self, texts: list[str]) -> Object | None:
        """Reasoning from elsewhere, if there is something to show."""
        if not any(texts):
            return None
        return {
            "type": "reasoning",
            "id": item_id(self.identifier, "reasoning", self.position),
            "summary": [{"type": "summary_text", "text": text} for text in texts],
        }
