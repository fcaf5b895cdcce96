"""Everything in a Converse request except its messages: tools, tool choice and controls, both ways.

The constraints that thinking puts on other settings are resolved as for Claude, whose own fields are in
``additionalModelRequestFields``; other models get an effort.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cannery.dialects.bedrock_converse.tools import NAME, read_choice, read_tools, write_tools
from cannery.families.claude.models import samplers, tier_and_version
from cannery.families.claude.thinking import (
    make_room,
    read_mode,
    write_own_thinking,
    write_thinking,
)
from cannery.messages.absence import absent
from cannery.messages.json_text import is_json_object
from cannery.messages.requests import OutputFormat, Request, Thinking, new_output_format
from cannery.wire.bodies import Object
from cannery.wire.controls import FORMAT_NAME, drop_control, effort_of, put, text
from cannery.wire.losses import Report
from cannery.wire.metadata import fit_metadata
from cannery.wire.setting_reading import NOT_READ, Reading, Said
from cannery.wire.settings import (
    NUMBER,
    OBJECT,
    TEXTS,
    UNSAID,
    WHOLE,
    Form,
    Setting,
    SettingTable,
    Writing,
    fit_limit,
    fit_top_k,
    within,
)

_MORE, _INFERENCE, _OUTPUT = "additionalModelRequestFields", "inferenceConfig", "outputConfig"
# The settings that thinking constrains: their paths, by Claude's names for them.
_SETTLED = {
    "max_tokens": (_INFERENCE, "maxTokens"),
    "temperature": (_INFERENCE, "temperature"),
    "top_p": (_INFERENCE, "topP"),
    "top_k": (_MORE, "top_k"),
    "thinking": (_MORE, "thinking"),
}
# What the server accepts as metadata (``RequestMetadata`` of botocore 1.44).
_PLAIN = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}").fullmatch
_METADATA = fit_metadata(
    lambda key: key and _PLAIN(key), _PLAIN, "metadata are 16 plain texts of 256 characters at most"
)


# --- the format of an answer, metadata, sampling -------------------------------------------------


def _read_format(value: Any, _: Reading) -> Said:
    """The output format; absent if the value holds more, or less, than a format."""
    try:
        facts = value["structure"]["jsonSchema"]
        schema, *named = facts["schema"], text(facts.get("name")), text(facts.get("description"))
    except (AttributeError, KeyError, TypeError):
        return NOT_READ
    if type(schema) is not str or not is_json_object(schema):
        return NOT_READ
    output = new_output_format("schema", schema, *named)
    return (output, None) if _format(output) == value else NOT_READ


def _format(output: OutputFormat) -> Object:
    definition: Object = {"schema": output.schema}
    put(definition, "name", output.name)
    put(definition, "description", output.description)
    return {"type": "json_schema", "structure": {"jsonSchema": definition}}


def _fit_format(output: OutputFormat, to: Writing) -> OutputFormat:
    if output.strict is False and isinstance(output.schema, str):
        to.change("the format is always strict")
    return output if output.name is not absent else output.replace(name=FORMAT_NAME)


def _write_format(output: OutputFormat, to: Writing) -> Any:
    if isinstance(output.schema, str):
        return _format(output)
    if output.kind != "text":
        to.drop("Converse takes no JSON format without a schema")
    return absent


_TOP_K, _UNIT = fit_top_k(), within(0, 1)


def _fit_sampler(value: float, to: Writing) -> Any:
    model = _model(to.request)
    if (to.name == "top_k" and not _is_claude(model)) or not samplers(model):
        drop_control(to.name, value, to.report, f"this model takes no {to.name}")
        return absent
    return _TOP_K(value, to) if to.name == "top_k" else _UNIT(value, to)


def _fit_stop(value: Sequence[str], to: Writing) -> Any:
    stops = [stop for stop in value if stop]
    if len(stops) < len(value):
        to.change("a stop sequence is not empty")
    return stops or absent


# --- thinking ------------------------------------------------------------------------------------


def _model(request: Request) -> str | None:
    return request.model if isinstance(request.model, str) else None


def _is_claude(model: str | None) -> bool:
    return model is None or tier_and_version(model) is not None


def _read_effort(value: Any, _: Reading) -> Said:
    return (value, None) if type(value) is str and value else NOT_READ


def _write_thinking(thinking: Thinking, to: Writing) -> Any:
    """Thinking in Claude's form; for another model an effort."""
    claude: Object = {}
    if to.is_same:
        write_own_thinking(thinking, claude)
    elif _is_claude(_model(to.request)):
        claude = _settle(thinking, to)
    else:
        _write_effort(thinking, claude, to)
    for name, (holder, key) in _SETTLED.items():
        if name in claude:
            to.body.setdefault(holder, {})[key] = claude[name]
        elif holder in to.body and not to.is_same and _is_claude(_model(to.request)):
            to.body[holder].pop(key, None)
    for key in [key for key in (_INFERENCE, _MORE) if to.body.get(key) == {}]:
        del to.body[key]
    if "output_config" in claude:
        to.body[_OUTPUT] = {**claude["output_config"], **to.body.get(_OUTPUT, {})}
    return absent


