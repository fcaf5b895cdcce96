"""Everything in a Cohere request except its messages and documents, both ways."""

from __future__ import annotations

from typing import Any

from cannery.families.chat.settings import is_spelled, take_choice, tool_names
from cannery.families.chat.tools import write_tools
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    OutputFormat,
    Request,
    Thinking,
    ToolChoice,
    new_output_format,
    new_thinking,
)
from cannery.wire.bodies import Object
from cannery.wire.controls import BUDGETS, budget_of, drop_choice, is_possible
from cannery.wire.losses import Report
from cannery.wire.residues import nested, set_again
from cannery.wire.setting_reading import NOT_READ, Reading, Said
from cannery.wire.settings import (
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    UNSAID,
    WHOLE,
    Form,
    Setting,
    SettingTable,
    Writing,
    at_most,
    fit_limit,
    fit_seed,
    fit_top_k,
    unless,
    within,
)

NAME = "cohere_chat"
_CHOICES = {"REQUIRED": "required", "NONE": "none"}
_WORDS = {mode: word for word, mode in _CHOICES.items()}
# The form of a request that makes all tools strict at once.
STRICT = "strict_tools"
# The response fields that the model holds.
MODELLED_ANSWER = frozenset(
    {
        *("id", "finish_reason", "message.citations", "message.role"),
        *("usage.tokens", "usage.cached_tokens"),
        *("usage.billed_units.input_tokens", "usage.billed_units.output_tokens"),
    }
)


# --- the choice of tools -------------------------------------------------------------------------


def _read_choice(value: Any, _: Reading) -> Said:
    return take_choice(value, _CHOICES) if type(value) is str else NOT_READ


def _fit_choice(choice: ToolChoice, to: Writing) -> Any:
    if choice.mode == "auto" or is_possible(choice, tool_names(to.body)):
        return choice
    drop_choice(choice, to.report)
    return absent


def _write_choice(choice: ToolChoice, to: Writing) -> Any:
    if choice.names and [*choice.names] != [*tool_names(to.body)]:
        to.change("Cohere can make the model call some tool, or none, but not this one")
    is_free = choice.mode == "auto" or (choice.mode == "allowed" and not choice.must_call)
    return absent if is_free else _WORDS.get(choice.mode, "REQUIRED")


# --- the format of an answer ---------------------------------------------------------------------


_SCHEMA = "json_schema"


def _read_format(value: Any, _: Reading) -> Said:
    kind = value.get("type") if type(value) is dict else None
    if kind not in ("text", "json_object"):
        return NOT_READ
    del value["type"]
    if kind == "text":
        return new_output_format("text"), set_again(value)
    # The SDK names it json_schema, the guides schema (docs.cohere.com/docs/structured-outputs, read 2026-11-18).
    key = _SCHEMA if _SCHEMA in value else "schema"
    if type(value.get(key)) is not dict:
        return new_output_format("json"), set_again(value)
    output = new_output_format("schema", write_json(value.pop(key)))
    return output, nested(value, {}, (), None if key == _SCHEMA else {_SCHEMA: key})


def _fit_format(output: OutputFormat, to: Writing) -> Any:
    if "tools" not in to.body:
        return output
    if output.kind != "text":
        to.drop("Cohere takes no format beside tools")
    return absent


def _write_format(output: OutputFormat, to: Writing) -> Object:
    written: Object = {"type": "text" if output.kind == "text" else "json_object"}
    if isinstance(output.schema, str):
        written[_SCHEMA] = decode_json(output.schema)
    if output.name is not absent:
        to.report.lose("FORMAT_NAME_DROPPED", "@output")
    return written


# --- thinking ------------------------------------------------------------------------------------


def _read_thinking(value: Any, _: Reading) -> Said:
    kind = value.get("type") if type(value) is dict else None
    if kind not in ("enabled", "disabled"):
        return NOT_READ
    del value["type"]
    budget: Any = absent
    if kind == "enabled" and type(value.get("token_budget")) is int and value["token_budget"] > 0:
        budget = value.pop("token_budget")
    return new_thinking(enabled=kind == "enabled", budget=budget), set_again(value)


def _write_thinking(thinking: Thinking, to: Writing) -> Object:
    if thinking.summary is not absent:
        to.drop("Cohere always shows thoughts", "summary")
    if thinking.enabled is False or thinking.budget == 0 or thinking.effort == "none":
        return {"type": "disabled"}
    budget = thinking.budget
    if isinstance(thinking.effort, str):
        to.change(f"no effort {thinking.effort!r} here; Cohere has a token budget", "effort")
        if budget is absent:
            effort = thinking.effort if thinking.effort in BUDGETS else "medium"
            budget = budget_of(effort, to.request.controls.max_tokens)
    is_limited = isinstance(budget, int) and budget > 0
    return {"type": "enabled", "token_budget": budget} if is_limited else {"type": "enabled"}


# --- tools ---------------------------------------------------------------------------------------


def _write_tools(request: Request, body: Object, report: Report) -> None:
    """The tools; strictness is set once for all of them, because a single tool cannot be strict."""
    tools = [tool for tool in request.tools if tool.hosted is absent]
    is_strict = bool(tools) and all(tool.strict is True for tool in tools)
    unstrict = "" if is_strict else "Cohere follows all tools strictly or none"
    write_tools(NAME, request, body, report, has_freeform=False, unstrict=unstrict)
    if request.source == NAME and not is_spelled(request, NAME, STRICT):
        return
    if is_strict:
        body[STRICT] = True
    for tool in body.get("tools", ()):
        tool.get("function", {}).pop("strict", None)


_FIVE = at_most(5, "Cohere takes five stop sequences")
_THINKING = Form(read=_read_thinking, write=_write_thinking)
_CHOICE = Form(read=_read_choice, write=_write_choice)
# The ranges are those of cohere 7.3.1, in the documentation of ``V2Client.chat``.
TABLE = SettingTable(
    NAME,
    (
        Setting("model", "model", TEXT),
        Setting("tool_choice", "tool_choice", _CHOICE, _fit_choice),
        Setting("max_tokens", "max_tokens", WHOLE, fit_limit()),
        Setting("temperature", "temperature", NUMBER, within(0, 1)),
        Setting("top_p", "p", NUMBER, within(0.01, 0.99)),
        Setting("top_k", "k", WHOLE, fit_top_k(most=500)),
        Setting("stop", "stop_sequences", TEXTS, _FIVE),
        Setting("seed", "seed", WHOLE, fit_seed),
        Setting("presence_penalty", "presence_penalty", NUMBER, within(0, 1)),
        Setting("frequency_penalty", "frequency_penalty", NUMBER, within(0, 1)),
        Setting("parallel_calls", "", unless(True, "")),
        Setting(
            "output", "response_format", Form(read=_read_format, write=_write_format), _fit_format
        ),
        Setting("thinking", "thinking", _THINKING),
        # Every response reports usage.
        Setting("include_usage", "", UNSAID),
        Setting("stream", "stream", FLAG),
    ),
    {
        "switch": "thinking.type",
        "budget": "thinking.token_budget",
        "finish": "finish_reason",
        "citations": "message.citations",
    },
    tools=_write_tools,
)
