"""Calls whose arguments stream: Vertex says them leaf by leaf, each with its JSON path, and ends with an empty call.

``FunctionCall.partial_args`` and ``PartialArg`` of google-genai 3.1.0; the Developer API has neither.
"""

from __future__ import annotations

import re
from typing import Any

from cannery.dialects.gemini_generate.spelling import Object, get, plain, spelled
from cannery.dialects.gemini_generate.taking import list_at, object_at, text_at

# A step of a path by RFC 9535, as far as it names one place.
_STEP = r"""\.([^.\[\]'"\s]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
_PATH = ("candidates", 0, "content", "parts", "functionCall")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class _Words(list[str]):
    """The pieces of a string that came so far."""


def is_fragment(call: Object) -> bool:
    """Whether a call is one of several pieces."""
    return get(call, "partialArgs") is not None or get(call, "willContinue") is not None


class PartialCall:
    """A call under way."""

    def __init__(self) -> None:
        self._part: Object = {}
        self._call: Object = {}
        self._arguments: Object = {}
        # Path -> the pieces of a string, or the last value of another kind.
        self._leaves: dict[str, Any] = {}

    def is_another(self, call: Object) -> bool:
        """Whether a piece belongs to another call than this."""
        return any(get(call, key) not in (None, held) for key, held in self._call.items())

    def add(self, part: Object, call: Object) -> bool:
        """Take a piece; whether more is to come."""
        key = spelled(part, "functionCall")
        self._part |= {name: item for name, item in part.items() if name != key}
        self._call |= {name: found for name in ("id", "name") if (found := get(call, name))}
        arguments, leaves = plain(call.get("args")), get(call, "partialArgs")
        if type(arguments) is dict:
            self._arguments |= arguments
        for leaf in () if leaves is None else list_at(leaves, (*_PATH, "partialArgs")):
            self._add_leaf(object_at(leaf, (*_PATH, "partialArgs")))
        return get(call, "willContinue") is True

    def _add_leaf(self, leaf: Object) -> None:
        path = str(get(leaf, "jsonPath"))
        kind = next((kind for kind in _VALUES if spelled(leaf, kind) in leaf), None)
        if kind is None:
            return
        value = None if kind == "nullValue" else get(leaf, kind)
        if kind != "stringValue":
            self._leaves[path] = value
            return
        words = text_at(value, (*_PATH, "partialArgs", spelled(leaf, kind)))
        before = self._leaves.get(path)
        if type(before) is _Words:
            before.append(words)
        else:
            self._leaves[path] = _Words([words])

    def whole(self) -> Object:
        """The part that all pieces amount to."""
        for path, leaf in self._leaves.items():
            value = "".join(leaf) if type(leaf) is _Words else leaf
            if not _put(self._arguments, _steps(path), value):
                self._arguments[path] = value
        return {**self._part, "functionCall": {**self._call, "args": self._arguments}}


def _steps(path: str) -> list[str | int]:
    """The keys and positions that lead to a place; none if the path names no single place."""
    if re.fullmatch(rf"\$(?:{_STEP})+", path) is None:
        return []
    steps: list[str | int] = []
    for name, position, single, double in re.findall(_STEP, path[1:]):
        quoted = re.sub(r"\\(.)", r"\1", single or double)
        steps.append(int(position) if position else name or quoted)
    return steps


def _put(place: Any, steps: list[str | int], value: Any) -> bool:
    """Put a value where the steps lead, with what is missing on the way; whether that was possible."""
    for count, step in enumerate(steps, 1):
        inner = None
        if type(step) is int and type(place) is list and step <= len(place):
            inner = place[step] if step < len(place) else None
        elif type(step) is str and type(place) is dict:
            inner = place.get(step)
        else:
            return False
        rest = steps[count:]
        if inner is not None and rest:
            place = inner
            continue
        if any(type(later) is int and later for later in rest):
            return False
        for later in reversed(rest):
            value = [value] if type(later) is int else {later: value}
        if type(place) is list and step == len(place):
            place.append(value)
        else:
            place[step] = value
        return True
    return False
