"""Forms of Gemini bodies: two spellings of every key, shapes, and taking understood keys out of objects.

The server accepts camelCase and snake_case at every level, and the official SDK mixes both in one body. Reading takes a
key in either spelling; writing uses camelCase unless the residue remembers otherwise. Shapes that are not keys (one
object where a list is usual) are words of the residue's form. The rest of an object becomes a patch (``wire.patches``)
of what writing gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.json import format as compact
from orjson import Fragment

from cannery.families.gemini.reading import MISSING, checks
from cannery.families.gemini.writing import spelled_json
from cannery.messages.absence import absent
from cannery.messages.content import new_data
from cannery.messages.json_text import decode_json, is_json, write_json
from cannery.wire.arguments import object_input, object_text
from cannery.wire.bodies import Object, decode, plain
from cannery.wire.residues import nested

NAME = "gemini_generate"
SIGNATURE = "thoughtSignature"
# The type of a search in the parts that report one.
WEB_SEARCH = "GOOGLE_SEARCH_WEB"
OUTPUT, ERROR = "output", "error"
_read_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_HUMP = re.compile(r"[A-Z]")
_UNDERSCORE = re.compile(r"_([a-z0-9])")
_NAME_MARK = "name:"
_BLANK = frozenset(" \t\r\n")
_QUOTE, _BRACE = ord('"'), ord("{")
NO_SHAPES: frozenset[str] = frozenset()
fail, expect = checks(NAME)


@lru_cache(maxsize=512)
def camel(key: str) -> str:
    """The usual spelling of a key."""
    return _UNDERSCORE.sub(lambda found: found[1].upper(), key)


@lru_cache(maxsize=512)
def snake(key: str) -> str:
    """The other spelling of a key."""
    return _HUMP.sub(lambda found: "_" + found[0].lower(), key)


def both(keys: Iterable[str]) -> dict[str, str]:
    """The usual spellings of keys, by either spelling."""
    return {spelling: key for key in keys for spelling in (snake(key), key)}


def spelled(holder: Object, key: str) -> str:
    """The key as the object spells it; camelCase if it has both or neither."""
    if key in holder:
        return key
    other = snake(key)
    return other if other in holder else key


def get(holder: Any, key: str) -> Any:
    """The value of a key in either spelling; None if it is missing."""
    if type(holder) is not dict:
        return None
    found = holder.get(key, MISSING)
    return plain(holder.get(snake(key)) if found is MISSING else found)


# Shapes of a result that stands in the model's turn, and of a part in one content with a part of another side.
APART, WITHIN = "apart", "within"


def write_form(shapes: Sequence[str], name: str | None = None) -> str | None:
    """The shapes of a message and the name on a result, as the form of a residue."""
    if not shapes:
        return None if name is None else _NAME_MARK + name
    tokens = [shape for shape in shapes if shape]
    if name is not None:
        tokens.append(_NAME_MARK + name)  # Always last: a name may contain any character.
    return "\n".join(tokens) or None


def read_form(residue: Any) -> tuple[frozenset[str], str | None]:
    """The shapes and the name in the form of a residue, if it has any."""
    form = None if residue is None else residue.form
    if not form:
        return NO_SHAPES, None
    before, found, name = form.partition(_NAME_MARK)
    return frozenset(before.split()), (name if found else None)


# --- values ------------------------------------------------------------------------------------


def whole_value(value: Any) -> Any:
    """A value fully decoded, at every level."""
    return decode_json(write_json(value))


def json_text(value: Any) -> str:
    """The compact JSON text of a value; numbers keep the body's spelling if a decoder left them as text.

    Escaped characters are decoded: with clients that write ASCII only, models would otherwise read escapes.
    """
    if type(value) is not Raw:
        return write_json(value)
    text = str(value, "utf-8")
    # Searching for one character is much faster than for two.
    if "\\" in text and "\\u" in text:
        return write_json(plain(value))
    # Serializers write spaces everywhere or nowhere, so the first key decides.
    if text[0] == "{" and text[1] not in _BLANK and text[text.find('":') + 2] not in _BLANK:
        return text
    return compact(text, indent=-1)


def whole(value: Any) -> Any:
    """An integer, also one spelled as digits or as a float (protobuf's JSON accepts all three), or absent."""
    if type(value) is int:
        return value
    if type(value) is str and value.isascii() and value.removeprefix("-").isdecimal():
        return int(value) if len(value) < 19 else absent
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return absent


# --- objects -----------------------------------------------------------------------------------


class Section:
    """An object read by its usual keys (``usual`` maps either spelling to them), and the patch of the rest.

    ``held`` is the object itself, from which keys are taken; ``keys`` are its spellings by usual key.
    """

    def __init__(self, held: Object, usual: Mapping[str, str]) -> None:
        self.held = held
        self.keys = {usual.get(key, key): key for key in held}
        if len(self.keys) < len(held):
            # Some key occurs in both spellings; the usual one counts.
            self.keys.update((key, key) for key in held)
        self.renamed: dict[str, str] = {}
        self.inner: dict[str, Object | None] = {}
        self.dropped: list[str] = []
        self.written: Object = {}

    def get(self, usual: str) -> Any:
        """The value of a key; None if it is missing."""
        key = self.keys.get(usual)
        return None if key is None else plain(self.held[key])

    def take(self, usual: str, written: Any = MISSING) -> str:
        """Take an understood key, for which writing gives ``written``; returns its spelling."""
        key = self.keys[usual]
        if written is not MISSING:
            value = plain(self.held[key])
            if type(value) is str and type(written) is int and value == str(written):
                self.inner[usual] = {"q": True}
            elif type(value) is not type(written) or value != written:
                self.keep(usual, written)
                return key
        del self.held[key]
        if key != usual:
            self.renamed[usual] = key
        return key

    def keep(self, usual: str, written: Any) -> None:
        """Keep a key unchanged, although writing gives ``written``."""
        self.written[usual] = written
        if self.keys.get(usual) != usual:
            self.dropped.append(usual)

    def write(self, usual: str, written: Any) -> None:
        """The same for a key that writing gives, whether it is present or not."""
        if usual in self.keys:
            self.take(usual, written)
        else:
            self.dropped.append(usual)

    def nest(self, usual: str, patch: Object | None) -> None:
        """Add the patch of an inner object."""
        self.take(usual)
        self.inner[usual] = patch

    def patch(self) -> Object | None:
        """The patch of the whole object."""
        return nested(self.held, self.inner, self.dropped, self.renamed)


# --- what a tool answered ----------------------------------------------------------------------
# The response of a tool has to be an object. Any object is itself. Text and lists stand under ``output``, a failure
# under ``error``; text that spells an object becomes that object. An object that reading would take for one of these
# wrappings stands under ``output``. An ``error`` that is null or false says that there is none.


def wrap_text(text: str) -> Any:
    """The response object of a tool that returned text."""
    bare = text.lstrip()
    if bare.startswith("{"):
        if _has_several_fields(text):
            return Fragment(text)
        spelled = spelled_object(text)
        if spelled is not None:
            return {OUTPUT: spelled} if _is_wrapping(text) else spelled
    elif bare.startswith("[") and is_json(text) and "\\u" not in text:
        return {OUTPUT: Fragment(text)}
    return {OUTPUT: text}


def wrap_failure(text: str) -> Any:
    """The response object of a tool that failed with this text; a JSON object or list is used as it is."""
    is_spelled = text.lstrip()[:1] in ("{", "[") and is_json(text)
    return {ERROR: spelled_json(text) if is_spelled else text}


def wrap_data(json: str) -> Any:
    """The response object of a tool that returned a JSON value."""
    return wrap_text(json) if json.lstrip().startswith("{") else {OUTPUT: spelled_json(json)}


def spelled_object(text: str) -> Any:
    """The object in a text, ready for the wire; None if the text is not an object."""
    found = object_text(text)
    return object_input(text) if found is None else found


def words_in(response: Any) -> tuple[str, Any] | None:
    """The text in a response object that holds nothing else, and whether the tool failed."""
    spelled = response if type(response) is Raw else Raw(write_json(response))
    if memoryview(spelled)[0] != _BRACE:
        return None
    fields = _read_fields(spelled)
    if len(fields) != 1:
        return None
    for key in (OUTPUT, ERROR):
        value = fields.get(key)
        if value is not None and memoryview(value)[0] == _QUOTE:
            return decode(value), absent if key == OUTPUT else True
    return None


def unwrap(response: str) -> tuple[Any, Any]:
    """The content of any other response object as text, and whether the tool failed."""
    fields = _read_fields(response)
    if len(fields) == 1:
        ((key, value),) = fields.items()
        text = str(value, "utf-8")
        if key == OUTPUT and (text[0] == "[" or (text[0] == "{" and _is_wrapping(text))):
            return new_data(text), absent
        if key == ERROR and text not in ("null", "false"):
            return new_data(text), True
    return new_data(response), absent


def text_changes(words: str, *, is_failure: bool) -> bool:
    """Whether text under ``output`` or ``error`` would by default be written in another form."""
    if words.lstrip()[:1] not in ("{", "["):
        return False
    wrapped = (wrap_failure if is_failure else wrap_text)(words)
    return type(wrapped) is not dict or words not in wrapped.values()


def _has_several_fields(text: str) -> bool:
    """Whether a text has the shape of an object that cannot be a wrapper, which is the usual case."""
    try:
        return len(_read_fields(text)) > 1
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


def _is_wrapping(text: str) -> bool:
    value = decode_json(text)
    if len(value) != 1:
        return False
    is_failure = value.get(ERROR) is not None and value[ERROR] is not False
    return is_failure or type(value.get(OUTPUT)) in (str, list)
