"""Well-behaved requests written straight to Responses bodies; anything else is ``writing``'s.

One walk checks that calls are answered in order and builds the items; what would have to be repaired or reported gives
None, and the general way takes over.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace
from orjson import Fragment

from cannery.dialects.openai_responses.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.content import ImageContentClass
from cannery.messages.payload import Location
from cannery.messages.requests import Request, Tool, ToolChoice, new_controls
from cannery.messages.role import Role
from cannery.wire.bodies import encode
from cannery.wire.contract import UNKNOWN_MODEL
from cannery.wire.foreign import note_residue
from cannery.wire.losses import Notes
from cannery.wire.media import WEB_IMAGES, is_fetchable, sound_base64, true_mime_type
from cannery.wire.openai_shared import image_detail
from cannery.wire.plain import (
    PlainAssistant,
    PlainDeveloper,
    PlainRequest,
    PlainSystem,
    PlainUser,
)
from cannery.wire.schemas import lists_properties
from cannery.wire.walks import Known, TurnPlan, Walked

_USER, _ASSISTANT, _SUPERVISOR = Role.User, Role.Assistant, Role.Supervisor
_INVOCATION, _RESULT = Role.Invocation, Role.Result
_ROLES: dict[type, str] = {
    PlainUser: "user",
    PlainAssistant: "assistant",
    PlainSystem: "system",
    PlainDeveloper: "developer",
}
_NO_PARAMETERS = {"type": "object", "properties": {}}
_ID_LENGTH = 64
_is_name = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch

# --- nothing but plain messages ----------------------------------------------------------------


def write_plain(request: PlainRequest, _notes: Notes) -> bytes | None:
    """The body of a plain request that says what it asks; None for any other."""
    given: Any = request
    messages: list[Any] = given.messages
    system = given.system
    if not given.model or not messages or (system is not absent and not system.strip()):
        return None
    # A trailing assistant turn has something to report.
    if type(messages[-1]) is PlainAssistant:
        return None
    limit = given.limit if given.old_limit is absent else given.old_limit
    body: dict[str, Any] = {"model": given.model}
    _put_controls(body, limit, given.temperature, given.top_p)
    if given.stream is not absent:
        body["stream"] = given.stream
    items = [{"role": _ROLES[type(message)], "content": message.held} for message in messages]
    if system is not absent:
        body["instructions"] = system
    elif len(items) > 1 and items[0]["role"] == "system" and items[0]["content"]:
        body["instructions"] = items.pop(0)["content"]
    body["input"] = items
    return encode(body)


def _put_controls(body: dict[str, Any], limit: Any, temperature: Any, top_p: Any) -> None:
    if limit is not absent:
        body["max_output_tokens"] = limit
    if temperature is not absent:
        body["temperature"] = temperature
    if top_p is not absent:
        body["top_p"] = top_p


# --- the settings that most requests have ------------------------------------------------------


def usual_settings(request: Request) -> dict[str, Any] | None:
    """Every field of the body but the items; None where something would have to be reported."""
    controls, residue, model = request.controls, request.residue, request.model
    limit, temperature, top_p = controls.max_tokens, controls.temperature, controls.top_p
    parallel, user = controls.parallel_calls, controls.user
    if (
        residue is not None and (residue.envelope is not None or residue.dialect == NAME)
    ) or controls != new_controls(limit, temperature, top_p, parallel_calls=parallel, user=user):
        return None
    body: dict[str, Any] = {"model": model}
    if request.tools:
        tools = body["tools"] = [_tool(tool) for tool in request.tools]
        if None in tools or len({tool.name for tool in request.tools}) < len(tools):
            return None
    choice = request.tool_choice
    if isinstance(choice, ToolChoice):
        if choice.names or not (request.tools or choice.mode in ("auto", "none")):
            return None
        body["tool_choice"] = choice.mode
    _put_controls(body, limit, temperature, top_p)
    if parallel is not absent:
        body["parallel_tool_calls"] = parallel
    if user is not absent:
        body["user"] = user
    if request.stream is not absent:
        body["stream"] = request.stream
    return body


def _tool(tool: Tool) -> dict[str, Any] | None:
    if (
        tool.residue is not None
        or tool.hosted is not absent
        or tool.is_freeform
        or tool.grammar is not absent
        or not _is_name(tool.name)
        or not (tool.schema is absent or lists_properties(tool.schema))
    ):
        return None
    written: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description is not absent:
        written["description"] = tool.description
    written["parameters"] = _NO_PARAMETERS if tool.schema is absent else Fragment(tool.schema)
    written["strict"] = False if tool.strict is absent else tool.strict
    return written


# --- conversations -----------------------------------------------------------------------------


def plan_turns(request: Request) -> TurnPlan | None:
    """How a request is written whose conversation needs no repair; None at home."""
    return None if request.source == NAME else _PLAN


def _open(request: Request, start: int, notes: Notes) -> dict[str, Any] | None:
    """The usual settings and the instructions; None for any others."""
    if not request.model:
        notes.append(("MODEL_UNKNOWN", "model", ""))
        request = replace(request, model=UNKNOWN_MODEL)
    body = usual_settings(request)
    if body is None or not start:
        return body
    first = request.conversation[0]
    body["instructions"] = first.held
    if first.residue is not None:
        note_residue(first.residue, NAME, 0, notes)
    return body


def _instructions(canisters: Any) -> int:
    """How many canisters (one or none) become the instructions."""
    first = canisters[0]
    return int(
        first.role is _SUPERVISOR
        and len(canisters) > 1
        and type(first.held) is str
        and bool(first.held)
        and first.rank != "developer"
        and (first.residue is None or not (first.residue.dialect == NAME or first.residue.cache))
        and not canisters[1].joined
    )


def _close(request: Request, place: int, notes: Notes) -> bytes:
    """Nothing; but here the model starts anew where it was meant to go on."""
    held = request.conversation[-1].held
    if held is not absent and held:
        notes.append(("PREFILL_DROPPED", place, ""))
    return b""


def _walk(  # noqa: C901, PLR0912, PLR0915 - one loop: a call for each canister is what it saves
    canisters: tuple[Any, ...], index: int, notes: Notes, known: Known
) -> Walked | None:
    """The items from a position on, where the last turn of the model starts, and how many stand before it."""
    written: list[Any] = []
    take = written.append
    ids: list[str] = []
    names: set[str] = set()
    waiting = 0
    is_answering = False
    last, last_count = index, 0
    before: Any = None
    for place in range(index, len(canisters)):
        canister = canisters[place]
        role = canister.role
        held = canister.held
        if canister.residue is not None and not _note(canister, place, notes):
            return None
        if role is _INVOCATION:
            if is_answering or canister.is_freeform:
                return None
            if before is not _ASSISTANT and before is not _INVOCATION:
                last, last_count = place, len(written)
            identifier, name = canister.identifier, canister.name
            ids.append(identifier)
            names.add(name)
            waiting += 1
            take(
                {
                    "type": "function_call",
                    "call_id": identifier,
                    "name": name,
                    "arguments": held if held and not held.isspace() else "{}",
                }
            )
        elif role is _RESULT:
            identifier = canister.invocation_id
            if (
                not waiting
                or ids[-waiting] != identifier
                or type(held) is not str
                or canister._error is not absent  # noqa: SLF001 - a property would cost a call
            ):
                return None
            take({"type": "function_call_output", "call_id": identifier, "output": held})
            waiting -= 1
            is_answering = waiting > 0
        elif waiting:
            return None
        elif role is _ASSISTANT:
            if before is not _ASSISTANT:
                last, last_count = place, len(written)
            elif canister.joined:
                return None
            if type(held) is str:
                take({"role": "assistant", "content": held})
            elif held is not absent:
                return None
        elif role is _USER or role is _SUPERVISOR:
            if type(held) is not str:
                held = _image(held) if role is _USER else None
                if held is None or image_detail(canister.residue) is not None:
                    return None
            if canister.joined and before is role:
                _join(written[-1], held)
            elif canister.joined and before is _ASSISTANT:
                return None
            elif role is _USER:
                take({"role": "user", "content": held if type(held) is str else [held]})
            else:
                speaker = "developer" if canister.rank == "developer" else "system"
                take({"role": speaker, "content": held})
        else:
            return None
        before = role
    if waiting or not (written or known.goes_on):
        return None
    if ids and not (_are_plain(ids, names) and known.ids.isdisjoint(ids)):
        return None
    return Walked(written, last, last_count)


_PLAN = TurnPlan(NAME, "input", _instructions, _open, _walk, _close)


def _note(canister: Any, place: int, notes: Notes) -> bool:
    """Note what residue holds that is not written; False if the general way has to see to it."""
    said: Notes = notes if canister.held is not absent else []
    is_result = canister.role is _RESULT
    may_pass = note_residue(canister.residue, NAME, place, said, is_result=is_result)
    # What is lost with a silent message is named before everything else.
    return may_pass and (said is notes or not said)


def _are_plain(ids: list[str], names: set[str]) -> bool:
    """Whether ids and names may stay as they are, and no id comes twice."""
    return (
        max(map(len, ids)) <= _ID_LENGTH
        and "" not in ids
        and "\n" not in "".join(ids)
        and len(set(ids)) == len(ids)
        and all(map(_is_name, names))
    )


def _join(message: dict[str, Any], said: Any) -> None:
    """Let a message say more."""
    content = message["content"]
    if type(content) is str:
        content = message["content"] = [{"type": "input_text", "text": content}]
    content.append({"type": "input_text", "text": said} if type(said) is str else said)


def _image(content: Any) -> dict[str, Any] | None:
    """A part with an image; None for any that would be changed or left out, and for other media."""
    if type(content) is not ImageContentClass:
        return None
    payload, mime_type = content.payload, content.mime_type
    if type(payload) is Location:
        url = payload.value if is_fetchable(payload) else None
    elif mime_type in WEB_IMAGES and true_mime_type(content) == mime_type:
        text = sound_base64(payload)
        url = None if text is None else f"data:{mime_type};base64,{text}"
    else:
        url = None
    return None if url is None else {"type": "input_image", "detail": "auto", "image_url": url}
