"""Well-behaved conversations written straight to Chat messages.

One walk checks that calls are answered in order and builds the messages; anything unusual (residue, media,
reasoning, ids or names that would have to change) gives None, and the general writer takes over.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cannery.dialects.openai_chat.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.messages.role import Role
from cannery.wire.arguments import is_plain_identifier, is_plain_name
from cannery.wire.contract import Notes
from cannery.wire.fragments import Walked, write_kept


def write_turns(request: Request, notes: Notes, *, keep: bool = False) -> tuple[int, Any] | None:
    """The messages of a well-behaved conversation; None for any other."""
    canisters = tuple(request.conversation)
    is_home = request.source == NAME
    walk = _walk_home if is_home else _walk_abroad
    if keep:
        # At home blank arguments stay blank.
        turns = write_kept(canisters, 0, notes, f"{NAME} at home" if is_home else NAME, walk)
        return None if turns is None else (0, turns)
    walked = walk(canisters, 0, notes, set(), frozenset(), goes_on=False)
    return None if walked is None or not walked.turns else (0, walked.turns)


def _walk(
    canisters: tuple[Any, ...],
    index: int,
    _notes: Notes,
    used: set[str],
    known: frozenset[str],
    *,
    goes_on: bool,  # noqa: ARG001 - turns need not alternate here
    is_home: bool,
) -> Walked | None:
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
                take({"role": "assistant", "content": held})
                continue
            exchange = _exchange(canisters, index, stop, held, used, known, is_home=is_home)
            if exchange is None:
                return None
            written += exchange
            index = stop + len(exchange) - 1
        elif type(held) is not str or (index < count and canisters[index].joined):
            return None
        elif role is Role.User:
            take({"role": "user", "content": held})
        elif role is Role.Supervisor:
            take(
                {"role": "developer" if canister.rank == "developer" else "system", "content": held}
            )
        else:
            return None
    return Walked(written, last, last_count)


_walk_home = partial(_walk, is_home=True)
_walk_abroad = partial(_walk, is_home=False)


def _calls_end(canisters: tuple[Any, ...], index: int, count: int) -> int:
    while index < count and canisters[index].role is Role.Invocation:
        index += 1
    return index


def _exchange(
    canisters: tuple[Any, ...],
    index: int,
    stop: int,
    held: Any,
    used: set[str],
    known: frozenset[str],
    *,
    is_home: bool,
) -> list[Any] | None:
    """An assistant message with calls and the messages that answer them, in call order."""
    if held is not absent and (type(held) is not str or not held):
        return None
    made: list[Any] = []
    content = None if held is absent else held
    messages: list[Any] = [{"role": "assistant", "content": content, "tool_calls": made}]
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
            or identifier in known
            or not is_plain_identifier(identifier)
            or not is_plain_name(name)
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
        function = {"name": name, "arguments": arguments}
        made.append({"id": identifier, "type": "function", "function": function})
        messages.append({"role": "tool", "tool_call_id": identifier, "content": text})
    return messages
