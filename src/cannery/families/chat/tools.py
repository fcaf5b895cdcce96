"""Tools of the Chat Completions shape, which several dialects share, both ways."""

from __future__ import annotations

from typing import Any

from cannery.families.openai.settings import legal_format, make_legal
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import Request, Tool, new_tool
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.controls import distinct, flag, put, text
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, patch_text, recall


def read_tools(dialect: str, body: Object) -> tuple[Tool, ...]:
    """The tools of a request, legacy functions included."""
    tools: list[Tool] = []
    for key in ("tools", "functions"):
        listed = body.get(key)
        if type(listed) is list:
            tools.extend(_read_tool(dialect, item, key) for item in listed)
    return tuple(tools)


def tool_paths(body: Object) -> list[str]:
    """Where each tool of a request stands."""
    return [
        f"{key}[{index}]"
        for key in ("tools", "functions")
        if type(body.get(key)) is list
        for index in range(len(body[key]))
    ]


def _read_tool(dialect: str, item: Any, key: str) -> Tool:
    tool = _plain_tool(item, key)
    form = "functions" if key == "functions" else None
    part = patch_text(_write_tool(tool, form), item)
    if part is None and form is None:
        return tool
    fields = {name: getattr(tool, name) for name in Tool.__struct_fields__}
    return new_tool(**{**fields, "residue": Residue(dialect, part=part, form=form)})  # type: ignore[no-any-return]


def _plain_tool(item: Any, key: str) -> Tool:
    if type(item) is dict:
        kind = "function" if key == "functions" else item.get("type")
        inner = item if key == "functions" else item.get(str(kind))
        if (
            kind in ("function", "custom")
            and type(inner) is dict
            and type(inner.get("name")) is str
        ):
            return _named_tool(inner, is_freeform=kind == "custom")
    tag = item.get("type") if type(item) is dict else None
    return new_tool(name=tag if type(tag) is str else "unknown", hosted=write_json(item))  # type: ignore[no-any-return]


def _named_tool(inner: Object, *, is_freeform: bool) -> Tool:
    schema, grammar = inner.get("parameters"), inner.get("format")
    if is_freeform:
        form = write_json(_flat_grammar(grammar)) if type(grammar) is dict else absent
        return new_tool(  # type: ignore[no-any-return]
            inner["name"], text(inner.get("description")), is_freeform=True, grammar=form
        )
    return new_tool(  # type: ignore[no-any-return]
        inner["name"],
        text(inner.get("description")),
        write_json(schema) if type(schema) is dict else absent,
        flag(inner.get("strict")),
    )


def _flat_grammar(value: Object) -> Object:
    """A custom tool's format without the level that only Chat Completions has."""
    inner = value.get("grammar")
    return {"type": "grammar", **inner} if type(inner) is dict else value


def write_tools(dialect: str, request: Request, body: Object, report: Report) -> None:
    """Put the tools into a body; hosted tools of others are lost."""
    for place, tool in distinct(request, dialect, report):
        residue = own_residue(tool, dialect)
        if residue is None:
            report_residue(tool, report, place)
        key = "functions" if residue is not None and residue.form == "functions" else "tools"
        if tool.hosted is not absent and (request.source or dialect) != dialect:
            report.lose("TOOL_DROPPED", place, f"Chat has no hosted tool {tool.name!r}")
            continue
        written = _write_tool(tool, None if residue is None else residue.form)
        if residue is not None:
            written = recall(written, residue.part)
        elif request.source != dialect and tool.hosted is absent:
            _make_legal(written[written["type"]], tool, request, report, place)
        body.setdefault(key, []).append(written)


def _write_tool(tool: Tool, form: str | None = None) -> Any:
    if isinstance(tool.hosted, str):
        return decode_json(tool.hosted)
    inner: Object = {"name": tool.name}
    put(inner, "description", tool.description)
    if tool.is_freeform:
        if isinstance(tool.grammar, str):
            inner["format"] = _nested_grammar(decode_json(tool.grammar))
        return {"type": "custom", "custom": inner}
    if isinstance(tool.schema, str):
        inner["parameters"] = decode_json(tool.schema)
    put(inner, "strict", tool.strict)
    if form == "functions":
        return inner
    return {"type": "function", "function": inner}


def _make_legal(inner: Object, tool: Tool, request: Request, report: Report, place: str) -> None:
    """Change what a server would refuse of a tool that came from elsewhere."""
    if tool.is_freeform:
        flat = legal_format(tool, request, report, place)
        inner.pop("format", None)
        if flat is not absent:
            inner["format"] = _nested_grammar(flat)
    else:
        make_legal(inner, request)


def _nested_grammar(value: Object) -> Object:
    if value.get("type") != "grammar":
        return value
    rest = {key: item for key, item in value.items() if key != "type"}
    return {"type": "grammar", "grammar": rest}
