"""Everything in a Responses request that is not an item: tools, tool choice and controls, both ways."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from orjson import Fragment

from cannery.errors import DialectError
from cannery.families.openai.settings import (
    SIBLINGS,
    UNSHOWN,
    legal_format,
    take_output,
    write_effort,
    write_metadata,
    write_output,
)
from cannery.families.openai.shared import put_shared, shared_settings
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    new_controls,
    new_thinking,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Fields, Object, decode, kind_of
from cannery.wire.controls import (
    distinct,
    drop_choice,
    drop_control,
    flag,
    given_controls,
    is_possible,
    put,
    text,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import nested, own_residue, recall
from cannery.wire.schemas import lists_properties, object_schema

NAME = "openai_responses"
CONTROL_PATHS = {
    "max_tokens": "max_output_tokens",
    "parallel_calls": "parallel_tool_calls",
    "output": "text.format",
    "thinking": "reasoning",
    "effort": "reasoning.effort",
    "summary": "reasoning.summary",
    "finish": "status",
}
MODELLED = frozenset(
    {
        "model",
        "stream",
        "max_output_tokens",
        "temperature",
        "top_p",
        "parallel_tool_calls",
        "metadata",
        "user",
        "tools",
        "tool_choice",
        "instructions",
        "input",
        "text.format",
        "text.format.type",
        "reasoning.effort",
        "reasoning.summary",
        # of a response
        "id",
        "object",
        "created_at",
        "completed_at",
        "status",
        "usage",
        "usage.total_tokens",
        "incomplete_details",
        "incomplete_details.reason",
    }
)
_SUMMARIES = frozenset({"auto", "concise", "detailed"})
_NO_PARAMETERS = {"type": "object", "properties": {}}
_CHOICES = frozenset({"auto", "none", "required"})
_split_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class SettingsReader:
    """Takes the settings from the fields of a request; what it does not understand stays there."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.tools: tuple[Tool, ...] = ()
        self.tool_choice: Any = absent
        self._values: Object = {}
        self._patches: Object = {}
        for key in [key for key in fields if key in _READERS]:
            _READERS[key](self, key)
        if "tool_choice" in fields:
            # Only now, since which tools are custom ones decides how the choice of one is written.
            self._read_choice(decode(fields["tool_choice"]))
        self.model: Any = self._values.pop("model", absent)
        self.stream: Any = self._values.pop("stream", absent)
        self.controls = new_controls(**self._values) if self._values else DEFAULT_CONTROLS

    def envelope(self) -> str | None:
        """The patch of all fields that were not taken."""
        return patch_of(self.fields, (), self._patches)

    def read_scalar(self, key: str) -> None:
        """A setting that is one value; a value of any other type is residue."""
        name, types = _SCALARS[key]
        value = decode(self.fields[key])
        if type(value) in types:
            self._values[name] = value
            del self.fields[key]

    def read_metadata(self, key: str) -> None:
        """Metadata, if there are any."""
        value = decode(self.fields[key])
        if type(value) is dict and value:
            self._values["metadata"] = write_json(value)
            del self.fields[key]

    def read_thinking(self, key: str) -> None:
        """The effort and the summary of reasoning."""
        value = decode(self.fields[key])
        if type(value) is not dict:
            return
        effort, summary = text(value.get("effort")), text(value.get("summary"))
        if effort is absent and summary is absent:
            return
        self._values["thinking"] = new_thinking(effort=effort, summary=summary)
        taken = [] if effort is absent else ["effort"]
        if summary is not absent and summary not in UNSHOWN:
            taken.append("summary")
        for name in taken:
            del value[name]
        # Thoughts that are not shown are the default, which is not written.
        if taken:
            self._leave(key, value)

    def read_text(self, key: str) -> None:
        """The output format."""
        value = decode(self.fields[key])
        output, patch = take_output(value.get("format")) if type(value) is dict else (absent, None)
        if output is not absent:
            self._values["output"] = output
            del value["format"]
            self._leave(key, value, {"format": patch})

    def _leave(
        self, key: str, left: Object, inner: Object | None = None, dropped: Sequence[str] = ()
    ) -> None:
        """Keep what is left of an object of which something was taken."""
        del self.fields[key]
        self._patches[key] = nested(left, inner or {}, dropped)

    def read_tools(self, key: str) -> None:
        """The tools; what they take as parameters is not decoded."""
        raw = self.fields[key]
        try:
            tools = _split_tools(raw)
        except msgspec.ValidationError:
            _refuse_tools(decode(raw))
            return
        if tools:
            del self.fields[key]
            self.tools = tuple(map(_read_tool, tools))

    def _read_choice(self, value: Any) -> None:
        if type(value) is str:
            if value in _CHOICES:
                self.tool_choice = new_tool_choice(value)
                del self.fields["tool_choice"]
        elif type(value) is dict:
            freeform = {tool.name for tool in self.tools if tool.is_freeform}
            if value.get("type") == "allowed_tools":
                self._read_allowed(value, freeform)
            elif (name := _chosen(value)) is not None:
                is_freeform = value["type"] == "custom"
                self.tool_choice = new_tool_choice("named", (name,), is_freeform=is_freeform)
                _take_chosen(value, {*freeform, name} if is_freeform else freeform)
                self._leave("tool_choice", value)

    def _read_allowed(self, value: Object, freeform: set[str]) -> None:
        tools: Any = value.get("tools")
        mode = value.get("mode")
        names = [_chosen(tool) for tool in tools] if type(tools) is list else []
        if None in names or not names:
            return
        must_call = mode == "required"
        self.tool_choice = new_tool_choice("allowed", tuple(map(str, names)), must_call)
        del value["type"], value["tools"]
        if must_call or mode == "auto":
            del value["mode"]
        for tool in tools:
            _take_chosen(tool, freeform)
        left = {str(index): {"s": tool} for index, tool in enumerate(tools) if tool}
        inner = {"tools": {"i": left}} if left else None
        self._leave("tool_choice", value, inner, () if "mode" in value or mode else ("mode",))


