"""Writes messages of the OpenTelemetry conventions.

The conventions allow further keys nearly everywhere, so nothing has to be left out: what they cannot express is written
under keys that begin with ``cannery.``, and reading gives the same canisters again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orjson import Fragment

from cannery.dialects.otel_genai.settings import (
    INPUT,
    INSTRUCTIONS,
    MODEL,
    NAME,
    RESIDUE,
    STREAM,
    TOOL_CHOICE,
    TOOLS,
    is_usual_object,
    plain,
    respell,
    spellings,
    write_around,
    write_controls,
    write_tool,
)
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
)
from cannery.messages.content import (
    AudioContentClass,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    VideoContentClass,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.payload import Location
from cannery.messages.requests import Request
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece
from cannery.wire.controls import put
from cannery.wire.losses import Report
from cannery.wire.media import base64_text
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import MODEL as MODEL_SIDE
from cannery.wire.turns import side, turns

PLAIN = "text/plain"
_WHERE = {"url": ("uri", "uri"), "file": ("file", "file_id")}


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:  # noqa: ARG001 - nothing is lost
    """The attributes of a request."""
    body: Object = {}
    put(body, MODEL, request.model)
    put(body, STREAM, request.stream)
    body.update(write_controls(request.controls))
    instructions, messages = write_messages(pieces)
    if instructions:
        body[INSTRUCTIONS] = instructions
    body[INPUT] = messages
    if request.tools:
        body[TOOLS] = [write_tool(tool) for tool in request.tools]
    if request.tool_choice is not absent:
        body[TOOL_CHOICE] = plain(request.tool_choice)
    whole = write_around(body, request)
    respell(whole, spellings(request))
    return whole


def write_messages(pieces: list[Piece]) -> tuple[list[Object], list[Object]]:
    """Separate system instructions, and messages."""
    instructions: list[Object] = []
    messages: list[Object] = []
    before = ""
    for turn in turns(pieces):
        whose = side(turn[0])
        # A turn of empty canisters is still a turn.
        group = [piece for piece in turn if _is_said(piece.canister) or whose == before] or turn
        before = whose
        words = _words(group[0].canister)
        where = instructions if "instructions" in words else messages
        if "bare" in words:
            where += [_part(piece.canister) for piece in group]
            continue
        for number, canisters in enumerate(_parted(group)):
            message = _message(canisters)
            if number:
                message["cannery.joined"] = True
            where.append(message)
    return instructions, messages


def write_answer(canisters: Conversation) -> Object:
    """The message of a response, which has all of its canisters; marks show where wire messages begin."""
    message = _message([*canisters], "assistant")
    opening = [
        number for number, canister in enumerate(canisters) if number and not canister.joined
    ]
    parts = message["parts"]
    for number in opening if len(parts) == len(canisters) else ():
        parts[number] = {**parts[number], "cannery.opens": True}
    return message


def _words(canister: AnyCanister) -> list[str]:
    residue = own_residue(canister, NAME)
    return residue.form.split() if residue is not None and residue.form else []


def _parted(group: list[Piece]) -> list[list[AnyCanister]]:
    """The canisters of a turn by message: results are in messages of their own."""
    parted: list[list[AnyCanister]] = []
    for piece in group:
        canister = piece.canister
        is_result = isinstance(canister, ResultCanisterClass)
        if not parted or is_result is not isinstance(parted[-1][0], ResultCanisterClass):
            parted.append([])
        parted[-1].append(canister)
    return parted


def _message(canisters: list[AnyCanister], role: str = "") -> Object:
    first = canisters[0]
    words = _words(first)
    said = canisters[1:] if "opener" in words else canisters
    parts = [] if "empty" in words else [_part(each) for each in said]
    message: Object = {"role": role or _role(first, words), "parts": parts}
    residue = own_residue(first, NAME)
    return message if residue is None else recall(message, residue.envelope)


def _role(canister: AnyCanister, words: list[str]) -> str:
    if isinstance(canister, ResultCanisterClass):
        return "function" if "function" in words else "tool"
    if isinstance(canister, SupervisorCanisterClass):
        return "developer" if canister.rank == "developer" else "system"
    return "assistant" if side(Piece(canister, None)) == MODEL_SIDE else "user"


def _is_said(canister: AnyCanister) -> bool:
    """Whether a canister is written: it has content, or something is kept of its emptiness."""
    return canister.held is not absent or canister.residue is not None


def _part(canister: Any) -> Object:
    words = _words(canister)
    if isinstance(canister, InvocationCanisterClass):
        part = _call(canister, words)
    elif isinstance(canister, ResultCanisterClass) and "spoken" not in words:
        part = _response(canister, words)
    else:
        part = content_part(canister.held)
        if isinstance(canister, DocumentCanisterClass):
            title = canister.title
            part["cannery.document"] = {} if title is absent else {"title": title}
    residue = own_residue(canister, NAME)
    if residue is not None:
        return _recalled(part, residue.part)
    if canister.residue is not None:
        part[RESIDUE] = plain(canister.residue)
    return part


def _recalled(part: Object, patch: str | None) -> Object:
    whole: Object = recall(part, patch)
    if whole.pop("cannery.no_type", False):
        whole.pop("mime_type", None)
    return whole


def _call(canister: InvocationCanisterClass, words: list[str]) -> Object:
    part: Object = {"type": "tool_call"}
    if "no_id" not in words:
        part["id"] = canister.identifier
    part["name"] = canister.name
    text = canister.held
    if "no_arguments" not in words:
        part["arguments"] = _arguments(text, words, is_freeform=canister.is_freeform)
    if canister.is_freeform:
        part["cannery.freeform"] = True
    return part


def _arguments(text: str, words: list[str], *, is_freeform: bool) -> Any:
    if "quoted" in words or is_freeform:
        return text
    if "null_arguments" in words:
        return None
    if "unquoted" in words:
        return decode_json(text)
    return Fragment(text) if is_usual_object(text) else text


def _response(canister: ResultCanisterClass, words: list[str]) -> Object:
    part: Object = {"type": "tool_call_response"}
    if "no_id" not in words:
        part["id"] = canister.invocation_id
    held = canister.held
    match held:
        case str():
            part["response"] = held
        case TextualContentClass() if not held.citations and held.mime_type == PLAIN:
            part["response"] = held.text
        case DataContentClass():
            part["response"] = value = decode_json(held.json)
            if write_json(value) != held.json:
                part["cannery.json"] = held.json
        case PartsContentClass():
            part["response"] = [content_part(each) for each in held.parts]
            part["cannery.content"] = "parts"
        case _:
            part["response"] = [content_part(held)]
            part["cannery.content"] = "part"
    if canister.is_error:
        part["cannery.error"] = True if canister.stated_error is absent else canister.stated_error
    return part


# --- contents ----------------------------------------------------------------------------------


def content_part(held: Any) -> Object:
    """One content as a part."""
    if type(held) is str:
        return {"type": "text", "content": held}
    if held is absent:
        return {"type": "cannery.silence"}
    return _WRITERS[type(held)](held)


def _text(content: TextualContentClass) -> Object:
    part: Object = {"type": "text", "content": content.text}
    if content.citations:
        part["cannery.citations"] = [plain(citation) for citation in content.citations]
    if content.mime_type != PLAIN:
        part["cannery.mime_type"] = content.mime_type
    return part


def _reasoning(content: ReasoningContentClass) -> Object:
    part: Object = {"type": "reasoning", "content": content.shown}
    more = plain(content)
    if more != {"texts": [content.shown], "summaries": []}:
        part["cannery.reasoning"] = more
    return part


def _refusal(content: RefusalContentClass) -> Object:
    return {"type": "refusal", "content": content.text}


def _media(content: ImageContentClass | AudioContentClass | VideoContentClass) -> Object:
    return _located(content, content.kind)


def _file(content: FileContentClass) -> Object:
    part = _located(content, "document")
    facts = {"name": content.name, "context": content.context, "citable": content.citable}
    more: Object = {name: value for name, value in facts.items() if value is not None}
    if content.chunks:
        more["chunks"] = [content_part(chunk) for chunk in content.chunks]
    if more:
        part["cannery.file"] = more
    return part


def _located(content: Any, modality: str) -> Object:
    if isinstance(content.payload, Location):
        kind, key = _WHERE[content.payload.kind]
        part: Object = {"type": kind, "modality": modality, key: content.payload.value}
    else:
        part = {"type": "blob", "modality": modality, "content": base64_text(content.payload)}
    if content.mime_type or not isinstance(content.payload, Location):
        part["mime_type"] = content.mime_type
    return part


def _opaque(content: OpaqueContentClass) -> Object:
    value = decode_json(content.json)
    if content.dialect == NAME:
        return value  # type: ignore[no-any-return]
    return {
        "type": "cannery.opaque",
        "dialect": content.dialect,
        "tag": content.tag,
        "value": value,
    }


def _data(content: DataContentClass) -> Object:
    return {"type": "cannery.data", "value": decode_json(content.json)}


def _parts(content: PartsContentClass) -> Object:
    return {"type": "cannery.parts", "parts": [content_part(each) for each in content.parts]}


_WRITERS: dict[type, Callable[[Any], Object]] = {
    TextualContentClass: _text,
    ReasoningContentClass: _reasoning,
    RefusalContentClass: _refusal,
    ImageContentClass: _media,
    AudioContentClass: _media,
    VideoContentClass: _media,
    FileContentClass: _file,
    OpaqueContentClass: _opaque,
    DataContentClass: _data,
    PartsContentClass: _parts,
}
