"""Streams and errors of Mistral: what they have beyond those of the family.

A delta's content may be a list of chunks. The official client refuses a call without a name or arguments, so a call is
written whole, when it has ended; usage comes with the finish reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from cannery.dialects.mistral_chat.reading import MistralReader
from cannery.dialects.mistral_chat.settings import NAME
from cannery.dialects.mistral_chat.writing import MistralWriter
from cannery.errors import DialectError
from cannery.families.chat.shape import FINISH_WORDS, FINISHES, Shape
from cannery.families.chat.stream_reading import ChatStreamReader, is_text
from cannery.families.chat.stream_writing import ChatStreamWriter
from cannery.families.openai.errors import read_openai_error
from cannery.messages.content import Citation, OpaqueContentClass
from cannery.messages.events import Delta, Event, Failure, PartEnd, PartStart
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason
from cannery.wire.arguments import FREEFORM_INPUT
from cannery.wire.bodies import Object, encode, guarded, read_value
from cannery.wire.contract import Piece, StreamOptions, WireError
from cannery.wire.residues import own_residue, recall
from cannery.wire.sse import data_frame
from cannery.wire.streams import own_failure


def _complete(message: Object, _pieces: list[Piece]) -> None:
    """Add what an answer has and a request's message has not."""
    message.setdefault("tool_calls", None)
    content = message.get("content")
    if type(content) is list and all(map(is_text, content)):
        message["content"] = "".join(part["text"] for part in content)
    if message.get("content") is None:
        message["content"] = ""


SHAPE = Shape(
    NAME,
    "cannery",
    _complete,
    MistralReader,
    MistralWriter,
    {**FINISHES, "model_length": FinishReason.ContextWindow, "error": FinishReason.Error},
    {
        **FINISH_WORDS,
        FinishReason.ContextWindow: "model_length",
        FinishReason.Error: "error",
        FinishReason.Refusal: "stop",
        FinishReason.Filter: "stop",
    },
    {"cache_read": ("prompt_tokens_details", "cached_tokens")},
    always_counts=True,
    older_counts={"cache_read": "num_cached_tokens"},
)

# Words for kinds of errors, as other dialects have them and as Mistral does (errors quoted in public, 2026-09).
_KINDS = {"rate_limit_error": "rate_limited", "api_error": "internal_server_error"}
_WORDS = {word: kind for kind, word in _KINDS.items()}
_REFUSALS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class MistralStreamReader(ChatStreamReader):
    """Reads a stream whose content comes as text or as chunks."""

    def __init__(self) -> None:
        super().__init__(SHAPE)

    def is_said(self, part: Any) -> bool:
        """Whether events say what a chunk says."""
        return is_text(part) or bool(_thoughts(part)) or self._is_reference(part)

    def _is_reference(self, part: Any) -> bool:
        is_open = self._spoken is not None and self._spoken[0] == "text"
        return type(part) is dict and part.get("type") == "reference" and is_open

    def _content(self, content: Any) -> Iterator[Event]:
        if not isinstance(content, list):
            yield from super()._content(content)
            return
        for part in content:
            if is_text(part):
                yield from super()._content(part["text"])
            elif self._is_reference(part):
                raw = guarded(NAME, partial(write_json, part))
                yield Delta(self._spoken[1], "", "citation", citation=Citation(NAME, raw))  # type: ignore[index]
                yield from self._end_spoken()
            else:
                yield from self._think(part)

    def _think(self, part: Any) -> Iterator[Event]:
        for words in _thoughts(part):
            yield from self._say("reasoning", words)
        signature = part.get("signature") if type(part) is dict else None
        if type(signature) is str and self._spoken is not None and self._spoken[0] == "reasoning":
            yield Delta(self._spoken[1], signature, "signature")


def _thoughts(part: Any) -> list[str]:
    """The words of a chunk of thoughts."""
    items = part.get("thinking") if type(part) is dict else None
    found = [item["text"] for item in items if is_text(item)] if type(items) is list else []
    return [words for words in found if words]


