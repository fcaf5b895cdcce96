"""Everything in a Messages request except its messages: tools, tool choice and controls, both ways.

The same dialect gets back what was read. For another one the writer gives what the server accepts: a limit is always
set, the temperature ends at 1, thinking needs room below the limit and no forced tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from orjson import Fragment

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.schemas import held_schema
from cannery.errors import DialectError
from cannery.families.claude.models import samplers
from cannery.families.claude.thinking import (
    make_room,
    read_mode,
    write_own_thinking,
    write_thinking,
)
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    OutputFormat,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    new_output_format,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, encode, opened, spelled_object
from cannery.wire.controls import FORMAT_NAME, drop_control
from cannery.wire.losses import Report
from cannery.wire.places import path_text
from cannery.wire.residues import noted, set_again
from cannery.wire.schemas import is_strict, of_object
from cannery.wire.setting_reading import NOT_READ, Reading, Said, Spelled
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
    fit_limit,
    fit_top_k,
    within,
)
from cannery.wire.tools import NO_PARAMETERS, allowed_names, take_facts, written_tools

Path = tuple[str | int, ...]
CACHE = {"5m": "short", "1h": "long"}
# The types of tools that are functions.
_FUNCTIONS = (None, "custom")


# The response fields that the model holds.
MODELLED_ANSWER = frozenset({"model", "id", "type", "role", "stop_reason", "stop_sequence"})
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_CHOICE_WORDS = {mode: word for word, mode in _CHOICES.items()}
_SINGLE = "disable_parallel_tool_use"


def refuse(path: Path, problem: str) -> NoReturn:
    """Refuse a body."""
    raise DialectError(NAME, path_text(path), problem)


# --- tools ---------------------------------------------------------------------------------------


def read_tool(item: Object) -> Tool:
    """A tool of a request."""
    name, schema, mark = item.get("name"), item.get("input_schema"), None
    if "cache_control" in item:
        item["cache_control"] = opened(item["cache_control"])
        mark = read_mark(item)
    if item.get("type") not in _FUNCTIONS or type(name) is not str or type(schema) is not dict:
        words = [word for word in (name, item.get("type")) if type(word) is str and word]
        own = Residue(NAME, None, None, "hosted", None, mark)
        hosted = spelled_object(item)
        return new_tool(words[0] if words else "unknown", hosted=hosted, residue=own)  # type: ignore[no-any-return]
    del item["name"]
    facts = take_facts(item, "input_schema")
    residue = None
    if item:
        residue = Residue(NAME, encode({"s": item}).decode(), None, None, None, mark)
    return new_tool(name, *facts, residue=residue)  # type: ignore[no-any-return]


def read_mark(block: Object) -> str | None:
    """The cache mark of a block or tool in terms that every dialect understands."""
    mark = block.get("cache_control")
    return CACHE.get(str(mark.get("ttl")), "short") if type(mark) is dict else None


def _write_tools(request: Request, body: Object, report: Report) -> None:
    allowed = allowed_names(request)
    tools = written_tools(NAME, request, report, _write_tool, allowed=allowed)
    written = [ours for _, _, ours in tools]
    if written:
        body["tools"] = written


def _write_tool(tool: Tool, is_same: bool) -> Object:  # noqa: FBT001 - as written_tools says it
    written: Object = {"name": tool.name}
    description, schema, strict = tool.description, tool.schema, tool.strict
    if description is not absent:
        written["description"] = description
    if schema is not absent:
        written["input_schema"] = Fragment(schema) if is_same else of_object(schema)
    elif not is_same:
        written["input_schema"] = NO_PARAMETERS
    if strict is not absent and (is_same or strict is not None):
        written["strict"] = strict
    return written


# --- the choice of tools -------------------------------------------------------------------------


def _read_choice(value: Any, reading: Reading) -> Said:
    if type(value) is not dict:
        return NOT_READ
    single = value.get(_SINGLE)
    if type(single) is bool:
        reading.found["parallel_calls"] = not single
    kind, name = value.get("type"), value.get("name")
    if kind == "tool" and type(name) is str and name:
        choice = new_tool_choice("named", (name,))
        del value["name"]
    elif type(kind) is str and kind in _CHOICES:
        choice = new_tool_choice(_CHOICES[kind])
    else:
        return NOT_READ
    del value["type"]
    if type(single) is bool and kind != "none":
        del value[_SINGLE]
    return choice, set_again(value)


def _fit_choice(choice: ToolChoice, to: Writing) -> Any:
    """The choice, if there are tools to choose from; without tools, a free choice means nothing."""
    names = {tool.name for tool in to.request.tools} if to.body.get("tools") else set()
    if names and (choice.mode != "named" or choice.names[0] in names):
        return choice
    if choice.mode not in ("auto", "none"):
        to.drop("no such tool was sent")
    return absent


def _write_choice(choice: ToolChoice, to: Writing) -> Object:
    if choice.mode == "named":
        return {"type": "tool", "name": choice.names[0]}
    if choice.mode == "allowed":
        to.change("only the allowed tools were sent")
        return {"type": "any" if choice.must_call else "auto"}
    return {"type": _CHOICE_WORDS[choice.mode]}


def _write_parallel(value: bool, to: Writing) -> Any:  # noqa: FBT001 - the value of a control
    """Set in the tool choice whether parallel calls are allowed."""
    choice = to.body.get("tool_choice")
    if choice is None and not to.is_same:
        if to.body.get("tools"):
            choice = to.body["tool_choice"] = {"type": "auto"}
        elif value is False:
            to.drop("without tools there are no calls")
    if choice is not None and choice["type"] != "none":
        choice[_SINGLE] = not value
    return absent


# --- the format of an answer ---------------------------------------------------------------------


def _read_format(value: Any, _: Reading) -> Said:
    schema = value.get("schema") if type(value) is dict else None
    if type(schema) is not dict or value.get("type") != "json_schema":
        return NOT_READ
    strict = is_strict(schema) or absent
    del value["type"], value["schema"]
    return new_output_format("schema", write_json(schema), strict=strict), set_again(value)


def _read_former_format(value: Any, reading: Reading) -> Said:
    """A format under its former name; writing puts it into ``output_config``."""
    around = reading.left.get("output_config")
    if type(value) is not dict or (type(around) is dict and "format" in around):
        return NOT_READ
    output, _ = _read_format({**value}, reading)
    if output is absent:
        return NOT_READ
    written = {"format": _own_format(output)}
    if "effort" in reading.found:
        reading.inner.setdefault("output_config", {}).update(x=["format"], w=noted(written))
    else:
        reading.written["output_config"] = written
    return output, Spelled()


def _write_format(output: OutputFormat, to: Writing) -> Any:
    if output.kind == "text":
        return absent
    if not isinstance(output.schema, str):
        to.drop("Messages take no JSON format without a schema")
        return absent
    written = _own_format(output)
    if not to.is_same:
        written["schema"], is_changed = held_schema(written["schema"])
        if is_changed:
            to.change("objects are closed; what a format cannot hold stands in descriptions")
    if output.name not in (absent, FORMAT_NAME):
        to.report.lose("FORMAT_NAME_DROPPED", "@output")
    if output.description is not absent or output.strict is False:
        to.change("the format has no description and is always strict")
    return written


def _own_format(output: OutputFormat) -> Object:
    return {"type": "json_schema", "schema": decode_json(str(output.schema))}


# --- controls ------------------------------------------------------------------------------------


_TOP_K, _UNIT = fit_top_k(), within(0, 1)


def _read_top_p(value: Any, _: Reading) -> Said:
    """LangChain's clients send -1 for the default, and the server takes it (recorded 2025)."""
    return (value, None) if type(value) in (int, float) and value != -1 else NOT_READ


