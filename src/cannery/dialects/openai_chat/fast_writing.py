"""Requests written straight to Chat bodies.

Common settings of other dialects are put into the body here, rarer ones by ``settings``; the messages are those of
``turns``. What would have to be renamed or left out with a loss of its own (tools of a provider, forbidden names) gives
None, and the general writer takes over.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from orjson import Fragment

from cannery.dialects.openai_chat.settings import NAME, write_settings
from cannery.dialects.openai_chat.turns import (
    Noting,
    is_legal_name,
    lost_of,
    walk_abroad,
    walk_home,
)
from cannery.messages.absence import absent
from cannery.messages.canisters import text_of
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, Tool, new_request
from cannery.wire.bodies import Object
from cannery.wire.contract import UNKNOWN_MODEL
from cannery.wire.losses import Notes
from cannery.wire.schemas import lists_properties
from cannery.wire.slices import UnusualError
from cannery.wire.walks import TurnPlan

_NOTHING = Conversation()
_MOST_STOPS = 4


def plan_turns(request: Request) -> TurnPlan:
    """How a request is written whose conversation needs no repair."""
    return _AT_HOME if request.source == NAME else _ABROAD


def _lead(_canisters: tuple[Any, ...]) -> int:
    """Nobody stands before the messages."""
    return 0


def _open(request: Request, _start: int, notes: Notes) -> Object | None:
    """Every field of the body but the messages; None where the general writer has to."""
    residue, at_home = request.residue, request.source == NAME
    if residue is not None and (
        residue.envelope is not None or (residue.dialect == NAME and not at_home)
    ):
        return None
    if at_home:
        return write_settings(request, Noting(notes))
    try:
        return write_common_settings(request, notes)
    except UnusualError:
        return None


def _close(_request: Request, _place: int, _notes: Notes) -> bytes:
    """Nothing: what came from here goes back as it was."""
    return b""


def _close_abroad(request: Request, place: int, notes: Notes) -> bytes:
    """Nothing; but here a model starts anew where it was meant to go on."""
    is_asked = request.model and request.model != UNKNOWN_MODEL
    if is_asked and text_of(request.conversation[-1].held):
        notes.append(("PREFILL_DROPPED", place, ""))
    return b""


# At home blank arguments stay blank.
_AT_HOME = TurnPlan(f"{NAME} at home", "messages", _lead, _open, walk_home, _close)
_ABROAD = TurnPlan(NAME, "messages", _lead, _open, walk_abroad, _close_abroad)


def write_common_settings(request: Request, notes: Notes) -> Object:
    """Every field of the body but the messages; UnusualError where the general writer has to."""
    model: Any = request.model
    if not model:
        notes.append(("MODEL_UNKNOWN", "model", ""))
        model = UNKNOWN_MODEL
    body: Object = {"model": model}
    controls = request.controls
    if request.tools:
        if len({tool.name for tool in request.tools}) < len(request.tools):
            raise UnusualError
        body["tools"] = [_tool(tool) for tool in request.tools]
    elif controls.parallel_calls is False:
        raise UnusualError
    if request.tool_choice is not absent:
        _put_choice(request, body)
    if request.tools and controls.parallel_calls is not absent:
        body["parallel_tool_calls"] = controls.parallel_calls
    _put_controls(request, body, notes)
    if request.stream is not absent:
        body["stream"] = request.stream
    return body


def _put_controls(request: Request, body: Object, notes: Notes) -> None:
    controls: Any = request.controls
    limit, temperature, top_p = controls.max_tokens, controls.temperature, controls.top_p
    stop, user = controls.stop, controls.user
    if (
        (stop is not absent and len(stop) > _MOST_STOPS)
        or controls.thinking is not absent
        or controls.top_k is not absent
        or controls.seed is not absent
        or controls.output is not absent
        or controls.metadata is not absent
        or controls.candidates is not absent
        or controls.presence_penalty is not absent
        or controls.frequency_penalty is not absent
        or controls.include_usage is not absent
    ):
        controls = replace(controls, parallel_calls=absent)
        rare = new_request(_NOTHING, controls=controls, stream=request.stream)
        body.update(write_settings(rare, Noting(notes)))
        return
    if limit is not absent:
        body["max_completion_tokens"] = limit
    if temperature is not absent:
        body["temperature"] = temperature
    if top_p is not absent:
        body["top_p"] = top_p
    if stop is not absent:
        body["stop"] = stop
    if user is not absent:
        body["user"] = user


def _tool(tool: Tool) -> Object:
    if tool.hosted is not absent or tool.is_freeform or tool.grammar is not absent:
        raise UnusualError
    residue = tool.residue
    if residue is not None and (
        residue.dialect == NAME
        or residue.envelope is not None
        or residue.cache is not None
        or (residue.part is not None and lost_of(residue.part, is_marked=False))
    ):
        raise UnusualError
    if not is_legal_name(tool.name):
        raise UnusualError
    function: Object = {"name": tool.name}
    if tool.description is not absent:
        function["description"] = tool.description
    schema: Any = tool.schema
    if schema is not absent:
        if not lists_properties(schema):
            raise UnusualError
        function["parameters"] = Fragment(schema)
    if tool.strict is not absent:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _put_choice(request: Request, body: Object) -> None:
    """Set the tool choice; without tools a free one says nothing."""
    choice: Any = request.tool_choice
    mode = choice.mode
    if not request.tools and mode in ("auto", "none"):
        return
    if not request.tools or mode == "allowed":
        raise UnusualError
    if mode != "named":
        body["tool_choice"] = mode
        return
    name = choice.names[0]
    if choice.is_freeform or not any(tool.name == name for tool in request.tools):
        raise UnusualError
    body["tool_choice"] = {"type": "function", "function": {"name": name}}
