"""Well-behaved conversations written straight to Messages bodies.

One walk over the canisters both checks that no repair is needed and builds the wire structs; anything unusual (residue,
blank text, turns that do not alternate, calls not answered in order, ids or names that would have to change) gives None,
and ``writing`` takes over. The tests hold both writers against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.messages.absence import absent
from cannery.messages.content import ImageContentClass
from cannery.messages.payload import Base64
from cannery.messages.requests import Request, new_controls
from cannery.messages.role import Role
from cannery.wire.bodies import encode
from cannery.wire.arguments import is_plain_identifier, object_text
from cannery.wire.media import sniff
from cannery.wire.plain import PlainRequest, PlainSystem, alternating

_USER, _ASSISTANT, _SUPERVISOR = Role.User, Role.Assistant, Role.Supervisor
_INVOCATION, _RESULT = Role.Invocation, Role.Result


class TextBlock(Struct, frozen=True, gc=False, tag="text"):
    """A text block."""

    text: str


class ImageSource(Struct, frozen=True, gc=False, tag="base64"):
    """Inline bytes of an image."""

    media_type: str
    data: Raw


class ImageBlock(Struct, frozen=True, gc=False, tag="image"):
    """An image block."""

    source: ImageSource


class ToolUse(Struct, frozen=True, gc=False, tag="tool_use"):
    """A call."""

    id: str
    name: str
    input: Raw


class ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    """The answer to a call."""

    tool_use_id: str
    content: str


class UserMessage(Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    """A user turn."""

    content: Any


class AssistantMessage(Struct, frozen=True, gc=False, tag_field="role", tag="assistant"):
    """An assistant turn."""

    content: Any


class Body(Struct, frozen=True, gc=False):
    """A request."""

    messages: list[Any]
    max_tokens: int
    model: str | UnsetType = UNSET
    system: str | UnsetType = UNSET
    temperature: Any = UNSET
    top_p: Any = UNSET
    stream: Any = UNSET


def write_plain(request: PlainRequest) -> bytes | None:
    """The body of a plain request that needs no repair; None for any other."""
    messages = request.messages
    temperature, top_p = request.temperature, request.top_p
    limit = request.limit if request.old_limit is absent else request.old_limit
    if limit is absent or (temperature is not absent and temperature > 1):
        return None
    system: Any = UNSET
    if messages and type(messages[0]) is PlainSystem:
        system = messages[0].held
        messages = messages[1:]
        if not system.strip():
            return None
    written = alternating(messages, UserMessage, AssistantMessage)
    if written is None:
        return None
    model, stream = request.model, request.stream
    return encode(
        Body(
            written,
            limit,
            UNSET if model is absent else model,
            system,
            UNSET if temperature is absent else temperature,
            UNSET if top_p is absent else top_p,
            UNSET if stream is absent else stream,
        )
    )


def write_fast(request: Request) -> bytes | None:
    """The body of a well-behaved request; None for any other."""
    settings = _settings(request)
    if settings is None:
        return None
    conversation = tuple(request.conversation)
    system: Any = UNSET
    if conversation and conversation[0].role is _SUPERVISOR:
        system = _system(conversation[0])
        if system is None:
            return None
    messages = write_messages(conversation, 0 if system is UNSET else 1)
    if messages is None:
        return None
    limit, temperature, top_p = settings
    return encode(
        Body(
            messages,
            limit,
            UNSET if request.model is absent else request.model,  # type: ignore[arg-type]
            system,
            temperature,
            top_p,
            UNSET if request.stream is absent else request.stream,
        )
    )


def _settings(request: Request) -> tuple[int, Any, Any] | None:
    controls = request.controls
    if request.tools or request.tool_choice is not absent:
        return None
    residue = request.residue
    if residue is not None and residue.envelope is not None:
        return None
    limit, temperature, top_p = controls.max_tokens, controls.temperature, controls.top_p
    if limit is absent or controls != new_controls(limit, temperature, top_p):
        return None
    if temperature is absent:
        temperature = UNSET  # type: ignore[assignment]
    elif temperature > 1:  # type: ignore[operator]
        return None
    return limit, temperature, UNSET if top_p is absent else top_p  # type: ignore[return-value]


def _system(canister: Any) -> str | None:
    held = canister.held
    plain = canister.residue is None and canister.rank != "developer" and type(held) is str
    return held if plain and held and not held.isspace() else None


def write_messages(canisters: Sequence[Any], start: int) -> list[Any] | None:
    """The messages of canisters that need no repair; None if one does."""
    written: list[Any] = []
    take = written.append
    count = len(canisters)
    index = start
    after_user = False
    while index < count:
        canister = canisters[index]
        if canister.residue is not None:
            return None
        role = canister.role
        held = canister.held
        index += 1
        follows = index < count and canisters[index].joined
        if role is _USER:
            if after_user:
                return None
            after_user = True
            if not follows and type(held) is str:
                if not held or held.isspace():
                    return None
                take(UserMessage(held))
                continue
            index -= 1
            blocks, index = _user_blocks(canisters, index, count)
            if blocks is None:
                return None
            take(UserMessage(blocks))
        elif role is _ASSISTANT:
            if not after_user:
                return None
            after_user = False
            if not follows and type(held) is str:
                if index < count and canisters[index].role is _INVOCATION:
                    return None
                if not held or held.isspace() or index == count:
                    return None
                take(AssistantMessage(held))
                continue
            exchange = _exchange(canisters, index, count, held)
            if exchange is None:
                return None
            said, answered, index = exchange
            take(AssistantMessage(said))
            take(UserMessage(answered))
            after_user = True
        else:
            return None
    return written if written else None


def _user_blocks(
    canisters: Sequence[Any], index: int, count: int
) -> tuple[list[Any] | None, int]:
    blocks: list[Any] = []
    while index < count:
        canister = canisters[index]
        if blocks and not canister.joined:
            break
        held = canister.held
        if canister.role is not _USER or canister.residue is not None:
            return None, index
        if type(held) is str:
            if not held or held.isspace():
                return None, index
            blocks.append(TextBlock(held))
        elif type(held) is ImageContentClass and type(held.payload) is Base64:
            text = held.payload.text
            if sniff(held.payload) != held.mime_type or len(text) % 4 or "-" in text or "_" in text:
                return None, index
            blocks.append(ImageBlock(ImageSource(held.mime_type, Raw(f'"{text}"'))))
        else:
            return None, index
        index += 1
    return blocks, index


def _exchange(
    canisters: Sequence[Any], index: int, count: int, held: Any
) -> tuple[list[Any], list[Any], int] | None:
    """An assistant turn with calls and the user turn that answers them, in call order."""
    said: list[Any] = []
    if held is not absent:
        if type(held) is not str or not held or held.isspace():
            return None
        said.append(TextBlock(held))
    first = index
    while index < count:
        call = canisters[index]
        if call.role is not _INVOCATION:
            break
        identifier, name = call.identifier, call.name
        arguments = object_text(call.held)
        if arguments is None or call.residue is not None or call.is_freeform:
            return None
        if not (is_plain_identifier(identifier) and is_plain_identifier(name)):
            return None
        said.append(ToolUse(identifier, name, arguments))
        index += 1
    answered: list[Any] = []
    for call in canisters[first:index]:
        if index == count:
            return None
        result = canisters[index]
        text = result.held
        if (
            result.role is not _RESULT
            or type(text) is not str
            or result.invocation_id != call.identifier
            or result._error is not absent
            or result.residue is not None
            or not text
            or text.isspace()
        ):
            return None
        answered.append(ToolResult(call.identifier, text))
        index += 1
    if not answered or (len(answered) > 1 and _repeats(answered)):
        return None
    # What the user says next belongs into the same turn; the general writer knows how.
    is_last = index == count
    return (said, answered, index) if is_last or canisters[index].role is _ASSISTANT else None


def _repeats(answered: list[ToolResult]) -> bool:
    return len({result.tool_use_id for result in answered}) != len(answered)