def _settle(thinking: Thinking, to: Writing) -> Object:
    """Resolve thinking, the limit, sampling and a forced tool against each other."""
    body = to.body
    claude: Object = {
        name: body[holder][key]
        for name, (holder, key) in _SETTLED.items()
        if key in body.get(holder, {})
    }
    limit = claude.setdefault("max_tokens", None)
    claude["model"] = _model(to.request)
    if body.get("toolConfig", {}).get("toolChoice", {}).keys() & {"any", "tool"}:
        claude["tool_choice"] = {"type": "any"}
    write_thinking(thinking, claude, to.report)
    rehearsal = Report()
    make_room(claude, (), rehearsal)
    # The server has a default limit; a budget must be below it.
    to.report.lost += [each for each in rehearsal.lost if each[0] != "CONTROL_DEFAULTED"]
    if limit is None and "budget_tokens" not in claude.get("thinking", {}):
        del claude["max_tokens"]
    return claude


def _write_effort(thinking: Thinking, claude: Object, to: Writing) -> None:
    effort = thinking.effort
    if not isinstance(effort, str) and isinstance(thinking.budget, int) and thinking.budget > 0:
        effort = effort_of(thinking.budget)
        to.change("a token budget became an effort", "budget")
    if isinstance(effort, str) and effort != "none":
        claude["output_config"] = {"effort": effort[:16]}
    elif thinking.enabled is not False:
        to.drop("this model is only told an effort")


TABLE = SettingTable(
    NAME,
    (
        # The choice is written with the tools.
        Setting("tools", "toolConfig.tools", Form(read=read_tools)),
        Setting("tool_choice", "toolConfig.toolChoice", Form((), read_choice, UNSAID.write)),
        Setting("max_tokens", f"{_INFERENCE}.maxTokens", WHOLE, fit_limit()),
        Setting("temperature", f"{_INFERENCE}.temperature", NUMBER, _fit_sampler),
        Setting("top_p", f"{_INFERENCE}.topP", NUMBER, _fit_sampler),
        Setting("top_k", f"{_MORE}.top_k", WHOLE, _fit_sampler),
        Setting("stop", f"{_INFERENCE}.stopSequences", TEXTS, _fit_stop),
        Setting(
            "output", f"{_OUTPUT}.textFormat", Form((), _read_format, _write_format), _fit_format
        ),
        Setting("thinking", f"{_MORE}.thinking", Form(write=_write_thinking)),
        Setting("enabled", f"{_MORE}.thinking", Form(read=read_mode), also=("switch",)),
        Setting("effort", f"{_OUTPUT}.effort", Form(read=_read_effort)),
        Setting("metadata", "requestMetadata", OBJECT, _METADATA),
        # Every response reports usage.
        Setting("include_usage", "", UNSAID),
    ),
    {
        "model": "modelId",
        "budget": f"{_MORE}.thinking.budget_tokens",
        "summary": f"{_MORE}.thinking.display",
        "finish": "stopReason",
    },
)


def write_settings(request: Request, report: Report, messages: list[Any]) -> Object:
    """Every body field except system and messages."""
    config = write_tools(request, messages, report, is_same=request.source == NAME)
    return TABLE.write(request, report, {"toolConfig": config} if config else {})
