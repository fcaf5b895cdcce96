"""Whole Ollama answers, both ways. ``stop`` beside calls means that the model called."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from cannery.errors import DialectError
from cannery.families.ollama.reading import OllamaReader
from cannery.families.ollama.writing import OllamaWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import InvocationCanisterClass
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason, Response, Usage, new_response, new_usage
from cannery.messages.residue import Residue
from cannery.wire.answers import answer_pieces, call_stem
from cannery.wire.bodies import Fields, Object, decode, read_fields
from cannery.wire.controls import text
from cannery.wire.endings import report_ending
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, own_residue, recall, take_usual

FINISHES = {"stop": FinishReason.Stop, "length": FinishReason.Length}
# What an answer may have beside its words.
_BESIDE = ("images", "tool_calls")
# The time that is told where none is known.
_EPOCH = 0


class Shape(Struct, frozen=True):
    """One of the two APIs: the field that is the message of an answer ("" for all of it), and the one of its text."""

    name: str
    message: str = "message"
    content: str = "content"

    @property
    def said(self) -> tuple[str, ...]:
        """The fields of an answer in which something is said."""
        return (self.message,) if self.message else (self.content, "thinking", *_BESIDE)

    def message_of(self, line: Object) -> Any:
        """The message of an answer or of a line."""
        if self.message:
            return line.get(self.message)
        return {key: line[key] for key in self.said if key in line}

    def wrap(self, message: Object) -> Object:
        """The fields of an answer that say what a message says."""
        if self.message:
            return {self.message: message}
        named = {"content": self.content}
        return {named.get(key, key): item for key, item in message.items() if key != "role"}


def response_reader(shape: Shape) -> Callable[[bytes, Places], Response]:
    """The reader of a dialect's answers."""

    def read(fields: Fields, places: Places) -> Response:
        return _read_response(shape, fields, places)

    return lambda body, places: read_fields(shape.name, body, places, read)


def _read_response(shape: Shape, fields: Fields, places: Places) -> Response:
    body = {key: decode(field) for key, field in fields.items()}
    needed = shape.said[0]
    if needed not in body and type(body.get("error")) is str:
        raise DialectError(shape.name, "error", "tells of an error and gives no answer")
    model, when = body.get("model"), body.get("created_at")
    reader = OllamaReader(shape.name, places.canisters, model, call_stem(when), shape.content)
    reader.field(body, needed, "")
    message = reader.object(shape.message_of(body), shape.message)
    for key in shape.said:
        body.pop(key, None)
    apart: Object = {}
    dropped: list[str] = []
    if shape.message:
        take_usual(message, "role", "assistant", dropped)
        if "role" in message:
            apart["role"] = message.pop("role")
    reader.assistant(message, (shape.message,) if shape.message else ())
    has_calls = any(type(each) is InvocationCanisterClass for each in reader.canisters)
    finish = read_finish(body.get("done_reason"), has_calls=has_calls)
    if "done_reason" not in body:
        # What the answer does not say is told at what holds it.
        places.settings["finish"] = ()
    created = read_time(when)
    around: list[str] = []
    take_usual(body, "model", model if type(model) is str else "", around)
    take_usual(body, "created_at", write_time(created), around)
    take_usual(body, "done", True, around)
    take_usual(body, "done_reason", finish_word(finish), around)
    usage = take_counts(body, around)
    patch = nested(body, {"message": nested(apart, {}, dropped)}, around)
    return new_response(  # type: ignore[no-any-return]
        Conversation.trusted(reader.canisters),
        finish,
        usage,
        text(model),
        absent,
        absent,
        None if patch is None else Residue(shape.name, None, write_json(patch)),
        shape.name,
        created,
    )


def read_finish(word: Any, *, has_calls: bool) -> Any:
    """Why the model stopped, or absent."""
    if type(word) is not str or not word:
        return absent
    if has_calls and word == "stop":
        return FinishReason.Tool
    return FINISHES.get(word, FinishReason.Other)


def finish_word(finish: Any) -> str:
    """The word for why the model stopped."""
    long = (FinishReason.Length, FinishReason.ContextWindow)
    return "length" if finish in long else "stop"


def read_time(when: Any) -> Any:
    """The second of a time, or absent; Ollama tells nanoseconds."""
    if type(when) is not str:
        return absent
    try:
        return int(
            datetime.fromisoformat(
                when[:19] + (when[-6:] if when[-6:-5] in "+-" else "Z")
            ).timestamp()
        )
    except (ValueError, OverflowError):
        return absent


def write_time(created: Any) -> str:
    """A second as Ollama tells times."""
    second = created if isinstance(created, int) else _EPOCH
    try:
        told = datetime.fromtimestamp(second, UTC)
    except (ValueError, OverflowError, OSError):
        told = datetime.fromtimestamp(_EPOCH, UTC)
    return told.strftime("%Y-%m-%dT%H:%M:%SZ")


def take_counts(body: Object, dropped: list[str]) -> Any:
    """The tokens that an answer counts, taken out of it; absent where it counts none of the answer.

    A prompt that is cached is not counted: ``dropped`` gets the key that the answer does not have.
    """
    asked, said = body.get("prompt_eval_count", 0), body.get("eval_count")
    if type(said) is not int or said < 0 or type(asked) is not int or asked < 0:
        return absent
    if body.pop("prompt_eval_count", None) is None:
        dropped.append("prompt_eval_count")
    del body["eval_count"]
    return new_usage(asked, said)


def response_writer(shape: Shape) -> Callable[[Response, Report], Object]:
    """The writer of a dialect's answers."""
    return lambda response, report: _write_response(shape, response, report)


def _write_response(shape: Shape, response: Response, report: Report) -> Object:
    is_same = response.source == shape.name
    pieces = answer_pieces(response, shape.name, report)
    takes_calls = bool(shape.message)
    writer = OllamaWriter(
        shape.name, report, is_same=is_same, for_answer=True, takes_calls=takes_calls
    )
    message = writer.assistant(pieces) if pieces else {"role": "assistant", "content": ""}
    if not is_same:
        report_ending(response, report)
    body: Object = {
        "model": "" if response.model is absent else response.model,
        "created_at": write_time(response.created),
        **shape.wrap(message),
        "done": True,
        "done_reason": finish_word(response.finish),
        **write_counts(response.usage),
    }
    residue = own_residue(response, shape.name)
    return body if residue is None else recall(body, residue.envelope)


def write_counts(usage: Any) -> Object:
    """Token counts."""
    if not isinstance(usage, Usage):
        return {}
    return {"prompt_eval_count": usage.input, "eval_count": usage.output}
