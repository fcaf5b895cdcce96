"""Gemini's two spellings of every key, and what reading remembers of the one that a client chose.

The server takes camelCase and snake_case at every level, and the official SDK mixes both in one body. Reading takes a
key in either spelling; writing says camelCase unless the residue remembers otherwise. Shapes that are not keys (one
object where a list is usual) are words of the residue's form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from msgspec import Raw, ValidationError
from msgspec.json import format as compact

from cannery.messages.json_text import decode_json, decode_vast, write_json
from cannery.wire.bodies import decode

NAME = "gemini_generate"
SIGNATURE = "thoughtSignature"
MISSING: Any = object()
Object = dict[str, Any]
_HUMP = re.compile(r"[A-Z]")
_UNDERSCORE = re.compile(r"_([a-z0-9])")
_NAME_MARK = "name:"
_BLANK = frozenset(" \t\r\n")


@lru_cache(maxsize=512)
def camel(key: str) -> str:
    """The usual spelling of a key."""
    return _UNDERSCORE.sub(lambda found: found[1].upper(), key)


@lru_cache(maxsize=512)
def snake(key: str) -> str:
    """The other spelling of a key."""
    return _HUMP.sub(lambda found: "_" + found[0].lower(), key)


def both(keys: Iterable[str]) -> dict[str, str]:
    """The usual spelling of keys, by either spelling."""
    return {spelling: key for key in keys for spelling in (snake(key), key)}


def spelled(holder: Object, key: str) -> str:
    """The key as the holder spells it; camelCase where it has both or neither."""
    if key in holder:
        return key
    other = snake(key)
    return other if other in holder else key


def get(holder: Any, key: str) -> Any:
    """The value of a key in either spelling; None where there is none."""
    if type(holder) is not dict:
        return None
    found = holder.get(key, MISSING)
    return plain(holder.get(snake(key)) if found is MISSING else found)


def plain(value: Any) -> Any:
    """A value that a decoder may have left as JSON text; a number that is too large to be held stays text."""
    if type(value) is not Raw:
        return value
    try:
        return decode(value)
    except ValidationError:
        return decode_vast(str(value, "utf-8"))


def json_text(value: Any) -> str:
    """The compact JSON text of a value; numbers as the body spells them, where a decoder left it as text.

    Escaped characters are spelled out: clients that write ASCII only would else make models read escapes.
    """
    if type(value) is not Raw:
        return write_json(value)
    text = str(value, "utf-8")
    if "\\u" in text:
        return write_json(plain(value))
    # Serializers write spaces everywhere or nowhere, so the first key tells.
    if text[0] == "{" and text[1] not in _BLANK and text[text.find('":') + 2] not in _BLANK:
        return text
    return compact(text, indent=-1)


def whole_value(value: Any) -> Any:
    """A value of which nothing is left as text, at any level."""
    return decode_json(write_json(value))


def make_patch(
    left: Object,
    dropped: list[str] | None = None,
    renamed: dict[str, str] | None = None,
    inner: Object | None = None,
) -> Object | None:
    """The patch (``wire.delta``) of an object that was read; None if it is as it would be written.

    ``left`` was not taken, ``dropped`` must not be written, ``renamed`` was spelled otherwise, and ``inner`` are the
    patches of inner objects by their usual keys.
    """
    patch: Object = {}
    if renamed:
        patch["r"] = renamed
    if inner:
        patch["d"] = inner
    if left:
        patch["s"] = left
    if dropped:
        patch["x"] = dropped
    return patch or None


def nested_patch(key: str, usual: str, inner: Object | None, left: Object) -> Object | None:
    """The patch of an object with one inner object under a key and its patch, and nothing else but what is left."""
    renamed = None if key == usual else {usual: key}
    return make_patch(left, None, renamed, None if inner is None else {usual: inner})


def write_form(shapes: Iterable[str], name: str | None = None) -> str | None:
    """The shapes of a message and the name on a result as the form of a residue."""
    tokens = [shape for shape in shapes if shape]
    if name is not None:
        tokens.append(_NAME_MARK + name)  # always last: a name may hold anything
    return "\n".join(tokens) or None


def read_form(form: str | None) -> tuple[frozenset[str], str | None]:
    """The shapes and the name of a form."""
    if not form:
        return frozenset(), None
    before, found, name = form.partition(_NAME_MARK)
    return frozenset(before.split()), (name if found else None)
