"""Recording, switched off: the interface that an exchange sees."""

from __future__ import annotations

from cannery.gateway.calls import Call
from cannery.messages import Request, Response


class Entry:
    """One exchange to be recorded."""

    request: Request | None = None
    response: Response | None = None

    def read_body(self) -> None:
        """Read the history from the call's body."""

    def read_request(self) -> None:
        """Recognise the history of the request."""

    def settle(
        self, call: Call, *, said: bytes | None = None, response: Response | None = None
    ) -> None:
        """Name the conversation in the reply's headers."""

    def complete(self) -> None:
        """Record it."""

    def complete_stream(self, said: bytes) -> None:
        """Record it."""

    def abort(self) -> None:
        """Record that it was broken off."""


class Recorder:
    """Records nothing."""

    description = "off"

    @classmethod
    def of(cls, settings: object, log: object) -> "Recorder":
        return cls()

    async def start(self) -> None: ...
    async def close(self) -> None: ...
    def problems(self) -> list[str]:
        return []

    def gauges(self) -> dict[str, tuple[str, float]]:
        return {}

    def open(self, call: Call) -> Entry | None:
        """An entry for a call."""
        return None
