"""What an upstream that fails in the middle is said to have done."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable

import pytest

from cannery.gateway.refusals import NoAnswerError
from cannery.gateway.settings import Row, Timeouts
from cannery.gateway.upstream_client import Outgoing, Sender

from .raw_servers import Raw

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_RESET = struct.pack("ii", 1, 0)


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
    behave: Callable[[socket.socket], None],
    timeouts: Timeouts,
    is_whole: bool,
) -> None:
    with Raw(behave) as server:
        error = _failure(Row("x", server.url, timeouts=timeouts), is_whole=is_whole)
    assert (error.code, error.status_hint) == ("upstream_timeout", 504)
    assert str(error) == "upstream 'x' did not answer in time"


@pytest.mark.parametrize("behave", [_reset, _reset_in_chunks])
def test_a_connection_that_is_reset_was_reached_and_is_not_asked_again(
    behave: Callable[[socket.socket], None],
) -> None:
    """The request may have been processed, so that another one would be paid for twice."""
    with Raw(behave) as server:
        error = _failure(Row("x", server.url, retries=2), is_whole=True)
    assert (error.code, str(error)) == ("upstream_broken", "upstream 'x' broke off its answer")
    assert server.asked == 1
