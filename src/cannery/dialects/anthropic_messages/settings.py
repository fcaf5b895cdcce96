"""Everything in a Messages request that is not a message: tools, tool choice and controls, both ways.

At home the usual form is only a base for the residue; abroad it is what the server accepts: a limit is always there,
the temperature ends at 1, thinking needs room below the limit and no forced tool.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cannery.dialects.anthropic_messages.blocks import NAME as NAME  # noqa: PLC0414 - named here
from cannery.dialects.anthropic_messages.models import (
    can_think,
    samplers,
    takes_budgets,
    thinks_by_budget,
)
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    Controls,
    OutputFormat,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    new_controls,
    new_output_format,
    new_thinking,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    BUDGETS,
    FORMAT_NAME,
    distinct,
    drop_controls,
    effort_of,
    flag,
    integer,
    number,
    put,
    report_grammar,
    text,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, patch_text, recall

DEFAULT_MAX_TOKENS = 4096
LEAST_BUDGET = 1024
# Where nobody gave a limit: with it the answer's share stays within the 32 000 tokens that Opus 4 may write at most.
_MOST_BUDGET = 32_000 - DEFAULT_MAX_TOKENS
# What the shortest thinking has to leave for the answer.
_LEAST_ANSWER = 512
CACHE = {"5m": "short", "1h": "long"}
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    "stop": "stop_sequences",
    "parallel_calls": "tool_choice.disable_parallel_tool_use",
    "output": ("output_config.format", "output_format"),
    "thinking": ("thinking", "output_config.effort"),
    "effort": "output_config.effort",
    "budget": "thinking.budget_tokens",
    "user": "metadata.user_id",
    "finish": "stop_reason",
}
MODELLED = frozenset(
    {
        "model",
        "stream",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "thinking",
        "output_config",
        "output_config.effort",
        "output_config.format",
        "output_format",
        "metadata",
        "metadata.user_id",
        "tools",
        "tool_choice",
        "tool_choice.disable_parallel_tool_use",
        # of a response
        "id",
        "type",
        "role",
        "stop_reason",
        "stop_sequence",
        "usage",
    }
)
_KNOWN = frozenset(Controls.__struct_fields__) - {
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "candidates",
    "metadata",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_CHOICE_WORDS = {mode: word for word, mode in _CHOICES.items()}
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
_NO_PARAMETERS = {"type": "object", "properties": {}}
_FREEFORM_PARAMETERS = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}

# --- reading -----------------------------------------------------------------------------------


def read_controls(body: Object) -> Controls:
    """The controls of a request; what has an unexpected type is left to the residue."""
    metadata, choice = body.get("metadata"), body.get("tool_choice")
    config = body.get("output_config")
    settings = config if type(config) is dict else {}
    is_single = flag(choice.get("disable_parallel_tool_use")) if type(choice) is dict else absent
    return new_controls(  # type: ignore[no-any-return]
        max_tokens=integer(body.get("max_tokens")),
        temperature=number(body.get("temperature")),
        top_p=number(body.get("top_p")),
        top_k=integer(body.get("top_k")),
        stop=_read_stop(body.get("stop_sequences")),
        parallel_calls=absent if is_single is absent else not is_single,
        output=_read_output(settings.get("format", body.get("output_format"))),
        thinking=_read_thinking(body.get("thinking"), settings.get("effort")),
        user=text(metadata.get("user_id")) if type(metadata) is dict else absent,
    )


def _read_stop(value: Any) -> Any:
    if type(value) is list and value and all(type(item) is str for item in value):
        return tuple(value)
    return absent


def _read_output(value: Any) -> Any:
    if type(value) is not dict or value.get("type") != "json_schema":
        return absent
    schema = value.get("schema")
    return new_output_format("schema", write_json(schema)) if type(schema) is dict else absent


def _read_thinking(value: Any, effort: Any) -> Any:
    word = text(effort)
    kind = value.get("type") if type(value) is dict else None
    if kind not in ("enabled", "disabled", "adaptive"):
        return absent if word is absent else new_thinking(effort=word)
    return new_thinking(
        enabled=kind != "disabled",
        effort=word,
        budget=integer(value.get("budget_tokens")) if kind == "enabled" else absent,
        summary=text(value.get("display")) if kind != "disabled" else absent,
        adaptive=kind == "adaptive",
    )


def read_tools(body: Object) -> tuple[Tool, ...]:
    """The tools of a request."""
    listed = body.get("tools")
    return tuple(map(_read_tool, listed)) if type(listed) is list else ()


def _read_tool(item: Any) -> Tool:
    mark = item.get("cache_control") if type(item) is dict else None
    cache = CACHE.get(str(mark.get("ttl")), "short") if type(mark) is dict else None
    tool = _plain_tool(item)
    if tool.hosted is not absent:
        return _with_residue(tool, Residue(NAME, form="hosted", cache=cache))
    part = patch_text(_write_tool(tool), item)
    if part is None:
        return tool
    return _with_residue(tool, Residue(NAME, part=part, cache=cache))


def _plain_tool(item: Any) -> Tool:
    if type(item) is not dict:
        return new_tool("unknown", hosted=write_json(item))  # type: ignore[no-any-return]
    tag, name, schema = item.get("type"), item.get("name"), item.get("input_schema")
    if tag in (None, "custom") and type(name) is str and type(schema) is dict:
        return new_tool(  # type: ignore[no-any-return]
            name, text(item.get("description")), write_json(schema), flag(item.get("strict"))
        )
    known = [word for word in (name, tag) if type(word) is str and word]
    return new_tool(known[0] if known else "unknown", hosted=write_json(item))  # type: ignore[no-any-return]


def _with_residue(tool: Tool, residue: Residue) -> Tool:
    fields = {name: getattr(tool, name) for name in Tool.__struct_fields__}
    return new_tool(**{**fields, "residue": residue})  # type: ignore[no-any-return]


def read_tool_choice(body: Object) -> Any:
    """The tool choice of a request, or absent."""
    given = body.get("tool_choice")
    choice: Object = given if type(given) is dict else {}
    kind = choice.get("type")
    if type(kind) is str and kind in _CHOICES:
        return new_tool_choice(_CHOICES[kind])
    if kind == "tool" and type(choice.get("name")) is str and choice["name"]:
        return new_tool_choice("named", (choice["name"],))
    return absent


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but system and messages."""
    at_home = request.source == NAME
    body: Object = {}
    put(body, "model", request.model)
    _write_tools(request, body, report, at_home=at_home)
    _write_choice(request, body, report, at_home=at_home)
    controls = request.controls
    # A limit that nobody gave is settled when thinking is known, and stands where any other would.
    put(
        body,
        "max_tokens",
        None if controls.max_tokens is absent and not at_home else controls.max_tokens,
    )
    _write_sampling(controls, body, report, at_home=at_home)
    _write_stop(controls, body, report, at_home=at_home)
    if isinstance(controls.output, OutputFormat):
        _write_output(controls.output, body, report)
    if isinstance(controls.thinking, Thinking):
        if at_home:
            _write_own_thinking(controls.thinking, body)
        else:
            _write_thinking(controls.thinking, body, report)
    if controls.user is not absent:
        body["metadata"] = {"user_id": controls.user}
    put(body, "stream", request.stream)
    if not at_home:
        _make_room(body, report)
        if controls.candidates == 1:
            controls = controls.replace(candidates=absent)
        drop_controls(controls, _KNOWN, report)
    return body


