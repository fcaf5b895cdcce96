"""Everything in a Messages request that is not a message: tools, tool choice and controls, both ways.

Reading takes what it understands, and what is left is residue. The same dialect gets back what was read; for another
one the writer gives what the server accepts: a limit is always there, the temperature ends at 1, thinking needs room
below the limit and no forced tool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec
from msgspec import Struct
from orjson import Fragment

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.schemas import held_schema
from cannery.errors import DialectError
from cannery.families.claude.models import samplers
from cannery.families.claude.thinking import (
    make_room,
    take_mode,
    write_own_thinking,
    write_thinking,
)
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    OutputFormat,
    Request,
    Tool,
    ToolChoice,
    new_controls,
    new_output_format,
    new_thinking,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, encode, kind_of, opened, spelled_object
from cannery.wire.controls import (
    FORMAT_NAME,
    distinct,
    drop_control,
    flag,
    given_controls,
    put,
    report_grammar,
    text,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.places import Places, path_text
from cannery.wire.residues import noted, recall
from cannery.wire.schemas import is_strict

Path = tuple[str | int, ...]
CACHE = {"5m": "short", "1h": "long"}
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    "stop": "stop_sequences",
    "parallel_calls": "tool_choice.disable_parallel_tool_use",
    "output": ("output_config.format", "output_format"),
    "thinking": ("thinking", "output_config.effort"),
    "switch": "thinking",
    "effort": "output_config.effort",
    "budget": "thinking.budget_tokens",
    "summary": "thinking.display",
    "user": "metadata.user_id",
    "finish": "stop_reason",
}
# The types of tools that are functions.
_FUNCTIONS = (None, "custom")


class _Parameters(Struct, frozen=True, gc=False):
    """What is looked at of the parameters of a tool."""

    type: Any = None


_OBJECT = '{"type":"object",'
_decode_parameters = msgspec.json.Decoder(_Parameters).decode
MODELLED = frozenset(
    {
        "model",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "thinking",
        "output_config.effort",
        "output_config.format",
        "output_format",
        "metadata.user_id",
        "tools",
        "tool_choice",
        "tool_choice.disable_parallel_tool_use",
    }
)
# The same of an answer.
MODELLED_ANSWER = frozenset(
    {
        "model",
        "id",
        "type",
        "role",
        "stop_reason",
        "stop_sequence",
    }
)
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_CHOICE_WORDS = {mode: word for word, mode in _CHOICES.items()}
_NO_PARAMETERS = {"type": "object", "properties": {}}
_FREEFORM_PARAMETERS = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}

# --- reading -----------------------------------------------------------------------------------


def read_settings(body: Object, places: Places) -> tuple[Any, ...]:
    """The fields of a request behind its conversation: model, tools, choice, controls, stream and residue."""
    found: Object = {}
    patch: Object = {}
    left: Object = {}
    for key, value in body.items():
        kinds = _SCALARS.get(key)
        if kinds is not None and type(value) in kinds:
            found[key] = value
            continue
        take = _TAKERS.get(key)
        rest = value if take is None else take(key, value, found, places)
        if rest is value:
            left[key] = value
        elif rest:
            patch.setdefault("d", {})[key] = rest
    if "output_format" in body and "output" not in found:
        _take_old_format(body, found, patch, places)
    if left:
        patch["s"] = left
    if "mode" in found or "effort" in found:
        found["thinking"] = new_thinking(
            effort=found.pop("effort", absent), **found.pop("mode", {})
        )
    model, stream = found.pop("model", absent), found.pop("stream", absent)
    tools, choice = found.pop("tools", ()), found.pop("tool_choice", absent)
    controls = new_controls(**found) if found else DEFAULT_CONTROLS
    residue = Residue(NAME, None, encode(patch).decode()) if patch else None
    return model, tools, choice, controls, stream, residue


def _take_stop(_key: str, value: Any, found: Object, _: Places) -> Any:
    if type(value) is not list or not value or not all(type(item) is str for item in value):
        return value
    found["stop"] = tuple(value)
    return None


def _take_metadata(_key: str, value: Any, found: Object, _: Places) -> Any:
    if type(value) is not dict or type(value.get("user_id")) is not str:
        return value
    found["user"] = value.pop("user_id")
    return left_of(value)


def _take_choice(_key: str, value: Any, found: Object, _: Places) -> Any:
    if type(value) is not dict:
        return value
    single = value.get("disable_parallel_tool_use")
    if type(single) is bool:
        found["parallel_calls"] = not single
    kind, name = value.get("type"), value.get("name")
    if kind == "tool" and type(name) is str and name:
        found["tool_choice"] = new_tool_choice("named", (name,))
        del value["name"]
    elif type(kind) is str and kind in _CHOICES:
        found["tool_choice"] = new_tool_choice(_CHOICES[kind])
    else:
        return value
    del value["type"]
    if type(single) is bool and kind != "none":
        del value["disable_parallel_tool_use"]
    return left_of(value)


def _take_thinking(_key: str, value: Any, found: Object, places: Places) -> Any:
    places.settings["thinking"] = ("thinking",)
    mode = take_mode(value) if type(value) is dict else None
    if mode is None:
        return value
    found["mode"] = mode
    return left_of(value)


def _take_output_config(key: str, value: Any, found: Object, places: Places) -> Any:
    if type(value) is not dict:
        return value
    if "effort" in value:
        places.settings.setdefault("thinking", (key, "effort"))
        if type(value["effort"]) is str:
            found["effort"] = value.pop("effort")
    rest: Object | None = None
    if "format" in value:
        places.settings["output"] = (key, "format")
        rest = _take_format(value["format"], found)
        if rest is not None:
            del value["format"]
    if rest is None and "effort" not in found:
        return value
    patch = left_of(value) or {}
    return {"d": {"format": rest}, **patch} if rest else patch


def _take_format(value: Any, found: Object) -> Object | None:
    """Take the format of the answer and give what is left of it; None if it is not taken."""
    schema = value.get("schema") if type(value) is dict else None
    if type(schema) is not dict or value.get("type") != "json_schema":
        return None
    strict = is_strict(schema) or absent
    found["output"] = new_output_format("schema", write_json(schema), strict=strict)
    del value["type"], value["schema"]
    return left_of(value) or {}


def _take_old_format(body: Object, found: Object, patch: Object, places: Places) -> None:
    """Take a format under its former name; written anew it stands in ``output_config``."""
    if places.settings.setdefault("output", ("output_format",)) != ("output_format",):
        return
    if _take_format(_copied(body["output_format"]), found) is None:
        return
    written = {"format": _own_format(found["output"])}
    if "output_config" in patch.get("d", {}) or "effort" in found:
        inner = patch.setdefault("d", {}).setdefault("output_config", {})
        inner.update(x=["format"], w=noted(written))
        return
    patch["w"] = noted({"output_config": written})
    if "output_config" not in body:
        patch["x"] = ["output_config"]


def _copied(value: Any) -> Any:
    return {**value} if type(value) is dict else value


def _take_tools(key: str, value: Any, found: Object, _: Places) -> Any:
    if value is None or value == []:
        return value
    if type(value) is not list:
        refuse((key,), f"expected a list, got {kind_of(value)}")
    for index, item in enumerate(value):
        if type(item) is not dict:
            refuse((key, index), f"expected an object, got {kind_of(item)}")
    found["tools"] = tuple(map(_read_tool, value))
    return None


def _read_tool(item: Object) -> Tool:
    name, schema, mark = item.get("name"), item.get("input_schema"), None
    if "cache_control" in item:
        item["cache_control"] = opened(item["cache_control"])
        mark = read_mark(item)
    if item.get("type") not in _FUNCTIONS or type(name) is not str or type(schema) is not dict:
        words = [word for word in (name, item.get("type")) if type(word) is str and word]
        own = Residue(NAME, None, None, "hosted", None, mark)
        hosted = spelled_object(item)
        return new_tool(words[0] if words else "unknown", hosted=hosted, residue=own)  # type: ignore[no-any-return]
    del item["name"], item["input_schema"]
    description, strict = text(item.get("description")), flag(item.get("strict"))
    if description is not absent:
        del item["description"]
    if strict is not absent:
        del item["strict"]
    residue = None
    if item:
        residue = Residue(NAME, encode({"s": item}).decode(), None, None, None, mark)
    return new_tool(  # type: ignore[no-any-return]
        name, description, spelled_object(schema), strict, residue=residue
    )


def read_mark(block: Object) -> str | None:
    """The cache mark of a block or tool in words that every dialect understands."""
    mark = block.get("cache_control")
    return CACHE.get(str(mark.get("ttl")), "short") if type(mark) is dict else None


def refuse(path: Path, problem: str) -> NoReturn:
    """Refuse a body."""
    raise DialectError(NAME, path_text(path), problem)


def left_of(value: Object) -> Object | None:
    """The patch for what was not taken of an object."""
    return {"s": value} if value else None


_SCALARS: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "stream": (bool,),
    "max_tokens": (int,),
    "temperature": (int, float),
    "top_p": (int, float),
    "top_k": (int,),
}
_TAKERS: dict[str, Callable[[str, Any, Object, Places], Any]] = {
    "stop_sequences": _take_stop,
    "metadata": _take_metadata,
    "tool_choice": _take_choice,
    "thinking": _take_thinking,
    "output_config": _take_output_config,
    "tools": _take_tools,
}

# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report, messages: Sequence[Any] = ()) -> Object:
    """Every field of the body but system and messages, which may leave no room for thinking."""
    is_same = request.source == NAME
    controls = request.controls
    body: Object = {}
    put(body, "model", request.model)
    names = _write_tools(request, body, report, is_same=is_same) if request.tools else set()
    if request.tool_choice is not absent or controls.parallel_calls is not absent:
        _write_choice(request, body, report, names, is_same=is_same)
    if not is_same:
        # Settled when thinking is known.
        body["max_tokens"] = None
    if controls is not DEFAULT_CONTROLS:
        for name, value in given_controls(controls):
            write = _WRITERS.get(name)
            if write is not None:
                write(name, value, body, report, is_same)
            elif not is_same and name not in _ELSEWHERE:
                drop_control(name, value, report)
    put(body, "stream", request.stream)
    if not is_same:
        make_room(body, messages, report)
    return body


def _write_limit(name: str, value: Any, body: Object, _: Report, _is_same: bool) -> None:  # noqa: FBT001 - see _WRITERS
    body[name] = value


def _write_sampler(name: str, value: Any, body: Object, report: Report, is_same: bool) -> None:  # noqa: FBT001 - the same
    if not is_same:
        if not samplers(body.get("model")):
            drop_control(name, value, report, f"this model takes no {name}")
            return
        if name != "top_k" and not 0 <= value <= 1:
            value = min(max(value, 0), 1)
            report.lose("CONTROL_CHANGED", f"@{name}", f"{name} is within 0 and 1")
    body[name] = value


def _write_stop(_: str, value: Any, body: Object, report: Report, is_same: bool) -> None:  # noqa: FBT001 - the same
    stops = [stop for stop in value if is_same or stop.strip()]
    if len(stops) < len(value):
        report.lose("CONTROL_CHANGED", "@stop", "a stop sequence needs a visible character")
    if stops:
        body["stop_sequences"] = stops


def _write_thinking(_: str, value: Any, body: Object, report: Report, is_same: bool) -> None:  # noqa: FBT001 - the same
    if is_same:
        write_own_thinking(value, body)
    else:
        write_thinking(value, body, report)


def _write_user(_: str, value: Any, body: Object, _report: Report, _is_same: bool) -> None:  # noqa: FBT001 - the same
    body["metadata"] = {"user_id": value}


def _write_output(_: str, value: Any, body: Object, report: Report, is_same: bool) -> None:  # noqa: FBT001 - the same
    output: OutputFormat = value
    if output.kind == "text":
        return
    if not isinstance(output.schema, str):
        report.lose("CONTROL_DROPPED", "@output", "Messages take no JSON format without a schema")
        return
    written = _own_format(output)
    if not is_same:
        written["schema"], is_changed = held_schema(written["schema"])
        if is_changed:
            detail = "objects are closed; what a format cannot hold stands in descriptions"
            report.lose("CONTROL_CHANGED", "@output", detail)
    body.setdefault("output_config", {})["format"] = written
    if output.name not in (absent, FORMAT_NAME):
        report.lose("FORMAT_NAME_DROPPED", "@output")
    if output.description is not absent or output.strict is False:
        detail = "the format has no description and is always strict"
        report.lose("CONTROL_CHANGED", "@output", detail)


def _own_format(output: OutputFormat) -> Object:
    return {"type": "json_schema", "schema": decode_json(str(output.schema))}


# How each control is written: its name, its value, the body, the report, and whether it is for the same dialect.
_WRITERS: dict[str, Callable[[str, Any, Object, Report, bool], None]] = {
    "max_tokens": _write_limit,
    "temperature": _write_sampler,
    "top_p": _write_sampler,
    "top_k": _write_sampler,
    "stop": _write_stop,
    "output": _write_output,
    "thinking": _write_thinking,
    "user": _write_user,
}
# What the choice of tools says, and what every stream of this server has.
_ELSEWHERE = frozenset({"parallel_calls", "include_usage"})

# --- tools


def _write_tools(request: Request, body: Object, report: Report, *, is_same: bool) -> set[str]:
    """Write the tools and give their names."""
    choice = request.tool_choice
    allowed: tuple[str, ...] | None = None
    if isinstance(choice, ToolChoice) and choice.mode == "allowed":
        allowed = choice.names
    written: list[Any] = []
    names: set[str] = set()
    for place, tool in distinct(request, NAME, report):
        name, residue = tool.name, tool.residue
        if allowed is not None and name not in allowed:
            report.lose("TOOL_DROPPED", place, f"{name!r} is not among the allowed tools")
            continue
        if residue is not None and residue.dialect != NAME:
            report_residue(tool, report, place)
            residue = None
        if isinstance(tool.hosted, str):
            ours: Any = Fragment(tool.hosted)
        else:
            ours = _write_tool(tool)
            if not is_same:
                _make_legal(ours, tool, place, report)
        written.append(ours if residue is None else recall(ours, residue.part))
        names.add(name)
    if written:
        body["tools"] = written
    return names


def _write_tool(tool: Tool) -> Object:
    written: Object = {"name": tool.name}
    description, schema, strict = tool.description, tool.schema, tool.strict
    if description is not absent:
        written["description"] = description
    if schema is not absent:
        written["input_schema"] = Fragment(schema)
    if strict is not absent:
        written["strict"] = strict
    return written


def _make_legal(written: Object, tool: Tool, place: str, report: Report) -> None:
    schema = tool.schema
    if tool.is_freeform:
        report.lose("FREEFORM_WRAPPED", place)
        report.freeform.add(tool.name)
        written["input_schema"] = _FREEFORM_PARAMETERS
    elif schema is absent:
        written["input_schema"] = _NO_PARAMETERS
    elif not (schema.startswith(_OBJECT) or _decode_parameters(schema).type == "object"):
        written["input_schema"] = {**decode_json(schema), "type": "object"}
    if tool.grammar is not absent:
        report_grammar(tool, report, place)
    if tool.strict is None:
        del written["strict"]


def _write_choice(
    request: Request, body: Object, report: Report, names: set[str], *, is_same: bool
) -> None:
    choice, parallel = request.tool_choice, request.controls.parallel_calls
    written: Object | None = None
    if isinstance(choice, ToolChoice):
        written = _chosen(choice, report)
    if not is_same:
        written = _legal_choice(written, names, report)
        if written is None and parallel is not absent and names:
            written = {"type": "auto"}
        if written is None and parallel is False:
            report.lose("CONTROL_DROPPED", "@parallel_calls", "without tools there are no calls")
    if written is None:
        return
    if parallel is not absent and written["type"] != "none":
        written["disable_parallel_tool_use"] = not parallel
    body["tool_choice"] = written


def _chosen(choice: ToolChoice, report: Report) -> Object:
    if choice.mode == "named":
        return {"type": "tool", "name": choice.names[0]}
    if choice.mode == "allowed":
        report.lose("CONTROL_CHANGED", "@tool_choice", "only the allowed tools were sent")
        return {"type": "any" if choice.must_call else "auto"}
    return {"type": _CHOICE_WORDS[choice.mode]}


def _legal_choice(written: Object | None, names: set[str], report: Report) -> Object | None:
    """The choice, unless there is nothing to choose from; without tools, a free one says nothing."""
    if written is None or (names and (written["type"] != "tool" or written["name"] in names)):
        return written
    if written["type"] not in ("auto", "none"):
        report.lose("CONTROL_DROPPED", "@tool_choice", "no such tool was sent")
    return None
