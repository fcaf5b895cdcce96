"""Tools of ShareGPT: a JSON list in a string, flat (``{"name": …}``) or in Chat's form (``{"type", "function"}``)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from cannery.dialects.sharegpt.calls import UNREADABLE
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import Request, Tool, new_tool
from cannery.messages.residue import Residue
from cannery.wire.bodies import Fields, Object
from cannery.wire.controls import put, report_grammar
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import nested, own_residue, recall, set_again
from cannery.wire.tools import take_facts

NAME = "sharegpt"
_NESTED = "nested"
_read_item = msgspec.json.Decoder(dict[str, Raw]).decode
_read_items = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def read_tools(spelled: str) -> tuple[Tool, ...]:
    """The tools of a record; none if their text is not a list of tools."""
    try:
        tools = tuple(map(_read_tool, _read_items(spelled)))
    except (*UNREADABLE, ValueError):
        return ()
    return () if None in tools else tools  # type: ignore[return-value]


def _read_tool(outer: Fields) -> Tool | None:
    is_nested = bytes(outer.get("type", b"")) == b'"function"' and _is_object(outer.get("function"))
    inner = _read_item(outer.pop("function")) if is_nested else outer
    name = decode_json(bytes(inner.pop("name"))) if "name" in inner else None
    if type(name) is not str or not name:
        return None
    facts = take_facts(inner)
    patch = set_again({key: decode_json(bytes(item)) for key, item in inner.items()})
    if is_nested:
        del outer["type"]
        beside = {key: decode_json(bytes(item)) for key, item in outer.items()}
        patch = nested(beside, {"function": patch})
    residue = None
    if patch is not None or is_nested:
        part = None if patch is None else write_json(patch)
        residue = Residue(NAME, part, None, _NESTED if is_nested else None)
    return new_tool(name, *facts, residue=residue)  # type: ignore[no-any-return]


def _is_object(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw)[:1] == b"{"


def write_tools(request: Request, report: Report) -> str | None:
    """The usual spelling of the tools of a request; None if there are none."""
    tools = [
        tool
        for index, tool in enumerate(request.tools)
        if _is_sayable(tool, report, report.tool_place(index), request.source)
    ]
    return spell_tools(tools, is_same=request.source == NAME) if tools else None


def spell_tools(tools: Iterable[Tool], *, is_same: bool) -> str:
    """The usual spelling of some tools; schemas of another dialect lose the spacing of their body."""
    return f"[{', '.join(_spell(tool, is_same=is_same) for tool in tools)}]"


def _is_sayable(tool: Tool, report: Report, place: str, source: str | None) -> bool:
    if source != NAME and tool.hosted is not absent:
        report.lose("TOOL_DROPPED", place, f"ShareGPT has no hosted tool {tool.name!r}")
        return False
    report_grammar(tool, report, place)
    if own_residue(tool, NAME) is None:
        report_residue(tool, report, place)
    return True


def _spell(tool: Tool, *, is_same: bool) -> str:
    residue = own_residue(tool, NAME)
    if residue is not None:
        return write_json(recall(_write_tool(tool, residue.form), residue.part))
    fields = [f'"name": {write_json(tool.name)}']
    if tool.description is not absent:
        fields.append(f'"description": {write_json(tool.description)}')
    if isinstance(tool.schema, str):
        schema = tool.schema if is_same else write_json(decode_json(tool.schema))
        fields.append(f'"parameters": {schema}')
    if tool.strict is not absent:
        fields.append(f'"strict": {write_json(tool.strict)}')
    return f"{{{', '.join(fields)}}}"


def _write_tool(tool: Tool, form: str | None) -> Object:
    inner: Object = {"name": tool.name}
    put(inner, "description", tool.description)
    if isinstance(tool.schema, str):
        inner["parameters"] = decode_json(tool.schema)
    put(inner, "strict", tool.strict)
    return {"type": "function", "function": inner} if form == _NESTED else inner
