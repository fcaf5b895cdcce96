"""Settings beside a conversation: typed reads, and losses for settings that a target does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from msgspec.structs import astuple

from cannery.errors import DialectError
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    Controls,
    Request,
    Thinking,
    Tool,
    ToolChoice,
)
from cannery.wire.bodies import Object, kind_of
from cannery.wire.losses import Report

# The thinking budget for an effort word, where only a budget can be given, and the reverse.
BUDGETS = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 24576,
    "xhigh": 32768,
    "max": 32768,
}
# The effort words that OpenAI's two dialects accept.
EFFORTS = frozenset({"none", *BUDGETS})
# Settings that change nothing if they have these values.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "candidates": (1,),
    "frequency_penalty": (0,),
    # No limit, as Ollama and llama.cpp say it.
    "max_tokens": (-1, -2),
    "parallel_calls": (True,),
    "presence_penalty": (0,),
    "stop": ((),),
    "temperature": (1,),
    "top_k": (0, -1),
    "top_p": (1,),
    "user": ("",),
}
# The name for an output format without one, if the target requires a name.
FORMAT_NAME = "output"
_FREE_TEXT = {"type": "text"}
_NAMES = Controls.__struct_fields__


def number(value: Any) -> Any:
    """The number, or absent for any other type."""
    return value if type(value) in (int, float) else absent


def integer(value: Any) -> Any:
    """The integer, or absent for any other type."""
    return value if type(value) is int else absent


def text(value: Any) -> Any:
    """The string, or absent for any other type."""
    return value if type(value) is str else absent


def flag(value: Any) -> Any:
    """The boolean, or absent for any other type."""
    return value if type(value) is bool else absent


def put(body: dict[str, Any], key: str, value: Any) -> None:
    """Set a field unless the value is absent."""
    if value is not absent:
        body[key] = value


def take_listed(dialect: str, body: Object, key: str) -> list[Object]:
    """Take a list of objects, such as tools, out of a body; null and an empty list stay in the residue."""
    listed = body.get(key)
    if listed is None or listed == []:
        return []
    if type(listed) is not list:
        raise DialectError(dialect, key, f"expected a list, got {kind_of(listed)}")
    for index, item in enumerate(listed):
        if type(item) is not dict:
            problem = f"expected an object, got {kind_of(item)}"
            raise DialectError(dialect, f"{key}[{index}]", problem)
    del body[key]
    return listed


def distinct(request: Request, dialect: str, report: Report) -> Iterator[tuple[str, Tool]]:
    """The tools of a request with their places; for another dialect, only the first tool of each name."""
    names: set[str] = set()
    is_same = request.source == dialect
    places = report.tool_places
    for index, tool in enumerate(request.tools):
        place = places[index] if places else f"tools[{index}]"
        if not is_same and tool.hosted is absent:
            if tool.name in names:
                report.lose("TOOL_DROPPED", place, f"another tool is named {tool.name!r}")
                continue
            names.add(tool.name)
        yield place, tool


def field_of(tool: Tool, report: Report, field: str) -> str:
    """The path of a tool's field; some dialects do not keep it at the tool's top level."""
    is_old = tool.residue is not None and tool.residue.form == "functions"
    return f".{field}" if is_old else report.tool_paths.get(field, f".{field}")


def report_grammar(tool: Tool, report: Report, place: str) -> None:
    """Report the grammar of a custom tool if the target has none; a plain text format is not a grammar."""
    if isinstance(tool.grammar, str) and decode_json(tool.grammar) != _FREE_TEXT:
        within = field_of(tool, report, "format")
        report.lose("FIELD_DROPPED", place, "the target has no grammars", within)


def is_possible(choice: ToolChoice, sent: Iterable[str]) -> bool:
    """Whether the server would find the tools that a choice names; true if it names none."""
    if choice.names:
        return {*sent}.issuperset(choice.names)
    return any(True for _ in sent)


def sent_names(body: Object) -> Iterator[str]:
    """The names of the tools of a body, for dialects that keep a tool's name at its top level."""
    return (str(tool.get("name")) for tool in body.get("tools", ()) if type(tool) is dict)


def drop_choice(choice: ToolChoice, report: Report) -> None:
    """Drop a choice among tools that could not be sent; without tools, a free choice means nothing."""
    if choice.mode not in ("auto", "none"):
        report.lose("CONTROL_DROPPED", "@tool_choice", "the tools it names could not be sent")


def given_controls(controls: Controls) -> list[tuple[str, Any]]:
    """The controls that a request sets, by name."""
    if controls is DEFAULT_CONTROLS:
        return []
    values = zip(_NAMES, astuple(controls), strict=True)
    return [(name, value) for name, value in values if value is not absent]


def drop_control(name: str, value: Any, report: Report, detail: str = "") -> None:
    """Report a control that the target does not have, unless its value changes nothing."""
    is_neutral = value in _NEUTRAL.get(name, ())
    report.lose("DEFAULT_DROPPED" if is_neutral else "CONTROL_DROPPED", f"@{name}", detail)


def drop_controls(controls: Controls, known: Collection[str], report: Report) -> None:
    """Report every control that is set and that the target does not have."""
    for name, value in given_controls(controls):
        if name not in known:
            drop_control(name, value, report)


def lose_thinking(thinking: Thinking, report: Report, detail: str) -> None:
    """Report all thinking settings as lost: the switch, and an effort at another path."""
    report.lose("CONTROL_DROPPED", "@thinking", detail)
    if thinking.enabled is not absent and thinking.effort is not absent:
        report.lose("CONTROL_DROPPED", "@effort", detail)


def budget_of(effort: str, limit: Any) -> int:
    """The token budget for an effort: at most half of the limit, so that the other half remains for the answer."""
    bought = BUDGETS[effort]
    return min(bought, limit // 2) if isinstance(limit, int) else bought


def effort_of(budget: int) -> str:
    """The effort word with the nearest budget."""
    return min(("low", "medium", "high"), key=lambda word: abs(BUDGETS[word] - budget))
