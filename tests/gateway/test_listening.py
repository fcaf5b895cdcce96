"""The HTTP/1.1 server alone, with a small application behind it."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cannery.gateway.listening import Listener
from cannery.gateway.rsgi import ProtocolClosed
from cannery.gateway.tunnels import Tunnels

Application = Callable[[Any, Any], Awaitable[None]]


async def tell(scope: Any, proto: Any) -> None:
    """Say what was asked for."""
    body = await proto()
    said = f"{scope.method} {scope.path}?{scope.query_string} {scope.headers.get('x')} ".encode()
    proto.response_bytes(200, [("content-type", "text/plain")], said + body)


async def stream(scope: Any, proto: Any) -> None:
    """Say three things in a row."""
    del scope
    transport = proto.response_stream(200, [])
    for word in (b"one", b"two", b"three"):
        await transport.send_bytes(word)


async def refuse(scope: Any, proto: Any) -> None:
    """Answer before the body has come."""
    del scope
    proto.response_bytes(413, [], b"too large")


def talk(
    application: Application,
    *pieces: bytes,
    seconds: float = 5.0,
    header_seconds: float = 5.0,
    idle_seconds: float = 5.0,
) -> bytes:
    """Everything that is answered to bytes that come in pieces, until the connection is closed."""

    async def run() -> bytes:
        tunnels = Tunnels(application, header_bytes=8192)
        listener = Listener(
            application,
            tunnels.hand_over,
            header_bytes=8192,
            header_seconds=header_seconds,
            idle_seconds=idle_seconds,
        )
        taken = socket.create_server(("127.0.0.1", 0))
        listener.listen(taken, 10)
        reader, writer = await asyncio.open_connection(*taken.getsockname())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)
        answer = await asyncio.wait_for(reader.read(), seconds)
        writer.close()
        await listener.close()
        return answer

    return asyncio.run(run())


def post(path: str, body: bytes, *lines: str, version: str = "1.1") -> bytes:
    head = [f"POST {path} HTTP/{version}", "host: here", f"content-length: {len(body)}", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


def test_a_request_may_come_in_any_pieces():
    sent = post("/a%20b?c=d", b"hello", "X: y", "connection: close")
    for at in range(0, len(sent), 3):
        answer = talk(tell, sent[:at], sent[at:])
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nPOST /a b?c=d y hello"), at


def test_a_target_may_name_the_host():
    sent = post("http://there:8080/a?b", b"", "connection: close")
    assert talk(tell, sent).endswith(b"POST /a?b None ")


def test_answers_come_in_the_order_of_the_requests():
    async def slow_at_first(scope: Any, proto: Any) -> None:
        await asyncio.sleep(0.05 if scope.path == "/1" else 0)
        await tell(scope, proto)

    sent = post("/1", b"") + post("/2", b"") + post("/3", b"", "connection: close")
    answer = talk(slow_at_first, sent)
    assert answer.index(b"POST /1") < answer.index(b"POST /2") < answer.index(b"POST /3")
    assert answer.count(b"HTTP/1.1 200 OK") == 3


def test_nonsense_behind_a_request_does_not_take_its_answer():
    answer = talk(tell, post("/1", b"x") + b"\0nonsense\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"POST /1" in answer


def test_a_body_that_breaks_the_rules_is_400_and_the_application_is_told():
    seen: list[type] = []

    async def wait(scope: Any, proto: Any) -> None:
        try:
            await tell(scope, proto)
        except ProtocolClosed:
            seen.append(ProtocolClosed)

    head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = talk(wait, head, b"zz\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"the request is not valid HTTP")
    assert seen == [ProtocolClosed]


def test_what_stands_behind_a_body_is_no_header():
    seen: list[Any] = []

    async def look(scope: Any, proto: Any) -> None:
        await tell(scope, proto)
        seen.append(dict(scope.headers.items()))

    head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    trailers = b"authorization: Bearer x\r\nhost: y\r\n\r\n"
    assert talk(look, head, b"1\r\na\r\n0\r\n", trailers).startswith(b"HTTP/1.1 200 ")
    assert seen == [{"host": "x", "transfer-encoding": "chunked", "connection": "close"}]


def test_a_refusal_reaches_a_client_that_is_still_sending():
    """Closing at once would reset the connection while bytes are on the way, and the answer with it."""
    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n"
    answer = talk(refuse, head, *[b"x" * 50_000] * 40)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"too large")


def test_a_stream_is_in_chunks_and_without_them_for_old_clients():
    answer = talk(stream, post("/", b"", "connection: close"))
    assert b"transfer-encoding: chunked\r\n" in answer
    assert answer.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n")
    answer = talk(stream, post("/", b"", version="1.0"))
    assert b"chunked" not in answer
    assert answer.endswith(b"\r\n\r\nonetwothree")


def test_no_header_can_smuggle_another():
    async def echo(scope: Any, proto: Any) -> None:
        del scope
        proto.response_bytes(200, [("good", "1"), ("bad", "1\r\nset-cookie: x")], b"")

    answer = talk(echo, post("/", b"", "connection: close"))
    assert b"good: 1\r\n" in answer
    assert b"set-cookie" not in answer


def test_an_application_that_says_nothing_is_500():
    async def silent(scope: Any, proto: Any) -> None:
        del scope, proto

    assert talk(silent, post("/", b"", "connection: close")).startswith(b"HTTP/1.1 500 ")


@pytest.mark.parametrize("said", [b"", b"PRI * HT", b"POST / HTTP/1.1\r\nho", post("/", b"")])
def test_silence_ends_a_connection(said: bytes):
    answer = talk(tell, said, header_seconds=0.2, idle_seconds=0.2)
    assert answer.count(b"HTTP/1.1 200 OK") == (1 if said.endswith(b"\r\n\r\n") else 0)


def test_half_a_head_on_a_kept_connection_has_as_long_as_on_a_new_one():
    began = time.monotonic()
    answer = talk(tell, post("/", b""), b"POST / HTT", header_seconds=0.2, idle_seconds=60.0)
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert time.monotonic() - began < 30


def test_a_kept_connection_is_not_closed_while_clients_still_use_it():
    """Clients keep connections for longer than a head may take; one that is closed as they send loses the request."""

    async def run() -> None:
        tunnels = Tunnels(tell, header_bytes=8192)
        times = {"header_seconds": 0.1, "idle_seconds": 60.0}
        listener = Listener(tell, tunnels.hand_over, header_bytes=8192, **times)
        taken = socket.create_server(("127.0.0.1", 0))
        listener.listen(taken, 10)
        reader, writer = await asyncio.open_connection(*taken.getsockname())
        for _ in range(2):
            writer.write(post("/", b""))
            assert b"HTTP/1.1 200 OK" in await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.5)
        writer.close()
        await listener.close()

    asyncio.run(run())


def test_a_client_that_does_not_read_is_waited_for():
    """What it does not read is not kept in memory."""
    sent: list[int] = []

    async def flood(scope: Any, proto: Any) -> None:
        del scope
        transport = proto.response_stream(200, [])
        try:
            for number in range(1000):
                await transport.send_bytes(b"x" * 100_000)
                sent.append(number)
        except ProtocolClosed:
            return

    async def run() -> None:
        tunnels = Tunnels(flood, header_bytes=8192)
        listener = Listener(
            flood, tunnels.hand_over, header_bytes=8192, header_seconds=5.0, idle_seconds=5.0
        )
        taken = socket.create_server(("127.0.0.1", 0))
        listener.listen(taken, 10)
        _, writer = await asyncio.open_connection(*taken.getsockname(), limit=1000)
        writer.write(post("/", b""))
        await asyncio.sleep(0.5)
        waiting = len(sent)
        assert 0 < waiting < 300
        writer.transport.abort()
        await asyncio.sleep(0.2)
        assert len(sent) <= waiting + 2
        await listener.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "sent", [b"GET /" + b"a" * 400_000, b"GET / HTTP/1.1\r\nx: " + b"a" * 400_000]
)
def test_a_refusal_is_read_by_a_client_that_is_still_sending_its_head(sent: bytes):
    """Closing at once would reset the connection, and the answer be lost."""
    pieces = [sent[at : at + 20_000] for at in range(0, len(sent), 20_000)]
    assert talk(tell, *pieces).startswith(b"HTTP/1.1 431 ")


def test_what_follows_a_body_as_headers_may_not_go_on_for_ever():
    """The parser keeps a header until it is whole, so that its length has to be counted while it comes."""
    head = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
    trailer = [b"a" * 20_000] * 40
    answer = talk(tell, head + b"2\r\nhi\r\n0\r\nx: ", *trailer)
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_the_name_in_a_whole_url_is_the_host():
    async def host(scope: Any, proto: Any) -> None:
        proto.response_bytes(200, [], str(scope.host).encode())

    for url, name in (
        ("http://evil.example/a", b"evil.example"),
        ("http://evil.example:81/a", b"evil.example:81"),
        ("http://[::1]:81/a", b"[::1]:81"),
        ("/a", b"here"),
    ):
        answer = talk(host, post(url, b"", "connection: close"))
        assert answer.rpartition(b"\r\n\r\n")[2] == name
