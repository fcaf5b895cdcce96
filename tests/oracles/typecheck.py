"""A strict walker of Python type hints over JSON values, with nothing lazy and nothing coerced.

`pydantic.TypeAdapter` validates `Iterable[...]` lazily and lets unknown keys of a `TypedDict` pass,
so it proves nothing about SDK parameters. This walker goes through TypedDicts and pydantic models
alike: every list is walked, every unknown key is a problem, `"1"` is no int and `True` is no int.
A hint that it does not know raises, so that no part of a body is ever skipped unseen.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import datetime as dt
import enum
import inspect
import io
import os
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Union

import pydantic
import typing_extensions as te

LISTS = (list, collections.abc.Iterable, collections.abc.Sequence, collections.abc.Collection)
DICTS = (dict, collections.abc.Mapping)
_NOT_JSON = (io.IOBase, os.PathLike, typing.IO)
_WRAPPERS = (te.Required, te.NotRequired, te.ReadOnly)
_TAGS = ("type", "role", "object")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


@dataclass(frozen=True)
class Key:
    """One key of an object type."""

    names: tuple[str, ...]
    hint: Any
    required: bool


@dataclass(frozen=True)
class Walker:
    """How to read hints: `proto` = protobuf JSON, `models` = pydantic models count in unions."""

    proto: bool = False
    models: bool = True
    loose_enums: frozenset[str] = frozenset()
    closed_keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    wire_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    # Members of unions that stand for what was not given or is not known, by their names.
    left_out: frozenset[str] = frozenset()

    def check(self, hint: Any, value: Any, path: str = "$") -> list[str]:
        """The problems of `value` against `hint`, each with its path."""
        hint = unwrap(hint)
        origin = te.get_origin(hint)
        if hint is Any or hint is object:
            return []
        if hint is None or hint is type(None):
            return [] if value is None else [f"{path}: should be null"]
        if origin in (Union, types.UnionType):
            return self._union(te.get_args(hint), value, path)
        if origin is te.Literal:
            return self._literal(te.get_args(hint), value, path)
        if hint in LISTS or origin in LISTS:
            return self._list(te.get_args(hint), value, path)
        if hint in DICTS or origin in DICTS:
            return self._dict(te.get_args(hint), value, path)
        if is_object(hint):
            return self._object(hint, value, path)
        return self._scalar(hint, value, path)

    def _scalar(self, hint: Any, value: Any, path: str) -> list[str]:
        if origin_is_not_json(hint):
            return [f"{path}: no JSON value fits {hint}"]
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return self._enum(hint, value, path)
        test = _SCALARS.get(hint)
        if test is None:
            raise TypeError(f"{path}: the walker knows no hint {hint!r}")
        if self.proto and hint is int and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
            return []
        return [] if test(value) else [f"{path}: {_show(value)} is no {hint.__name__}"]

    def _enum(self, hint: type[enum.Enum], value: Any, path: str) -> list[str]:
        members = [member.value for member in hint]
        if hint.__name__ in self.loose_enums and isinstance(value, str):
            value = value.upper()
        return [] if value in members else [f"{path}: {_show(value)} is no {hint.__name__}"]

    def _literal(self, allowed: tuple[Any, ...], value: Any, path: str) -> list[str]:
        if any(type(value) is type(item) and value == item for item in allowed):
            return []
        return [f"{path}: {_show(value)} is none of {list(allowed)}"]

    def _list(self, args: tuple[Any, ...], value: Any, path: str) -> list[str]:
        if not isinstance(value, list):
            return [f"{path}: {_show(value)} is no list"]
        item = args[0] if args else Any
        return [p for i, each in enumerate(value) for p in self.check(item, each, f"{path}[{i}]")]

    def _dict(self, args: tuple[Any, ...], value: Any, path: str) -> list[str]:
        if not isinstance(value, dict):
            return [f"{path}: {_show(value)} is no object"]
        item = args[1] if args else Any
        return [p for k, each in value.items() for p in self.check(item, each, f"{path}.{k}")]

    def _object(self, hint: Any, value: Any, path: str) -> list[str]:
        if not isinstance(value, dict):
            return [f"{path}: {_show(value)} is no {hint.__name__} object"]
        keys = [self._named(hint, key) for key in keys_of(hint)]
        keys = [key for key in keys if key.names[0] not in self._closed(hint)]
        return list(self._known(keys, value, path)) + self._unknown(hint, keys, value, path)

    def _named(self, hint: Any, key: Key) -> Key:
        other = self.wire_names.get((hint.__name__, key.names[0]))
        return Key((*key.names, other), key.hint, key.required) if other else key

    def _closed(self, hint: Any) -> frozenset[str]:
        return self.closed_keys.get(hint.__name__, frozenset())

    def _known(self, keys: list[Key], value: dict[str, Any], path: str) -> Iterator[str]:
        for key in keys:
            present = [name for name in key.names if name in value]
            if len(present) > 1:
                yield f"{path}: both {present[0]} and {present[1]} are given"
            if not present and key.required:
                yield f"{path}: {key.names[0]} is missing"
            for name in present:
                yield from self.check(key.hint, value[name], f"{path}.{name}")

    def _unknown(self, hint: Any, keys: list[Key], value: dict[str, Any], path: str) -> list[str]:
        if allows_extra(hint):
            return []
        known = {name for key in keys for name in key.names}
        unknown = [name for name in value if name not in known]
        return [f"{path}.{name}: {hint.__name__} has no such key" for name in unknown]

    def _union(self, options: tuple[Any, ...], value: Any, path: str) -> list[str]:
        options = tuple(o for option in options for o in flatten(option))
        if not self.models:
            options = tuple(o for o in options if not is_model(o))
        options = tuple(o for o in options if getattr(o, "__name__", "") not in self.left_out)
        fitting = [option for option in options if _may_fit(option, value)]
        if not fitting:
            return [f"{path}: {_show(value)} fits no member of the union"]
        found = [self.check(option, value, path) for option in fitting]
        return min(found, key=len)


def is_model(hint: Any) -> bool:
    """Whether the hint is a pydantic model."""
    return isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def is_object(hint: Any) -> bool:
    """Whether the hint describes an object with named keys."""
    return is_model(hint) or te.is_typeddict(hint)


def origin_is_not_json(hint: Any) -> bool:
    """Whether the hint is a Python-only input such as an open file or a path."""
    origin = te.get_origin(hint) or hint
    return origin in _NOT_JSON


def allows_extra(hint: Any) -> bool:
    """Whether the SDK itself declares the object open to unknown keys."""
    if is_model(hint):
        return "__pydantic_extra__" in inspect.get_annotations(hint)
    config = getattr(hint, "__pydantic_config__", None) or {}
    return config.get("extra") == "allow" or getattr(hint, "__extra_items__", None) is object


@cache
def keys_of(hint: Any) -> tuple[Key, ...]:
    """The keys of an object type with their wire names."""
    return tuple(_model_keys(hint) if is_model(hint) else _typeddict_keys(hint))


def decodes_as_base64(text: Any) -> bool:
    """Whether the text is base64 in either alphabet, padded or not."""
    if not isinstance(text, str) or not _BASE64.fullmatch(text):
        return False
    bare = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except binascii.Error:
        return False
    return True


def _model_keys(hint: type[pydantic.BaseModel]) -> Iterator[Key]:
    for name, info in hint.model_fields.items():
        alias = info.alias or name
        names = (alias, name) if hint.model_config.get("populate_by_name") else (alias,)
        yield Key(tuple(dict.fromkeys(names)), info.annotation, info.is_required())


def _typeddict_keys(hint: Any) -> Iterator[Key]:
    for name, annotation in te.get_type_hints(hint, include_extras=True).items():
        origin: Any = te.get_origin(annotation)
        marked = origin in (te.Required, te.NotRequired)
        required = origin is te.Required if marked else name in hint.__required_keys__
        yield Key((_alias(annotation) or name,), annotation, required)


def _alias(annotation: Any) -> str | None:
    """The wire name that an SDK puts beside a key whose name Python reserves."""
    while te.get_origin(annotation) in _WRAPPERS:
        annotation = te.get_args(annotation)[0]
    for item in getattr(annotation, "__metadata__", ()):
        alias = getattr(item, "alias", None)
        if isinstance(alias, str):
            return alias
    return None


def unwrap(hint: Any) -> Any:
    """A hint without what only annotates it."""
    while True:
        origin = te.get_origin(hint)
        if origin in (*_WRAPPERS, te.Annotated):
            hint = te.get_args(hint)[0]
        elif isinstance(origin, te.TypeAliasType):
            hint = origin.__value__[te.get_args(hint)]
        elif isinstance(hint, te.TypeAliasType):
            hint = hint.__value__
        else:
            return hint


def flatten(option: Any) -> Iterator[Any]:
    """The members of a union, and of the unions in it."""
    option = unwrap(option)
    if te.get_origin(option) in (Union, types.UnionType):
        for inner in te.get_args(option):
            yield from flatten(inner)
    else:
        yield option


def _may_fit(option: Any, value: Any) -> bool:
    """Whether the option is worth reporting on: right JSON kind, and no tag that contradicts."""
    origin = te.get_origin(option)
    if is_object(option):
        return isinstance(value, dict) and _tags_fit(option, value)
    if option in DICTS or origin in DICTS:
        return isinstance(value, dict)
    if option in LISTS or origin in LISTS:
        return isinstance(value, list)
    return not isinstance(value, dict | list) or option in (Any, object)


def _tags_fit(option: Any, value: dict[str, Any]) -> bool:
    for key in keys_of(option):
        name = key.names[0]
        hint = unwrap(key.hint)
        is_tag = name in _TAGS and te.get_origin(hint) is te.Literal
        if is_tag and name in value and value[name] not in te.get_args(hint):
            return False
    return True


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    try:
        dt.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


_SCALARS: dict[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    float: _is_number,
    bytes: decodes_as_base64,
    dt.datetime: _is_time,
}
