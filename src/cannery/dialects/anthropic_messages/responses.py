"""Whole Messages answers, both ways.

Anthropic counts cached input apart from ``input_tokens``; our usage counts all of it.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.blocks import without_file
from cannery.dialects.anthropic_messages.reading import MessageReader
from cannery.dialects.anthropic_messages.settings import NAME
from cannery.dialects.anthropic_messages.writing import MessageWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, InvocationCanisterClass
from cannery.messages.content import RefusalContentClass
from cannery.messages.conversation import Conversation
from cannery.messages.requests import FinishReason, Response, Usage, new_response, new_usage
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces, refuse_error
from cannery.wire.bodies import Object, guarded, read_object
from cannery.wire.contract import Piece
from cannery.wire.controls import text
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, patch_text, recall

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
_CACHED = {
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
}


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_response(value, places))  # type: ignore[no-any-return]


def _read_response(body: Object, places: Places) -> Response:
    reader = MessageReader(body.get("model"))
    refuse_error(NAME, body, "content")
    content = reader.field(body, "content", "")
    form, said = None, content
    if type(content) is str:
        reader.content(content, "assistant", "content")
        form = "string"
    else:
        said = list(map(_sendable, reader.list(content, "content")))
        reader.blocks(said, "assistant", "content")
    places.canisters.extend(reader.paths)
    response: Response = new_response(
        Conversation.trusted(reader.canisters),
        read_finish(body.get("stop_reason")),
        read_usage(body.get("usage")),
        text(body.get("model")),
        text(body.get("id")),
        text(body.get("stop_sequence")),
        source=NAME,
    )
    patch = _patch(response, body, is_whole=form is None and said == content)
    if patch is None and form is None:
        return response
    return response.replace(residue=Residue(NAME, envelope=patch, form=form))


def _sendable(block: Any) -> Any:
    """A block without what only answers have, which a server would refuse in a request; the residue keeps it."""
    citations = block.get("citations") if type(block) is dict else None
    if type(citations) is not list or not any(map(_names_file, citations)):
        return block
    return {**block, "citations": list(map(without_file, citations))}


def _names_file(citation: Any) -> bool:
    return type(citation) is dict and "file_id" in citation


def _patch(response: Response, body: Object, *, is_whole: bool) -> str | None:
    """The difference of a body to what writing gives; its content takes part where the canisters do not have it all."""
    ours = write_envelope(response)
    if is_whole or type(body["content"]) is not list:
        return patch_text(ours, {key: item for key, item in body.items() if key != "content"})
    writer = MessageWriter(Report(), at_home=True, for_answer=True)
    content = writer.answer([Piece(canister, None) for canister in response.canisters])
    return patch_text({**ours, "content": content}, body)


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
    """Token counts in the usual form."""
    cached = {
        key: getattr(usage, name)
        for name, key in _CACHED.items()
        if getattr(usage, name) is not absent
    }
    # A provider that counts in another way must not give a negative count.
    body: Object = {"input_tokens": usage.input - sum(cached.values()), **cached}
    if body["input_tokens"] < 0 <= usage.input:
        body["input_tokens"] = 0
    body["output_tokens"] = usage.output
    if usage.reasoning is not absent:
        body["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return body


def write_response(response: Response, report: Report) -> Object:
    """The body of an answer."""
    at_home = response.source == NAME
    model = response.model if isinstance(response.model, str) else None
    is_foreign = response.source not in (None, NAME)
    writer = MessageWriter(
        report, at_home=at_home, is_foreign=is_foreign, for_answer=True, model=model
    )
    pieces = answer_pieces(response, NAME, report)
    content = writer.answer(pieces)
    body = write_envelope(response)
    if not at_home:
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
