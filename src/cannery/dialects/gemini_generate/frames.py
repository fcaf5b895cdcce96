"""Long requests on the shortest way: what stands around the slices is put together as bytes.

Gemini's objects nest four deep, and making each of them would take longer than reading the body did. A piece of text
that was JSON before stays the slice that it is, and stands between frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Raw

from cannery.dialects.gemini_generate.fast import are_plain, usual_config
from cannery.dialects.gemini_generate.models import STAND_IN, needs_signatures
from cannery.dialects.gemini_generate.outputs import wrap_text
from cannery.wire.arguments import object_slice, read_slice
from cannery.wire.bodies import encode
from cannery.wire.losses import Notes
from cannery.wire.slices import (
    MODEL,
    NULL,
    SAID,
    TOOL,
    USER,
    Around,
    Sliced,
    TextPart,
    encode_structs,
    first_of,
    head,
    is_detailed,
    note_details,
    read_image,
    said_before,
    sliced_messages,
    spoken,
    text_of,
)

# How text begins that says something and cannot be data.
_WORDS = SAID - {b'"{'}
# What a text begins with that may be data.
_DATA = "{["
_USER, _MODEL = b'{"role":"user","parts":[', b'{"role":"model","parts":['
_USERS, _MODELS = b"]}," + _USER, b"]}," + _MODEL
_TEXT, _OUTPUT = b'{"text":', b'{"output":'
_CALL, _ANSWER = b'{"functionCall":', b'{"functionResponse":'
_ARGS, _RESPONSE = b'"args":', b'"response":'
_SAYING = _RESPONSE + _OUTPUT
# What stands between two texts, behind the arguments of a call, and behind an answer in words.
_THEN_USER, _THEN_MODEL = b"}" + _USERS + _TEXT, b"}" + _MODELS
_MODEL_SAYS = _THEN_MODEL + _TEXT
_HEARD = b"}}" + _USERS + _ANSWER
# The same behind a call that is signed.
_SIGNED = f'}},"thoughtSignature":"{STAND_IN}"}}'.encode()
_SIGNED_AND_HEARD = _SIGNED + _USERS + _ANSWER
_JOINED, _ANSWERED = b"}}}," + _TEXT, b"}}}" + _MODELS


def write_long(sliced: Sliced, around: Around | None, notes: Notes) -> bytes | None:
    """The body; None for requests that need a repair."""
    contents = _contents(sliced, notes)
    if contents is None:
        return None
    body: dict[str, Any]
    if around is not None:
        body = {**around}
    else:
        config = usual_config(sliced.limit, sliced.temperature, sliced.top_p)
        if config is None:
            return None
        body = {"generationConfig": config} if config else {}
    system = sliced.system
    if system is not None:
        parts = system if type(system) is list else (TextPart(system),)
        if any(type(part) is not TextPart for part in parts):
            return None
        body["systemInstruction"] = {"parts": [{"text": part.text} for part in parts]}
    start = encode_structs(body)[:-1] + b"," if body else b"{"
    return b"".join((start, b'"contents":[', *contents, b"]}"))


def _contents(sliced: Sliced, notes: Notes) -> list[Any] | None:
    """The contents of a conversation that needs no repair: frames, and between them what they frame."""
    ids: list[str] = []
    names: set[str] = set()
    model = sliced.model
    is_signed = needs_signatures(model if type(model) is str else None)
    detailed: list[Raw] = []
    pieces = _pieces(sliced_messages(sliced), ids, names, detailed, is_signed=is_signed)
    if pieces is None or (detailed and not note_details(detailed, sliced, notes)):
        return None
    if not ids:
        return pieces
    if not are_plain(ids, names):
        return None
    if is_signed and sliced.find_call is not None:
        place, within = sliced.find_call(sliced.listed)
        # What comes first of several in one message, the general way knows.
        if any(note[1] == place for note in notes):
            return None
        notes.append(("SIGNATURE_STANDIN", place, "", within))
    return pieces


def _pieces(  # noqa: C901, PLR0912, PLR0915 - one loop: a call for each message is what it saves
    messages: list[Any],
    ids: list[str],
    names: set[str],
    detailed: list[Raw],
    *,
    is_signed: bool,
) -> list[Any] | None:
    heard = _SIGNED_AND_HEARD if is_signed else _HEARD
    pieces: list[Any] = []
    # What stands before the next text of the user and the next part of the model; None where it is not their turn.
    user: bytes | None = _USER + _TEXT
    model: bytes | None = None
    rest = iter(messages)
    for message in rest:
        speaker = message.speaker
        text = message.content
        if speaker is USER:
            if user is None:
                return None
            model = _THEN_MODEL
            if head(text)[0] not in SAID:
                text = spoken(text)
                if text is None:
                    return None
                if type(text) is list:
                    if is_detailed(text):
                        detailed.append(message.content)
                    pieces.append(user[: -len(_TEXT)])
                    closing = _take_parts(text, pieces)
                    if closing is None:
                        return None
                    user, model = None, closing + _MODELS
                    continue
            pieces += (user, text)
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
            pieces += (_MODEL_SAYS if model is _THEN_MODEL else model + _TEXT, text)
            user, model = _THEN_USER, None
            continue
        # What agents do all day: one call, and nothing said.
        if len(calls) == 1 and text == NULL:
            call = calls[0]
            answer = next(rest, message)
            identifier, function = call.id, call.function
            name, given, text = function.name, function.arguments, answer.content
            given = read_slice(given) if given[:1] == "{" else object_slice(given)
            if given is None or answer.speaker is not TOOL or answer.tool_call_id != identifier:
                return None
            ids.append(identifier)
            names.add(name)
            called = f'{{"id":"{identifier}","name":"{name}",'.encode()
            if head(text)[0] in _WORDS:
                pieces += (model, _CALL, called, _ARGS, given, heard, called, _SAYING, text)
                user, model = _JOINED, _ANSWERED
                continue
            pieces += (model, _CALL, called, _ARGS, given, heard, called)
            closing = _take_output(text, pieces)
        else:
            pieces.append(model)
            closed = heard[: -len(_USERS + _ANSWER)]
            closing = _take_calls(message, calls, pieces, rest, ids, names, closed)
        if closing is None:
            return None
        user, model = closing + b"," + _TEXT, closing + _MODELS
    if model is None:
        return None
    pieces.append(model[: -len(_MODELS)] + b"]}")
    return pieces


def _take_calls(
    message: Any,
    calls: list[Any],
    pieces: list[Any],
    rest: Iterator[Any],
    ids: list[str],
    names: set[str],
    closed: bytes,
) -> bytes | None:
    """Take what is said before calls, each of them, and the answers; give what closes the last.

    The first call is ``closed`` with or without a signature.
    """
    text = said_before(message.content)
    if text is UNSET or not calls:
        return None
    closing: bytes | None = b""
    glue = b""
    if text is not None:
        pieces += (_TEXT, text)
        closing, glue = b"}", b","
    framed: list[bytes] = []
    for call in calls:
        name = call.function.name
        given = object_slice(call.function.arguments)
        if given is None:
            return None
        ids.append(call.id)
        names.add(name)
        called = f'{{"id":"{call.id}","name":"{name}",'.encode()
        framed.append(called)
        pieces += (closing, glue, _CALL, called, _ARGS, given)
        closing, closed, glue = closed, b"}}", b","
    glue = _USERS
    for call, called in zip(calls, framed, strict=True):
        answer = next(rest, None)
        if answer is None or answer.speaker is not TOOL or answer.tool_call_id != call.id:
            return None
        pieces += (closing, glue, _ANSWER, called)
        closing = _take_output(answer.content, pieces)
        if closing is None:
            return None
        glue = b","
    return closing


def _take_parts(parts: list[Any], pieces: list[Any]) -> bytes | None:
    """Take parts, and give what closes the last; None for an image that has to be looked at."""
    closing = glue = b""
    for part in parts:
        pieces += (closing, glue)
        glue = b","
        if type(part) is TextPart:
            pieces += (_TEXT, part.text)
            closing = b"}"
            continue
        image = read_image(part)
        if image is None:
            return None
        frame = f'{{"inlineData":{{"mimeType":"{image[0]}","data":'
        pieces += (frame.encode(), encode(image[1]))
        closing = b"}}"
    return closing


def _take_output(content: Raw, pieces: list[Any]) -> bytes | None:
    """Take what a tool answered with, and give what closes it: words, data, or a text with images behind it."""
    if head(content)[0] in _WORDS:
        pieces += (_SAYING, content)
        return b"}}}"
    said = spoken(content)
    if said is None:
        return None
    images: list[Any] = []
    if type(said) is list:
        said, images = said[0], said[1:]
        if type(said) is not TextPart or TextPart in map(type, images) or is_detailed(images):
            return None
        said = said.text
    pieces.append(_RESPONSE)
    first = first_of(said)
    if first.isspace() or first in _DATA:
        pieces.append(encode(wrap_text(text_of(said))))
        closing = b""
    else:
        pieces += (_OUTPUT, said)
        closing = b"}"
    if not images:
        return closing + b"}}"
    pieces += (closing, b',"parts":[')
    closed = _take_parts(images, pieces)
    return None if closed is None else closed + b"]}}"
