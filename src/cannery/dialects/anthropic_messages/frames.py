"""Long requests on the shortest way: what stands around the slices is put together as bytes.

Making an object of every turn, block and call takes longer than joining what they would be written as.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Raw, Struct

from cannery.wire.arguments import are_plain_calls, object_slice, read_slice
from cannery.wire.slices import (
    MODEL,
    NULL,
    SAID,
    TOOL,
    USER,
    TextPart,
    encode_structs,
    head,
    is_detailed,
    read_image,
    said_before,
    spoken,
)

_USER, _MODEL = b'{"role":"user","content":', b'{"role":"assistant","content":'
_TEXT = b'{"type":"text","text":'
_CALL, _NAME, _INPUT = b'{"type":"tool_use","id":"', b'","name":"', b'","input":'
_ANSWER, _CONTENT = b'{"type":"tool_result","tool_use_id":"', b'","content":'
_ASKED, _HEARD = b"[" + _CALL, b"}]}," + _USER + b"[" + _ANSWER
# What ends a turn of one text, and a turn of blocks behind its last one.
_SPOKEN, _LISTED = b"},", b"}]},"
# What the user says behind results is said in the same turn.
_JOINED = b"}," + _TEXT
_THEN_USER, _THEN_MODEL, _CLOSED_MODEL = _SPOKEN + _USER, _SPOKEN + _MODEL, _LISTED + _MODEL


class _Source(Struct, frozen=True, gc=False, tag="base64"):
    media_type: str
    data: str


class _Image(Struct, frozen=True, gc=False, tag="image"):
    source: _Source


def long_messages(messages: list[Any], detailed: list[Raw]) -> list[Any] | None:
    """The list of a conversation's messages, in pieces; None for one that needs a repair.

    Contents with images that are to be looked at otherwise than by default are added to ``detailed``.
    """
    ids: list[str] = []
    names: set[str] = set()
    pieces = _pieces(messages, ids, names, detailed)
    return pieces if pieces is not None and are_plain_calls(ids, names) else None


def _pieces(  # noqa: C901, PLR0912 - one loop: a call for each message is what it saves
    messages: list[Any], ids: list[str], names: set[str], detailed: list[Raw]
) -> list[Any] | None:
    pieces: list[Any] = [b"["]
    # What stands before the next turn of the user and of the model; None where it is not theirs.
    user: bytes | None = _USER
    model: bytes | None = None
    rest = iter(messages)
    for message in rest:
        speaker = message.speaker
        text = message.content
        if speaker is USER:
            if user is None:
                return None
            if head(text)[0] not in SAID:
                text = _content(text, detailed)
                if text is None:
                    return None
                if user is _JOINED and type(text) is not Raw:
                    user, text, model = b"},", text[1:], _THEN_MODEL
            pieces += (user, text)
            if user is not _JOINED:
                model = _THEN_MODEL
            user = None
            continue
        if speaker is not MODEL or model is None:
            return None
        calls = message.tool_calls
        if calls is UNSET:
            if head(text)[0] not in SAID:
                text = spoken(text)
                if type(text) is not Raw:
                    return None
            pieces += (model, text)
            user, model = _THEN_USER, None
            continue
        # What agents do all day: one call, and nothing said.
        if len(calls) == 1 and text == NULL:
            call = calls[0]
            answer = next(rest, message)
            identifier, function = call.id, call.function
            name, given, text = function.name, function.arguments, answer.content
            given = read_slice(given) if given[:1] == "{" else object_slice(given)
            if head(text)[0] not in SAID:
                text = _content(text)
            if (
                given is None
                or text is None
                or answer.speaker is not TOOL
                or answer.tool_call_id != identifier
            ):
                return None
            ids.append(identifier)
            names.add(name)
            called = identifier.encode()
            pieces += (model, _ASKED, called, _NAME, name.encode(), _INPUT, given)
            pieces += (_HEARD, called, _CONTENT, text)
            user, model = _JOINED, _CLOSED_MODEL
            continue
        pieces.append(model)
        if not _take_calls(message, calls, pieces, ids, names):
            return None
        pieces.append(_USER)
        if not _take_answers(rest, calls, pieces):
            return None
        user, model = _JOINED, _CLOSED_MODEL
    if model is None:
        return None
    pieces.append(model[: -len(_MODEL) - 1] + b"]")
    return pieces


def _take_calls(
    message: Any, calls: list[Any], pieces: list[Any], ids: list[str], names: set[str]
) -> bool:
    """Take a turn of the model with calls: what is said before them, and each of them."""
    text = said_before(message.content)
    if text is UNSET or not calls:
        return False
    glue = b"["
    if text is not None:
        pieces += (glue, _TEXT, text)
        glue = b"},"
    for call in calls:
        function = call.function
        given = object_slice(function.arguments)
        if given is None:
            return False
        ids.append(call.id)
        names.add(function.name)
        pieces += (glue, _CALL, call.id.encode(), _NAME, function.name.encode(), _INPUT, given)
        glue = b"},"
    pieces.append(_LISTED)
    return True


def _take_answers(rest: Iterator[Any], calls: list[Any], pieces: list[Any]) -> bool:
    """Take the answers to calls, in call order, all but what closes the last."""
    glue = b"["
    for call in calls:
        answer = next(rest, None)
        if answer is None or answer.speaker is not TOOL or answer.tool_call_id != call.id:
            return False
        content = _content(answer.content)
        if content is None:
            return False
        pieces += (glue, _ANSWER, call.id.encode(), _CONTENT, content)
        glue = b"},"
    return True


def _content(content: Raw, detailed: list[Raw] | None = None) -> Raw | bytes | None:
    """What a user or a tool says: a text, or the blocks of several parts; None for what has to be looked at."""
    said = spoken(content)
    if type(said) is not list:
        return said  # type: ignore[no-any-return]
    if is_detailed(said):
        if detailed is None:
            return None
        detailed.append(content)
    blocks: list[Any] = []
    for part in said:
        if type(part) is TextPart:
            blocks.append(part)
            continue
        image = read_image(part)
        if image is None:
            return None
        blocks.append(_Image(_Source(*image)))
    return encode_structs(blocks)
