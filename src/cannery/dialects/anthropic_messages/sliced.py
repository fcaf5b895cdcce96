"""Writing Messages bodies on the shortest way."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from cannery.dialects.anthropic_messages.fast import DEFAULTED
from cannery.dialects.anthropic_messages.frames import long_messages
from cannery.dialects.anthropic_messages.models import samplers
from cannery.dialects.anthropic_messages.settings import DEFAULT_MAX_TOKENS
from cannery.messages.absence import absent
from cannery.wire.losses import Notes
from cannery.wire.slices import (
    Around,
    Sliced,
    TextPart,
    encode_structs,
    is_spoken,
    is_talk,
    note_details,
    sliced_messages,
)


class _Body(Struct, frozen=True, gc=False):
    model: str
    max_tokens: int
    temperature: Any
    top_p: Any
    stream: Any
    system: Any
    messages: Any


def write_slices(sliced: Sliced, around: Around | None, notes: Notes) -> bytes | None:
    """The body; None for requests that need a repair."""
    pieces: list[Any] | None = None
    messages: Any = sliced.messages
    if sliced.short is not None:
        if not is_spoken(messages):
            return None
    else:
        messages = sliced_messages(sliced)
        if not is_talk(messages):
            detailed: list[Any] = []
            pieces = long_messages(messages, detailed)
            if pieces is None or (detailed and not note_details(detailed, sliced, notes)):
                return None
            # What the pieces stand for is put behind the settings.
            messages = UNSET
    if pieces is not None and around is not None and _is_by_budget(around):
        return None
    system = sliced.system
    if type(system) is list and any(type(part) is not TextPart for part in system):
        return None
    body = _body(sliced, around, system, messages, notes)
    if body is None:
        return None
    if pieces is None:
        return body
    return b"".join((body[:-1], b',"messages":', *pieces, b"}"))


def _is_by_budget(around: Around) -> bool:
    """Whether the model thinks by a budget, which depends on how its last turn began."""
    thinking = around.get("thinking")
    return thinking is not None and b'"enabled"' in bytes(thinking)


def _body(
    sliced: Sliced, around: Around | None, system: Any, messages: Any, notes: Notes
) -> bytes | None:
    """A body whose messages are as they should be, or left out; None where a setting would have to change."""
    if around is not None:
        said = {} if system is None else {"system": system}
        spoken = {} if messages is UNSET else {"messages": messages}
        return encode_structs({**around, **said, **spoken})
    temperature, model, limit = sliced.temperature, sliced.model, sliced.limit
    if not model or (temperature is not absent and temperature > 1):
        return None
    sampling = (temperature is not absent) + (sliced.top_p is not absent)
    if sampling and sampling > samplers(model):
        return None
    if limit is absent:
        notes.append(DEFAULTED)
        limit = DEFAULT_MAX_TOKENS
    return encode_structs(
        _Body(
            model,
            limit,
            UNSET if temperature is absent else temperature,
            UNSET if sliced.top_p is absent else sliced.top_p,
            UNSET if sliced.stream is absent else sliced.stream,
            UNSET if system is None else system,
            messages,
        )
    )
