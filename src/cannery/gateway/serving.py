"""Starting and stopping: the HTTP server, signals, and the printed banner.

One process, one event loop. SIGHUP reads the configuration again; SIGTERM and SIGINT stop accepting calls and let
active ones finish.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from cannery.errors import CanneryError, ConfigurationError
from cannery.gateway.gateway import Gateway
from cannery.gateway.housekeeping import Housekeeper, settle_allocator
from cannery.gateway.idle_connections import IdleConnections
from cannery.gateway.keys import Keyring
from cannery.gateway.listening import Listener
from cannery.gateway.logs import Bridge, Log
from cannery.gateway.recorder import Recorder
from cannery.gateway.retention import Retainer
from cannery.gateway.settings import Settings, is_loopback, load_settings
from cannery.gateway.sockets import address_of, take_port
from cannery.gateway.tunnels import Tunnels
from cannery.roles.normalization import LOGGER_NAME

_BACKLOG = 2048
_NEW_OBJECTS = 20_000
_STOPS = (signal.SIGTERM, signal.SIGINT)


def serve(
    config: str | os.PathLike[str] | None = None,
    *,
    announce: TextIO | None = None,
    ready: Callable[[int], object] | None = None,
    then_exit: bool = False,
    **changes: Any,
) -> None:
    """Run the gateway until it is told to stop.

    ``changes`` are single settings of ``[server]`` and ``[recording]`` (host, port, development, log_level, store,
    enabled, …); ``ready`` is called with the port once calls are accepted. With ``then_exit`` the process ends with the
    gateway: a second stop signal, after it has stopped but before the process is gone, does not turn a clean exit into
    a killed one.
    """
    settle_allocator()
    read = _reader(config, changes)
    settings = read()
    check_exposure(settings)
    try:
        import uvloop
    except ImportError:  # pragma: no cover - uvloop has no build for every platform
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with runner:
        runner.run(_run(read, settings, announce or sys.stdout, ready))
        if then_exit:
            _turn_deaf(runner.get_loop())


def _reader(
    config: str | os.PathLike[str] | None, changes: dict[str, Any]
) -> Callable[[], Settings]:
    return lambda: load_settings(config, **changes)


def check_exposure(settings: Settings) -> None:
    """Refuse to listen on an address that other machines can reach without keys."""
    if not is_loopback(settings.server.host) and not Keyring.of(settings.keys, os.environ):
        raise ConfigurationError(
            "server.host",
            f"{settings.server.host} can be reached from other machines; set [keys] first, or listen on 127.0.0.1",
        )


async def _run(
    read: Callable[[], Settings],
    settings: Settings,
    announce: TextIO,
    ready: Callable[[int], object] | None,
) -> None:
    log = Log(settings.server.log_level)
    bridge = Bridge(log)
    library = logging.getLogger(LOGGER_NAME)
    library.addHandler(bridge)
    library.setLevel(logging.INFO)
    recorder = Recorder.of(settings, log)
    gateway = Gateway(settings, log, recorder)
    taken = take_port(address_of(settings.server.host), settings.server.port)
    port = int(taken.getsockname()[1])
    limits = settings.limits
    # A longer head is refused at once; up to this size the refusal is in the caller's dialect.
    most = max(8192, limits.header_bytes * 2)
    tunnels = Tunnels(
        gateway.__rsgi__,
        header_bytes=most,
        complain=lambda error: log.write("error", "http2_unavailable", problem=str(error)),
    )
    listener = Listener(
        gateway.__rsgi__,
        tunnels.hand_over,
        header_bytes=most,
        header_seconds=limits.header_seconds,
        idle_seconds=limits.idle_seconds,
        describe=gateway.operations.describe,
        complain=lambda error: log.write("error", "connection_not_taken", problem=str(error)),
    )
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in _STOPS:
        loop.add_signal_handler(number, stopping.set)
    retainer = Retainer(lambda: recorder.store, settings.retention.days, log)
    loop.add_signal_handler(signal.SIGHUP, lambda: _reload(gateway, retainer, read))
    await recorder.start()
    _settle_memory()
    listener.listen(taken, _BACKLOG)
    idle_connections = IdleConnections(
        port, silent_seconds=limits.idle_seconds, busy_ports=gateway.sentry.client_ports
    )
    idle_connections.start(limits.body_seconds)
    housekeeper = Housekeeper(lambda: not gateway.active, waiting=lambda: recorder.waiting)
    housekeeper.start()
    retainer.start()
    gateway.spending.start()
    if any(not upstream.is_echo for upstream in gateway.exchanges.upstreams.all):
        await loop.run_in_executor(None, gateway.lasting.prices.load)
    announce.write(banner(settings, port, gateway))
    announce.flush()
    if ready is not None:
        ready(port)
    await stopping.wait()
    await _drain(gateway, settings.server.drain_seconds)
    idle_connections.stop()
    housekeeper.stop()
    await retainer.stop()
    await gateway.spending.stop()
    await listener.close()
    await tunnels.close()
    await recorder.close()
    if gateway.telemetry is not None:
        await loop.run_in_executor(None, gateway.telemetry.close)
    log.flush()
    library.removeHandler(bridge)


def _turn_deaf(loop: asyncio.AbstractEventLoop) -> None:
    """Ignore signals from here on; a closing loop would restore their default actions."""
    for number in (*_STOPS, signal.SIGHUP):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _settle_memory() -> None:
    """Collect cycles rarely, and not among permanent objects: calls create almost none."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)


