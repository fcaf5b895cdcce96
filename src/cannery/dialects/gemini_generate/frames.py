"""Long requests on the shortest way: what stands around the slices is put together as strings.

Gemini's objects nest four deep, and making each of them would take longer than reading the body did. A piece of text
that was JSON before stays the slice that it is; frames and slices come by turns.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cannery.dialects.gemini_generate.fast import are_plain, usual_config, usual_settings
from cannery.dialects.gemini_generate.models import generation
from cannery.dialects.gemini_generate.outputs import wrap_text
from cannery.wire.arguments import object_slice
from cannery.wire.bodies import Turns, encode, encode_body
from cannery.wire.slices import MODEL, SAID, TOOL, USER, Sliced, head, is_said, said_before, text_of

_NULL, _BRACE = b"nu", b'"{'


def write_long(sliced: Sliced) -> Turns | bytes | None:
    """The body, or just its contents where there are other settings than the usual; None for other requests."""
    contents = _contents(sliced.messages, sliced.model)
    if contents is None:
        return None
    if sliced.request is not None:
        body = usual_settings(sliced.request)
        if body is None:
            return contents
    else:
        config = usual_config(sliced.limit, sliced.temperature, sliced.top_p)
        if config is None:
            return None
        body = {"generationConfig": config} if config else {}
    if sliced.system is not None:
        body["systemInstruction"] = {"parts": ({"text": sliced.system},)}
    body["contents"] = contents
    return encode_body(body)


def _contents(messages: list[Any], model: Any) -> Turns | None:
    """The contents of a conversation that needs no repair: frames by turns with what they frame."""
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
    pieces[0] = pieces[0][3:]
    pieces[::2] = map(str.encode, pieces[::2])
    return Turns(pieces)


def _pieces(  # noqa: C901, PLR0912, PLR0915 - one loop: a call for each message is what it saves
    messages: list[Any], ids: list[str], names: set[str]
) -> list[Any] | None:
    pieces: list[Any] = []
    take = pieces.append
    closing = ""
    after_user = is_answered = False
    index, count = 0, len(messages)
    while index < count:
        message = messages[index]
        index += 1
        speaker = message.speaker
        text = message.content
        if speaker is USER:
            if head(text)[0] not in SAID and not is_said(text):
                return None
            if is_answered:
                is_answered = False
                take(f'{closing},{{"text":')
            elif after_user:
                return None
            else:
                take(f'{closing}]}},{{"role":"user","parts":[{{"text":')
            after_user = True
            take(text)
            closing = "}"
            continue
        if speaker is not MODEL or not after_user:
            return None
        calls = message.tool_calls
        start = head(text)[0]
        if calls is UNSET:
            if start not in SAID and not is_said(text):
                return None
            after_user = is_answered = False
            take(f'{closing}]}},{{"role":"model","parts":[{{"text":')
            take(text)
            closing = "}"
            continue
        is_answered = True
        glue = ']},{"role":"model","parts":['
        if start != _NULL:
            text = said_before(text)
            if text is UNSET:
                return None
            if text is not None:
                take(f'{closing}{glue}{{"text":')
                take(text)
                closing, glue = "}", ","
        for call in calls:
            identifier, function = call.id, call.function
            name = function.name
            given = object_slice(function.arguments)
            if given is None:
                return None
            ids.append(identifier)
            names.add(name)
            take(f'{closing}{glue}{{"functionCall":{{"id":"{identifier}","name":"{name}","args":')
            take(given)
            closing, glue = "}}", ","
        glue = ']},{"role":"user","parts":['
        for call in calls:
            answer = messages[index] if index < count else message
            identifier = call.id
            if answer.speaker is not TOOL or answer.tool_call_id != identifier:
                return None
            index += 1
            text = answer.content
            start = head(text)[0]
            frame = (
                f'{closing}{glue}{{"functionResponse":{{"id":"{identifier}",'
                f'"name":"{call.function.name}","response":'
            )
            glue = ","
            if start in SAID and start != _BRACE:
                take(frame + '{"output":')
                take(text)
                closing = "}}}"
            elif is_said(text):
                take(frame)
                take(encode(wrap_text(text_of(text))))
                closing = "}}"
            else:
                return None
        if not calls:
            return None
    if not after_user:
        return None
    take(f"{closing}]}}")
    return pieces
