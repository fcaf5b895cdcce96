"""What an upstream that fails in the middle is said to have done."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from cannery.gateway.refusals import NoAnswerError
from cannery.gateway.settings import Row, Timeouts
from cannery.gateway.upstream_client import Outgoing, Sender

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_RESET = struct.pack("ii", 1, 0)


class Raw:
    """A server that does with each request what it is told, and counts them."""

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self._behave = behave
        self.asked = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self.socket.accept()
            except OSError:
                return
            with taken:
                taken.recv(65536)
                self.asked += 1
                self._behave(taken)


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], Raw]]:
    servers: list[Raw] = []

    def start(behave: Callable[[socket.socket], None]) -> Raw:
        servers.append(Raw(behave))
        return servers[-1]

    yield start
    for server in servers:
        server.socket.close()


def _silent_in_a_body(taken: socket.socket) -> None:
    taken.sendall(HEAD + b"content-length: 10\r\n\r\nabc")
    taken.recv(1)


def _silent_in_chunks(taken: socket.socket) -> None:
    taken.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
    taken.recv(1)


def _reset(taken: socket.socket) -> None:
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _reset_in_chunks(taken: socket.socket) -> None:
    taken.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
    # A reset takes what was not read yet.
    time.sleep(0.2)
    _reset(taken)


def _failure(row: Row, *, is_whole: bool) -> NoAnswerError:
    """The failure of one request, whose answer is read at once or piece by piece."""

    async def run() -> None:
        sender = Sender(row, 1 << 20)
        outgoing = Outgoing(row.url, {}, b"{}")
        if is_whole:
            await sender.send(outgoing)
            return
        opened = await sender.open(outgoing)
        try:
            while await opened.read() is not None:
                pass
        finally:
            await opened.aclose()

    with pytest.raises(NoAnswerError) as caught:
        asyncio.run(run())
    return caught.value


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("behave", [_silent_in_a_body, _silent_in_chunks])
@pytest.mark.parametrize("timeouts", [Timeouts(read=0.3), Timeouts(total=0.3)])
def test_silence_within_an_answer_is_a_time_out(
    serve: Callable[[Callable[[socket.socket], None]], Raw],
    behave: Callable[[socket.socket], None],
    timeouts: Timeouts,
    is_whole: bool,
) -> None:
    error = _failure(Row("x", serve(behave).url, timeouts=timeouts), is_whole=is_whole)
    assert (error.code, error.status_hint) == ("upstream_timeout", 504)
    assert str(error) == "upstream 'x' did not answer in time"


@pytest.mark.parametrize("behave", [_reset, _reset_in_chunks])
def test_a_connection_that_is_reset_was_reached_and_is_not_asked_again(
    serve: Callable[[Callable[[socket.socket], None]], Raw],
    behave: Callable[[socket.socket], None],
) -> None:
    """The request may have been processed, so that another one would be paid for twice."""
    server = serve(behave)
    error = _failure(Row("x", server.url, retries=2), is_whole=True)
    assert (error.code, str(error)) == ("upstream_broken", "upstream 'x' broke off its answer")
    assert server.asked == 1
