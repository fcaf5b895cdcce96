"""Well-behaved requests written straight to generateContent bodies; anything else is ``writing``'s.

One walk checks that nothing needs a repair and writes the contents as JSON text: what stands around the texts (the
frames) is put together as strings, and only the texts themselves are encoded. Gemini's objects nest four deep, and
building each of them would take longer than reading the body did.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Any

import msgspec
from orjson import Fragment, dumps

from cannery.dialects.gemini_generate.models import RULES, STAND_IN, needs_signatures, rules_for
from cannery.dialects.gemini_generate.outputs import wrap_text
from cannery.dialects.gemini_generate.spelling import NAME
from cannery.messages.absence import absent
from cannery.messages.content import AudioContentClass, ImageContentClass, VideoContentClass
from cannery.messages.payload import Location
from cannery.messages.requests import Request, Tool, ToolChoice, new_controls
from cannery.messages.role import Role
from cannery.wire.bodies import encode
from cannery.wire.foreign import note_residue
from cannery.wire.losses import Notes
from cannery.wire.markers import CONTINUE
from cannery.wire.media import is_fetchable, sound_base64, true_mime_type
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
_MEDIA = (ImageContentClass, AudioContentClass, VideoContentClass)
_ROLES: dict[type, str] = {PlainUser: "user", PlainAssistant: "model"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
# The visible characters of ASCII that JSON needs no escape for, and the space.
_UNESCAPED = bytes(code for code in range(32, 127) if code not in b'"\\')
# Up to how many messages the frames of a conversation are remembered.
_FEW = 64
# Whose turn it is: the model's is open before anything is said in it, the user's begins with all answers to calls.
_NOBODYS, _USERS, _OPENED, _MODELS, _ANSWERS = "nobody's", "user's", "open", "model's", "answers"
_CONTINUED = b"," + encode({"role": "user", "parts": ({"text": CONTINUE},)})
_SIGNATURE = f',"thoughtSignature":"{STAND_IN}"'
# What a text starts with that is neither blank nor JSON.
_WORDY = frozenset(map(chr, range(0x21, 0x7F))) - {"{", "["}
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_check_object = msgspec.json.Decoder(msgspec.defstruct("Object", [])).decode
_is_name = re.compile(RULES.name_pattern).fullmatch

# --- nothing but plain messages ----------------------------------------------------------------


def write_plain(request: PlainRequest, notes: Notes) -> bytes | None:
    """The body of a plain request that needs no repair; None for any other."""
    given: Any = request
    messages: list[Any] = given.messages
    texts = [message.held for message in messages]
    kinds = tuple(map(type, messages))
    if given.system is not absent:
        texts.insert(0, given.system)
        kinds = (PlainSystem, *kinds)
    limit = given.limit if given.old_limit is absent else given.old_limit
    if not all(map(str.strip, texts)):
        return None
    if len(kinds) > _FEW:
        return _long(kinds, texts, usual_config(limit, given.temperature, given.top_p))
    framed = _framed(kinds)
    opening = _opening(limit, given.temperature, given.top_p)
    if framed is None or opening is None:
        return None
    frames, noted = framed
    notes += noted
    pieces = frames.copy()
    pieces[0] = opening
    pieces[2::2] = map(dumps, texts)
    return b"".join(pieces)


@lru_cache(maxsize=256, typed=True)
def _opening(limit: Any, temperature: Any, top_p: Any) -> bytes | None:
    """The start of a body with these settings, or None where one of them would have to change."""
    config = usual_config(limit, temperature, top_p)
    if config is None:
        return None
    return b'{"generationConfig":%b,' % encode(config) if config else b"{"


def _long(kinds: tuple[type, ...], texts: list[str], config: dict[str, Any] | None) -> bytes | None:
    """The body of many messages: one system message at most, then user and assistant by turns."""
    start = int(kinds[0] is PlainSystem)
    if config is None or len(kinds) % 2 == start:
        return None
    if {*kinds[start::2]} != {PlainUser} or {*kinds[start + 1 :: 2]} != {PlainAssistant}:
        return None
    body: dict[str, Any] = {"generationConfig": config} if config else {}
    if start:
        body["systemInstruction"] = {"parts": ({"text": texts[0]},)}
    contents: list[Any] = [*texts[start:]]
    contents[::2] = [{"role": "user", "parts": ({"text": text},)} for text in contents[::2]]
    contents[1::2] = [{"role": "model", "parts": ({"text": text},)} for text in contents[1::2]]
    body["contents"] = contents
    return encode(body)


@lru_cache(maxsize=256)
def _framed(kinds: tuple[type, ...]) -> tuple[list[bytes], Notes] | None:
    """What stands around the texts of plain messages, and what is to be said; None if they need more than that."""
    start = next((at for at, kind in enumerate(kinds) if kind in _ROLES), len(kinds))
    spoken = kinds[start:]
    if not spoken or spoken[0] is not PlainUser or spoken[-1] is not PlainUser:
        return None
    frames = ['"systemInstruction":{"parts":[{"text":', *['},{"text":'] * (start - 1)][:start]
    notes: Notes = [("RANK_LOWERED", at, "") for at in range(start) if kinds[at] is PlainDeveloper]
    before: Any = None
    for index, kind in enumerate(spoken, start):
        if kind not in _ROLES:
            return None
        if kind is before:
            frames.append('},{"text":')
            notes.append(("alternation", index, ""))
        else:
            closed = "}]}," if index else ""
            opened = closed if before is not None else f'{closed}"contents":['
            frames.append(f'{opened}{{"role":"{_ROLES[kind]}","parts":[{{"text":')
        before = kind
    pieces = [b""] * (2 * len(kinds) + 2)
    pieces[1::2] = [frame.encode() for frame in (*frames, "}]}]}")]
    return pieces, notes


# --- the settings that most requests have ------------------------------------------------------


def usual_config(limit: Any, temperature: Any, top_p: Any) -> dict[str, Any] | None:
    """The commonest settings; None where one would have to change."""
    config: dict[str, Any] = {}
    if limit is not absent:
        config["maxOutputTokens"] = limit
    if temperature is not absent:
        if not 0 <= temperature <= 2:
            return None
        config["temperature"] = temperature
    if top_p is not absent:
        config["topP"] = top_p
    return config


def usual_settings(request: Request) -> dict[str, Any] | None:
    """Every field of the body but the messages; None where something would have to be reported."""
    controls, residue = request.controls, request.residue
    limit, temperature, top_p = controls.max_tokens, controls.temperature, controls.top_p
    parallel = controls.parallel_calls
    if (
        (residue is not None and (residue.envelope is not None or residue.dialect == NAME))
        or parallel is False
        or controls != new_controls(limit, temperature, top_p, parallel_calls=parallel)
    ):
        return None
    config = usual_config(limit, temperature, top_p)
    if config is None:
        return None
    body: dict[str, Any] = {"generationConfig": config} if config else {}
    if not request.tools and request.tool_choice is absent:
        return body
    return _with_tools(request, body)


def _with_tools(request: Request, rest: dict[str, Any]) -> dict[str, Any] | None:
    """The same with tools and the choice among them before the rest."""
    body: dict[str, Any] = {}
    if request.tools:
        declared = [_declaration(tool) for tool in request.tools]
        if None in declared or len({tool.name for tool in request.tools}) < len(declared):
            return None
        body["tools"] = ({"functionDeclarations": declared},)
    choice = request.tool_choice
    if isinstance(choice, ToolChoice):
        # A choice is said only among tools that are sent.
        if choice.mode not in _MODES or not request.tools:
            return None
        body["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[choice.mode]}}
    return {**body, **rest}


def _declaration(tool: Tool) -> dict[str, Any] | None:
    if (
        tool.residue is not None
        or tool.hosted is not absent
        or tool.is_freeform
        or tool.grammar is not absent
        or tool.strict is True
        or len(tool.name) > RULES.name_length
        or not _is_name(tool.name)
    ):
        return None
    declaration: dict[str, Any] = {"name": tool.name}
    if tool.description is not absent:
        declaration["description"] = tool.description
    if tool.schema is not absent:
        if not lists_properties(tool.schema):
            return None
        declaration["parametersJsonSchema"] = Fragment(tool.schema)
    return declaration


# --- conversations -----------------------------------------------------------------------------


def plan_turns(request: Request) -> TurnPlan | None:
    """How a request is written whose conversation needs no repair; None at home."""
    return None if request.source == NAME else _PLANS[_demands(request.model)[1]]


def _open(request: Request, start: int, notes: Notes) -> dict[str, Any] | None:
    """The usual settings, and what supervisors say first; None for any others."""
    body = usual_settings(request)
    if body is None or not start:
        return body
    leading: tuple[Any, ...] = request.conversation[:start]
    for index, canister in enumerate(leading):
        if canister.rank == "developer":
            notes.append(("RANK_LOWERED", index, ""))
        if canister.residue is not None:
            note_residue(canister.residue, NAME, index, notes)
    body["systemInstruction"] = {"parts": [{"text": canister.held} for canister in leading]}
    return body


def _lead(canisters: tuple[Any, ...]) -> int | None:
    """How many supervisors stand first; None if one is not plain text, or if nobody else speaks."""
    for index, canister in enumerate(canisters):
        if canister.role is not _SUPERVISOR:
            return index
        held, residue = canister.held, canister.residue
        if type(held) is not str or not held or held.isspace():
            return None
        if residue is not None and not note_residue(residue, NAME, index, []):
            return None
    return None


def _close(request: Request, place: int, notes: Notes) -> bytes:
    """What lets the user speak last, where a model wants that."""
    if not _demands(request.model)[0]:
        return b""
    # Before whatever else there is to say of these words.
    notes[:0] = ("prefill", place, ""), ("PREFILL_DROPPED", place, "")
    return _CONTINUED


@lru_cache(maxsize=64)
def _demands(model: Any) -> tuple[bool, bool]:
    """Whether a model wants the last word to be the user's, and whether it wants calls to be signed."""
    name = model if isinstance(model, str) else None
    return rules_for(name).ends_with_user, needs_signatures(name)


