"""Rules of OpenAI's two APIs for tools: how many, their names and their schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from cannery.doctor.contract import SETTINGS, Broken, Check, Judged, Object
from cannery.doctor.json_paths import at, shown, walk
from cannery.doctor.providers._openai_models import model_of
from cannery.doctor.providers._openai_shared import NAME, Found, rename
from cannery.doctor.shared import (
    close_object,
    drop,
    duplicate_names,
    illegal_names,
    open_objects,
    schema_problems,
)
from cannery.wire.places import Path

_MOST = 128
_STRICT = "https://platform.openai.com/docs/guides/structured-outputs"
_READ = "2026-11-15"
_NOW = "2026-11-18"
Find: TypeAlias = Callable[[Judged], Iterator[Broken]]


def tool_checks(
    functions: Callable[[Judged], Found],
    named: Callable[[Judged], list[tuple[Path, Any]]],
    page: str,
) -> tuple[Check, ...]:
    """The rules for the functions of a body, and for the names of all its tools."""

    def own(judged: Judged) -> Found:
        """The functions, for a model of OpenAI; other models do not enforce strict schemas."""
        return functions(judged) if model_of(judged.model) else ()

    def names(judged: Judged) -> Iterator[Broken]:
        yield from illegal_names(named(judged), NAME)

    def twice(judged: Judged) -> Iterator[Broken]:
        for path, text in duplicate_names(named(judged)):
            yield path[:2], text

    return (
        Check(
            "tool-count",
            _too_many,
            "server error 'tools: array too long. Expected an array with maximum length 128' "
            "(zed-industries/zed#42393)",
            _NOW,
            SETTINGS,
        ),
        Check("tool-duplicate", twice, "server errors quoted in public", _READ, SETTINGS, fix=drop),
        Check(
            "schema-type",
            _not_objects(functions),
            "server error 'invalid_function_parameters'",
            _READ,
            SETTINGS,
        ),
        Check(
            "schema-items",
            _without_items(functions),
            "server error 'array schema missing items'",
            _READ,
            SETTINGS,
        ),
        Check("schema-open", _open(own), _STRICT, _READ, SETTINGS, fix=close_object),
        Check("schema-required", _unrequired(own), _STRICT, _READ, SETTINGS, fix=_require_all),
        Check("tool-name", names, page, _READ, SETTINGS, fix=rename),
    )


def _too_many(judged: Judged) -> Iterator[Broken]:
    """More tools than a request may have."""
    tools = judged.body.get("tools")
    if isinstance(tools, list) and len(tools) > _MOST:
        yield ("tools",), f"{len(tools)} tools; {_MOST} are allowed"


def _not_objects(functions: Callable[[Judged], Found]) -> Callable[[Judged], Iterator[Broken]]:
    """Schemas of functions whose type is not object."""

    def find(judged: Judged) -> Iterator[Broken]:
        for path, function in functions(judged):
            schema, where = function.get("parameters"), (*path, "parameters")
            # An empty schema means that there are no parameters.
            if schema not in (None, {}):
                yield from schema_problems(schema, where, needs_type=True)

    return find


def _without_items(
    functions: Callable[[Judged], Found],
) -> Callable[[Judged], Iterator[Broken]]:
    """Arrays in schemas without ``items``."""

    def find(judged: Judged) -> Iterator[Broken]:
        for path, function in functions(judged):
            for where, schema in walk(function.get("parameters"), (*path, "parameters")):
                is_schema = where[-1] not in ("properties", "$defs", "definitions")
                if is_schema and schema.get("type") == "array" and _has_no_items(schema):
                    yield where, "a list in a schema needs items"

    return find


def _has_no_items(schema: Object) -> bool:
    return not any(key in schema for key in ("items", "prefixItems", "contains", "$ref"))


def _open(functions: Callable[[Judged], Found]) -> Callable[[Judged], Iterator[Broken]]:
    """Strict functions whose objects are open, or leave a property out of ``required``."""

    def find(judged: Judged) -> Iterator[Broken]:
        for path, function in functions(judged):
            if function.get("strict") is True:
                where = (*path, "parameters")
                yield from open_objects(function.get("parameters"), where)

    return find


def _unrequired(functions: Callable[[Judged], Found]) -> Callable[[Judged], Iterator[Broken]]:
    """Properties of strict functions that are not in ``required``."""

    def find(judged: Judged) -> Iterator[Broken]:
        for path, function in functions(judged):
            if function.get("strict") is not True:
                continue
            for where, schema in walk(function.get("parameters"), (*path, "parameters")):
                inner = schema.get("properties")
                if where[-1] != "properties" and isinstance(inner, dict):
                    left = [name for name in inner if name not in (schema.get("required") or ())]
                    if left:
                        yield (
                            where,
                            f"a strict schema requires every property; {shown(left[0])} is not",
                        )

    return find


def _require_all(judged: Judged, path: Path) -> str | None:
    """Require every property of an object."""
    schema = at(judged.body, path)
    schema["required"] = list(schema["properties"])
    return "required every property"
