"""The JSON stored for a request's tools and settings.

Decoding it restores the request: the same dialect gets the same body again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from cannery.errors import DamageError, MessageError
from cannery.messages import (
    Controls,
    Conversation,
    OutputFormat,
    Request,
    Residue,
    Thinking,
    Tool,
    ToolChoice,
    absent,
)

_TEXTS = ("schema", "grammar", "hosted")
_encode = msgspec.json.Encoder().encode


NO_TOOLS = b"[]"
"""No tools, as the stored JSON."""


def encode_tools(tools: Iterable[Tool]) -> bytes:
    """Tools as the stored JSON."""
    return _encode([_tool(tool) for tool in tools])


def _tool(tool: Tool) -> dict[str, object]:
    told: dict[str, object] = {"name": tool.name}
    if tool.description is not absent:
        told["description"] = tool.description
    for name in _TEXTS:
        value = getattr(tool, name)
        if value is not absent:
            told[name] = msgspec.Raw(value.encode())
    if tool.strict is not absent:
        told["strict"] = tool.strict
    if tool.is_freeform:
        told["freeform"] = True
    if tool.residue is not None:
        told["residue"] = _residue(tool.residue)
    return told


def decode_tools(data: bytes) -> tuple[Tool, ...]:
    """The stored tools."""
    try:
        found = msgspec.json.decode(data, type=list[dict[str, msgspec.Raw]])
        return tuple(map(_read_tool, found))
    except (msgspec.MsgspecError, UnicodeError, MessageError, KeyError, TypeError) as error:
        raise DamageError("tools", f"not as they are kept: {error}") from None


def _read_tool(told: dict[str, msgspec.Raw]) -> Tool:
    read = msgspec.json.decode
    texts = {name: bytes(told[name]).decode() for name in _TEXTS if name in told}
    return Tool(
        read(told["name"]),
        description=read(told["description"]) if "description" in told else absent,
        strict=read(told["strict"]) if "strict" in told else absent,
        is_freeform=read(told["freeform"]) if "freeform" in told else False,
        residue=read(told["residue"], type=Residue) if "residue" in told else None,
        **texts,
    )


def encode_settings(request: Request) -> bytes:
    """The settings of a request, without its conversation, model and tools, as JSON."""
    told: dict[str, Any] = {}
    if request.source is not None:
        told["source"] = request.source
    if request.stream is not absent:
        told["stream"] = request.stream
    if request.tool_choice is not absent:
        told["tool_choice"] = _facts(request.tool_choice)
    controls = _facts(request.controls)
    if controls:
        told["controls"] = controls
    if request.residue is not None:
        told["residue"] = _residue(request.residue)
    return _encode(told)


def _facts(value: Any) -> dict[str, Any]:
    """The members of a value that are set."""
    found = {}
    for name in value.__struct_fields__:
        fact = getattr(value, name)
        if fact is not absent:
            found[name] = _facts(fact) if isinstance(fact, OutputFormat | Thinking) else fact
    return found


def _residue(residue: Residue) -> dict[str, str]:
    # Strings that are not Unicode text have paths in one body, which another body does not have.
    return {
        name: value
        for name in residue.__struct_fields__
        if name != "escapes" and (value := getattr(residue, name)) is not None
    }


def with_settings(conversation: Conversation, model: str | None, data: bytes | None) -> Request:
    """A request for a conversation with the stored settings, if there are any."""
    named = model or absent
    if data is None:
        return Request(conversation, named)
    try:
        told = msgspec.json.decode(data, type=dict[str, Any])
        controls = told.get("controls", {})
        if "output" in controls:
            controls["output"] = OutputFormat(**controls["output"])
        if "thinking" in controls:
            controls["thinking"] = Thinking(**controls["thinking"])
        choice = told.get("tool_choice")
        return Request(
            conversation,
            named,
            tool_choice=absent if choice is None else ToolChoice(**choice),
            controls=Controls(**controls),
            stream=told.get("stream", absent),
            residue=msgspec.convert(told["residue"], Residue) if "residue" in told else None,
            source=told.get("source"),
        )
    except (msgspec.MsgspecError, UnicodeError, MessageError, TypeError) as error:
        raise DamageError("settings", f"not as they are kept: {error}") from None
