"""Gemini's two spellings of every key, and the shapes that a client chose where the wire allows several.

The server takes camelCase and snake_case at every level, and the official SDK mixes both in one body. Reading finds a
key in either spelling; writing says camelCase unless the residue remembers otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

NAME = "gemini_generate"
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
    found = holder.get(key)
    return holder.get(snake(key)) if found is None and key not in holder else found


def usual_keys(holder: Object) -> Object:
    """An object with its keys in camelCase, which is taken where it has both spellings."""
    others = {
        usual: key
        for key in holder
        if (usual := camel(key)) != key and usual not in holder and snake(usual) == key
    }
    if not others:
        return holder
    return {**holder, **{usual: holder[key] for usual, key in others.items()}}


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
