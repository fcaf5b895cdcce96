"""Serves the viewer: in the gateway, or in ``cannery view`` with a read-only store."""

from __future__ import annotations

import asyncio
import signal
import threading
import webbrowser
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

from cannery.gateway.hosts import Hosts
from cannery.gateway.keys import Keyring
from cannery.gateway.listening import Listener
from cannery.gateway.origins import Origins
from cannery.gateway.rsgi import HTTPProtocol, Scope
from cannery.gateway.running import Running, RunningWithin
from cannery.gateway.settings import Limits
from cannery.gateway.sockets import address_of, take_port
from cannery.gateway.upstreams import DEFAULT_ROWS
from cannery.gateway.viewer_endpoints import ROOT, Viewing
from cannery.storage import Store
from cannery.viewer.answers import Endpoint

if TYPE_CHECKING:
    from cannery.gateway.gateway import Gateway

_BACKLOG = 128


class GatewaySource:
    """The store that the gateway records in, for the holders of its keys."""

    is_read_only = False

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @property
    def keys(self) -> Keyring:
        """The keys of the current configuration."""
        return self._gateway.keys

    @property
    def origins(self) -> Origins:
        """The rule for pages."""
        return self._gateway.origins

    @property
    def is_draining(self) -> bool:
        """Whether the gateway is stopping."""
        return self._gateway.is_draining

    @property
    def silent_seconds(self) -> float:
        """The longest silence of a connection."""
        return self._gateway.limits.idle_seconds

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The URL of each dialect: the upstreams first, then the providers themselves."""
        rows = (*DEFAULT_ROWS, *reversed(self._gateway.settings.upstreams))
        return {
            dialect: Endpoint(row.url.rstrip("/"), (row.key_variables or ("API_KEY",))[0])
            for row in rows
            for dialect in row.dialects
        }

    def store(self, scope: str | None) -> Store:
        """The store as a scope sees it."""
        return self._gateway.recorder.view(scope)

    def running(self, scope: str | None) -> RunningWithin:
        """The active exchanges."""
        return self._gateway.lasting.running.within(scope)


class StoreSource:
    """A store on this machine, for its user."""

    is_read_only = True
    is_draining = False
    silent_seconds = Limits().idle_seconds

    def __init__(self, store: Store) -> None:
        self._store = store
        self.keys = Keyring(())
        self.origins = Origins((), has_keys=False)
        self.endpoints = {
            dialect: Endpoint(row.url, row.key_variables[0])
            for row in DEFAULT_ROWS
            for dialect in row.dialects
        }

    def store(self, scope: str | None) -> Store:
        """The store."""
        return self._store if scope is None else self._store.within(scope)

    def running(self, scope: str | None) -> RunningWithin:
        """None: nothing is answered here."""
        return Running().within(scope)


class _Application:
    """The viewer and nothing else."""

    def __init__(self, viewing: Viewing, host: str) -> None:
        self._viewing = viewing
        self._hosts = Hosts(host, ())

    async def __call__(self, scope: Scope, proto: HTTPProtocol) -> None:
        refusal = self._hosts.refusal(scope.host)
        if refusal is not None:
            proto.response_bytes(403, [("content-type", "text/plain")], str(refusal).encode())
        elif scope.path == ROOT or scope.path.startswith((f"{ROOT}/", f"{ROOT}.")):
            await self._viewing.answer(scope, proto)
        elif scope.path == "/":
            proto.response_bytes(302, [("location", ROOT)], b"")
        else:
            proto.response_bytes(404, [("content-type", "text/plain")], b"the viewer is at /ui\n")


def view(
    store: Store,
    *,
    host: str,
    port: int,
    path: str,
    announce: TextIO,
    is_opened: bool,
    ready: Callable[[int], object] | None = None,
) -> None:
    """Serve the viewer for a store until told to stop; ``path`` is the first page."""
    asyncio.run(_view(StoreSource(store), host, port, path, announce, is_opened, ready))


async def _view(
    source: StoreSource,
    host: str,
    port: int,
    path: str,
    announce: TextIO,
    is_opened: bool,  # noqa: FBT001 - handed through
    ready: Callable[[int], object] | None,
) -> None:
    viewing = Viewing(source)
    taken = take_port(address_of(host), port)
    limits = Limits()
    listener = Listener(
        _Application(viewing, host),
        lambda transport, _: _refuse_http2(transport),
        header_bytes=limits.header_bytes,
        header_seconds=limits.header_seconds,
        idle_seconds=limits.idle_seconds,
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    listener.listen(taken, _BACKLOG)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{taken.getsockname()[1]}{path}"
    announce.write(f"Cannery viewer on {address}  (Ctrl-C ends it)\n")
    announce.flush()
    if ready is not None:
        ready(taken.getsockname()[1])
    if is_opened:
        # A browser may take a while to start, and some block until they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    await stopping.wait()
    source.is_draining = True
    viewing.close()
    await listener.close()


def _refuse_http2(transport: asyncio.Transport) -> asyncio.Protocol:
    """HTTP/2 is not supported here; browsers use it over TLS only."""
    transport.close()
    return asyncio.Protocol()
