"""Long requests on the shortest way: what stands around the slices is put together as bytes.

Gemini's objects nest four deep, and making each of them would take longer than reading the body did. A piece of text
that was JSON before stays the slice that it is, and stands between frames.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw

from cannery.dialects.gemini_generate.fast import are_plain, usual_config
from cannery.dialects.gemini_generate.models import generation
from cannery.dialects.gemini_generate.outputs import wrap_text
from cannery.wire.arguments import object_slice, read_slice
from cannery.wire.bodies import encode
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
_USERS, _MODELS = b']},{"role":"user","parts":[', b']},{"role":"model","parts":['
_TEXT, _OUTPUT = b'{"text":', b'{"output":'


def write_long(sliced: Sliced, around: Around | None) -> bytes | None:
    """The body; None for requests that need a repair."""
    contents = _contents(sliced_messages(sliced), sliced.model)
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


def _contents(messages: list[Any], model: Any) -> list[Any] | None:
    """The contents of a conversation that needs no repair: frames, and between them what they frame."""
    ids: list[str] = []
    names: set[str] = set()
    pieces = _pieces(messages, ids, names)
    if pieces is None:
        return None
    # A model of Google's own may want signatures.
    is_google = type(model) is str and generation(model) is not None
    if ids and (is_google or not are_plain(ids, names)):
        return None
    # Whoever speaks first closes a turn that is not there.
    pieces[1] = pieces[1][3:]
    return pieces


def _pieces(  # noqa: C901, PLR0912, PLR0915 - one loop: a call for each message is what it saves
    messages: list[Any], ids: list[str], names: set[str]
) -> list[Any] | None:
    pieces: list[Any] = []
    closing = b""
    after_user = is_answered = False
    index, count = 0, len(messages)
    while index < count:
        message = messages[index]
        index += 1
        speaker = message.speaker
        text = message.content
        if speaker is USER:
            glue = _USERS
            if is_answered:
                is_answered = False
                glue = b","
            elif after_user:
                return None
            after_user = True
            if head(text)[0] not in SAID:
                text = spoken(text)
                if text is None:
                    return None
                if type(text) is list:
                    pieces += (closing, glue)
                    closed = _take_parts(text, pieces)
                    if closed is None:
                        return None
                    closing = closed
                    continue
            pieces += (closing, glue, _TEXT, text)
            closing = b"}"
            continue
        if speaker is not MODEL or not after_user:
            return None
        calls = message.tool_calls
        if calls is UNSET:
            if head(text)[0] not in SAID:
                text = spoken(text)
                if type(text) is not Raw:
                    return None
            after_user = is_answered = False
            pieces += (closing, _MODELS, _TEXT, text)
            closing = b"}"
            continue
        is_answered = True
        glue = _MODELS
        if text != NULL:
            text = said_before(text)
            if text is UNSET:
                return None
            if text is not None:
                pieces += (closing, glue, _TEXT, text)
                closing, glue = b"}", b","
        for call in calls:
            identifier, function = call.id, call.function
            name = function.name
            given = function.arguments
            given = read_slice(given) if given[:1] == "{" else object_slice(given)
            if given is None:
                return None
            ids.append(identifier)
            names.add(name)
            frame = f'{{"functionCall":{{"id":"{identifier}","name":"{name}","args":'
            pieces += (closing, glue, frame.encode(), given)
            closing, glue = b"}}", b","
        glue = _USERS
        for call in calls:
            answer = messages[index] if index < count else message
            identifier = call.id
            if answer.speaker is not TOOL or answer.tool_call_id != identifier:
                return None
            index += 1
            text = answer.content
            name = call.function.name
            frame = f'{{"functionResponse":{{"id":"{identifier}","name":"{name}","response":'
            pieces += (closing, glue, frame.encode())
            glue = b","
            if head(text)[0] in _WORDS:
                pieces += (_OUTPUT, text)
                closing = b"}}}"
            else:
                closed = _take_output(text, pieces)
                if closed is None:
                    return None
                closing = closed
        if not calls:
            return None
    if not after_user:
        return None
    pieces += (closing, b"]}")
    return pieces


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
    """Take what a tool answered with other than plain words: data, or a text with images behind it."""
    said = spoken(content)
    if said is None:
        return None
    images: list[Any] = []
    if type(said) is list:
        said, images = said[0], said[1:]
        if type(said) is not TextPart or TextPart in map(type, images):
            return None
        said = said.text
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
