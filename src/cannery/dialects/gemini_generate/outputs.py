"""What a tool answered, as the object that ``functionResponse.response`` has to be, and back.

Any object is itself. Text and lists stand under ``output``, a failure under ``error``; text that spells an object
becomes that object, unless reading it back would take it for one of these wrappings. An ``error`` that is null or false
says that there is none.
"""

from __future__ import annotations

from typing import Any

import msgspec
from orjson import Fragment

from cannery.dialects.gemini_generate.spelling import Object
from cannery.messages.absence import absent
from cannery.messages.content import new_data
from cannery.messages.json_text import decode_json, is_json
from cannery.wire.arguments import object_input, object_text

OUTPUT, ERROR = "output", "error"
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def wrap_text(text: str) -> Any:
    """The response object of a tool that answered with text."""
    bare = text.lstrip()
    if bare.startswith("{"):
        if _has_several_fields(text):
            return Fragment(text)
        spelled = spelled_object(text)
        if spelled is not None and not _is_wrapping(text):
            return spelled
    elif bare.startswith("[") and is_json(text) and "\\u" not in text:
        return {OUTPUT: Fragment(text)}
    return {OUTPUT: text}


def wrap_failure(text: str) -> Any:
    """The response object of a tool that failed with these words; those that spell an object or a list become it."""
    is_spelled = text.lstrip()[:1] in ("{", "[") and is_json(text)
    return {ERROR: raw(text) if is_spelled else text}


def wrap_data(json: str) -> Any:
    """The response object of a tool that answered with a JSON value."""
    return spelled_object(json) if json.lstrip().startswith("{") else {OUTPUT: raw(json)}


def spelled_object(text: str) -> Any:
    """The object that a text spells, as it goes to the wire; None if it spells none."""
    found = object_text(text)
    return object_input(text) if found is None else found


def raw(json: str) -> Any:
    """A JSON value that goes to the wire as it is spelled."""
    return decode_json(json) if "\\u" in json else Fragment(json)


def unwrap(response: str) -> tuple[Any, Any]:
    """What the text of a response object says, and whether it says that the tool failed."""
    fields = _read_fields(response)
    if len(fields) == 1:
        ((key, value),) = fields.items()
        text = str(value, "utf-8")
        if key == OUTPUT and text[0] in '"[':
            return (decode_json(text) if text[0] == '"' else new_data(text)), absent
        if key == ERROR and text not in ("null", "false"):
            return (decode_json(text) if text[0] == '"' else new_data(text)), True
    return new_data(response), absent


def text_changes(words: str, *, is_failure: bool) -> bool:
    """Whether text under ``output`` or ``error`` would by default be written as something else."""
    if words.lstrip()[:1] not in ("{", "["):
        return False
    wrapped = (wrap_failure if is_failure else wrap_text)(words)
    return type(wrapped) is not dict or words not in wrapped.values()


def _has_several_fields(text: str) -> bool:
    """Whether the text spells an object that cannot be a wrapping; most are."""
    try:
        return len(_read_fields(text)) > 1
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


def _is_wrapping(text: str) -> bool:
    value = decode_json(text)
    if len(value) != 1:
        return False
    return _says_error(value) or type(value.get(OUTPUT)) in (str, list)


def _says_error(response: Object) -> bool:
    return response.get(ERROR) is not None and response[ERROR] is not False