def _fit_sampler(value: float, to: Writing) -> Any:
    if not samplers(to.body.get("model")):
        drop_control(to.name, value, to.report, f"this model takes no {to.name}")
        return absent
    return _TOP_K(value, to) if to.name == "top_k" else _UNIT(value, to)


def _fit_stop(value: Sequence[str], to: Writing) -> Any:
    visible = [stop for stop in value if stop.strip()]
    if len(visible) < len(value):
        to.change("a stop sequence needs a visible character")
    return visible or absent


def _write_thinking(thinking: Thinking, to: Writing) -> Any:
    if to.is_same:
        write_own_thinking(thinking, to.body)
    else:
        to.body.setdefault("max_tokens", None)
        write_thinking(thinking, to.body, to.report)
    return absent


TABLE = SettingTable(
    NAME,
    (
        Setting("model", "model", TEXT),
        Setting("tool_choice", "tool_choice", Form((), _read_choice, _write_choice), _fit_choice),
        Setting("max_tokens", "max_tokens", WHOLE, fit_limit(is_needed=True)),
        Setting("temperature", "temperature", NUMBER, _fit_sampler),
        Setting("top_p", "top_p", Form(read=_read_top_p), _fit_sampler),
        Setting("top_k", "top_k", WHOLE, _fit_sampler),
        Setting("stop", "stop_sequences", TEXTS, _fit_stop),
        Setting("parallel_calls", f"tool_choice.{_SINGLE}", Form(write=_write_parallel)),
        Setting("output", "output_config.format", Form((), _read_format, _write_format)),
        Setting("output", "output_format", Form(read=_read_former_format)),
        Setting("thinking", "thinking", Form(write=_write_thinking)),
        Setting("enabled", "thinking", Form(read=read_mode), also=("switch",)),
        Setting("effort", "output_config.effort", TEXT),
        Setting("user", "metadata.user_id", TEXT),
        # Every stream of this server reports usage.
        Setting("include_usage", "", UNSAID),
        Setting("stream", "stream", FLAG),
    ),
    {
        "budget": "thinking.budget_tokens",
        "summary": "thinking.display",
        "finish": "stop_reason",
    },
    tools=_write_tools,
)


def write_settings(request: Request, report: Report, messages: Sequence[Any] = ()) -> Object:
    """Every body field except system and messages, which may leave no room for thinking."""
    body = TABLE.write(request, report)
    if request.source != NAME:
        body.setdefault("max_tokens", None)
        make_room(body, messages, report)
    return body
