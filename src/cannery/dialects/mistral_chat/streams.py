"""Streams and errors of Mistral: differences from those of the family.

A delta's content may be a list of chunks. The official client refuses a call without a name or arguments, so a call is
written whole, when it has ended; usage comes with the finish reason.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.mistral_chat.hosted import SEVERAL
from cannery.dialects.mistral_chat.reading import MistralReader
from cannery.dialects.mistral_chat.settings import NAME
from cannery.dialects.mistral_chat.writing import MistralWriter
from cannery.errors import DialectError
from cannery.families.chat.answers import results_among, was_run
from cannery.families.chat.shape import TOKENS, WORDS, Shape
from cannery.families.chat.stream_reading import ChatStreamReader
from cannery.families.chat.stream_writing import ChatStreamWriter
from cannery.families.openai.errors import read_openai_error
from cannery.messages.content import Citation
from cannery.messages.events import Delta, Failure, PartEnd, PartStart
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason
from cannery.wire.arguments import FREEFORM_INPUT
from cannery.wire.bodies import Object, encode, is_text_part, read_value
from cannery.wire.contract import Piece, StreamOptions, WireError
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes
from cannery.wire.sse import data_frame
from cannery.wire.stream_writing import WrittenPart


def _complete(message: Object, _pieces: list[Piece]) -> None:
    """Add the fields that a response's message has and a request's message lacks."""
    message.setdefault("tool_calls", None)
    content = message.get("content")
    if type(content) is list and all(map(is_text_part, content)):
        message["content"] = "".join(part["text"] for part in content)
    if message.get("content") is None:
        message["content"] = ""


SHAPE = Shape(
    NAME,
    "cannery",
    _complete,
    MistralReader,
    MistralWriter,
    Finishes(
        {**WORDS, "model_length": FinishReason.ContextWindow, "error": FinishReason.Error},
        {FinishReason.Filter: "stop"},
    ),
    Counts(
        {**TOKENS, "cache_read": "prompt_tokens_details.cached_tokens"},
        older={"cache_read": "num_cached_tokens"},
    ),
    always_counts=True,
)

# Mistral's words for error kinds, by the common words (errors quoted in public, 2026-09).
_KINDS = {"rate_limit_error": "rate_limited", "api_error": "internal_server_error"}
_WORDS = {word: kind for kind, word in _KINDS.items()}
_REFUSALS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class MistralStreamReader(ChatStreamReader):
    """Reads a stream whose content is text or chunks."""

    def __init__(self) -> None:
        super().__init__(SHAPE)
        # Where an answer has several messages: those with calls that the server may run itself, and what it ran.
        self._held: list[Object] = []
        self._ran: list[Object] = []

    def _message(self, delta: Object) -> Object:
        """Read more of one message; a result among several is that of a call that the server ran."""
        if delta.get("role") == "tool":
            return self._take_result(delta)
        calls = delta.get("tool_calls")
        if type(delta.get("index")) is int and type(calls) is list:
            known = ("role", "index", "tool_calls")
            self._held.append({key: delta[key] for key in known if key in delta})
            delta = {key: item for key, item in delta.items() if key != "tool_calls"}
        return super()._message(delta)

    def _take_result(self, result: Object) -> Object:
        """Take a result and its call, which are fields around the answer to other dialects."""
        results = results_among([result])
        for message in self._held:
            ran = [call for call in message["tool_calls"] if was_run(call, results)]
            if ran:
                message["tool_calls"] = [call for call in message["tool_calls"] if call not in ran]
                told = {**message, "tool_calls": ran}
                self._ran.append(told)
                self._leave("chunk", {"choices": [{"index": 0, "delta": told}]})
        self._ran.append(result)
        self._around.take_choice({SEVERAL: self._ran})
        return result

    def _end_parts(self) -> None:
        held, self._held = self._held, []
        for message in held:
            for position, call in enumerate(message["tool_calls"]):
                if type(call) is dict:
                    self._call(call, position)
        super()._end_parts()

    def _content(self, part: Any) -> bool:
        spoken = self._spoken("text")
        if spoken is not None and type(part) is dict and part.get("type") == "reference":
            citation = Citation(NAME, write_json(part))
            self._out.append(Delta(spoken.index, "", "citation", citation=citation))
            self._end_spoken()
            return True
        thoughts = _thoughts(part)
        for words in thoughts:
            self._say("reasoning", words)
        signature = part.get("signature") if type(part) is dict else None
        spoken = self._spoken("reasoning")
        if type(signature) is str and spoken is not None:
            self._out.append(Delta(spoken.index, signature, "signature"))
            return True
        return bool(thoughts) or super()._content(part)


def _thoughts(part: Any) -> list[str]:
    """The text of a thinking chunk."""
    items = part.get("thinking") if type(part) is dict else None
    found = [item["text"] for item in items if is_text_part(item)] if type(items) is list else []
    return [words for words in found if words]


class MistralStreamWriter(ChatStreamWriter):
    """Writes a stream that the official client accepts."""

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(SHAPE, options)

    def lane(self, start: PartStart) -> str:
        """The lane of calls, which are written whole and in order."""
        return "calls" if start.kind == "invocation" else "said"

    def open(self, part: WrittenPart) -> bytes:
        """Begin a part; a call is written when it is whole."""
        block = self._own_block(part)
        if block is not None:
            return self._chunk({"content": [block]})
        return b"" if part.kind == "invocation" else super().open(part)

    def _arguments(self, part: WrittenPart, words: str) -> bytes:
        part.words.append(words)
        return b""

    def more(self, part: WrittenPart, event: Delta) -> bytes:
        """Write more of a part; a refusal becomes text."""
        if event.citation is not None:
            is_own = event.citation.dialect == NAME
            return self._chunk({"content": [decode_json(event.citation.raw)]}) if is_own else b""
        if part.kind == "refusal":
            return self._words("content", event.text) if event.text else b""
        return super().more(part, event)

    def _think(self, part: WrittenPart, event: Delta) -> bytes:
        chunk: Object = {"type": "thinking", "thinking": []}
        if event.channel in ("text", "summary"):
            chunk["thinking"] = [{"type": "text", "text": self._thought(part, event)}]
        elif event.channel == "signature" and self._is_own_thought(part):
            chunk["signature"] = event.text
        else:
            return b""
        return self._chunk({"content": [chunk]})

    def end(self, part: WrittenPart, event: PartEnd) -> bytes:
        """End a part."""
        if part.kind != "invocation":
            return super().end(part, event)
        start, words = part.start, part.said
        if start.is_freeform:
            words = write_json({FREEFORM_INPUT: words})
        index, self._count = self._count, self._count + 1
        function = {"name": start.name, "arguments": words if words.strip() else "{}"}
        call: Object = {"id": start.identifier, "type": "function", "function": function}
        call = self._recall(self._recall(call, start), event)
        return self._chunk({"tool_calls": [{**call, "index": index}]})

    def _ending(self, word: str) -> bytes:
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": word}
        usage = self._counted()
        counted = {} if usage is None else {"usage": usage}
        return data_frame({**self._head, "choices": [choice], **counted})

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an error."""
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
    """The error in a body: flat, a ``detail``, or the error of a router in front of the server."""
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
    """One validation problem of a request."""
    if type(item) is not dict or type(item.get("loc")) is not list:
        return item if type(item) is str else write_json(item)
    place = ".".join(map(str, item["loc"])).removeprefix("body.")
    return f"{place}: {item.get('msg')}"


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    return encode(_error(error.message, _kind(error.kind, error.status), error.code))
