"""Well-behaved conversations written straight to Messages bodies.

One walk over the canisters both checks that no repair is needed and builds the wire structs; anything unusual
(residue, blank text, turns that do not alternate, calls not answered in order, ids or names that would have to change)
gives None, and ``writing`` takes over. The tests hold both writers against each other.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.dialects.anthropic_messages.models import rules_for
from cannery.dialects.anthropic_messages.settings import DEFAULT_MAX_TOKENS, NAME
from cannery.messages.absence import absent
from cannery.messages.content import ImageContentClass
from cannery.messages.payload import Base64
from cannery.messages.requests import Request, new_controls
from cannery.messages.role import Role
from cannery.wire.arguments import is_plain_identifier, object_text
from cannery.wire.bodies import encode
from cannery.wire.contract import Notes
from cannery.wire.fragments import find_prefix, keep_prefix, leading_texts
from cannery.wire.media import sniff
from cannery.wire.plain import (
    PlainAssistant,
    PlainRequest,
    PlainUser,
    alternating,
    split_system,
)
from cannery.wire.received import RECEIVED

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


class PlainBody(
    PlainRequest,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"limit": "max_tokens", "old_limit": "\ue000limit"},
):
    """A request whose messages are canisters as they are."""

    messages: list[PlainUser | PlainAssistant]  # type: ignore[assignment]
    limit: int = absent  # type: ignore[assignment]
    old_limit: int = absent  # type: ignore[assignment]


_decode_plain = msgspec.json.Decoder(PlainBody).decode


def read_plain(body: bytes) -> PlainRequest | None:
    """The plain request of a body; None for any other."""
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
    if split is None or model is absent or (temperature is not absent and temperature > 1):
        return None
    system, messages = split
    written = alternating(messages, UserMessage, AssistantMessage)
    if written is None:
        return None
    limit = given.limit if given.old_limit is absent else given.old_limit
    top_p, stream = given.top_p, given.stream
    return encode(
        Body(
            written,
            _limit(limit, notes),
            model,
            UNSET if system is absent else system,
            UNSET if temperature is absent else temperature,
            UNSET if top_p is absent else top_p,
            UNSET if stream is absent else stream,
        )
    )


def _limit(given: Any, notes: Notes) -> int:
    if given is not absent:
        return given  # type: ignore[no-any-return]
    detail = f"max_tokens is required; {DEFAULT_MAX_TOKENS} was sent"
    notes.append(("CONTROL_DEFAULTED", "@max_tokens", detail))
    return DEFAULT_MAX_TOKENS


def write_fast(request: Request, notes: Notes, *, keep: bool = False) -> bytes | None:
    """The body of a well-behaved request; None for any other.

    With ``keep`` the encoded turns are kept beside the conversation, so that writing it again with more at its end
    encodes only what is new.
    """
    settings = _settings(request)
    model = request.model
    if settings is None or not isinstance(model, str) or request.source == NAME:
        return None
    canisters = tuple(request.conversation)
    system: Any = UNSET
    if canisters and canisters[0].role is _SUPERVISOR:
        system = _system(canisters[0])
        if system is None:
            return None
    start = 0 if system is UNSET else 1
    turns = _kept_turns(canisters, start, notes) if keep else _turns(canisters, start, notes, set())
    if turns is None or not turns[0]:
        return None
    if canisters[-1].role is _ASSISTANT and not _may_end(canisters[-1].held, model):
        return None
    limit, temperature, top_p = settings
    stream = UNSET if request.stream is absent else request.stream
    body = Body(turns[0], _limit(limit, notes), model, system, temperature, top_p, stream)
    return encode(body)


def write_turns(
    request: Request, notes: Notes, *, keep: bool = False
) -> tuple[int, list[Any]] | None:
    """The turns of a well-behaved conversation behind its leading supervisors; None for any other."""
    model = request.model
    canisters = tuple(request.conversation)
    start = leading_texts(canisters)
    if start is None or not isinstance(model, str) or request.source == NAME:
        return None
    turns = _kept_turns(canisters, start, notes) if keep else _turns(canisters, start, notes, set())
    if turns is None or not turns[0]:
        return None
    if canisters[-1].role is _ASSISTANT and not _may_end(canisters[-1].held, model):
        return None
    return start, turns[0]


def _may_end(held: Any, model: str) -> bool:
    """Whether a request may end with this text of the assistant."""
    return not rules_for(model).ends_with_user and not held[-1].isspace()


def _kept_turns(
    canisters: tuple[Any, ...], start: int, notes: Notes
) -> tuple[list[Any], int, int] | None:
    """The turns of a conversation, all but the last taken from what was kept, and kept again."""
    written: list[Any] = []
    used: set[str] = set()
    known = find_prefix(canisters, NAME)
    if known is not None:
        start, written, ids = known
        used = set(ids)
    turns = _turns(canisters, start, notes, used, after_user=bool(written))
    if turns is None:
        return None
    fresh, last, count = turns
    head = [*written, *(Raw(encode(turn)) for turn in fresh[:count])]
    keep_prefix(canisters, last, NAME, head, used)
    return [*head, *fresh[count:]], last, count


def _settings(request: Request) -> tuple[Any, Any, Any] | None:
    controls = request.controls
    if request.tools or request.tool_choice is not absent:
        return None
    residue = request.residue
    if residue is not None and residue.envelope is not None:
        return None
    limit, temperature, top_p = controls.max_tokens, controls.temperature, controls.top_p
    if controls != new_controls(limit, temperature, top_p):
        return None
    if temperature is absent:
        temperature = UNSET  # type: ignore[assignment]
    elif temperature > 1:
        return None
    return limit, temperature, UNSET if top_p is absent else top_p


def _system(canister: Any) -> str | None:
    held = canister.held
    plain = canister.residue is None and canister.rank != "developer" and type(held) is str
    return held if plain and held and not held.isspace() else None


def _turns(  # noqa: C901, PLR0912 - one loop: a call for each turn is what it saves
    canisters: tuple[Any, ...],
    index: int,
    notes: Notes,
    used: set[str],
    *,
    after_user: bool = False,
) -> tuple[list[Any], int, int] | None:
    """The turns from a position on, where the last assistant turn starts, and how many turns stand before it.

    ``used`` takes the call ids, since none may come twice.
    """
    written: list[Any] = []
    take = written.append
    count = len(canisters)
    calls: list[Any] = []
    last, last_count = index, 0
    while index < count:
        canister = canisters[index]
        held = canister.held
        role = canister.role
        if role is _ASSISTANT:
            if not after_user or canister.residue is not None:
                return None
            last, last_count = index, len(written)
            index += 1
            after_user = False
            if index == count or canisters[index].role is not _INVOCATION:
                if type(held) is not str or not held or held.isspace():
                    return None
                if index < count and canisters[index].joined:
                    return None
                take(AssistantMessage(held))
                continue
            if held is absent and _is_single(canisters, index, count):
                pair = _single(canisters[index], canisters[index + 1], used)
                if pair is None:
                    return None
                written += pair
                index += 2
                after_user = True
                continue
            said: list[Any] | None = _calls(canisters, index, count, held, used)
            if said is None:
                return None
            take(AssistantMessage(said))
            found = len(said) if held is absent else len(said) - 1
            calls = canisters[index : index + found]  # type: ignore[assignment]
            index += found
        elif role is _USER or role is _RESULT:
            if after_user:
                return None
            after_user = True
            # The commonest turn by far: one plain text, then the assistant.
            if role is _USER and not calls and type(held) is str and canister.residue is None:
                following = canisters[index + 1].role if index + 1 < count else None
                if following is _ASSISTANT or following is None:
                    if not held or held.isspace():
                        return None
                    take(UserMessage(held))
                    index += 1
                    continue
            blocks = _user_turn(canisters, index, count, calls, notes)
            if blocks is None:
                return None
            alone = blocks[0] if len(blocks) == 1 else None
            take(UserMessage(alone.text if type(alone) is TextBlock else blocks))
            index += len(blocks)
            calls = []
        else:
            return None
    return None if calls else (written, last, last_count)


def _is_single(canisters: tuple[Any, ...], index: int, count: int) -> bool:
    """Whether one call, its answer and then the assistant (or nothing) follow: what agents do all day."""
    after = index + 2
    return (
        after <= count
        and canisters[index + 1].role is _RESULT
        and (after == count or canisters[after].role is _ASSISTANT)
    )


def _single(call: Any, result: Any, used: set[str]) -> tuple[Any, Any] | None:
    """A turn with one call and the turn that answers it."""
    identifier, name, text = call.identifier, call.name, result.held
    arguments = object_text(call.held)
    if (
        arguments is None
        or call.residue is not None
        or call.is_freeform
        or type(text) is not str
        or result.invocation_id != identifier
        or result._error is not absent  # noqa: SLF001 - a property would cost a call
        or result.residue is not None
        or not text
        or text.isspace()
        or identifier in used
        or not is_plain_identifier(identifier)
        or not is_plain_identifier(name)
    ):
        return None
    used.add(identifier)
    return (
        AssistantMessage((ToolUse(identifier, name, arguments),)),
        UserMessage((ToolResult(identifier, text),)),
    )


def _user_turn(
    canisters: tuple[Any, ...], index: int, count: int, calls: Any, notes: Notes
) -> list[Any] | None:
    """The answers to calls, in call order, and what the user says."""
    blocks: list[Any] = []
    for call in calls:
        block: Any = _result(canisters[index], call.identifier) if index < count else None
        if block is None:
            return None
        blocks.append(block)
        index += 1
    spoken = False
    while index < count:
        canister = canisters[index]
        role = canister.role
        if role is _ASSISTANT:
            break
        block = _user_block(canister) if role is _USER else None
        if block is None:
            return None
        if spoken and not canister.joined:
            notes.append(("alternation", index, ""))
        spoken = True
        blocks.append(block)
        index += 1
    return blocks


def _result(result: Any, identifier: str) -> ToolResult | None:
    text = result.held
    if (
        result.role is not _RESULT
        or type(text) is not str
        or result.invocation_id != identifier
        or result._error is not absent  # noqa: SLF001 - a property would cost a call
        or result.residue is not None
        or not text
        or text.isspace()
    ):
        return None
    return ToolResult(identifier, text)


def _user_block(canister: Any) -> TextBlock | ImageBlock | None:
    held = canister.held
    residue = canister.residue
    if residue is not None and (residue.part or residue.envelope or residue.cache):
        return None
    if type(held) is str:
        return TextBlock(held) if held and not held.isspace() else None
    if type(held) is not ImageContentClass or type(held.payload) is not Base64:
        return None
    payload = held.payload
    raw = payload.raw
    if (
        raw is None
        or sniff(payload) != held.mime_type
        or len(raw) % 4
        or b"-" in raw
        or b"_" in raw
    ):
        return None
    return ImageBlock(ImageSource(held.mime_type, Raw(b'"' + raw + b'"')))


def _calls(
    canisters: tuple[Any, ...], index: int, count: int, held: Any, used: set[str]
) -> list[Any] | None:
    """The blocks of an assistant turn with calls."""
    said: list[Any] = []
    if held is not absent:
        if type(held) is not str or not held or held.isspace():
            return None
        said.append(TextBlock(held))
    while index < count:
        call = canisters[index]
        if call.role is not _INVOCATION:
            break
        identifier, name = call.identifier, call.name
        arguments = object_text(call.held)
        if arguments is None or call.residue is not None or call.is_freeform or identifier in used:
            return None
        if not (is_plain_identifier(identifier) and is_plain_identifier(name)):
            return None
        used.add(identifier)
        said.append(ToolUse(identifier, name, arguments))
        index += 1
    return said
