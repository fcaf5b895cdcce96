"""Whole Chat Completions answers, both ways. Further choices stay in the residue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cannery.dialects.openai_chat.settings import NAME
from cannery.families.chat.reading import ChatReader
from cannery.families.chat.writing import ChatWriter
from cannery.families.openai.settings import take_usage
from cannery.messages.absence import absent
from cannery.messages.canisters import InvocationCanisterClass, text_of
from cannery.messages.content import Citation, TextualContentClass, new_text
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason, Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces, call_stem, refuse_error
from cannery.wire.bodies import Fields, Object, decode, is_named, read_fields
from cannery.wire.contract import Piece
from cannery.wire.controls import integer, text
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Path, Places
from cannery.wire.residues import nested, own_residue, recall, set_again, take_usual

FINISH = {
    "stop": FinishReason.Stop,
    "length": FinishReason.Length,
    "tool_calls": FinishReason.Tool,
    "function_call": FinishReason.Tool,
    "content_filter": FinishReason.Filter,
}
FINISH_WORDS = {
    FinishReason.Stop: "stop",
    FinishReason.Length: "length",
    FinishReason.Tool: "tool_calls",
    FinishReason.StopSequence: "stop",
    FinishReason.Refusal: "content_filter",
    FinishReason.Filter: "content_filter",
    FinishReason.Pause: "stop",
    FinishReason.ContextWindow: "length",
    FinishReason.Malformed: "stop",
    FinishReason.Error: "stop",
    FinishReason.Other: "stop",
}
# The id of an answer that has none.
MADE_ID = "chatcmpl-cannery"
COUNTS = ("prompt_tokens", "completion_tokens")
DETAILS = {
    "cache_read": ("prompt_tokens_details", "cached_tokens"),
    "cache_write": ("prompt_tokens_details", "cache_write_tokens"),
    "reasoning": ("completion_tokens_details", "reasoning_tokens"),
}


def read_response(body: bytes, places: Places) -> Response:
    """The answer that a body gives."""
    return read_fields(NAME, body, places, _read_response)


def _read_response(fields: Fields, places: Places) -> Response:
    body = {key: decode(field) for key, field in fields.items()}
    refuse_error(NAME, body, "choices")
    model, identifier, created = body.get("model"), body.get("id"), body.get("created")
    reader = ChatReader(NAME, places.canisters, model)
    reader.call_stem = call_stem(identifier)
    choices = reader.list(reader.field(body, "choices", ""), "choices")
    dropped: list[str] = []
    patches: Object = {}
    finish: Any = absent
    if choices:
        del body["choices"]
        finish, patch = _read_choice(reader, choices[0])
        patches["choices"] = _listed(patch, choices)
    usage, patch = take_usage(body.get("usage"), COUNTS, DETAILS)
    if usage is not absent:
        del body["usage"]
        patches["usage"] = patch
    take_usual(body, "id", identifier if type(identifier) is str else MADE_ID, dropped)
    take_usual(body, "object", "chat.completion", dropped)
    take_usual(body, "created", created if type(created) is int else 0, dropped)
    take_usual(body, "model", model if type(model) is str else "", dropped)
    patch = nested(body, patches, dropped)
    return new_response(  # type: ignore[no-any-return]
        Conversation.trusted(reader.canisters),
        finish,
        usage,
        text(model),
        text(identifier),
        absent,
        None if patch is None else Residue(NAME, None, write_json(patch)),
        NAME,
        integer(created),
    )


def _listed(first: Object | None, choices: list[Any]) -> Object | None:
    """The patch of the list of choices: only the first is carried, the others are added."""
    patch: Object = {} if first is None else {"i": {"0": first}}
    if len(choices) > 1:
        patch["a"] = {str(index): item for index, item in enumerate(choices) if index}
    return patch or None


def _read_choice(reader: ChatReader, item: Any) -> tuple[Any, Object | None]:
    """Read the message of a choice: gives why the model stopped, and the patch of the choice."""
    choice = reader.object(item, "choices[0]")
    path = ("choices", 0, "message")
    finish = read_finish(choice.get("finish_reason"))
    dropped: list[str] = []
    patch: Object | None = None
    if "message" not in choice and finish is FinishReason.Filter:
        # Azure sends no message at all when its filter stopped the answer (API version 2024-02-01).
        dropped.append("message")
    else:
        given = reader.field(choice, "message", "choices[0]")
        message = reader.object(given, "choices[0].message")
        del choice["message"]
        patch = _read_message(reader, message, path)
    take_usual(choice, "index", 0, dropped)
    take_usual(choice, "logprobs", None, dropped)
    take_usual(choice, "finish_reason", finish_word(finish, has_calls=False), dropped)
    return finish, nested(choice, {"message": patch}, dropped)


def _read_message(reader: ChatReader, message: Object, path: Path) -> Object | None:
    """Read a message; what only answers have, and a server would refuse in a request, is kept by the answer."""
    dropped: list[str] = []
    apart: Object = {}
    audio_patch = None
    take_usual(message, "role", "assistant", dropped)
    if "role" in message:
        apart["role"] = message.pop("role")
    annotations = message.pop("annotations", absent)
    if annotations is not absent:
        apart["annotations"] = annotations
    audio = message.get("audio")
    if type(audio) is dict and is_named(audio.get("id")):
        message["audio"] = {"id": audio.pop("id")}
        audio_patch = set_again(audio)
    reader.assistant(message, "assistant", path)
    _cite(reader, annotations)
    return nested(apart, {"audio": audio_patch}, dropped)


def _cite(reader: ChatReader, annotations: Any) -> None:
    """Hang the annotations of a message on its text; the residue keeps their exact spelling."""
    if type(annotations) is not list or not annotations:
        return
    for index, canister in enumerate(reader.canisters):
        is_said = type(canister) is not InvocationCanisterClass and type(canister.held) is str
        if is_said and canister.held:
            citations = tuple(map(read_citation, annotations))
            held = new_text(canister.held, "text/plain", citations)
            fields = {"held": held, "_memo": None}
            reader.canisters[index] = msgspec.structs.replace(canister, **fields)
            return


def read_citation(item: Any) -> Citation:
    """An annotation; where it points to a page, in words that every dialect understands."""
    inner = item.get("url_citation") if type(item) is dict else None
    if type(inner) is not dict or type(inner.get("url")) is not str:
        return Citation(NAME, write_json(item))
    start, end, title = (inner.get(key) for key in ("start_index", "end_index", "title"))
    return Citation(
        NAME,
        write_json(item),
        inner["url"],
        title if type(title) is str else None,
        None,
        start if type(start) is int else None,
        end if type(end) is int else None,
    )


def write_citation(citation: Citation, offset: int, length: int) -> Object:
    """A URL citation; one without a span covers the whole of its text, which starts at an offset."""
    if citation.dialect == NAME and not offset:
        return decode_json(citation.raw)  # type: ignore[no-any-return]
    start, end = citation.start, citation.end
    if start is None or end is None:
        start, end = 0, length
    inner = {
        "start_index": offset + start,
        "end_index": offset + end,
        "title": citation.title or "",
        "url": citation.url,
    }
    return {"type": "url_citation", "url_citation": inner}


def read_finish(word: Any) -> Any:
    """Why the model stopped, or absent."""
    return FINISH.get(word, FinishReason.Other) if type(word) is str and word else absent


def write_usage(usage: Usage) -> Object:
    """Token counts in the usual form."""
    body: Object = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
    }
    for name, (group, key) in DETAILS.items():
        if getattr(usage, name) is not absent:
            body.setdefault(group, {})[key] = getattr(usage, name)
    return body


def write_response(response: Response, report: Report) -> Object:
    """The body of an answer."""
    body = _write_body(response, report)
    residue = own_residue(response, NAME)
    return body if residue is None else recall(body, residue.envelope)


def _write_body(response: Response, report: Report) -> Object:
    is_same = response.source == NAME
    writer = ChatWriter(NAME, report, is_same=is_same, for_answer=True)
    pieces = answer_pieces(response, NAME, report)
    message = writer.assistant(pieces) if pieces else {"role": "assistant", "content": None}
    if not is_same:
        _complete(message, pieces)
        report_ending(response, report)
    has_calls = not is_same and "tool_calls" in message
    word = finish_word(response.finish, has_calls=has_calls)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": word}
    body: Object = {
        "id": MADE_ID if response.identifier is absent else response.identifier,
        "object": "chat.completion",
        "created": 0 if response.created is absent else response.created,
        "model": "" if response.model is absent else response.model,
        "choices": [choice],
    }
    if isinstance(response.usage, Usage):
        body["usage"] = write_usage(response.usage)
    return body


def finish_word(finish: Any, *, has_calls: bool) -> str:
    """The finish reason that clients rely on: calls show in it, also where the source gives no reason."""
    if isinstance(finish, FinishReason) and not (has_calls and finish is FinishReason.Stop):
        return FINISH_WORDS[finish]
    return "tool_calls" if has_calls else "stop"


def _complete(message: Object, pieces: list[Piece]) -> None:
    """Add what an answer has and a request's message has not."""
    if isinstance(message.get("content"), list):
        message["content"] = "".join(part.get("text", "") for part in message["content"])
    if message.get("content") == "" and "tool_calls" in message:
        message["content"] = None
    message.setdefault("refusal", None)
    message["annotations"] = list(_annotations(pieces))


def _annotations(pieces: list[Piece]) -> Iterator[Object]:
    """The citations of all texts, which the message joins to one."""
    offset = 0
    for piece in pieces:
        canister = piece.canister
        held = canister.held
        if type(canister) is InvocationCanisterClass:
            continue
        if isinstance(held, TextualContentClass):
            for citation in held.citations:
                if citation.url is not None:
                    yield write_citation(citation, offset, len(held.text))
        offset += len(text_of(held))