def _write_sampling(controls: Controls, body: Object, report: Report, *, at_home: bool) -> None:
    if not at_home and not samplers(body.get("model")):
        for name in ("temperature", "top_p", "top_k"):
            if getattr(controls, name) is not absent:
                report.lose("CONTROL_DROPPED", f"@{name}", f"this model takes no {name}")
        return
    for name in ("temperature", "top_p"):
        value: Any = getattr(controls, name)
        if value is not absent and not at_home and not 0 <= value <= 1:
            value = min(max(value, 0), 1)
            report.lose("CONTROL_CHANGED", f"@{name}", f"{name} is within 0 and 1")
        put(body, name, value)
    put(body, "top_k", controls.top_k)


def _write_stop(controls: Controls, body: Object, report: Report, *, at_home: bool) -> None:
    if isinstance(controls.stop, tuple):
        stops = [stop for stop in controls.stop if at_home or stop.strip()]
        if len(stops) < len(controls.stop):
            report.lose("CONTROL_CHANGED", "@stop", "a stop sequence needs a visible character")
        if stops:
            body["stop_sequences"] = stops


def _write_output(output: OutputFormat, body: Object, report: Report) -> None:
    if output.kind == "text":
        return
    if not isinstance(output.schema, str):
        report.lose("CONTROL_DROPPED", "@output", "Messages take no JSON format without a schema")
        return
    schema = decode_json(output.schema)
    body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": schema}
    if output.name not in (absent, FORMAT_NAME):
        report.lose("FORMAT_NAME_DROPPED", "@output")
    if output.description is not absent or output.strict is False:
        detail = "the format has no description and is always strict"
        report.lose("CONTROL_CHANGED", "@output", detail)


