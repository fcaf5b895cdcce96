"""Tools of ShareGPT: a JSON list in a string, flat (``{"name": …}``) or as Chat has them (``{"type", "function"}``)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from cannery.dialects.sharegpt.calls import UNREADABLE
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import Request, Tool, new_tool
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.controls import flag, put, report_grammar, text
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, patch_text, recall

NAME = "sharegpt"
_NESTED = "nested"
_read_items = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def read_tools(value: Any) -> tuple[Tool, ...]:
    """The tools that a record offers; none if they are spelled in a way that nobody knows."""
    try:
        return _read_tools(value if type(value) is str else write_json(value))
    except ValueError:
        return ()


@lru_cache(maxsize=128)
def _read_tools(spelled: str) -> tuple[Tool, ...]:
    """The tools of a text; the records of a data set say the same ones again and again."""
    try:
        items, raws = decode_json(spelled), _read_items(spelled)
        tools = tuple(_read_tool(item, raw) for item, raw in zip(items, raws, strict=True))
    except UNREADABLE:
        return ()
    return () if None in tools else tools  # type: ignore[return-value]


def _read_tool(item: Object, raw: dict[str, Raw]) -> Tool | None:
    nested = item.get("type") == "function" and type(item.get("function")) is dict
    if nested:
        raw = msgspec.json.decode(bytes(raw["function"]), type=dict[str, Raw])
    inner = item["function"] if nested else item
    if type(inner.get("name")) is not str or not inner["name"]:
        return None
    is_schema = type(inner.get("parameters")) is dict
    tool = new_tool(
        inner["name"],
        text(inner.get("description")),
        bytes(raw["parameters"]).decode() if is_schema else absent,
        flag(inner.get("strict")),
    )
    form = _NESTED if nested else None
    part = patch_text(_write_tool(tool, form), item)
    if part is None and form is None:
        return tool  # type: ignore[no-any-return]
    residue = Residue(NAME, part=part, form=form)
    return msgspec.structs.replace(tool, residue=residue)  # type: ignore[no-any-return]


def write_tools(request: Request, report: Report) -> str | None:
    """The usual spelling of the tools of a request; None if there are none."""
    spelled = [
        _spell(tool)
        for index, tool in enumerate(request.tools)
        if _is_sayable(tool, report, f"tools[{index}]", request.source)
    ]
    return f"[{', '.join(spelled)}]" if spelled else None


def _is_sayable(tool: Tool, report: Report, place: str, source: str | None) -> bool:
    if source != NAME and tool.hosted is not absent:
        report.lose("TOOL_DROPPED", place, f"ShareGPT has no hosted tool {tool.name!r}")
        return False
    report_grammar(tool, source, report, place)
    if own_residue(tool, NAME) is None:
        report_residue(tool, report, place)
    return True


def _spell(tool: Tool) -> str:
    residue = own_residue(tool, NAME)
    if residue is not None:
        return write_json(recall(_write_tool(tool, residue.form), residue.part))
    fields = [f'"name": {write_json(tool.name)}']
    if tool.description is not absent:
        fields.append(f'"description": {write_json(tool.description)}')
    if tool.schema is not absent:
        fields.append(f'"parameters": {write_json(decode_json(tool.schema))}')
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
