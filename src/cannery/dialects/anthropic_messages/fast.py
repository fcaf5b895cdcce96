"""Well-behaved conversations written straight to Messages bodies.

One walk over the canisters both checks that no repair is needed and builds the messages; anything unusual (residue of
its own, blank text, turns that do not alternate, calls not answered in order, ids or names that would have to change)
gives None, and ``writing`` takes over. The tests hold both writers against each other.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from cannery.dialects.anthropic_messages.models import rules_for, samplers
from cannery.dialects.anthropic_messages.settings import DEFAULT_MAX_TOKENS, NAME
from cannery.dialects.anthropic_messages.thinking import is_by_budget
from cannery.messages.absence import absent
from cannery.messages.content import ImageContentClass
from cannery.messages.hidden import Hidden, hidden
from cannery.messages.payload import Base64
from cannery.messages.requests import Request, new_controls
from cannery.messages.role import Role
from cannery.wire.arguments import is_plain_identifier, is_plain_name, object_text
from cannery.wire.bodies import encode
from cannery.wire.contract import UNKNOWN_MODEL
from cannery.wire.foreign import note_residue
from cannery.wire.losses import Notes
from cannery.wire.media import WEB_IMAGES, is_standard_base64, sniff
from cannery.wire.plain import (
    PlainAssistant,
    PlainRequest,
    PlainUser,
    split_system,
    spoken_turns,
)
from cannery.wire.received import RECEIVED
from cannery.wire.residues import is_foreign_form
from cannery.wire.walks import SPOKEN_BY_MODEL, Known, TurnPlan, Walked

_USER, _ASSISTANT, _SUPERVISOR = Role.User, Role.Assistant, Role.Supervisor
_INVOCATION, _RESULT = Role.Invocation, Role.Result
DEFAULTED = (
    "CONTROL_DEFAULTED",
    "@max_tokens",
    f"max_tokens is required; {DEFAULT_MAX_TOKENS} was sent",
)


class PlainBody(
    PlainRequest,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"limit": "max_tokens", **hidden("old_limit")},
):
    """A request whose messages are canisters as they are."""

    messages: list[PlainUser | PlainAssistant]  # type: ignore[assignment]
    limit: int = absent  # type: ignore[assignment]
    old_limit: Hidden[int] = absent  # type: ignore[assignment]


_decode_plain = msgspec.json.Decoder(PlainBody).decode


def read_plain(body: bytes) -> PlainRequest | None:
    """The plain request of a body that is only passed on, so that nobody asks when it came; None for any other."""
    if RECEIVED.get(None) is None:
        RECEIVED.set(datetime.now(UTC))
    try:
        return _decode_plain(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def write_plain(request: PlainRequest, notes: Notes) -> bytes | None:
    """The body of a plain request that needs no repair; None for any other."""
    given: Any = request
    temperature, model = given.temperature, given.model
    split = split_system(request)
    if split is None or not model or (temperature is not absent and temperature > 1):
        return None
    sampling = (temperature is not absent) + (given.top_p is not absent)
    if sampling and sampling > samplers(model):
        return None
    system, messages = split
    written = spoken_turns(messages)
    if written is None:
        return None
    limit = given.limit if given.old_limit is absent else given.old_limit
    system = None if system is absent else system
    body = settings_body(model, limit, temperature, given.top_p, given.stream, system, notes)
    body["messages"] = written
    return encode(body)


def settings_body(
    model: Any, limit: Any, temperature: Any, top_p: Any, stream: Any, system: Any, notes: Notes
) -> dict[str, Any]:
    """The common settings; no system text is None."""
    if limit is absent:
        notes.append(DEFAULTED)
        limit = DEFAULT_MAX_TOKENS
    body = {"model": model, "max_tokens": limit}
    if temperature is not absent:
        body["temperature"] = temperature
    if top_p is not absent:
        body["top_p"] = top_p
    if stream is not absent:
        body["stream"] = stream
    if system is not None:
        body["system"] = system
    return body


def plan_turns(request: Request) -> TurnPlan | None:
    """How a request is written whose conversation needs no repair; None at home, or where thinking depends on it."""
    thinking = request.controls.thinking
    if thinking is not absent and is_by_budget(thinking, request.model):
        return None
    return None if request.source == NAME else _PLAN


def _lead(canisters: tuple[Any, ...]) -> int | None:
    """How many supervisors stand first; None if one has nothing to say or is not text, or if nobody else speaks."""
    for index, canister in enumerate(canisters):
        if canister.role is not _SUPERVISOR:
            return index
        held = canister.held
        if type(held) is not str or not held or held.isspace():
            return None
    return None


def _open(request: Request, start: int, notes: Notes) -> dict[str, Any] | None:
    """The usual settings and one system text at most; None for any others."""
    controls = request.controls
    limit, temperature, top_p = controls.max_tokens, controls.temperature, controls.top_p
    sampling = (temperature is not absent) + (top_p is not absent)
    if (
        start > 1
        or request.tools
        or request.tool_choice is not absent
        or (request.residue is not None and request.residue.envelope is not None)
        or (temperature is not absent and temperature > 1)
        or controls != new_controls(limit, temperature, top_p)
        or (sampling and sampling > samplers(request.model or None))
    ):
        return None
    system = _system(request.conversation[0]) if start else None
    if start and system is None:
        return None
    model: Any = request.model
    if not model:
        notes.append(("MODEL_UNKNOWN", "model", ""))
        model = UNKNOWN_MODEL
    return settings_body(model, limit, temperature, top_p, request.stream, system, notes)


def _close(request: Request, _place: int, _notes: Notes) -> bytes | None:
    """Nothing, where a request may end with the words of the assistant."""
    name = request.model if isinstance(request.model, str) else None
    held: Any = request.conversation[-1].held
    return None if rules_for(name).ends_with_user or held[-1].isspace() else b""


def _system(canister: Any) -> str | None:
    held, residue = canister.held, canister.residue
    plain = canister.rank != "developer" and type(held) is str
    plain = plain and (residue is None or is_foreign_form(residue, NAME))
    return held if plain and held and not held.isspace() else None


def _walk(  # noqa: C901, PLR0912, PLR0915 - one loop: a call for each turn is what it saves
    canisters: tuple[Any, ...], index: int, notes: Notes, known: Known
) -> Walked | None:
    """The turns from a position on, where the last assistant turn starts, and how many turns stand before it."""
    written: list[Any] = []
    take = written.append
    count = len(canisters)
    calls: Any = ()
    used: set[str] = set()
    ahead = (*canisters, None, None)
    after_user = known.goes_on
    last, last_count = index, 0
    while index < count:
        canister = canisters[index]
        role = canister.role
        held = canister.held
        following = canisters[index + 1] if index + 1 < count else None
        if role is _ASSISTANT or role is _INVOCATION:
            if not after_user:
                return None
            after_user = False
            last, last_count = index, len(written)
            if role is _INVOCATION:
                held = absent
            else:
                residue = canister.residue
                if residue is not None and not note_residue(residue, NAME, index, notes):
                    return None
                index += 1
                if following is None or following.role is not _INVOCATION:
                    if (
                        type(held) is not str
                        or not held
                        or held.isspace()
                        or (following is not None and following.joined)
                    ):
                        return None
                    take({"role": "assistant", "content": held})
                    continue
            if held is absent:
                # What agents do all day: one call without words, and its result.
                call, result, then = canisters[index], ahead[index + 1], ahead[index + 2]
                if result is not None and (then is None or then.role in SPOKEN_BY_MODEL):
                    pair = _pair(call, result, used, known.ids)
                    if pair is not None:
                        written += pair
                        index += 2
                        after_user = True
                        continue
            said = _calls(canisters, index, held, notes, used, known.ids)
            if said is None:
                return None
            take({"role": "assistant", "content": said})
            found = len(said) if said[0]["type"] == "tool_use" else len(said) - 1
            calls = canisters[index : index + found]
            index += found
        elif role is _USER or role is _RESULT:
            if after_user:
                return None
            after_user = True
            # The commonest turn by far: one plain text, then the assistant.
            if (
                role is _USER
                and not calls
                and type(held) is str
                and (following is None or following.role in SPOKEN_BY_MODEL)
            ):
                residue = canister.residue
                if not held or held.isspace():
                    return None
                if residue is not None and not note_residue(residue, NAME, index, notes):
                    return None
                take({"role": "user", "content": held})
                index += 1
                continue
            blocks = _user_turn(canisters, index, calls, notes)
            if blocks is None:
                return None
            is_text = len(blocks) == 1 and blocks[0]["type"] == "text"
            take({"role": "user", "content": blocks[0]["text"] if is_text else blocks})
            index += len(blocks)
            calls = ()
        else:
            return None
    return None if calls else Walked(written, last, last_count)


_PLAN = TurnPlan(NAME, "messages", _lead, _open, _walk, _close)


def _pair(
    call: Any, result: Any, used: set[str], known: frozenset[str]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The turns of a call and its result; None for those with more to say, or that need a closer look."""
    identifier, name, text = call.identifier, call.name, result.held
    left = result.residue
    if (
        result.role is not _RESULT
        or result.invocation_id != identifier
        or type(text) is not str
        or not text
        or text.isspace()
        or result._error is not absent  # noqa: SLF001 - a property would cost a call
        or call.is_freeform
        or call.residue is not None
        or not (left is None or is_foreign_form(left, NAME))
        or identifier in used
        or identifier in known
        or not is_plain_identifier(identifier)
        or not is_plain_name(name)
    ):
        return None
    arguments = object_text(call.held)
    if arguments is None:
        return None
    used.add(identifier)
    asked = {"type": "tool_use", "id": identifier, "name": name, "input": arguments}
    answer = {"type": "tool_result", "tool_use_id": identifier, "content": text}
    return {"role": "assistant", "content": (asked,)}, {"role": "user", "content": (answer,)}


