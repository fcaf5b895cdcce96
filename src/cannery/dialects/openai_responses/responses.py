"""Whole Responses responses, both ways.

A response from elsewhere needs complete items with ids: they are derived from the response's own id, so the same
response gives the same bytes. Reasoning from elsewhere is shown as a summary without a payload.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from cannery.dialects.openai_responses.forms import item_id, reasoning_item
from cannery.dialects.openai_responses.reading import ItemReader, fail
from cannery.dialects.openai_responses.settings import NAME, patch_of
from cannery.dialects.openai_responses.writing import ItemWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister
from cannery.messages.content import OpaqueContentClass, ReasoningContentClass
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import decode_json
from cannery.messages.requests import FinishReason, Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces, endings
from cannery.wire.bodies import Fields, Object, decode, encode, fields_reader
from cannery.wire.contract import Piece
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes, report_ending
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, recall

# The status of a response, or the reason why it is incomplete.
FINISHES = Finishes(
    {
        "completed": FinishReason.Stop,
        "max_output_tokens": FinishReason.Length,
        "content_filter": FinishReason.Filter,
        "failed": FinishReason.Error,
        "cancelled": FinishReason.Error,
    },
    {FinishReason.ContextWindow: "max_output_tokens", FinishReason.Refusal: "content_filter"},
)
NO_IDENTIFIER = "resp_cannery"
COUNTS = Counts(
    {
        "input": "input_tokens",
        "cache_read": "input_tokens_details.cached_tokens",
        "cache_write": "input_tokens_details.cache_write_tokens",
        "output": "output_tokens",
        "reasoning": "output_tokens_details.reasoning_tokens",
        "total": "total_tokens",
    },
    # The types require every detail.
    says_all=True,
)


# A response in progress, with every field that the types require.
_BODY: Object = {
    "id": "",
    "object": "response",
    "created_at": 0,
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "model": "",
    "output": [],
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "usage": None,
}
# The values that the writer gives for a response that does not state them.
_USUAL = {
    key: encode(_BODY[key])
    for key in (
        "object",
        "instructions",
        "metadata",
        "parallel_tool_calls",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
    )
}


@fields_reader(NAME)
def read_response(fields: Fields, places: Places) -> Response:
    """Read the response from a body."""
    if "output" not in fields:
        is_error = "error" in fields and type(decode(fields["error"])) is dict
        problem = "tells of an error and gives no answer" if is_error else "is required"
        fail(("error" if is_error else "output",), problem)
    dropped = lacking_fields(fields)
    if "status" in dropped:
        # The body does not say how the response ended.
        places.settings["finish"] = ()
    model = _value(fields, "model")
    reader = ItemReader(places.canisters, model, is_answer=True)
    output = decode(fields.pop("output"))
    patches = take_unsent(output)
    reader.items(output, "output")
    return read_answer(fields, reader.canisters, patches, dropped)


def lacking_fields(fields: Object) -> list[str]:
    """The fields that the writer gives a response and the body does not have."""
    return [key for key in _BODY if key not in fields]


def read_answer(
    fields: Object, canisters: list[AnyCanister], patches: Object, dropped: list[str]
) -> Response:
    """The response in the fields of a body, without its output; ``dropped`` are the fields that it lacks."""
    model, identifier = _take(fields, "model", str), _take(fields, "id", str)
    created = _take(fields, "created_at", int)
    finish = _take_finish(fields, canisters, patches)
    usage = _take_usage(fields, patches)
    for key, usual in _USUAL.items():
        if key in fields and encode(fields[key]) == usual:
            del fields[key]
    metadata = _take(fields, "metadata", dict)
    if metadata is not absent and metadata:
        patches["metadata"] = {"s": metadata}
    envelope = patch_of(fields, dropped, patches)
    return new_response(  # type: ignore[no-any-return]
        Conversation.trusted(canisters),
        finish,
        usage,
        model,
        identifier,
        residue=Residue(NAME, None, envelope) if envelope else None,
        source=NAME,
        created=created,
    )


def _value(fields: Object, key: str) -> Any:
    """The value of a field, which may be undecoded; None if there is none."""
    value = fields.get(key)
    return decode(value) if type(value) is Raw else value


def _take(fields: Object, key: str, kind: type) -> Any:
    """Take a value of one type, or absent for any other."""
    value = _value(fields, key)
    if type(value) is not kind:
        return absent
    del fields[key]
    return value


def take_unsent(output: Any) -> Object:
    """Take response-only fields out of the output, which a server would refuse in a request; returns their patch."""
    listed = enumerate(output if type(output) is list else ())
    kept = {str(index): patch for index, item in listed if (patch := _unsent(item))}
    return {"output": {"i": kept}} if kept else {}


def _unsent(item: Any) -> Object | None:
    if type(item) is not dict:
        return None
    kind, output = item.get("type"), item.get("output")
    gone = ("created_by", "status") if kind == "custom_tool_call_output" else ("created_by",)
    left = {key: item.pop(key) for key in gone if key in item}
    patch: Object = {"s": left} if left else {}
    if kind == "shell_call_output":
        patch["d"] = take_unsent(output)
    return {key: held for key, held in patch.items() if held} or None


def _take_finish(fields: Object, canisters: list[AnyCanister], patches: Object) -> Any:
    """Take the fields for the finish reason, if the writer gives them again."""
    ended = {key: _value(fields, key) for key in ("status", "incomplete_details", "error")}
    finish = read_finish(ended, canisters)
    written = ending(None if finish is absent else finish, absent)
    if ended.get("status") == written["status"]:
        del fields["status"]
    details: Any = ended.get("incomplete_details")
    error = ended.get("error")
    if written["incomplete_details"] is not None:
        # It was read from here, so both give the same reason.
        left = {key: details[key] for key in details if key != "reason"}
        del fields["incomplete_details"]
        if left:
            patches["incomplete_details"] = {"s": left}
    elif details is None:
        fields.pop("incomplete_details", None)
    if written["error"] is not None and type(error) is dict:
        # Values that a writer makes up are not facts of the response, even if it has the same ones.
        missing = [key for key in written["error"] if key not in error]
        patches["error"] = {"s": error, "x": missing} if missing else {"s": error}
        del fields["error"]
    elif written["error"] is None and error is None:
        fields.pop("error", None)
    return finish


def _take_usage(fields: Object, patches: Object) -> Any:
    """Take the usage."""
    value: Any = _value(fields, "usage")
    usage, patch = COUNTS.take(value)
    if usage is not absent or value is None:
        fields.pop("usage", None)
        if patch is not None:
            patches["usage"] = patch
    return usage


def read_finish(body: Object, canisters: list[AnyCanister]) -> Any:
    """The finish reason, or absent while the response is in progress."""
    word, details = body.get("status"), body.get("incomplete_details")
    if word == "incomplete":
        word = str(details.get("reason")) if type(details) is dict else word
    elif type(word) is not str or word not in FINISHES.words:
        return absent
    return FINISHES.read(word, has_calls=endings(canisters)["has_calls"])


def write_response(response: Response, report: Report) -> Object:
    """The body of a response."""
    body = _write_body(response, report)
    residue = own_residue(response, NAME)
    return body if residue is None else recall(body, residue.envelope)


def _write_body(response: Response, report: Report) -> Object:
    identifier = response.identifier if isinstance(response.identifier, str) else NO_IDENTIFIER
    if response.source != NAME:
        report_ending(response, report, FINISHES)
    writer = AnswerWriter(report, identifier, is_same=response.source == NAME)
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
    """A response in progress, with every field that the types require."""
    return {**_BODY, "id": identifier, "created_at": created_at, "model": model, "output": []}


def ending(finish: FinishReason | None, usage: Any) -> Object:
    """The fields for the finish reason."""
    fields: Object = {"status": "completed", "incomplete_details": None, "error": None}
    word = FINISHES.word(finish)
    if word == "failed":
        fields["status"] = word
        fields["error"] = {"code": "server_error", "message": "the model gave up"}
    elif word != "completed":
        fields["status"] = "incomplete"
        fields["incomplete_details"] = {"reason": word}
    fields["usage"] = COUNTS.write(usage) if isinstance(usage, Usage) else None
    return fields


class AnswerWriter(ItemWriter):
    """Writes the items of a response, each complete."""

    def __init__(self, report: Report, identifier: str, *, is_same: bool) -> None:
        super().__init__(report, is_same=is_same)
        self.identifier = identifier

    def item_id(self, kind: str) -> str:
        """The id of the next item, if it has none of its own."""
        return item_id(self.identifier, kind, len(self.written))

    def opaque_item(self, content: OpaqueContentClass) -> Any:
        """An item that only this dialect understands; the residue of the response may add to it."""
        return decode_json(content.json)

    def is_detached(self, residue: Residue) -> bool:  # noqa: ARG002 - ItemWriter asks for it
        """Never: a response stays as its server made it."""
        return False

    def message(self, group: list[Piece]) -> Object | None:
        """One message; the model's has all fields that the types require."""
        if own_residue(group[0].canister, NAME) is not None:
            return super().message(group)
        parts = [part for piece in group for part in self.parts(piece, "assistant")]
        if not parts:
            return None
        return {
            "type": "message",
            "id": self.item_id("message"),
            "status": "completed",
            "role": "assistant",
            "content": parts,
        }

    def call(self, piece: Piece) -> Object:
        """A call of a function or a custom tool, with its id; custom calls have no status."""
        call = super().call(piece)
        if own_residue(piece.canister, NAME) is not None:
            return call
        status = {"status": "completed"} if call["type"] == "function_call" else {}
        return {**call, "id": self.item_id(call["type"]), **status}

    def reasoning(
        self,
        piece: Piece,
        follower: Piece | None,  # noqa: ARG002 - ItemWriter asks for it
    ) -> Object | None:
        """A reasoning item: this dialect's own unchanged, any other as a summary."""
        content: ReasoningContentClass = piece.canister.held
        residue = own_residue(piece.canister, NAME)
        if residue is not None:
            return recall(reasoning_item(content), residue.part)  # type: ignore[no-any-return]
        report_residue(piece.canister, self.report, piece.place)
        if content.signature or content.encrypted:
            self.report.lose("SIGNATURE_DROPPED", piece.place)
        texts = [*content.texts, *content.summaries]
        if not any(texts):
            return None
        return {
            "type": "reasoning",
            "id": self.item_id("reasoning"),
            "summary": [{"type": "summary_text", "text": text} for text in texts],
        }
