"""Attributes beside messages: model, settings and tools of a request, ids and usage of a response.

Messages, instructions and tools may be lists or their JSON text, because not every exporter accepts structured
attributes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.errors import MessageError
from cannery.messages.absence import absent
from cannery.messages.checked import CheckedStruct
from cannery.messages.json_text import decode_json, is_json_object, write_json
from cannery.messages.requests import (
    Controls,
    OutputFormat,
    Request,
    Response,
    Thinking,
    Tool,
    ToolChoice,
    Usage,
    new_controls,
    new_output_format,
    new_tool,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, Reader, encode
from cannery.wire.controls import given_controls, integer, number
from cannery.wire.places import Path, path_text
from cannery.wire.residues import own_residue, recall, set_again
from cannery.wire.tools import take_facts

NAME = "otel_genai"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
TOOLS = "gen_ai.tool.definitions"
# Lists that are omitted if empty.
_MAY_LACK = (INSTRUCTIONS, TOOLS)
MODEL = "gen_ai.request.model"
STREAM = "gen_ai.request.stream"
OUTPUT_TYPE = "gen_ai.output.type"
# What another dialect expressed beyond the model.
RESIDUE = "cannery.residue"
# The dialect that a body was written from.
SOURCE = "cannery.source"
TOOL_CHOICE = "cannery.tool_choice"
# The settings in the conventions, with the readers of their values.
_CONTROLS: dict[str, tuple[str, Any]] = {
    "gen_ai.request.max_tokens": ("max_tokens", integer),
    "gen_ai.request.temperature": ("temperature", number),
    "gen_ai.request.top_p": ("top_p", number),
    "gen_ai.request.top_k": ("top_k", integer),
    "gen_ai.request.seed": ("seed", integer),
    "gen_ai.request.presence_penalty": ("presence_penalty", number),
    "gen_ai.request.frequency_penalty": ("frequency_penalty", number),
    "gen_ai.request.choice.count": ("candidates", integer),
}
_STOP = "gen_ai.request.stop_sequences"
_NAMES = {name: key for key, (name, _) in _CONTROLS.items()}
# Settings that the conventions do not have, in the form of the model.
_MORE = "cannery.controls."
_MORE_KINDS: dict[str, Any] = {
    "parallel_calls": bool,
    "output": OutputFormat,
    "thinking": Thinking,
    "metadata": str,
    "user": str,
    "include_usage": bool,
}
_USAGE = {
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
INPUT_TOKENS, OUTPUT_TOKENS = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"

CONTROL_PATHS: dict[str, str] = {
    name: path_text((key,))
    for name, key in {
        **_NAMES,
        **{name: f"{_MORE}{name}" for name in _MORE_KINDS},
        "stop": _STOP,
        "tool_choice": TOOL_CHOICE,
        "model": MODEL,
    }.items()
}


# --- reading -----------------------------------------------------------------------------------


def take(left: Object, key: str, read: Any) -> Any:
    """Take a value that a reader understands; absent otherwise."""
    value = read(left.get(key))
    if value is not absent:
        del left[key]
    return value


def take_list(reader: Reader, left: Object, key: str, spelled: dict[str, str]) -> list[Any] | None:
    """A list, given as such or as JSON text, which ``spelled`` records; None if there is none."""
    value = left.get(key)
    if value is None or (value == [] and key in _MAY_LACK):
        return None
    del left[key]
    if type(value) is not str:
        return reader.list(value, (key,))
    try:
        found = decode_json(value)
    except ValueError:
        found = None
    if type(found) is not list:
        reader.fail((key,), "expected a list, or the JSON text of one")
    spelled[key] = value
    return found


def take_controls(left: Object) -> Controls:
    """The settings of a request."""
    given: dict[str, Any] = {}
    for key in [*left]:
        if key in _CONTROLS:
            name, read = _CONTROLS[key]
            value = take(left, key, read)
            if value is not absent:
                given[name] = value
    if _STOP in left:
        value = left[_STOP]
        if type(value) is list and all(type(item) is str for item in value):
            given["stop"] = tuple(left.pop(_STOP))
    if left.get(OUTPUT_TYPE) in ("text", "json"):
        given["output"] = new_output_format(left.pop(OUTPUT_TYPE))
    for name, kind in _MORE_KINDS.items():
        key = f"{_MORE}{name}"
        value = converted(left[key], kind) if key in left else None
        if value is not None and name not in given:
            given[name] = value
            del left[key]
    return new_controls(**given)  # type: ignore[no-any-return]


def is_usual_object(text: str) -> bool:
    """Whether arguments are the text that we would write for their object."""
    return text[:1] == "{" and is_json_object(text) and write_json(decode_json(text)) == text


def converted(value: Any, kind: Any) -> Any:
    """A JSON value converted to a type of ours; None if it does not fit."""
    try:
        if isinstance(kind, type) and issubclass(kind, CheckedStruct):
            return kind(**value)
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, MessageError, TypeError):
        return None


def take_choice(left: Object) -> Any:
    """The tool choice."""
    choice = converted(left[TOOL_CHOICE], ToolChoice) if TOOL_CHOICE in left else None
    if choice is None:
        return absent
    del left[TOOL_CHOICE]
    return choice


def read_tool(reader: Reader, item: Any, path: Path) -> Tool:
    """One tool definition."""
    tool = reader.object(item, path)
    kind, name = tool.get("type"), tool.get("name")
    if kind not in ("function", "custom") or type(name) is not str or not name:
        shown = kind if type(kind) is str and kind else "unknown"
        called = name if type(name) is str and name else shown
        keys = {"type", "name", "cannery.hosted"}
        if kind == "hosted" and keys <= tool.keys() <= {*keys, RESIDUE}:
            kept = converted(tool[RESIDUE], Residue) if RESIDUE in tool else None
            if RESIDUE not in tool or kept is not None:
                hosted = write_json(tool["cannery.hosted"])
                return new_tool(called, hosted=hosted, residue=kept)  # type: ignore[no-any-return]
        return new_tool(called, hosted=write_json(tool))  # type: ignore[no-any-return]
    del tool["type"], tool["name"]
    facts = take_facts(tool, strict="cannery.strict")
    grammar = take(
        tool, "format", lambda value: write_json(value) if type(value) is dict else absent
    )
    residue = None
    if tool:
        found = converted(tool.get(RESIDUE), Residue) if tool.keys() == {RESIDUE} else None
        residue = found or Residue(NAME, write_json(set_again(tool)))
    is_freeform = kind == "custom"
    return new_tool(name, *facts, is_freeform, grammar, absent, residue)  # type: ignore[no-any-return]


def take_usage(left: Object) -> Any:
    """The usage of a response."""
    if type(left.get(INPUT_TOKENS)) is not int or type(left.get(OUTPUT_TOKENS)) is not int:
        return absent
    counts = {name: take(left, key, integer) for name, key in _USAGE.items()}
    return Usage(left.pop(INPUT_TOKENS), left.pop(OUTPUT_TOKENS), **counts)


# --- writing -----------------------------------------------------------------------------------


def write_controls(controls: Controls) -> Object:
    """The settings of a request; those that the conventions lack have names of ours."""
    body: Object = {}
    for name, value in given_controls(controls):
        if name in _NAMES:
            body[_NAMES[name]] = value
        elif name == "stop":
            body[_STOP] = list(value)
        elif name == "output" and value in (OutputFormat("text"), OutputFormat("json")):
            body[OUTPUT_TYPE] = value.kind
        else:
            body[f"{_MORE}{name}"] = plain(value)
    return body


def plain(value: Any) -> Any:
    """A value of ours as JSON, without absent fields."""
    if not isinstance(value, msgspec.Struct):
        return list(value) if type(value) is tuple else value
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return {
        name: plain(held)
        for name, held in fields.items()
        if held is not absent and held is not None
    }


def write_tool(tool: Tool) -> Object:
    """One tool definition."""
    if isinstance(tool.hosted, str):
        found = decode_json(tool.hosted)
        if tool.residue is None and type(found) is dict and _is_definition(found):
            return found
        hosted = {"type": "hosted", "name": tool.name, "cannery.hosted": found}
        return hosted if tool.residue is None else {**hosted, RESIDUE: plain(tool.residue)}
    written: Object = {"type": "custom" if tool.is_freeform else "function", "name": tool.name}
    if isinstance(tool.description, str):
        written["description"] = tool.description
    if isinstance(tool.schema, str):
        written["parameters"] = decode_json(tool.schema)
    if isinstance(tool.grammar, str):
        written["format"] = decode_json(tool.grammar)
    if tool.strict is not absent:
        written["cannery.strict"] = tool.strict
    residue = own_residue(tool, NAME)
    if residue is not None:
        return recall(written, residue.part)  # type: ignore[no-any-return]
    if tool.residue is not None:
        written[RESIDUE] = plain(tool.residue)
    return written


def _is_definition(tool: Object) -> bool:
    """Whether a provider's tool can be expressed in the conventions so that reading leaves it alone."""
    kind, name = tool.get("type"), tool.get("name")
    is_known = kind in ("function", "custom", "hosted")
    return type(kind) is str and type(name) is str and bool(name) and not is_known


