"""OpenAI fine-tuning: ``{"messages", "tools"?, "functions"?, "parallel_tool_calls"?}``, one example per line.

Messages and tools are those of Chat Completions. Oddities: ``weight`` on assistant messages says whether they are
learnt from; an example may lack the user or end with calls; call ids repeat from example to example. Preferences
(``input``, ``preferred_output``, ``non_preferred_output``) have no ``messages`` and are refused.
"""

from __future__ import annotations

from typing import Any

from cannery.errors import DialectError
from cannery.families.chat.reading import ChatReader
from cannery.families.chat.tools import TOOL_PATHS, take_tools, write_tools
from cannery.families.chat.writing import ChatWriter
from cannery.messages.absence import absent
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.requests import Request, new_controls, new_request
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, listed_reader
from cannery.wire.contract import Piece, Rules
from cannery.wire.controls import flag, put
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.records import data_set, drop_settings
from cannery.wire.residues import own_residue, recall
from cannery.wire.signs import Evidence, Sign, message_has

NAME = "openai_finetuning"
_KNOWN = frozenset({"parallel_calls"})


@listed_reader(NAME)
def read_request(left: Object, places: Places) -> Request:
    """The conversation of an example."""
    if "messages" not in left:
        raise DialectError(NAME, "messages", "is required")
    messages = left.pop("messages")
    reader = ChatReader(NAME, places.canisters)
    tools = take_tools(NAME, left, places.tools)
    parallel = flag(left.get("parallel_tool_calls"))
    if parallel is not absent:
        del left["parallel_tool_calls"]
    reader.messages(messages)
    residue = Residue(NAME, envelope=write_json({"s": left})) if left else None
    controls = new_controls(parallel_calls=parallel)
    conversation = Conversation.trusted(reader.canisters)
    return new_request(conversation, absent, tools, absent, controls, absent, residue, NAME)  # type: ignore[no-any-return]


def _write_settings(request: Request, report: Report) -> Object:
    body: Object = {}
    write_tools(NAME, request, body, report)
    put(body, "parallel_tool_calls", request.controls.parallel_calls)
    return body


def write_request(request: Request, pieces: list[Piece], report: Report) -> dict[str, Any]:
    """The example of a conversation."""
    is_same = request.source == NAME
    body = _write_settings(request, report)
    if not is_same:
        drop_settings(request, report, _KNOWN)
    residue = own_residue(request, NAME)
    if residue is not None:
        body = recall(body, residue.envelope)
    body["messages"] = ChatWriter(NAME, report, is_same=is_same).messages(pieces)
    return body


DIALECT = data_set(
    NAME,
    Rules(call_id_length=40, name_pattern=r"[A-Za-z0-9_-]+", name_length=64, ends_with_calls=True),
    read_request,
    write_request,
    modelled=frozenset({"tools", "functions", "parallel_tool_calls"}),
    tool_paths=TOOL_PATHS,
    short_names=("finetuning",),
    signs=(Sign("request", Evidence.DETAIL, "its messages have a weight", message_has("weight")),),
)
