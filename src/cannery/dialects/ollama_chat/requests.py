"""Requests of Ollama's chat: messages and tools beside the settings that it shares with ``/api/generate``."""

from __future__ import annotations

from typing import Any

from cannery.errors import DialectError
from cannery.families.chat.tools import take_tools, write_tools
from cannery.families.ollama.answers import Shape
from cannery.families.ollama.reading import OllamaReader
from cannery.families.ollama.settings import read_settings, write_settings
from cannery.families.ollama.writing import OllamaWriter
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, ToolChoice, new_request
from cannery.wire.bodies import Object, decoded, read_listed
from cannery.wire.contract import Piece
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, recall_settings

NAME = "ollama_chat"
SHAPE = Shape(NAME)


def read_request(body: bytes, places: Places) -> Request:
    """The request that a body asks for."""
    return read_listed(NAME, body, places, _read_request)


def _read_request(body: Object, places: Places) -> Request:
    if "messages" not in body:
        raise DialectError(NAME, "messages", "is required")
    messages = body.pop("messages")
    tools = take_tools(NAME, body, places.tools) if "tools" in body else ()
    settings = read_settings(NAME, {key: _whole(value) for key, value in body.items()})
    reader = OllamaReader(NAME, places.canisters, settings.model)
    reader.messages(messages)
    return new_request(  # type: ignore[no-any-return]
        Conversation.trusted(reader.canisters),
        settings.model,
        tools,
        absent,
        settings.controls,
        settings.stream,
        settings.residue,
        NAME,
    )


def _whole(value: Any) -> Any:
    """A field with the objects in its lists decoded."""
    if type(value) is not list:
        return value
    return [
        {key: decoded(held) if type(held) is dict else held for key, held in item.items()}
        if type(item) is dict
        else item
        for item in value
    ]


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request."""
    is_same = request.source == NAME
    body = write_settings(NAME, request, report)
    if request.tools:
        write_tools(NAME, request, body, report, has_freeform=False)
    if isinstance(request.tool_choice, ToolChoice):
        _drop_choice(request.tool_choice, body, report)
    body = recall_settings(body, own_residue(request, NAME))
    body["messages"] = OllamaWriter(NAME, report, is_same=is_same).messages(pieces)
    return body


def _drop_choice(choice: ToolChoice, body: Object, report: Report) -> None:
    """Leave out a choice that says more than that the model is free to call."""
    if choice.mode == "none" and "tools" in body:
        # Without tools there are no calls.
        del body["tools"]
        report.lose("CONTROL_CHANGED", "@tool_choice", "Ollama has no tool choice: no tools sent")
    elif choice.mode not in ("auto", "none"):
        report.lose("CONTROL_DROPPED", "@tool_choice", "Ollama has no tool choice")