def write_usage(usage: Usage) -> Object:
    """Write the usage of a response."""
    more = {key: getattr(usage, name) for name, key in _USAGE.items()}
    counted = {key: value for key, value in more.items() if value is not absent}
    return {INPUT_TOKENS: usage.input, OUTPUT_TOKENS: usage.output, **counted}


# --- what stands around ------------------------------------------------------------------------


def around(left: Object, spelled: dict[str, str]) -> tuple[str, Residue | None]:
    """The dialect that a body was written from, and its residue: what only that dialect has, or this one.

    Attributes that only this dialect has make the body one of its own.
    """
    source, kept = left.get(SOURCE), left.get(RESIDUE)
    if type(source) is str and source and not spelled and left.keys() <= {SOURCE, RESIDUE}:
        residue = None if kept is None else converted(kept, Residue)
        if RESIDUE not in left or residue is not None:
            return source, residue
    if not left and not spelled:
        return NAME, None
    envelope = write_json(set_again(left)) if left else None
    return NAME, Residue(NAME, None, envelope, write_json(spelled) if spelled else None)


def write_around(body: Object, value: Request | Response) -> Object:
    """A body with the residue around it."""
    residue = own_residue(value, NAME)
    if residue is not None:
        return recall(body, residue.envelope)  # type: ignore[no-any-return]
    if value.source not in (None, NAME):
        body[SOURCE] = value.source
    if value.residue is not None:
        body[RESIDUE] = plain(value.residue)
    return body


def spellings(value: Request | Response) -> dict[str, str]:
    """The spelling of a value in a body, by its key."""
    residue = own_residue(value, NAME)
    return decode_json(residue.form) if residue is not None and residue.form else {}


def respell(body: Object, spelled: dict[str, str]) -> None:
    """Write lists as their original text, if it has the same meaning."""
    for key, given in spelled.items():
        if type(body.get(key)) is list:
            written = encode(body[key])
            is_same = _in_order(written) == _in_order(given)
            body[key] = given if is_same else written.decode()


def _in_order(text: str | bytes) -> bytes:
    """JSON text with sorted keys, for comparison."""
    return msgspec.json.encode(decode_json(text), order="sorted")
