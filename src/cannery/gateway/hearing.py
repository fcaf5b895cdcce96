"""Answers as they come: bytes of an upstream become bytes for a caller, and a Response for the record.

One hearing a stream. It never raises for what an upstream does: a stream that breaks the dialect ends with the caller's own
kind of error, and is known to be incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable

from cannery.errors import CanneryError
from cannery.messages import Event, Failure, Folder, Response
from cannery.wire.contract import Dialect, StreamOptions

_ENDINGS = {
    "openai_chat": (b"data: [DONE]", b"data:[DONE]"),
    "anthropic_messages": (b"message_stop", b"event: error", b'"type":"error"'),
    "openai_responses": (
        b"response.completed",
        b"response.incomplete",
        b"response.failed",
        b'"error"',
    ),
    "gemini_generate": (b"finishReason", b"blockReason", b'"error"'),
}


class Translation:
    """A stream of one dialect on its way to another."""

    def __init__(self, source: Dialect, target: Dialect, options: StreamOptions) -> None:
        self._reader = source.stream_reader()
        self._writer = target.stream_writer(options)
        self.folder = Folder()
        self.is_over = False

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
        """The caller's bytes for a stream that goes no further."""
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
            feed(event)
            written += write(event)
            if type(event) is Failure:
                self.is_over = True
        return written

    @property
    def response(self) -> Response:
        """What was said."""
        return self.folder.response()


class Relay:
    """A stream that is passed on as it comes; what it says is read only for the record."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._chunks: list[bytes] = []
        self.size = 0

    def feed(self, chunk: bytes) -> bytes:
        """The same bytes."""
        self._chunks.append(chunk)
        self.size += len(chunk)
        return chunk

    def close(self) -> bytes:
        """Nothing if the stream came to its end; else the error that says that it did not."""
        endings = _ENDINGS.get(self._dialect.name)
        if endings is None:
            return b""
        said = b"".join(self._chunks)
        self._chunks = [said]
        if any(said.rfind(ending) >= 0 for ending in endings):
            return b""
        return self.fail("the stream ended before the answer was complete", "upstream_broken")

    def fail(self, message: str, kind: str) -> bytes:
        """The bytes that say that a stream goes no further."""
        writer = self._dialect.stream_writer(StreamOptions())
        separator = b"" if not self._chunks or self._chunks[-1].endswith(b"\n\n") else b"\n\n"
        return separator + writer.write(Failure(message, kind))

    @property
    def said(self) -> bytes:
        """Everything that came."""
        return b"".join(self._chunks)


def hear(dialect: Dialect, said: bytes) -> Folder:
    """What a whole stream says; its folder knows whether it is complete."""
    reader = dialect.stream_reader()
    folder = Folder()
    try:
        for event in reader.feed(said):
            folder.feed(event)
        for event in reader.close():
            folder.feed(event)
    except CanneryError as error:
        folder.feed(Failure(str(error), "upstream_invalid"))
    return folder