def _walk(
    canisters: tuple[Any, ...],
    index: int,
    notes: Notes,
    known: Known,
    *,
    signature: str,
) -> Walked | None:
    """The contents from a position on, where the last turn of the model starts, and how many stand before it."""
    ids: list[str] = []
    names: set[str] = set()
    turn = _USERS if known.goes_on else _NOBODYS
    try:
        walked = _written(canisters, index, notes, ids, names, turn, signature)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if walked is None or (ids and not (are_plain(ids, names) and known.ids.isdisjoint(ids))):
        return None
    return walked


# For models that do not want calls to be signed, and for those that do.
_PLANS = tuple(
    TurnPlan(key, "contents", _lead, _open, partial(_walk, signature=signature), _close)
    for key, signature in ((NAME, ""), (f"{NAME} signed", _SIGNATURE))
)


def are_plain(ids: list[str], names: set[str]) -> bool:
    """Whether ids and names may stay as they are, no id comes twice, and JSON needs no escape for any."""
    run, distinct = "".join(ids), set(ids)
    return (
        run.isascii()
        and not run.encode().translate(None, _UNESCAPED)
        and len(run) <= RULES.call_id_length
        and "" not in distinct
        and len(distinct) == len(ids)
        and all(len(name) <= RULES.name_length and _is_name(name) for name in names)
    )