# --- thinking


def _write_own_thinking(thinking: Thinking, body: Object) -> None:
    if thinking.effort is not absent:
        body.setdefault("output_config", {})["effort"] = thinking.effort
    if thinking.enabled is absent:
        return
    if not thinking.enabled:
        body["thinking"] = {"type": "disabled"}
        return
    mode: Object = {"type": "adaptive" if thinking.adaptive else "enabled"}
    put(mode, "budget_tokens", thinking.budget)
    put(mode, "display", thinking.summary)
    body["thinking"] = mode


def _write_thinking(thinking: Thinking, body: Object, report: Report) -> None:
    """Thinking as a server takes it: a budget, an effort with adaptive thinking, or a switch."""
    model = body.get("model")
    is_off = thinking.enabled is False or thinking.effort == "none" or thinking.budget == 0
    if not can_think(model):
        if not is_off:
            report.lose("CONTROL_DROPPED", "@thinking", "this model cannot think")
        return
    by_budget = thinking.budget is absent and thinks_by_budget(model)
    effort = _effort(thinking, BUDGETS if by_budget else _EFFORTS, report)
    if is_off:
        body["thinking"] = {"type": "disabled"}
        if effort not in (None, "none"):
            report.lose("CONTROL_DROPPED", "@effort", "thinking that is off takes no effort")
        return
    budget = thinking.budget if isinstance(thinking.budget, int) else None
    if budget is not None and (thinking.adaptive or not takes_budgets(model)):
        effort = _effort_for(budget, effort, report)
        budget = None
    mode: Object = {"type": "adaptive"}
    if effort is not None and by_budget:
        budget = BUDGETS[effort]
    elif effort is not None:
        body.setdefault("output_config", {})["effort"] = effort
    if budget is not None and budget > 0:
        fit = _bought(budget, body, report) if by_budget else _fitted(budget, body, report)
        if fit is None:
            report.lose("CONTROL_DROPPED", "@thinking", "max_tokens leaves no room for thinking")
            return
        mode = {"type": "enabled", "budget_tokens": fit}
    elif effort is None and not thinking.enabled and not thinking.adaptive and budget is None:
        report.lose("CONTROL_DROPPED", "@thinking", "thoughts are shown only when thinking is on")
        return
    if thinking.summary is not absent:
        is_hidden = thinking.summary in ("omitted", "none")
        mode["display"] = "omitted" if is_hidden else "summarized"
    body["thinking"] = mode


def _effort(thinking: Thinking, known: Collection[str], report: Report) -> str | None:
    word = thinking.effort
    if not isinstance(word, str):
        return None
    if word in known or word == "none":
        return word
    nearest = "low" if word == "minimal" else "medium"
    report.lose("CONTROL_CHANGED", "@thinking", f"effort {word!r} became {nearest!r}")
    return nearest


def _effort_for(budget: int, effort: str | None, report: Report) -> str:
    """The effort that stands for a budget where a model decides itself how much it thinks."""
    if effort is not None:
        report.lose("CONTROL_DROPPED", "@budget", "adaptive thinking has no token budget")
        return effort
    report.lose("CONTROL_CHANGED", "@thinking", "a token budget became an effort")
    return effort_of(budget)