# The settings that are one value: their names in the model, and the types that are read.
_SCALARS: dict[str, tuple[str, tuple[type, ...]]] = {
    "model": ("model", (str,)),
    "stream": ("stream", (bool,)),
    "max_output_tokens": ("max_tokens", (int,)),
    "temperature": ("temperature", (int, float)),
    "top_p": ("top_p", (int, float)),
    "parallel_tool_calls": ("parallel_calls", (bool,)),
    "user": ("user", (str,)),
}
_KEYS = {name: key for key, (name, _) in _SCALARS.items()}
_READERS: dict[str, Callable[[SettingsReader, str], None]] = {
    "metadata": SettingsReader.read_metadata,
    "reasoning": SettingsReader.read_thinking,
    "text": SettingsReader.read_text,
    "tools": SettingsReader.read_tools,
    **dict.fromkeys(_SCALARS, SettingsReader.read_scalar),
}


def patch_of(left: Object, dropped: Sequence[str] = (), inner: Object | None = None) -> str | None:
    """The text of the patch that gives back what was left of an object."""
    if inner or dropped:
        patch = nested(left, inner or {}, dropped)
        return None if patch is None else write_json(patch)
    return write_json({"s": left}) if left else None


def _refuse_tools(value: Any) -> None:
    """Refuse tools that are no list of objects."""
    if value is None:
        return
    if type(value) is not list:
        raise DialectError(NAME, "tools", f"expected a list, got {kind_of(value)}")
    for index, tool in enumerate(value):
        if type(tool) is not dict:
            raise DialectError(NAME, f"tools[{index}]", f"expected an object, got {kind_of(tool)}")


def _read_tool(item: dict[str, Raw]) -> Tool:
    kind = decode(item["type"]) if "type" in item else None
    name = decode(item["name"]) if "name" in item else None
    if kind not in ("function", "custom") or type(name) is not str or not name:
        kind = kind if type(kind) is str and kind else "unknown"
        return new_tool(kind, hosted=write_json(item))  # type: ignore[no-any-return]
    del item["type"], item["name"]
    description: Any = absent
    if "description" in item:
        description = text(decode(item["description"]))
        if description is not absent:
            del item["description"]
    if kind == "custom":
        grammar = _take_object(item, "format")
        residue = Residue(NAME, patch_of(item)) if item else None
        return new_tool(name, description, absent, absent, True, grammar, absent, residue)  # type: ignore[no-any-return]
    dropped = [key for key in ("parameters", "strict") if key not in item]
    schema = _take_object(item, "parameters")
    strict: Any = absent
    if "strict" in item:
        strict = flag(decode(item["strict"]))
        if strict is not absent:
            del item["strict"]
    residue = Residue(NAME, patch_of(item, dropped)) if item or dropped else None
    return new_tool(name, description, schema, strict, False, absent, absent, residue)  # type: ignore[no-any-return]


def _take_object(item: dict[str, Raw], key: str) -> Any:
    """Take the text of an object, or absent for anything else."""
    found = str(item[key], "utf-8") if key in item else ""
    if found[:1] != "{":
        return absent
    del item[key]
    return found


