"""OpenAI fine-tuning: ``{"messages", "tools"?, "functions"?, "parallel_tool_calls"?}``, one example a line.

Messages and tools are those of Chat Completions. Oddities: ``weight`` on assistant messages says whether they are
learnt from; an example may lack the user or end with calls; call ids repeat from example to example. Preferences
(``input``, ``preferred_output``, ``non_preferred_output``) hold no ``messages`` and are refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.families.chat.reading import ChatReader
from cannery.families.chat.tools import read_tools, write_tools
from cannery.families.chat.writing import ChatWriter
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, new_controls, new_request
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, guarded, read_object
from cannery.wire.contract import Piece, Rules
from cannery.wire.controls import flag, put
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.records import data_set, drop_settings
from cannery.wire.residues import own_residue, patch_text, recall

NAME = "openai_finetuning"
_KNOWN = frozenset({"parallel_calls"})


def read_request(body: bytes, places: Places) -> Request:
    """The conversation of an example."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_request(value, places))  # type: ignore[no-any-return]


def _read_request(body: Object, places: Places) -> Request:
    reader = ChatReader(NAME)
    reader.messages(body)
    places.canisters.extend(reader.paths)
    controls = new_controls(parallel_calls=flag(body.get("parallel_tool_calls")))
    conversation = Conversation.trusted(reader.canisters)
    tools = read_tools(NAME, body)
    request: Request = new_request(
        conversation, absent, tools, absent, controls, absent, None, NAME
    )
    rest = {key: item for key, item in body.items() if key != "messages"}
    patch = patch_text(_write_settings(request, Report()), rest)
    if patch is None:
        return request
    return msgspec.structs.replace(request, residue=Residue(NAME, envelope=patch))


def _write_settings(request: Request, report: Report) -> Object:
    body: Object = {}
    write_tools(NAME, request, body, report)
    put(body, "parallel_tool_calls", request.controls.parallel_calls)
    return body


def write_request(request: Request, pieces: list[Piece], report: Report) -> dict[str, Any]:
    """The example of a conversation."""
    at_home = request.source == NAME
    body = _write_settings(request, report)
    if not at_home:
        drop_settings(request, report, _KNOWN)
    residue = own_residue(request, NAME)
    if residue is not None:
        body = recall(body, residue.envelope)
    body["messages"] = ChatWriter(NAME, report, at_home=at_home).messages(pieces)
    return body


DIALECT = data_set(
    NAME,
    Rules(call_id_length=40, name_pattern=r"[A-Za-z0-9_-]+", name_length=64, ends_with_calls=True),
    read_request,
    write_request,
    modelled=frozenset({"tools", "functions", "parallel_tool_calls"}),
)
