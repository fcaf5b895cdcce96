"""Places in a source body: the path of a loss, spelled as the body spells it and no longer than it goes."""

from __future__ import annotations

import re
from typing import Any

from cannery.wire.bodies import Object

_INDEX = re.compile(r"\[(\d+)\]")
_CAPITAL = re.compile(r"(?=[A-Z])")
_STEP = re.compile(r"(?:^|\.)(\w+)|\[(\d+)\]")


def chosen(paths: str | tuple[str, ...], body: Object) -> str:
    """The path of a setting: of several that it may have, the first that the body has."""
    if isinstance(paths, str):
        return paths
    return next((path for path in paths if _is_there(body, path)), paths[0])


def _is_there(body: Object, path: str) -> bool:
    value: Any = body
    rest = path
    while rest:
        step = _step(value, rest)
        if step is None:
            return False
        value, _, rest = step
    return True


def fitted(body: Object, path: str) -> str:
    """The path as the body spells it, cut where the body ends; a setting that is not there keeps its path."""
    if _stands(body, path):
        return path
    value: Any = body
    found, rest = "", path
    while rest:
        step = _step(value, rest)
        if step is None:
            return found if "[" in found else found + rest
        value, spelled, rest = step
        found += spelled if found else spelled.removeprefix(".")
    return found


def _stands(value: Any, path: str) -> bool:
    """Whether a path of plain words leads somewhere as it is: nearly all do."""
    end = 0
    for found in _STEP.finditer(path):
        start, after = found.span()
        word, index = found.groups()
        if start != end:
            return False
        if word is not None:
            if type(value) is not dict or word not in value:
                return False
            value = value[word]
        elif type(value) is not list or int(index) >= len(value):
            return False
        else:
            value = value[int(index)]
        end = after
    return end == len(path)


def _step(value: Any, rest: str) -> tuple[Any, str, str] | None:
    """The value behind the next step, the step as it is spelled, and what is left of the path."""
    if rest.startswith("["):
        found = _INDEX.match(rest)
        if found is None or type(value) is not list or int(found[1]) >= len(value):
            return None
        return value[int(found[1])], found[0], rest[found.end() :]
    if type(value) is not dict:
        return None
    rest = rest.removeprefix(".")
    word = re.split(r"[.\[]", rest, maxsplit=1)[0]
    key = next((key for key in (rest, word) if key in value), None)
    if key is None and word != rest:
        key = max((key for key in value if _leads(key, rest)), key=len, default=None)
    if key is not None:
        return value[key], f".{key}", rest[len(key) :]
    # Protobuf's JSON takes camelCase and snake_case alike.
    snake = _CAPITAL.sub("_", word).lower()
    return (value[snake], f".{snake}", rest[len(word) :]) if snake in value else None


def _leads(key: str, rest: str) -> bool:
    return rest.startswith(key) and rest[len(key) : len(key) + 1] in ("", ".", "[")
