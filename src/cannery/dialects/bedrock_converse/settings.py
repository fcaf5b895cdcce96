"""Everything in a Converse request that is not a message: tools, tool choice and controls, both ways.

Reading takes what it understands, and what is left is residue. What thinking demands of the other settings is settled
as for Claude, whose own fields stand in ``additionalModelRequestFields``; other models get an effort.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cannery.dialects.bedrock_converse.tools import (
    NAME,
    plain,
    read_choice,
    read_tools,
    tool_list,
    write_tools,
)
from cannery.families.claude.models import samplers, tier_and_version
from cannery.families.claude.thinking import (
    make_room,
    take_mode,
    write_own_thinking,
    write_thinking,
)
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, is_json_object, write_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    OutputFormat,
    Request,
    Thinking,
    new_controls,
    new_output_format,
    new_thinking,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, Reader, decoded, encode
from cannery.wire.controls import (
    FORMAT_NAME,
    drop_control,
    effort_of,
    given_controls,
    put,
    text,
)
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, set_again

_MORE, _INFERENCE, _OUTPUT = "additionalModelRequestFields", "inferenceConfig", "outputConfig"
_SAMPLING = {
    "maxTokens": ("max_tokens", (int,)),
    "temperature": ("temperature", (int, float)),
    "topP": ("top_p", (int, float)),
}
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    "max_tokens": "inferenceConfig.maxTokens",
    "temperature": "inferenceConfig.temperature",
    "top_p": "inferenceConfig.topP",
    "top_k": "additionalModelRequestFields.top_k",
    "stop": "inferenceConfig.stopSequences",
    "output": "outputConfig.textFormat",
    "thinking": ("additionalModelRequestFields.thinking", "outputConfig.effort"),
    "switch": "additionalModelRequestFields.thinking",
    "effort": "outputConfig.effort",
    "budget": "additionalModelRequestFields.thinking.budget_tokens",
    "summary": "additionalModelRequestFields.thinking.display",
    "metadata": "requestMetadata",
    "tool_choice": "toolConfig.toolChoice",
    "finish": "stopReason",
}
MODELLED = frozenset(
    {
        *("modelId", "system", "toolConfig.tools", "toolConfig.toolChoice", "requestMetadata"),
        *(f"{_INFERENCE}.{key}" for key in (*_SAMPLING, "stopSequences")),
        *(f"{_MORE}.top_k", f"{_MORE}.thinking", f"{_OUTPUT}.textFormat", f"{_OUTPUT}.effort"),
    }
)
# What the server takes as metadata (``RequestMetadata`` of botocore 1.44).
_METADATA = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}")
_MOST_METADATA = 16

# --- reading -----------------------------------------------------------------------------------


def read_settings(body: Object, reader: Reader, places: Places) -> tuple[Any, ...]:
    """The fields of a request behind its conversation: model, tools, choice, controls, stream and residue."""
    found: Object = {}
    inner: Object = {}
    left: Object = {}
    model = text(body.get("modelId"))
    for key, value in body.items():
        take = _TAKERS.get(key)
        rest = value if take is None or type(value) is not dict else take(value, found)
        if rest is value:
            left[key] = decoded(value) if type(value) is dict else value
        elif rest:
            inner[key] = rest
    tools = read_tools(found.pop("tools", None), reader, places)
    if "mode" in found or "effort" in found:
        found["thinking"] = new_thinking(
            effort=found.pop("effort", absent), **found.pop("mode", {})
        )
    choice = found.pop("tool_choice", absent)
    controls = new_controls(**found) if found else DEFAULT_CONTROLS
    patch = nested(left, inner)
    residue = None if patch is None else Residue(NAME, None, encode(patch).decode())
    return model, tools, choice, controls, absent, residue


def _take_inference(value: Object, found: Object) -> Any:
    fields = decoded(value)
    count = len(fields)
    for key, (name, kinds) in _SAMPLING.items():
        if type(fields.get(key)) in kinds:
            found[name] = fields.pop(key)
    stop = fields.get("stopSequences")
    if type(stop) is list and stop and all(type(item) is str for item in stop):
        found["stop"] = tuple(fields.pop("stopSequences"))
    return value if len(fields) == count else set_again(fields)


def _take_more(value: Object, found: Object) -> Any:
    fields = decoded(value)
    inner: Object = {}
    is_taken = False
    if type(fields.get("top_k")) is int:
        found["top_k"] = fields.pop("top_k")
        is_taken = True
    thinking = fields.get("thinking")
    mode = take_mode(thinking) if type(thinking) is dict else None
    if mode is not None:
        found["mode"] = mode
        inner["thinking"] = set_again(fields.pop("thinking"))
        is_taken = True
    return nested(fields, inner) if is_taken else value


def _take_output(value: Object, found: Object) -> Any:
    fields = decoded(value)
    count = len(fields)
    if type(fields.get("effort")) is str and fields["effort"]:
        found["effort"] = fields.pop("effort")
    output = _read_format(fields.get("textFormat"))
    if output is not None:
        found["output"] = output
        del fields["textFormat"]
    return value if len(fields) == count else set_again(fields)


def _read_format(value: Any) -> OutputFormat | None:
    """The format of an answer; None where it says more, or less, than a format does."""
    try:
        facts = value["structure"]["jsonSchema"]
        schema, *named = facts["schema"], text(facts.get("name")), text(facts.get("description"))
    except (AttributeError, KeyError, TypeError):
        return None
    if type(schema) is not str or not is_json_object(schema):
        return None
    output = new_output_format("schema", schema, *named)
    return output if _format(output) == value else None


def _take_metadata(value: Object, found: Object) -> Any:
    fields = decoded(value)
    if not fields or not all(type(item) is str for item in fields.values()):
        return value
    found["metadata"] = write_json(fields)
    return None


def _take_tool_config(value: Object, found: Object) -> Any:
    fields = {
        key: tool_list(item) if key == "tools" else plain(item) for key, item in value.items()
    }
    inner: Object = {}
    count = len(fields)
    if fields.get("tools"):
        found["tools"] = fields.pop("tools")
    choice = fields.get("toolChoice")
    read = read_choice(choice) if type(choice) is dict else None
    if read is not None:
        found["tool_choice"], inner["toolChoice"] = read
        del fields["toolChoice"]
    return value if len(fields) == count else nested(fields, inner)


_TAKERS: dict[str, Callable[[Object, Object], Any]] = {
    _INFERENCE: _take_inference,
    _MORE: _take_more,
    _OUTPUT: _take_output,
    "requestMetadata": _take_metadata,
    "toolConfig": _take_tool_config,
}


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report, messages: list[Any]) -> Object:
    """Every field of the body but system and messages."""
    is_same = request.source == NAME
    body: Object = {}
    config = write_tools(request, messages, report, is_same=is_same)
    if config:
        body["toolConfig"] = config
    if request.controls is DEFAULT_CONTROLS:
        return body
    if is_same:
        _write_own_controls(request, body)
    else:
        _write_controls(request, body, report)
    return body


def _write_own_controls(request: Request, body: Object) -> None:
    controls = request.controls
    inference: Object = {}
    for key, (name, _) in _SAMPLING.items():
        put(inference, key, getattr(controls, name))
    if controls.stop is not absent:
        inference["stopSequences"] = [*controls.stop]
    claude: Object = {}
    if isinstance(controls.thinking, Thinking):
        write_own_thinking(controls.thinking, claude)
    put(claude, "top_k", controls.top_k)
    output = claude.pop("output_config", {})
    if isinstance(controls.output, OutputFormat):
        output["textFormat"] = _format(controls.output)
    for key, fields in ((_INFERENCE, inference), (_MORE, claude), (_OUTPUT, output)):
        if fields:
            body[key] = fields
    if isinstance(controls.metadata, str):
        body["requestMetadata"] = decode_json(controls.metadata)


def _write_controls(request: Request, body: Object, report: Report) -> None:
    """The controls of another dialect, settled with each other as Claude demands it where Claude is asked."""
    controls = request.controls
    model = request.model if isinstance(request.model, str) else None
    settled: Object = {"model": model, "max_tokens": None}
    choice = body.get("toolConfig", {}).get("toolChoice", {})
    if "any" in choice or "tool" in choice:
        settled["tool_choice"] = {"type": "any"}
    for name, value in given_controls(controls):
        if name in ("max_tokens", "temperature", "top_p", "top_k"):
            _write_sampler(name, value, settled, report)
        elif name == "stop":
            _write_stop(value, body, report)
        elif name == "output":
            _write_format(value, body, report)
        elif name == "metadata":
            _write_metadata(value, body, report)
        elif name not in ("thinking", "include_usage"):
            drop_control(name, value, report)
    if isinstance(controls.thinking, Thinking):
        _write_thinking(controls.thinking, settled, report)
    _place(settled, body)


def _is_claude(model: str | None) -> bool:
    return model is None or tier_and_version(model) is not None


def _write_sampler(name: str, value: Any, settled: Object, report: Report) -> None:
    model = settled["model"]
    if name == "max_tokens":
        if value < 1:
            report.lose("CONTROL_DROPPED", "@max_tokens", "the limit is at least 1")
            return
    elif (name == "top_k" and not _is_claude(model)) or not samplers(model):
        drop_control(name, value, report, f"this model takes no {name}")
        return
    elif name != "top_k" and not 0 <= value <= 1:
        value = min(max(value, 0), 1)
        report.lose("CONTROL_CHANGED", f"@{name}", f"{name} is within 0 and 1")
    settled[name] = value


def _write_thinking(thinking: Thinking, settled: Object, report: Report) -> None:
    """Thinking as Claude is told of it; of another model an effort is asked."""
    if _is_claude(settled["model"]):
        limit = settled["max_tokens"]
        write_thinking(thinking, settled, report)
        rehearsal = Report()
        make_room(settled, (), rehearsal)
        # The server has a default of its own where no limit is given; a budget must lie below it.
        report.lost += [each for each in rehearsal.lost if each[0] != "CONTROL_DEFAULTED"]
        if limit is None and "budget_tokens" not in settled.get("thinking", {}):
            settled["max_tokens"] = None
        return
    effort = thinking.effort
    if not isinstance(effort, str) and isinstance(thinking.budget, int) and thinking.budget > 0:
        effort = effort_of(thinking.budget)
        report.lose("CONTROL_CHANGED", "@budget", "a token budget became an effort")
    if isinstance(effort, str) and effort != "none":
        settled["output_config"] = {"effort": effort[:16]}
    elif thinking.enabled is not False:
        report.lose("CONTROL_DROPPED", "@thinking", "this model is only told an effort")


def _place(settled: Object, body: Object) -> None:
    """Put settled controls where they belong."""
    inference = body.pop(_INFERENCE, {})
    for key, (name, _) in _SAMPLING.items():
        if settled.get(name) is not None:
            inference[key] = settled[name]
    more = {key: settled[key] for key in ("thinking", "top_k") if key in settled}
    output = {**settled.get("output_config", {}), **body.pop(_OUTPUT, {})}
    for key, fields in ((_INFERENCE, inference), (_MORE, more), (_OUTPUT, output)):
        if fields:
            body[key] = fields


def _write_stop(value: tuple[str, ...], body: Object, report: Report) -> None:
    stops = [stop for stop in value if stop]
    if len(stops) < len(value):
        report.lose("CONTROL_CHANGED", "@stop", "a stop sequence is not empty")
    if stops:
        body[_INFERENCE] = {"stopSequences": stops}


def _format(output: OutputFormat) -> Object:
    definition: Object = {"schema": output.schema}
    put(definition, "name", output.name)
    put(definition, "description", output.description)
    return {"type": "json_schema", "structure": {"jsonSchema": definition}}


def _write_format(output: OutputFormat, body: Object, report: Report) -> None:
    if output.kind == "text":
        return
    if not isinstance(output.schema, str):
        report.lose("CONTROL_DROPPED", "@output", "Converse takes no JSON format without a schema")
        return
    named = output if output.name is not absent else output.replace(name=FORMAT_NAME)
    body[_OUTPUT] = {"textFormat": _format(named)}
    if output.strict is False:
        report.lose("CONTROL_CHANGED", "@output", "the format is always strict")


def _write_metadata(value: str, body: Object, report: Report) -> None:
    pairs = decode_json(value)
    legal = {
        key: item
        for key, item in pairs.items()
        if type(item) is str and key and _METADATA.fullmatch(key) and _METADATA.fullmatch(item)
    }
    kept = dict(list(legal.items())[:_MOST_METADATA])
    if len(kept) < len(pairs):
        report.lose("CONTROL_CHANGED", "@metadata", "metadata are 16 plain texts at most")
    if kept:
        body["requestMetadata"] = kept