def _bought(budget: int, body: Object, report: Report) -> int | None:
    """The budget that an effort buys; None where the limit leaves no room for one.

    The answer keeps half of the limit, or at least what the shortest thinking has to leave.
    """
    limit = body["max_tokens"]
    if limit is None:
        budget = min(budget, _MOST_BUDGET)
    elif limit < LEAST_BUDGET + _LEAST_ANSWER:
        return None
    else:
        budget = max(min(budget, limit // 2), LEAST_BUDGET)
    report.lose("CONTROL_CHANGED", "@thinking", "an effort became a token budget")
    return budget


def _fitted(budget: int, body: Object, report: Report) -> int | None:
    """A given budget, raised to the least there is and kept below the limit; None where that cannot be."""
    limit = body["max_tokens"]
    if limit is not None and limit < LEAST_BUDGET + _LEAST_ANSWER:
        return budget if LEAST_BUDGET <= budget < limit else None
    if budget < LEAST_BUDGET:
        report.lose("CONTROL_CHANGED", "@thinking", f"a budget is at least {LEAST_BUDGET} tokens")
        return LEAST_BUDGET
    if limit is not None and budget >= limit:
        report.lose("CONTROL_CHANGED", "@thinking", "half of max_tokens is left for the answer")
        return max(limit // 2, LEAST_BUDGET)  # type: ignore[no-any-return]
    return budget


def _make_room(body: Object, report: Report) -> None:
    """Settle what thinking, the limit, sampling and forced tools demand of each other."""
    thinking = body.get("thinking", {})
    is_thinking = thinking.get("type") in ("enabled", "adaptive")
    if is_thinking and body.get("tool_choice", {}).get("type") in ("any", "tool"):
        report.lose("CONTROL_DROPPED", "@thinking", "a forced tool leaves no room for thinking")
        del body["thinking"]
        is_thinking = False
    if body["max_tokens"] is None:
        budget = thinking.get("budget_tokens", 0) if is_thinking else 0
        body["max_tokens"] = DEFAULT_MAX_TOKENS + budget
        detail = f"max_tokens is required; {body['max_tokens']} was sent"
        report.lose("CONTROL_DEFAULTED", "@max_tokens", detail)
    if is_thinking:
        for name in ("temperature", "top_k"):
            if body.get(name, 1) != 1 or (name == "top_k" and name in body):
                del body[name]
                report.lose("CONTROL_DROPPED", f"@{name}", f"thinking allows no {name}")
    if "temperature" in body and "top_p" in body and samplers(body.get("model")) < 2:
        del body["top_p"]
        report.lose("CONTROL_DROPPED", "@top_p", "this model takes temperature or top_p, not both")


# --- tools


def _write_tools(request: Request, body: Object, report: Report, *, at_home: bool) -> None:
    choice = request.tool_choice
    allowed: tuple[str, ...] | None = None
    if isinstance(choice, ToolChoice) and choice.mode == "allowed":
        allowed = choice.names
    for place, tool in distinct(request, NAME, report):
        if allowed is not None and tool.name not in allowed:
            report.lose("TOOL_DROPPED", place, f"{tool.name!r} is not among the allowed tools")
            continue
        residue = own_residue(tool, NAME)
        if residue is None:
            report_residue(tool, report, place)
            if tool.hosted is not absent and (request.source or NAME) != NAME:
                report.lose("TOOL_DROPPED", place, f"Messages have no tool {tool.name!r}")
                continue
        written = _write_tool(tool) if at_home else _legal_tool(tool, place, report)
        if residue is not None:
            written = recall(written, residue.part)
        body.setdefault("tools", []).append(written)


def _write_tool(tool: Tool) -> Any:
    if isinstance(tool.hosted, str):
        return decode_json(tool.hosted)
    written: Object = {"name": tool.name}
    put(written, "description", tool.description)
    if isinstance(tool.schema, str):
        written["input_schema"] = decode_json(tool.schema)
    put(written, "strict", tool.strict)
    return written


def _legal_tool(tool: Tool, place: str, report: Report) -> Any:
    written = _write_tool(tool)
    if tool.hosted is not absent:
        return written
    if tool.is_freeform:
        report.lose("FREEFORM_WRAPPED", place)
        report.freeform.add(tool.name)
        report_grammar(tool, report, place)
        written["input_schema"] = _FREEFORM_PARAMETERS
    schema = written.setdefault("input_schema", _NO_PARAMETERS)
    if schema.get("type") != "object":
        written["input_schema"] = {**schema, "type": "object"}
    if tool.strict is None:
        del written["strict"]
    return written


def _write_choice(request: Request, body: Object, report: Report, *, at_home: bool) -> None:
    choice, parallel = request.tool_choice, request.controls.parallel_calls
    written: Object | None = None
    if isinstance(choice, ToolChoice):
        written = _chosen(choice, report)
    if not at_home:
        written = _legal_choice(written, body, report)
        if written is None and parallel is not absent and body.get("tools"):
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


def _legal_choice(written: Object | None, body: Object, report: Report) -> Object | None:
    """The choice, unless there is nothing to choose from; without tools, to call none says nothing."""
    tools = body.get("tools", [])
    if written is None or written["type"] == "none":
        return written if tools else None
    names = {tool.get("name") for tool in tools if type(tool) is dict}
    if tools and (written["type"] != "tool" or written["name"] in names):
        return written
    report.lose("CONTROL_DROPPED", "@tool_choice", "no such tool was sent")
    return None
