"""Requests of Ollama's chat: messages and tools, beside the settings shared with ``/api/generate``."""

from __future__ import annotations

from functools import partial
from typing import Any

from cannery.errors import DialectError
from cannery.families.chat.tools import take_tools, write_tools
from cannery.families.ollama.answers import Shape
from cannery.families.ollama.reading import OllamaReader
from cannery.families.ollama.settings import ollama_table, write_settings
from cannery.families.ollama.writing import OllamaWriter
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, ToolChoice, new_request
from cannery.wire.bodies import Object, decoded, listed_reader
from cannery.wire.contract import Piece
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, recall_settings
from cannery.wire.settings import Writing

NAME = "ollama_chat"
SHAPE = Shape(NAME)


def _drop_choice(choice: ToolChoice, to: Writing) -> Any:
    """Drop a tool choice, and report it unless it leaves the model free to call."""
    if choice.mode == "none" and "tools" in to.body:
        # Without tools there are no calls.
        del to.body["tools"]
        to.change("Ollama has no tool choice: no tools sent")
    elif choice.mode not in ("auto", "none"):
        to.drop("Ollama has no tool choice")
    return absent


# A function is a name, a description and parameters (ToolFunction of the server's api/types.go, read 2026-11-19).
_TOOLS = partial(
    write_tools, NAME, has_freeform=False, unstrict="Ollama has no 'strict' for a function"
)
TABLE = ollama_table(NAME, _drop_choice, tools=_TOOLS)


@listed_reader(NAME)
def read_request(body: Object, places: Places) -> Request:
    """Read the request from a body."""
    if "messages" not in body:
        raise DialectError(NAME, "messages", "is required")
    messages = body.pop("messages")
    tools = take_tools(NAME, body, places.tools) if "tools" in body else ()
    settings = TABLE.read({key: _whole(value) for key, value in body.items()}, places, tools)
    reader = OllamaReader(NAME, places.canisters, settings[0])
    reader.messages(messages)
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]


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
    body = write_settings(TABLE, request, report)
    body = recall_settings(body, own_residue(request, NAME))
    body["messages"] = OllamaWriter(NAME, report, is_same=is_same).messages(pieces)
    return body
