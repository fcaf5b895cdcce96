"""Well-behaved conversations written straight to Chat messages.

One walk checks that calls are answered in order and builds the wire structs; anything unusual (residue, media,
reasoning, ids or names that would have to change) gives None, and the general writer takes over.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from cannery.dialects.openai_chat.fast import AssistantMessage, SystemMessage, UserMessage
from cannery.dialects.openai_chat.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.messages.role import Role
from cannery.wire.arguments import is_plain_identifier
from cannery.wire.bodies import encode
from cannery.wire.contract import Notes
from cannery.wire.fragments import find_prefix, keep_prefix


class DeveloperMessage(Struct, frozen=True, gc=False, tag_field="role", tag="developer"):
    """A developer message."""

    content: str


class ToolMessage(Struct, frozen=True, gc=False, tag_field="role", tag="tool"):
    """What a tool answered."""

    tool_call_id: str
    content: str


class Function(Struct, frozen=True, gc=False):
    """What a call calls."""

    name: str
    arguments: str


class Call(Struct, frozen=True, gc=False, tag="function"):
    """A function call."""

    id: str
    function: Function


class CallMessage(Struct, frozen=True, gc=False, tag_field="role", tag="assistant"):
    """An assistant message with calls."""

    content: str | None
    tool_calls: list[Call]


def write_turns(
    request: Request,
    notes: Notes,  # noqa: ARG001 - Chat has nothing to say about turns that need no repair
    *,
    keep: bool = False,
) -> tuple[int, list[Any]] | None:
    """The messages of a well-behaved conversation; None for any other."""
    canisters = tuple(request.conversation)
    start, used = 0, set[str]()
    written: list[Any] = []
    is_home = request.source == NAME
    known = find_prefix(canisters, _key(is_home=is_home)) if keep else None
    if known is not None:
        start, kept, ids = known
        written, used = list(kept), set(ids)
    walked = _walk(canisters, start, used, is_home=is_home)
    if walked is None:
        return None
    fresh, last, count = walked
    if keep:
        head = [*written, *(Raw(encode(message)) for message in fresh[:count])]
        keep_prefix(canisters, last, _key(is_home=is_home), head, used)
        return 0, [*head, *fresh[count:]]
    return (0, fresh) if fresh else None


def _key(*, is_home: bool) -> str:
    """What turns are kept under: at home blank arguments stay blank."""
    return f"{NAME} at home" if is_home else NAME


def _walk(
    canisters: tuple[Any, ...], index: int, used: set[str], *, is_home: bool
) -> tuple[list[Any], int, int] | None:
    """The messages from a position on, where the last assistant turn starts, and how many stand before it."""
    written: list[Any] = []
    take = written.append
    count = len(canisters)
    last, last_count = index, 0
    while index < count:
        canister = canisters[index]
        held = canister.held
        role = canister.role
        if canister.residue is not None or (canister.joined and role is not Role.User):
            return None
        index += 1
        if role is Role.Assistant:
            last, last_count = index - 1, len(written)
            stop = _calls_end(canisters, index, count)
            if stop == index:
                if type(held) is not str:
                    return None
                take(AssistantMessage(held))
                continue
            exchange = _exchange(canisters, index, stop, held, used, is_home=is_home)
            if exchange is None:
                return None
            written += exchange
            index = stop + len(exchange) - 1
        elif type(held) is not str or (index < count and canisters[index].joined):
            return None
        elif role is Role.User:
            take(UserMessage(held))
        elif role is Role.Supervisor:
            take((DeveloperMessage if canister.rank == "developer" else SystemMessage)(held))
        else:
            return None
    return written, last, last_count


def _calls_end(canisters: tuple[Any, ...], index: int, count: int) -> int:
    while index < count and canisters[index].role is Role.Invocation:
        index += 1
    return index


def _exchange(
    canisters: tuple[Any, ...], index: int, stop: int, held: Any, used: set[str], *, is_home: bool
) -> list[Any] | None:
    """An assistant message with calls and the messages that answer them, in call order."""
    if held is not absent and (type(held) is not str or not held):
        return None
    made: list[Call] = []
    messages: list[Any] = [CallMessage(None if held is absent else held, made)]
    if stop + stop - index > len(canisters):
        return None
    for position in range(index, stop):
        call, result = canisters[position], canisters[stop + position - index]
        identifier, name, arguments = call.identifier, call.name, call.held
        text = result.held
        if (
            call.residue is not None
            or call.is_freeform
            or identifier in used
            or not is_plain_identifier(identifier)
            or not is_plain_identifier(name)
            or result.role is not Role.Result
            or result.invocation_id != identifier
            or type(text) is not str
            or result.residue is not None
            or result._error is not absent  # noqa: SLF001 - a property would cost a call
        ):
            return None
        used.add(identifier)
        if not is_home and (not arguments or arguments.isspace()):
            arguments = "{}"
        made.append(Call(identifier, Function(name, arguments)))
        messages.append(ToolMessage(identifier, text))
    return messages
