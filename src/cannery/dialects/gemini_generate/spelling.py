"""Gemini's two spellings of every key, and the shapes that a client chose where the wire allows several.

The server takes camelCase and snake_case at every level, and the official SDK mixes both in one body. Reading takes a
key in either spelling; writing says camelCase unless the residue remembers otherwise. Shapes that are not keys (one
object where a list is usual) are words of the residue's form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from msgspec import Raw

from cannery.wire.bodies import decode

NAME = "gemini_generate"
SIGNATURE = "thoughtSignature"
MISSING: Any = object()
Object = dict[str, Any]
_HUMP = re.compile(r"[A-Z]")
_UNDERSCORE = re.compile(r"_([a-z0-9])")
_NAME_MARK = "name:"


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
    return decode(value) if type(value) is Raw else value


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