def _calls(
    canisters: tuple[Any, ...],
    index: int,
    held: Any,
    notes: Notes,
    used: set[str],
    known: frozenset[str],
) -> list[Any] | None:
    """The blocks of an assistant turn with calls."""
    said: list[Any] = []
    if held is not absent:
        if type(held) is not str or not held or held.isspace():
            return None
        said.append({"type": "text", "text": held})
    count = len(canisters)
    while index < count:
        call = canisters[index]
        if call.role is not _INVOCATION:
            break
        identifier, name = call.identifier, call.name
        arguments = object_text(call.held)
        residue = call.residue
        if (
            arguments is None
            or (residue is not None and not note_residue(residue, NAME, index, notes))
            or call.is_freeform
            or identifier in used
            or identifier in known
            or not is_plain_identifier(identifier)
            or not is_plain_name(name)
        ):
            return None
        used.add(identifier)
        said.append({"type": "tool_use", "id": identifier, "name": name, "input": arguments})
        index += 1
    return said


def _user_turn(
    canisters: tuple[Any, ...], index: int, calls: Any, notes: Notes
) -> list[Any] | None:
    """The answers to calls, in call order, and what the user says."""
    blocks: list[Any] = []
    count = len(canisters)
    for call in calls:
        result = canisters[index] if index < count else call
        text = result.held
        if (
            result.role is not _RESULT
            or type(text) is not str
            or result.invocation_id != call.identifier
            or result._error is not absent  # noqa: SLF001 - a property would cost a call
            or not text
            or text.isspace()
        ):
            return None
        residue = result.residue
        if residue is not None and not note_residue(residue, NAME, index, notes, is_result=True):
            return None
        blocks.append({"type": "tool_result", "tool_use_id": call.identifier, "content": text})
        index += 1
    spoken = False
    while index < count:
        canister = canisters[index]
        role = canister.role
        if role in SPOKEN_BY_MODEL:
            break
        block = _user_block(canister, index, notes) if role is _USER else None
        if block is None:
            return None
        if spoken and not canister.joined:
            notes.append(("alternation", index, ""))
        spoken = True
        blocks.append(block)
        index += 1
    return blocks


def _user_block(canister: Any, place: int, notes: Notes) -> dict[str, Any] | None:
    held = canister.held
    residue = canister.residue
    if residue is not None and not note_residue(residue, NAME, place, notes):
        return None
    if type(held) is str:
        return {"type": "text", "text": held} if held and not held.isspace() else None
    if type(held) is not ImageContentClass or type(held.payload) is not Base64:
        return None
    payload = held.payload
    text = payload.text
    if held.mime_type not in WEB_IMAGES or not is_standard_base64(text):
        return None
    if sniff(payload) != held.mime_type:
        return None
    source = {"type": "base64", "media_type": held.mime_type, "data": text}
    return {"type": "image", "source": source}
