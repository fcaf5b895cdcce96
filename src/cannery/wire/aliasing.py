"""Replies with the names and call ids of the request, and with free text that was wrapped in an argument.

Another dialect gets a custom tool as a function with one argument, which holds the free text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from cannery.messages.canisters import AnyCanister, InvocationCanisterClass
from cannery.messages.events import Delta, Event, PartEnd, PartStart
from cannery.messages.json_text import decode_json
from cannery.wire.arguments import FREEFORM_INPUT
from cannery.wire.contract import StreamOptions, StreamWriter
from cannery.wire.losses import NO_ALIASES, Aliases
from cannery.wire.parting import Parting
from cannery.wire.turns import changed


def free_text(arguments: str) -> str:
    """The free text of wrapped arguments; arguments of any other shape are the text themselves."""
    try:
        value = decode_json(arguments)
    except ValueError:
        return arguments
    text = value.get(FREEFORM_INPUT) if type(value) is dict and len(value) == 1 else None
    return text if type(text) is str else arguments


def unaliased_canister(canister: AnyCanister, aliases: Aliases) -> AnyCanister:
    """A canister of a reply as the request would have said it."""
    if not isinstance(canister, InvocationCanisterClass):
        return canister
    name = aliases.names.get(canister.name, canister.name)
    identifier = aliases.ids.get(canister.identifier, canister.identifier)
    if canister.name in aliases.freeform and not canister.is_freeform:
        own = {"held": free_text(canister.held), "is_freeform": True}
        return changed(canister, name=name, identifier=identifier, **own)
    if (name, identifier) == (canister.name, canister.identifier):
        return canister
    return changed(canister, name=name, identifier=identifier)


class Unaliaser:
    """Gives the events of a reply as the request would have said them; wrapped text waits until it is whole."""

    def __init__(self, aliases: Aliases) -> None:
        self._aliases = aliases
        self._wrapped: dict[int, list[str]] = {}

    def events(self, event: Event) -> Iterator[Event]:
        """What an event becomes."""
        match event:
            case PartStart(kind="invocation"):
                yield self._start(event)
            case Delta() if event.index in self._wrapped:
                self._wrapped[event.index].append(event.text)
            case PartEnd() if event.index in self._wrapped:
                yield Delta(
                    event.index, free_text("".join(self._wrapped.pop(event.index))), "arguments"
                )
                yield PartEnd(event.index)
            case _:
                yield event

    def _start(self, event: PartStart) -> PartStart:
        aliases = self._aliases
        name = aliases.names.get(event.name, event.name)
        identifier = aliases.ids.get(event.identifier, event.identifier)
        is_freeform = event.is_freeform
        if event.name in aliases.freeform and not is_freeform:
            self._wrapped[event.index] = []
            is_freeform = True
        own = {"name": name, "identifier": identifier, "is_freeform": is_freeform}
        return msgspec.structs.replace(event, **own)


class _ReplyWriter:
    """A stream writer that is given the events as the request would have said them, texts parted."""

    def __init__(self, writer: StreamWriter, aliases: Aliases, dialect: str) -> None:
        self._writer = writer
        self._unaliaser = None if aliases == NO_ALIASES else Unaliaser(aliases)
        self._parting = Parting(dialect)

    def write(self, event: Event) -> bytes:
        """The bytes of one event; may be empty."""
        if self._unaliaser is None:
            return self._write(event)
        return b"".join(map(self._write, self._unaliaser.events(event)))

    def _write(self, event: Event) -> bytes:
        found = self._parting.events(event)
        if len(found) == 1:
            return self._writer.write(found[0])
        return b"".join(map(self._writer.write, found))

    def close(self) -> bytes:
        """The bytes that end the stream."""
        return self._writer.close()


def aliased(
    make: Callable[[StreamOptions], StreamWriter], dialect: str
) -> Callable[[StreamOptions], StreamWriter]:
    """A maker of a dialect's stream writers that map back what its options say was rewritten."""

    def made(options: StreamOptions) -> StreamWriter:
        plain = msgspec.structs.replace(options, aliases=NO_ALIASES)
        return _ReplyWriter(make(plain), options.aliases, dialect)

    return made
