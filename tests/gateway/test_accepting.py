"""Connections are taken as they come, however many come at once."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from cannery.gateway.accepting import Acceptor

CLIENTS = 100
TURNS = 10


class Guests:
    """Keeps count of who came, and tells when somebody has."""

    def __init__(self) -> None:
        self.transports: list[asyncio.BaseTransport] = []
        self.addresses: set[Any] = set()
        self.somebody = asyncio.Event()

    def __call__(self) -> Guest:
        return Guest(self)

    async def wait_for(self, client: socket.socket) -> None:
        async with asyncio.timeout(20):
            while client.getsockname() not in self.addresses:
                await self.somebody.wait()
                self.somebody.clear()

    def leave(self) -> None:
        for transport in self.transports:
            transport.close()


class Guest(asyncio.Protocol):
    """One connection."""

    def __init__(self, guests: Guests) -> None:
        self._guests = guests

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._guests.transports.append(transport)
        self._guests.addresses.add(transport.get_extra_info("peername"))
        self._guests.somebody.set()


class Crowded:
    """A listening socket of a process that has no room for another connection, a few times."""

    def __init__(self, listening: socket.socket, times: int) -> None:
        self._listening = listening
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)

    def accept(self) -> Any:
        if self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self._listening.accept()


def listening() -> socket.socket:
    found = socket.create_server(("127.0.0.1", 0), backlog=CLIENTS)
    found.setblocking(False)
    return found


def run(main: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_a_crowd_is_let_in_within_a_few_turns_of_the_loop() -> None:
    async def main() -> None:
        door = listening()
        clients = [socket.create_connection(door.getsockname()) for _ in range(CLIENTS)]
        guests = Guests()
        acceptor = Acceptor(door, guests, lambda error: None)
        acceptor.start()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        came = len(guests.transports)
        acceptor.close()
        guests.leave()
        for client in clients:
            client.close()
        assert came == CLIENTS

    run(main)


def test_where_there_is_no_room_it_says_so_and_tries_again() -> None:
    async def main() -> None:
        door = listening()
        client = socket.create_connection(door.getsockname())
        guests = Guests()
        said: list[OSError] = []
        crowded: Any = Crowded(door, times=2)
        acceptor = Acceptor(crowded, guests, said.append)
        acceptor.start()
        await guests.wait_for(client)
        acceptor.close()
        guests.leave()
        client.close()
        assert [error.errno for error in said] == [errno.EMFILE] * 2

    run(main)


def test_a_client_that_leaves_at_once_disturbs_nobody() -> None:
    async def main() -> None:
        door = listening()
        hasty = socket.create_connection(door.getsockname())
        hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        hasty.close()
        client = socket.create_connection(door.getsockname())
        guests = Guests()
        acceptor = Acceptor(door, guests, lambda error: None)
        acceptor.start()
        await guests.wait_for(client)
        acceptor.close()
        guests.leave()
        client.close()

    run(main)
