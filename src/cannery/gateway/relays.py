"""Streamed answers: the bytes of an upstream become bytes for a caller, and a Response for the record.

There is one relay for each stream. It never raises for faults of an upstream: a stream that breaks its dialect ends
with an error of the caller's dialect, and is marked as incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from cannery.errors import CanneryError
from cannery.hosting import stream_options
from cannery.messages import Event, Failure, Folder, Start
from cannery.wire.aliasing import Unaliaser
from cannery.wire.contract import Dialect, StreamOptions, StreamReader
from cannery.wire.losses import NO_ALIASES

_TAIL = 64


class Translation:
    """A stream that is translated from one dialect to another."""

    def __init__(
        self, source: Dialect, target: Dialect, options: StreamOptions, identifier: str | None
    ) -> None:
        self._reader = source.stream_reader()
        self._identifier = identifier
        # The record has the request's names as well, so they are mapped back before it.
        self._unaliaser = None if options.aliases == NO_ALIASES else Unaliaser(options.aliases)
        plain = replace(options, aliases=NO_ALIASES)
        self._writer = target.stream_writer(stream_options(target, plain))
        self.folder = Folder()
        self.is_over = False
        self.is_between_events = True

    def feed(self, chunk: bytes) -> bytes:
        """The caller's bytes for some of the upstream's."""
        if self.is_over:
            return b""
        try:
            return self._write(self._reader.feed(chunk))
        except CanneryError as error:
            return self.fail(f"the upstream's stream cannot be read: {error}", "upstream_invalid")

    def close(self) -> bytes:
        """The caller's bytes for the end of the upstream's stream."""
        if self.is_over:
            return b""
        try:
            written = self._write(self._reader.close())
        except CanneryError as error:
            return self.fail(f"the upstream's stream cannot be read: {error}", "upstream_invalid")
        self.is_over = True
        return written + self._writer.close()

    def fail(self, message: str, kind: str) -> bytes:
        """The caller's bytes for an aborted stream."""
        if self.is_over:
            return b""
        self.is_over = True
        failure = Failure(message, kind)
        self.folder.feed(failure)
        return self._writer.write(failure) + self._writer.close()

    def _write(self, events: Iterable[Event]) -> bytes:
        written = b""
        feed, write = self.folder.feed, self._writer.write
        for event in events:
            if type(event) is Start and self._identifier is not None:
                event = replace(event, identifier=self._identifier)  # noqa: PLW2901 - the caller's id for it
            if self._unaliaser is None:
                feed(event)
                written += write(event)
            else:
                for said in self._unaliaser.events(event):
                    feed(said)
                    written += write(said)
            if type(event) is Failure:
                self.is_over = True
        return written

    def hear(self, chunk: bytes) -> None:
        """Nothing: the translation has already parsed it."""


class Relay:
    """A stream that is forwarded unchanged; for the record it is parsed as well, in the background."""

    def __init__(self, dialect: Dialect, *, is_heard: bool) -> None:
        self._dialect = dialect
        self._endings = dialect.service.streams.endings
        self._boundaries = dialect.service.streams.framing.boundaries
        self._reader = dialect.stream_reader() if is_heard else None
        self.folder = Folder()
        self._tail = b""
        self._has_ended = False

    def feed(self, chunk: bytes) -> bytes:
        """The same bytes."""
        return chunk

    def hear(self, chunk: bytes) -> None:
        """Parse the forwarded bytes."""
        self._tail = self._tail[-_TAIL:] + chunk
        if self._reader is not None:
            self._fold(self._reader, chunk)
        # An active reader needs to know whether the stream has ended.
        if self._reader is None and not self._has_ended:
            self._has_ended = any(ending in self._tail for ending in self._endings)

    @property
    def is_between_events(self) -> bool:
        """Whether other bytes may be inserted before the next ones."""
        return not self._tail or self._tail.endswith(self._boundaries)

    def _fold(self, reader: StreamReader, chunk: bytes | None) -> None:
        """Fold the events of some bytes, or of the end; a reader may refuse them at once or one by one."""
        try:
            for event in reader.close() if chunk is None else reader.feed(chunk):
                self.folder.feed(event)
        except CanneryError as error:
            self._reader = None
            self.folder.feed(Failure(str(error), "upstream_invalid"))

    def close(self) -> bytes:
        """Nothing if the stream is complete; otherwise the error that reports the end."""
        has_ended = self._has_ended
        if self._reader is not None:
            has_failed = self.folder.failure is not None
            self._fold(self._reader, None)
            has_ended = has_failed or self.folder.is_complete
        if has_ended:
            return b""
        return self.fail("the stream ended before the answer was complete", "upstream_broken")

    def fail(self, message: str, kind: str) -> bytes:
        """The bytes that end an aborted stream."""
        failure = Failure(message, kind)
        self.folder.feed(failure)
        separator = b"" if self.is_between_events else b"".join(self._boundaries[:1])
        return separator + self._dialect.stream_writer(StreamOptions()).write(failure)
