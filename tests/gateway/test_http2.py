"""HTTP/2 with prior knowledge: many clients, clients that leave at once, and a server behind that fails to start."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from cannery.gateway.listening import Listener
from cannery.gateway.tunnels import Tunnels

from .running import Running, wait_for

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = struct.pack(">I", 0)[1:] + b"\x04\x00" + bytes(4)
HEADERS_FRAME = 1


def ask_for(path: str) -> bytes:
    """The frames of GET on the first stream, spelled with the static table of HPACK."""
    fields = b"\x82\x86" + b"\x04" + bytes([len(path)]) + path.encode()
    fields += b"\x01\x09127.0.0.1"
    head = struct.pack(">I", len(fields))[1:] + bytes([HEADERS_FRAME, 0x05]) + struct.pack(">I", 1)
    return PREFACE + SETTINGS + head + fields


def status_of(client: socket.socket) -> bytes:
    """The first byte of the first block of headers that is answered: 0x88 is status 200."""
    reader = client.makefile("rb")
    while True:
        frame = reader.read(9)
        if len(frame) < 9:
            return b""
        payload = reader.read(int.from_bytes(frame[:3], "big"))
        if frame[3] == HEADERS_FRAME:
            # A change of the table's size may come first.
            return payload.lstrip(b"\x20\x3f\xe1\x1f")[:1]


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("http2"), record=False)
    yield running
    assert running.stop() == 0


def connect(port: int, said: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.sendall(said)
    return client


def test_clients_that_send_the_preface_and_leave_cost_nothing(fresh: Running) -> None:
    with connect(fresh.port, ask_for("/healthz")) as client:
        assert status_of(client) == b"\x88"
    before = fresh.open_files()
    for number in range(300):
        client = connect(fresh.port, PREFACE)
        if number % 2:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    with connect(fresh.port, ask_for("/healthz")) as client:
        assert status_of(client) == b"\x88"
    wait_for(lambda: fresh.open_files() <= before + 4, "descriptors are leaked")


def test_clients_that_leave_before_the_server_behind_has_started_cost_nothing(
    fresh: Running,
) -> None:
    before = fresh.open_files()
    for _ in range(300):
        connect(fresh.port, PREFACE).close()
    with connect(fresh.port, ask_for("/healthz")) as client:
        assert status_of(client) == b"\x88"
    # The server behind keeps some for itself.
    wait_for(lambda: fresh.open_files() <= before + 30, "descriptors are leaked")


def test_more_clients_than_granian_takes_by_default_are_served_at_once(fresh: Running) -> None:
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(connect(fresh.port, ask_for("/healthz"))) for _ in range(300)
        ]
        assert {status_of(client) for client in clients} == {b"\x88"}


def test_a_failed_start_is_tried_again_with_the_next_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from granian.server import embed

    attempts: list[Any] = []
    told: list[str] = []
    serve = embed.Server.serve

    async def fail_at_first(server: Any, *arguments: Any, **more: Any) -> Any:
        attempts.append(server)
        if len(attempts) == 1:
            raise RuntimeError("no room")
        return await serve(server, *arguments, **more)

    monkeypatch.setattr(embed.Server, "serve", fail_at_first)

    async def application(scope: Any, proto: Any) -> None:
        proto.response_bytes(200, [], scope.path.encode())

    async def run() -> list[bytes]:
        tunnels = Tunnels(
            application, header_bytes=8192, complain=lambda error: told.append(str(error))
        )
        listener = Listener(
            application, tunnels.hand_over, header_bytes=8192, header_seconds=5.0, idle_seconds=5.0
        )
        taken = socket.create_server(("127.0.0.1", 0))
        listener.listen(taken, 10)
        port = taken.getsockname()[1]

        def ask() -> bytes:
            with connect(port, ask_for("/")) as client:
                return status_of(client)

        found = [await asyncio.to_thread(ask) for _ in range(3)]
        await listener.close()
        await tunnels.close()
        return found

    assert asyncio.run(run()) == [b"", b"\x88", b"\x88"]
    assert told == ["no room", "the server for HTTP/2 did not start"]
    assert len(attempts) == 2