def _chosen(choice: Any) -> str | None:
    """The name of a chosen function or custom tool."""
    if type(choice) is not dict or choice.get("type") not in ("function", "custom"):
        return None
    name = choice.get("name")
    return name if type(name) is str else None


def _take_chosen(choice: Object, freeform: set[str]) -> None:
    """Take what will be written of a chosen tool."""
    name = choice.pop("name")
    if choice["type"] == ("custom" if name in freeform else "function"):
        del choice["type"]


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but the instructions and the items, in the usual form."""
    body: Object = {}
    is_same = request.source == NAME
    put(body, "model", request.model)
    if request.tools:
        _write_tools(request, body, report)
    if isinstance(request.tool_choice, ToolChoice):
        _write_choice(request, request.tool_choice, body, report)
    for name, value in given_controls(request.controls):
        key = _KEYS.get(name)
        if key is not None:
            body[key] = value
        elif name == "output":
            body["text"] = {"format": write_output(value)}
        elif name == "thinking":
            _write_thinking(value, body, report, is_same=is_same)
        elif name == "metadata":
            write_metadata(request.controls, body, report, is_same=is_same)
        elif name != "include_usage":
            # Usage comes with every answer, so asking for it needs no words.
            drop_control(name, value, report)
    put(body, "stream", request.stream)
    if not is_same and request.residue is not None:
        put_shared(request, NAME, body)
    return body


def takes_over(request: Request) -> Collection[str]:
    """The settings that are taken from the residue of the sibling."""
    return shared_settings(request, NAME).places


def _write_thinking(thinking: Thinking, body: Object, report: Report, *, is_same: bool) -> None:
    reasoning: Object = {}
    effort = write_effort(thinking, report, is_same=is_same)
    if effort is not None:
        reasoning["effort"] = effort
    summary = thinking.summary
    if isinstance(summary, str) and summary not in UNSHOWN:
        reasoning["summary"] = summary if is_same or summary in _SUMMARIES else "auto"
    if reasoning:
        body["reasoning"] = reasoning


def _write_tools(request: Request, body: Object, report: Report) -> None:
    is_same = request.source == NAME
    for place, tool in distinct(request, NAME, report):
        residue = own_residue(tool, NAME)
        if residue is None:
            report_residue(tool, report, place)
        if tool.hosted is not absent and (request.source or NAME) != NAME:
            report.lose("TOOL_DROPPED", place, f"Responses has no hosted tool {tool.name!r}")
            continue
        written = write_tool(tool)
        if residue is not None:
            written = recall(written, residue.part)
        elif tool.is_freeform and not is_same:
            written.pop("format", None)
            put(written, "format", legal_format(tool, request, report, place))
        elif tool.hosted is absent and request.source not in SIBLINGS:
            _make_legal(written, tool)
        body.setdefault("tools", []).append(written)


def write_tool(tool: Tool) -> Any:
    """A tool in the usual form; ``strict`` is always said, since it defaults to true here only."""
    if isinstance(tool.hosted, str):
        return Fragment(tool.hosted)
    written: Object = {"type": "custom" if tool.is_freeform else "function", "name": tool.name}
    put(written, "description", tool.description)
    if tool.is_freeform:
        if isinstance(tool.grammar, str):
            written["format"] = Fragment(tool.grammar)
        return written
    has_schema = isinstance(tool.schema, str)
    written["parameters"] = Fragment(str(tool.schema)) if has_schema else _NO_PARAMETERS
    written["strict"] = False if tool.strict is absent else tool.strict
    return written


def _make_legal(written: Object, tool: Tool) -> None:
    """Change what the server would refuse of a function of another provider: an object lists its properties."""
    if isinstance(tool.schema, str) and not lists_properties(tool.schema):
        written["parameters"] = object_schema(decode_json(tool.schema))


def _write_choice(request: Request, choice: ToolChoice, body: Object, report: Report) -> None:
    sent = [str(tool.get("name")) for tool in body.get("tools", ()) if isinstance(tool, dict)]
    is_free = choice.mode in ("auto", "none")
    if request.source != NAME and not (is_free or is_possible(choice, sent)):
        drop_choice(choice, report)
        return
    freeform = {tool.name for tool in request.tools if tool.is_freeform}
    if choice.is_freeform:
        freeform.update(choice.names)
    named = [
        {"type": "custom" if name in freeform else "function", "name": name}
        for name in choice.names
    ]
    if choice.mode == "allowed":
        mode = "required" if choice.must_call else "auto"
        body["tool_choice"] = {"type": "allowed_tools", "mode": mode, "tools": named}
    else:
        body["tool_choice"] = named[0] if choice.mode == "named" else choice.mode
