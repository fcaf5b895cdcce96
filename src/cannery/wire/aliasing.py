"""Maps names, call ids and wrapped free text of a reply back to what the request used.

When a request is translated, a custom tool becomes a function with one argument that holds its free text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cannery.messages.canisters import AnyCanister, InvocationCanisterClass, new_assistant
from cannery.messages.content import new_opaque
from cannery.messages.events import Delta, Event, Failure, Finish, PartEnd, PartStart
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.residue import Residue
from cannery.wire.arguments import FREEFORM_INPUT
from cannery.wire.contract import StreamOptions, StreamWriter
from cannery.wire.losses import NO_ALIASES, Aliases, OwnCall
from cannery.wire.separators import Separator
from cannery.wire.turns import changed


def free_text(arguments: str) -> str:
    """The free text inside wrapped arguments; arguments of any other shape are returned unchanged."""
    try:
        value = decode_json(arguments)
    except ValueError:
        return arguments
    text = value.get(FREEFORM_INPUT) if type(value) is dict and len(value) == 1 else None
    return text if type(text) is str else arguments


def _own_block(call: OwnCall, identifier: str, arguments: str) -> Any:
    """The block for a call, in the shape of the request's dialect."""
    make: Any = call.make
    tag, block = make(identifier, arguments)
    return new_opaque(call.dialect, tag, write_json(block))


def unaliased_canister(canister: AnyCanister, aliases: Aliases) -> AnyCanister:
    """A canister of a reply with the names, ids and shapes that the request used."""
    if not isinstance(canister, InvocationCanisterClass):
        return canister
    name = aliases.names.get(canister.name, canister.name)
    identifier = aliases.ids.get(canister.identifier, canister.identifier)
    own: dict[str, Any] = {}
    if name in aliases.own:
        call = aliases.own[name]
        if call.make is not None:
            block = _own_block(call, identifier, canister.held)
            return new_assistant(block, canister.timestamp, canister.joined)  # type: ignore[no-any-return]
        name = call.name
        if call.part is not None:
            own["residue"] = Residue(call.dialect, call.part)
    if canister.name in aliases.freeform and not canister.is_freeform:
        own |= {"held": free_text(canister.held), "is_freeform": True}
    if own:
        return changed(canister, name=name, identifier=identifier, **own)
    if (name, identifier) == (canister.name, canister.identifier):
        return canister
    return changed(canister, name=name, identifier=identifier)


class Unaliaser:
    """Maps stream events back to the names and shapes of the request; buffers wrapped text until it is complete."""

    def __init__(self, aliases: Aliases) -> None:
        self._aliases = aliases
        self._wrapped: dict[int, list[str]] = {}
        # Calls whose block has its own shape; they are emitted when their arguments are complete.
        self._grouped: set[int] = set()
        self._behind: list[Event] = []
        self._owned: dict[int, tuple[PartStart, OwnCall, list[str]]] = {}

    def events(self, event: Event) -> Iterator[Event]:
        """The events to emit for one event; events behind an incomplete call wait for it."""
        if self._owned and not (
            type(event) in (Delta, PartEnd) and event.index in self._owned  # type: ignore[union-attr]
        ):
            self._behind.append(event)
            if type(event) in (Finish, Failure):
                # Calls that never ended are emitted with what has arrived.
                for index in [*self._owned]:
                    yield from self._own(*self._owned.pop(index))
                yield from self._caught_up()
            return
        yield from self._events(event)
        if self._behind and not self._owned:
            yield from self._caught_up()

    def _caught_up(self) -> Iterator[Event]:
        waiting, self._behind = self._behind, []
        for event in waiting:
            yield from self.events(event)

    def _events(self, event: Event) -> Iterator[Event]:
        match event:
            case PartStart(kind="invocation"):
                call = self._aliases.own.get(self._aliases.names.get(event.name, event.name))
                if call is not None and call.make is not None:
                    self._owned[event.index] = (event, call, [])
                else:
                    yield self._start(event, call)
            case Delta() if event.index in self._owned:
                self._owned[event.index][2].append(event.text)
            case PartEnd() if event.index in self._owned:
                yield from self._own(*self._owned.pop(event.index))
            case PartEnd() if event.index in self._grouped:
                # The upstream's residue of the call does not belong to the request's dialect.
                yield PartEnd(event.index)
            case Delta() if event.index in self._wrapped:
                self._wrapped[event.index].append(event.text)
            case PartEnd() if event.index in self._wrapped:
                yield Delta(
                    event.index, free_text("".join(self._wrapped.pop(event.index))), "arguments"
                )
                yield PartEnd(event.index)
            case _:
                yield event

    def _own(self, event: PartStart, call: OwnCall, words: list[str]) -> Iterator[Event]:
        """A call in the shape that the request's dialect uses for it."""
        identifier = self._aliases.ids.get(event.identifier, event.identifier)
        block = _own_block(call, identifier, "".join(words))
        yield PartStart(event.index, "whole", content=block, joined=event.joined)
        yield PartEnd(event.index)

    def _start(self, event: PartStart, call: OwnCall | None) -> PartStart:
        aliases = self._aliases
        name = aliases.names.get(event.name, event.name)
        residue = event.residue
        if call is not None:
            name = call.name
            if call.part is not None:
                residue = Residue(call.dialect, call.part)
                self._grouped.add(event.index)
        identifier = aliases.ids.get(event.identifier, event.identifier)
        is_freeform = event.is_freeform
        if event.name in aliases.freeform and not is_freeform:
            self._wrapped[event.index] = []
            is_freeform = True
        own: dict[str, Any] = {"name": name, "identifier": identifier}
        own |= {"is_freeform": is_freeform, "residue": residue}
        return msgspec.structs.replace(event, **own)


class _ReplyWriter:
    """A stream writer that receives unaliased events, with texts separated."""

    def __init__(self, writer: StreamWriter, options: StreamOptions, dialect: str) -> None:
        self._writer = writer
        aliases = options.aliases
        self._unaliaser = None if aliases == NO_ALIASES else Unaliaser(aliases)
        self._separator = Separator(dialect, options.uses)

    def write(self, event: Event) -> bytes:
        """The bytes of one event; may be empty."""
        if self._unaliaser is None:
            return self._write(event)
        return b"".join(map(self._write, self._unaliaser.events(event)))

    def _write(self, event: Event) -> bytes:
        found = self._separator.events(event)
        if len(found) == 1:
            return self._writer.write(found[0])
        return b"".join(map(self._writer.write, found))

    def close(self) -> bytes:
        """The bytes that end the stream."""
        return self._writer.close()


def aliased(
    make: Callable[[StreamOptions], StreamWriter], dialect: str
) -> Callable[[StreamOptions], StreamWriter]:
    """A factory of stream writers that undo the rewriting recorded in their options."""

    def made(options: StreamOptions) -> StreamWriter:
        plain = msgspec.structs.replace(options, aliases=NO_ALIASES)
        return _ReplyWriter(make(plain), options, dialect)

    return made