async def _drain(gateway: Gateway, seconds: float) -> None:
    """Let active calls finish, and end those that take too long, so that they are filed as broken off."""
    gateway.is_draining = True
    deadline = asyncio.get_running_loop().time() + seconds
    while gateway.active and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - calls keep a count
        await asyncio.sleep(0.02)
    gateway.sentry.cut()
    await asyncio.sleep(0)


def _reload(gateway: Gateway, retainer: Retainer, read: Callable[[], Settings]) -> None:
    try:
        settings = read()
        check_exposure(settings)
        gateway.configure(settings)
    except CanneryError as error:
        gateway.log.write("error", "reload_refused", problem=str(error))
        return
    retainer.keep(settings.retention.days)
    gateway.log.write("info", "reloaded", upstreams=len(settings.upstreams))


def banner(settings: Settings, port: int, gateway: Gateway) -> str:
    """Base URLs, ready to paste."""
    host = settings.server.host
    host = f"[{host}]" if ":" in host else host
    base = f"http://{host}:{port}"
    upstreams = gateway.exchanges.upstreams.all
    names = ", ".join(upstream.name for upstream in upstreams) or "none"
    model = "echo" if settings.echo else "<model>"
    body = f'{{"model":"{model}","messages":[{{"role":"user","content":"Hello"}}]}}'
    note = ""
    if [upstream.name for upstream in upstreams] == ["echo"]:
        note = (
            "  (echo is built in and only repeats what it is told: set OPENAI_API_KEY, ANTHROPIC_API_KEY,\n"
            "   GEMINI_API_KEY, MISTRAL_API_KEY or CO_API_KEY, or write a configuration, to reach a model)\n"
        )
    key = "any key will do" if not gateway.keys else "use one of the gateway's keys"
    return f"""Cannery gateway on {base}  ({key})
upstreams: {names}
{note}recording: {gateway.recorder.description}

OpenAI SDK      OPENAI_BASE_URL={base}/openai/v1
Anthropic SDK   ANTHROPIC_BASE_URL={base}/anthropic
Google SDK      GOOGLE_GEMINI_BASE_URL={base}/gemini
Claude Code     ANTHROPIC_BASE_URL={base}/anthropic claude
Cline           API provider "OpenAI Compatible", base URL {base}/openai/v1
curl            curl {base}/v1/chat/completions -H 'content-type: application/json' \\
                  -d '{body}'
viewer          {base}/ui
docs            {base}/docs
"""


def default_configuration() -> Path | None:
    """The configuration file of the user, if there is one."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    path = Path(base) / "cannery" / "gateway.toml"
    return path if path.is_file() else None
