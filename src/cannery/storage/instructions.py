"""Instructions, tools and settings as versions: which were in force from which message on.

A conversation begins with its instructions as its first messages. If a client sends different ones with a later turn,
the conversation continues, and the new ones are kept with the first message of that turn (``Turn``), each text once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Struct

from cannery.backends import Metadata, check_digest
from cannery.errors import DamageError
from cannery.messages import AnyCanister, Conversation, Tool, digest
from cannery.storage.conversation import read_positions
from cannery.storage.encoding import Turn
from cannery.storage.history import beginning
from cannery.storage.lineage import segments
from cannery.storage.metadata import InForce
from cannery.storage.settings import NO_TOOLS, decode_tools
from cannery.storage.shapes import TurnShape, decode_turn

if TYPE_CHECKING:
    from cannery.storage.store import Store

_MARK = b'"turn":{'
_KEY = 16
# More than any client sends before a person's first message.
_FIRST = 200


class Instructions(Struct, frozen=True):
    """The instructions, tools and settings of a conversation from a position on.

    ``tools`` and ``settings`` (``storage.settings``) are JSON, None if not known.
    """

    position: int
    canisters: Conversation
    tools: bytes | None = None
    settings: bytes | None = None


class Exchange(Struct, frozen=True):
    """The facts of an exchange, whose first message has a position."""

    position: int
    request: str = ""
    why: str = ""
    model: str = ""


def setup_of(history: Sequence[AnyCanister]) -> tuple[AnyCanister, ...]:
    """The instructions of a history: everything before a person's first message."""
    return tuple(history[: beginning(history)])


def setup_key(setup: Iterable[AnyCanister]) -> str:
    """A key by which instructions are compared."""
    return _key(b"".join(map(digest, setup)))


def begin_turn(
    store: Store,
    turn: Turn,
    metadata: Metadata | None,
    setup: tuple[AnyCanister, ...],
    at: int | None = None,
) -> tuple[Turn, InForce]:
    """A turn with the new instructions (``setup``), tools and settings, and what is then in force.

    Without metadata it begins a new conversation, whose first messages are its instructions. A fork continues from
    position ``at`` of its parent.
    """
    before = None if metadata is None else in_force(store, metadata, at)
    if turn.tools == NO_TOOLS and (before is None or not before.tools):
        # None were in force before.
        turn = msgspec.structs.replace(turn, tools=None)
    now, tools, settings = setup_key(setup), _key_or_none(turn.tools), _key_or_none(turn.settings)
    if before is None:
        return turn, InForce(now, now, tools, settings)
    begun = msgspec.structs.replace(
        turn,
        setup=None if before.setup == now else setup,
        tools=None if tools in {before.tools, ""} else turn.tools,
        settings=None if settings in {before.settings, ""} else turn.settings,
    )
    later = "+" if begun.is_version else before.later
    return begun, InForce(
        before.first, now, tools or before.tools, settings or before.settings, later
    )


def in_force(store: Store, metadata: Metadata, at: int | None = None) -> InForce:
    """What is in force at the end of a conversation, or where a fork leaves it."""
    known = InForce.parse(metadata.setup if at is None else InForce.inherited(metadata.setup))
    if known is not None:
        return known
    versions = read_instructions(store, metadata)
    last = versions[-1] if at is None else version_at(versions, at)
    first, now = setup_key(versions[0].canisters), setup_key(last.canisters)
    return InForce(first, now, _key_or_none(last.tools), _key_or_none(last.settings))


def had_instructions(store: Store, metadata: Metadata, setup: tuple[AnyCanister, ...]) -> bool:
    """Whether some instructions were ever in force in a conversation."""
    wanted, known = setup_key(setup), in_force(store, metadata)
    if wanted in {known.setup, known.first}:
        return True
    versions = read_instructions(store, metadata)
    return any(setup_key(version.canisters) == wanted for version in versions)


def _key(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_KEY]


def _key_or_none(data: bytes | None) -> str:
    return "" if data is None else _key(data)


def read_instructions(store: Store, metadata: Metadata) -> list[Instructions]:
    """The instructions of a conversation, oldest first."""
    codec = store.codec(metadata.scope)
    begun = read_positions(store, metadata, 0, _FIRST).canisters
    found = [Instructions(0, Conversation.trusted(setup_of(begun)))]
    for position, turn in read_turns(store, metadata):
        changes: dict[str, object] = {}
        if turn.setup is not UNSET:
            lines = [bytes(raw) for raw in turn.setup]
            changes["canisters"] = Conversation.trusted(codec.decoder.decode(lines))
        if turn.tools is not UNSET:
            changes["tools"] = codec.cache.get(check_digest(turn.tools.content_id), turn.tools.size)
        if isinstance(turn.settings, str):
            changes["settings"] = turn.settings.encode()
        elif turn.settings is not UNSET:
            kept = turn.settings
            changes["settings"] = codec.cache.get(check_digest(kept.content_id), kept.size)
        if changes and position == 0:
            found[-1] = msgspec.structs.replace(found[-1], **changes)
        elif changes:
            found.append(msgspec.structs.replace(found[-1], position=position, **changes))
    return found


def told_versions(versions: Iterable[Instructions]) -> list[Instructions]:
    """The versions that begin with other instructions or tools; settings, which change with each turn, begin none."""
    found: list[Instructions] = []
    for version in versions:
        last = found[-1] if found else None
        is_same = last is not None and last.tools == version.tools
        if last is None or not is_same or setup_key(last.canisters) != setup_key(version.canisters):
            found.append(version)
    return found


def tools_at(store: Store, identifier: str, position: int) -> tuple[Tool, ...]:
    """The tools in force before a position of a conversation; none if unknown."""
    version = version_at(read_instructions(store, store.metadata_of(identifier)), position)
    return () if version.tools is None else decode_tools(version.tools)


def version_at(versions: Sequence[Instructions], position: int) -> Instructions:
    """The version in force for the messages before a position."""
    return next((one for one in reversed(versions) if one.position < position), versions[0])


def read_exchanges(store: Store, metadata: Metadata) -> list[Exchange]:
    """The facts of a conversation's exchanges, oldest first."""
    return [
        Exchange(position, turn.request, turn.why, turn.model)
        for position, turn in read_turns(store, metadata)
    ]


def read_turns(store: Store, metadata: Metadata) -> Iterator[tuple[int, TurnShape]]:
    """The facts of exchanges in the lines of a conversation."""
    spans = segments(metadata, store.any_metadata, 0, None)
    for reading in store.backend.read_many(spans):
        for position, line in enumerate(reading.lines, reading.start):
            if line is not None and _MARK in line:
                try:
                    yield position, decode_turn(line).turn
                except (msgspec.MsgspecError, UnicodeError) as error:
                    raise DamageError("line", f"not a canister: {error}") from None
