"""Function tools: reading shared by the dialects, and what happens to tools of another dialect.

A dialect names the fields of a function. Tools that only a provider understands pass unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec import Raw
from orjson import Fragment

from cannery.messages.absence import absent
from cannery.messages.json_text import write_json
from cannery.messages.requests import Request, Tool, new_tool
from cannery.messages.residue import Residue
from cannery.wire.arguments import FREEFORM_INPUT
from cannery.wire.bodies import Object, decode, spelled_object, spelled_text
from cannery.wire.controls import distinct, field_of, report_grammar
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import recall

NO_PARAMETERS = {"type": "object", "properties": {}}
_FREEFORM = write_json(
    {
        "type": "object",
        "properties": {FREEFORM_INPUT: {"type": "string"}},
        "required": [FREEFORM_INPUT],
    }
)


def take_facts(
    fields: Object, schema: str = "parameters", strict: str = "strict"
) -> tuple[Any, Any, Any]:
    """Take a function's description, the text of its schema, and its strictness; absent for what is missing.

    The fields may be undecoded.
    """
    description: Any = absent
    parameters: Any = absent
    is_strict: Any = absent
    if "description" in fields:
        value = fields["description"]
        if type(value) is Raw:
            value = decode(value)
        if type(value) is str:
            description = value
            del fields["description"]
    if schema in fields:
        value = fields[schema]
        if type(value) is Raw:
            spelled = spelled_text(value)
            if spelled[0] == "{":
                parameters = spelled
                del fields[schema]
        elif type(value) is dict:
            parameters = spelled_object(value)
            del fields[schema]
    if strict in fields:
        value = fields[strict]
        if type(value) is Raw:
            value = decode(value)
        if type(value) is bool:
            is_strict = value
            del fields[strict]
    return description, parameters, is_strict


def as_function(tool: Tool, report: Report, place: str) -> Tool:
    """A free-text tool as a function: the text is its only argument, and a grammar is lost."""
    report.lose("FREEFORM_WRAPPED", place)
    report.freeform.add(tool.name)
    report_grammar(tool, report, place)
    return new_tool(tool.name, tool.description, _FREEFORM)  # type: ignore[no-any-return]


def allowed_names(request: Request) -> tuple[str, ...] | None:
    """The names of the tools that may be called; None if all may be."""
    choice = request.tool_choice
    return choice.names if choice is not absent and choice.mode == "allowed" else None


def written_tools(
    dialect: str,
    request: Request,
    report: Report,
    write: Callable[[Tool, bool], Any],
    *,
    allowed: Collection[str] | None = None,
    unstrict: str = "",
) -> Iterator[tuple[Tool, Residue | None, Any]]:
    """The tools of a request for a dialect without free text, each with its residue of this dialect.

    ``write`` takes a function, and whether it comes from this dialect. Only ``allowed`` tools are sent; ``unstrict``
    is the loss detail if functions cannot be strict.
    """
    is_same = request.source == dialect
    for place, tool in distinct(request, dialect, report):
        if allowed is not None and tool.name not in allowed:
            report.lose("TOOL_DROPPED", place, f"{tool.name!r} is not among the allowed tools")
            continue
        residue = tool.residue
        if residue is not None and residue.dialect != dialect:
            report_residue(tool, report, place)
            residue = None
        if isinstance(tool.hosted, str):
            written: Any = Fragment(tool.hosted)
        else:
            if unstrict and not is_same and tool.strict is True:
                report.lose("FIELD_DROPPED", place, unstrict, field_of(tool, report, "strict"))
            function = as_function(tool, report, place) if tool.is_freeform else tool
            written = write(function, is_same)
        yield tool, residue, written if residue is None else recall(written, residue.part)