class MistralStreamWriter(ChatStreamWriter):
    """Writes a stream that the official client takes."""

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(SHAPE, options)
        # Calls under way by their part, in their order, and the ends of those that wait for an earlier one.
        self._held: dict[int, list[str]] = {}
        self._ended: dict[int, PartEnd] = {}

    def part_start(self, event: PartStart) -> bytes:
        """Begin a part; a call is written when it is whole."""
        if event.kind == "invocation":
            self._kinds[event.index] = event
            self._held[event.index] = []
            return self._begin()
        content = event.content
        if isinstance(content, OpaqueContentClass):
            self._kinds[event.index] = event
            self._turns.start(event.index)
            block = [decode_json(content.json)] if content.dialect == NAME else []
            return self._begin() + (self._chunk({"content": block}) if block else b"")
        return super().part_start(event)

    def _arguments(self, index: int, words: str) -> bytes:
        self._held[index].append(words)
        return b""

    def part_end(self, event: PartEnd) -> bytes:
        """End a part, calls in their order."""
        if event.index not in self._held:
            return super().part_end(event)
        self._ended[event.index] = event
        written = []
        for index in [*self._held]:
            if index not in self._ended:
                break
            written.append(self._call(self._ended.pop(index), "".join(self._held.pop(index))))
        return b"".join(written)

    def _call(self, event: PartEnd, words: str) -> bytes:
        start = self._kinds[event.index]
        if start.is_freeform:
            words = write_json({FREEFORM_INPUT: words})
        index = self._calls[event.index] = len(self._calls)
        function = {"name": start.name, "arguments": words if words.strip() else "{}"}
        call: Object = {"id": start.identifier, "type": "function", "function": function}
        for told in (start, event):
            residue = own_residue(told, NAME)
            call = call if residue is None else recall(call, residue.part)
        return self._chunk({"tool_calls": [{**call, "index": index}]})

    def delta(self, event: Delta) -> bytes:
        """More of a part; a refusal is text here."""
        start = self._kinds[event.index]
        if event.channel == "citation" and self._turns.open == event.index:
            citation = event.citation
            if citation is None or citation.dialect != NAME:
                return b""
            return self._chunk({"content": [decode_json(citation.raw)]})
        if start.kind == "refusal" and self._turns.open == event.index:
            return self._words("content", event.text) if event.text else b""
        return super().delta(event)

    def _think(self, start: PartStart, event: Delta) -> bytes:
        origin = start.origin
        chunk: Object = {"type": "thinking", "thinking": []}
        if event.channel == "signature":
            if origin is None or origin.dialect != NAME:
                return b""
            chunk["signature"] = event.text
        elif event.channel in ("text", "summary"):
            is_own = origin is not None and origin.dialect == NAME
            words = event.text if is_own else self._thoughts.joined(event)
            chunk["thinking"] = [{"type": "text", "text": words}]
        else:
            return b""
        return self._chunk({"content": [chunk]})

    def _ending(self, word: str) -> bytes:
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": word}
        usage = self._counted()
        counted = {} if usage is None else {"usage": usage}
        return data_frame({**self._head, "choices": [choice], **counted})

    def fail(self, event: Failure) -> bytes:
        """End the answer with an error."""
        self.is_over = True
        own = own_failure(event, NAME)
        status = 500 if event.status is None else event.status
        return data_frame(own or _error(event.message, _kind(event.kind, status), None))


def _error(message: str, kind: str, code: str | None) -> Object:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


def _kind(kind: str | None, status: int) -> str:
    """Mistral's word for the kind of an error."""
    if kind is None:
        kind = "api_error" if status >= 500 else _REFUSALS.get(status, "invalid_request_error")
    return _KINDS.get(kind, kind)


def read_error(status: int, body: bytes) -> WireError:
    """The error that a body tells of: flat, a ``detail``, or of a router in front of the server."""
    try:
        value = read_value(NAME, body)
    except DialectError:
        value = None
    told = value.get("message", value.get("detail")) if type(value) is dict else None
    if type(value) is not dict or "error" in value or told in (None, "", []):
        return read_openai_error(NAME, status, body)
    if type(told) is dict:
        told = told.get("detail", told)
    if type(told) is list:
        told = "; ".join(map(_validation, told))
    names = ("type", "code", "param", "request_id")
    kind, *known = (str(value[key]) if value.get(key) is not None else None for key in names)
    message = told if type(told) is str else write_json(told)
    return WireError(status, message, _WORDS.get(kind or "", kind), *known)


def _validation(item: Any) -> str:
    """One problem of a request that does not fit the schema."""
    if type(item) is not dict or type(item.get("loc")) is not list:
        return item if type(item) is str else write_json(item)
    place = ".".join(map(str, item["loc"])).removeprefix("body.")
    return f"{place}: {item.get('msg')}"


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    return encode(_error(error.message, _kind(error.kind, error.status), error.code))
