"""Extracts routing facts from a call's body, without reading the rest of it.

A pass-through needs the model, the stream switch and the roles; the rest of the body is skipped. A body of an
unexpected shape gives None, and the dialect then reports the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.dialects import all_dialects
from cannery.messages import Usage
from cannery.wire.contract import Dialect
from cannery.wire.counts import Counts
from cannery.wire.service import Replies


class _Speaker(Struct):
    role: str | None = None


_NOTHING = (UNSET, Raw(b"null"))


@lru_cache(maxsize=64)
def _request_decoder(
    messages: str, state: tuple[str, ...], *, streams: bool
) -> Callable[[bytes], Any]:
    """A decoder for the routing facts in a body with these fields."""
    fields: list[tuple[str, Any, Any]] = [
        ("model", str | None, None),
        ("stream", bool | None, streams),
        ("store", bool | None, None),
        (messages, list[_Speaker] | str | UnsetType, UNSET),
        *((name, Raw | UnsetType, UNSET) for name in state),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("_Body", fields)).decode


@lru_cache(maxsize=64)
def _reply_decoder(fields: tuple[str, ...], usage: str) -> Callable[[bytes], Any]:
    """A decoder for the facts in a reply with these fields."""
    found: list[tuple[str, Any, Any]] = [
        ("id", str | None, None),
        *([(usage, dict[str, Any] | None, None)] if usage else ()),
        *((name, list[Raw] | dict[str, Raw] | str | UnsetType, UNSET) for name in fields),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("_Reply", found)).decode


class Glance(Struct, frozen=True):
    """The routing facts of a body."""

    model: str | None
    stream: bool
    messages: int
    has_exact_roles: bool
    is_stateful: bool
    is_continuable: bool


def glance(dialect: Dialect, body: bytes) -> Glance | None:
    """The routing facts of a body, or None for an unexpected shape."""
    name, continuing = dialect.messages, dialect.service.continuing
    state = continuing.fields
    try:
        streams = dialect.service.streams.by_default
        seen = _request_decoder(name, state, streams=streams)(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    messages = getattr(seen, name)
    if messages is UNSET:
        return None
    count = 1
    is_exact = True
    if type(messages) is list:
        count = len(messages)
        readings, is_free = dialect.vocabulary.readings, not dialect.needs_roles
        for speaker in messages:
            if speaker.role not in readings and not (is_free and speaker.role is None):
                is_exact = False
                break
    is_stateful = any(getattr(seen, field) not in _NOTHING for field in state)
    is_continuable = bool(continuing.reply) and seen.store is not False
    return Glance(seen.model, bool(seen.stream), count, is_exact, is_stateful, is_continuable)


class Gist(Struct, frozen=True):
    """The facts of a reply: its tokens, and its id."""

    usage: Usage
    identifier: str | None


def gist(dialect: Dialect, body: bytes) -> Gist | None:
    """The facts of a whole reply, or None if it is not a reply of the dialect."""
    replies = dialect.service.replies
    try:
        seen = _reply_decoder(replies.fields, replies.usage)(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if replies.fields and all(getattr(seen, name) is UNSET for name in replies.fields):
        return None
    return Gist(_usage(seen, body, replies), seen.id)


def _usage(seen: Any, body: bytes, replies: Replies) -> Usage:
    """The usage of a reply, whose counts may be fields of the body itself."""
    counts = replies.counts
    if counts is None:
        return Usage()
    told = getattr(seen, replies.usage) if replies.usage else _counted(body, counts)
    found = counts.read(told)
    return found if isinstance(found, Usage) else Usage()


def _counted(body: bytes, counts: Counts) -> dict[str, Any]:
    try:
        fields: dict[str, Raw] = _split(body)
    except msgspec.MsgspecError:
        return {}
    paths = [path for path in counts.paths.values() if path in fields]
    return {path: msgspec.json.decode(fields[path]) for path in paths}


_split = msgspec.json.Decoder(dict[str, Raw]).decode


@lru_cache(maxsize=1)
def _counts_decoder() -> Callable[[bytes], Any]:
    """A decoder for only the token counts in a body, under the names of every dialect."""
    names = {dialect.service.replies.usage for dialect in all_dialects()} - {""}
    fields: list[tuple[str, Any, Any]] = [(name, dict[str, Any] | None, None) for name in names]
    return msgspec.json.Decoder(msgspec.defstruct("_Counts", fields)).decode


def usage_of(body: bytes) -> Usage | None:
    """The usage in a body of any kind, under the names of any dialect; None if there is none."""
    seen = _counts_decoder()(body)
    for dialect in all_dialects():
        usage = _usage(seen, body, dialect.service.replies)
        if usage.input or usage.output:
            return usage
    return None