def _written(  # noqa: C901, PLR0912, PLR0915 - one loop: a call for each canister is what it saves
    canisters: tuple[Any, ...],
    place: int,
    notes: Notes,
    ids: list[str],
    names: set[str],
    turn: str,
    signature: str,
) -> Walked | None:
    """What a walk gives; the ids and names of the calls that it met have to be checked afterwards."""
    written: list[Any] = []
    last, before = place, 0
    take = written.append
    parts: list[Any] = []
    waiting: list[Any] = []
    answered = 0
    count = len(canisters)
    # Where a call and its answer may still follow.
    room = count - 2
    # The first call that had to be signed.
    signed: int | None = None
    while place < count:
        canister = canisters[place]
        role = canister.role
        held = canister.held
        residue = canister.residue
        if residue is not None and not note_residue(
            residue, NAME, place, notes, is_result=role is _RESULT
        ):
            return None
        if role is _ASSISTANT:
            if turn is _USERS:
                last, before = place, len(written)
                if held is absent and place < room:
                    # One call and its answer, which is what agents do all day.
                    call, result = canisters[place + 1], canisters[place + 2]
                    if call.role is _INVOCATION and result.role is _RESULT:
                        identifier, arguments, text = call.identifier, call.held, result.held
                        if (
                            result.invocation_id == identifier
                            and type(text) is str
                            and text
                            and text[0] in _WORDY
                            and arguments
                            and not call.is_freeform
                            and call.residue is None
                            and result.residue is None
                            and result._error is absent  # noqa: SLF001 - a property would cost a call
                        ):
                            _check_object(arguments)
                            name = call.name
                            ids.append(identifier)
                            names.add(name)
                            if signed is None:
                                signed = place + 1
                            take(
                                Fragment(
                                    f'{{"role":"model","parts":[{{"functionCall":{{"id":"{identifier}",'
                                    f'"name":"{name}","args":{arguments}}}{signature}}}]}}'
                                )
                            )
                            parts = [
                                {
                                    "functionResponse": {
                                        "id": identifier,
                                        "name": name,
                                        "response": {"output": text},
                                    }
                                }
                            ]
                            take({"role": "user", "parts": parts})
                            place += 3
                            continue
                turn = _OPENED
            elif turn is _NOBODYS or waiting:
                return None
            elif not canister.joined:
                notes.append(("alternation", place, ""))
            if type(held) is str:
                if not held or held.isspace():
                    return None
                if turn is _MODELS:
                    parts.append({"text": held})
                else:
                    turn = _MODELS
                    parts = [{"text": held}]
                    take({"role": "model", "parts": parts})
            elif held is not absent:
                return None
        elif role is _USER:
            if type(held) is str:
                if not held or held.isspace():
                    return None
                part: Any = {"text": held}
            else:
                part = _media(held)
                if part is None:
                    return None
            if turn is _MODELS or turn is _NOBODYS:
                if waiting:
                    return None
                turn = _USERS
                parts = [part]
                take({"role": "user", "parts": parts})
            elif turn is _USERS:
                if not canister.joined and canisters[place - 1].role is _USER:
                    notes.append(("alternation", place, ""))
                parts.append(part)
            else:
                return None
        elif role is _INVOCATION:
            if turn is _NOBODYS or turn is _ANSWERS or canister.is_freeform:
                return None
            if held:
                _check_object(held)
            name = canister.name
            sign = "" if waiting else signature
            if sign and signed is None:
                signed = place
            part = Fragment(
                f'{{"functionCall":{{"id":"{canister.identifier}","name":"{name}",'
                f'"args":{held or "{}"}}}{sign}}}'
            )
            ids.append(canister.identifier)
            names.add(name)
            waiting.append(canister)
            if turn is _MODELS:
                parts.append(part)
            else:
                if turn is _USERS:
                    last, before = place, len(written)
                turn = _MODELS
                parts = [part]
                take({"role": "model", "parts": parts})
        elif role is _RESULT:
            if (
                not waiting
                or canister.invocation_id != waiting[answered].identifier
                or type(held) is not str
                or canister._error is not absent  # noqa: SLF001 - the same
            ):
                return None
            call = waiting[answered]
            response = {"output": held} if held and held[0] in _WORDY else wrap_text(held)
            part = {
                "functionResponse": {
                    "id": call.identifier,
                    "name": call.name,
                    "response": response,
                }
            }
            if turn is _ANSWERS:
                parts.append(part)
            else:
                turn = _ANSWERS
                parts = [part]
                take({"role": "user", "parts": parts})
            answered += 1
            if answered == len(waiting):
                turn, waiting, answered = _USERS, [], 0
        else:
            return None
        place += 1
    if waiting or turn is _OPENED:
        return None
    if signature and signed is not None:
        notes.append(("SIGNATURE_STANDIN", signed, ""))
    return Walked(written, last, before)


def _media(content: Any) -> dict[str, Any] | None:
    """A part with media; None for any that would be changed or left out."""
    if type(content) not in _MEDIA:
        return None
    payload, mime_type = content.payload, content.mime_type
    if type(payload) is Location:
        if not is_fetchable(payload):
            return None
        file = {"fileUri": payload.value}
        return {"fileData": {**file, "mimeType": mime_type} if mime_type else file}
    if not mime_type or true_mime_type(content) != mime_type:
        return None
    text = sound_base64(payload)
    return None if text is None else {"inlineData": {"mimeType": mime_type, "data": text}}
