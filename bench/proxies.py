"""The gateways that are compared: their configuration, how they are started, and the resources that they use.

Every contender gets the same upstream, plain or over TLS, and listens on loopback only. Variables that make a peer
trust the upstream's certificate are set in the environment of its process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import environments

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


class Upstream(NamedTuple):
    """The port of the upstream; over TLS if there is an authority that signed its certificate."""

    port: int
    authority: Path | None = None

    @property
    def kind(self) -> str:
        """Its name in the results."""
        return "tls" if self.authority else "plain"

    @property
    def url(self) -> str:
        """The base URL for an SDK."""
        if self.authority:
            return f"https://localhost:{self.port}/v1"
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def trust(self) -> dict[str, str]:
        """The variables that make clients in Python and node trust it."""
        if not self.authority:
            return {}
        return dict.fromkeys(("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), str(self.authority))


class Place(NamedTuple):
    """The folder and port of a contender, and its upstream."""

    folder: Path
    port: int
    upstream: Upstream


class Proxy(NamedTuple):
    """One configuration to compare: its name, the path and headers of requests, and how it is started."""

    name: str
    path: str
    launch: Callable[[Place], list[str]]
    headers: Callable[[Upstream], Mapping[str, str]] = lambda _: {}
    streams: bool = True


class Contender(NamedTuple):
    """A running proxy: its process, its port, and the path and headers of requests."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    path: str
    headers: Mapping[str, str]
    streams: bool

    @property
    def is_fast(self) -> bool:
        """Whether it can handle the full number of requests."""
        return self.name == "nginx" or self.name.startswith("cannery")


# --- what a process uses ------------------------------------------------------------------------


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process and its children, with a resolution of nanoseconds if the kernel supports it."""
    return sum(_precise(each) or _ticks(each) for each in _tree(pid))


def _precise(pid: int) -> float:
    """The time that the scheduler counted for all threads; 0 if this kernel does not count it."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except OSError:
        return 0


def _ticks(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_megabytes(pid: int) -> int:
    """The resident memory of a process and its children."""
    return (
        sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) * PAGE for each in _tree(pid))
        >> 20
    )


# --- how it is started --------------------------------------------------------------------------


@contextmanager
def started(
    command: list[str], port: int, variables: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the block ends, and wait until it listens on a port."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**environments.quiet(), **variables},
    )
    try:
        _await_port(process, port)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def _await_port(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert process.poll() is None, f"a contender did not start: {process.args!r}"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("a contender takes too long to start")


def _nginx(place: Place) -> list[str]:
    folder, port, upstream = place
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    asking = "proxy_pass http://u;"
    if upstream.authority:
        asking = (
            "proxy_pass https://u; proxy_ssl_name localhost; proxy_ssl_server_name on;"
            f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {upstream.authority};"
        )
    config = folder / "nginx.conf"
    config.write_text(
        f"worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/errors;"
        "events { worker_connections 4096; }"
        f"http {{ access_log off; {temporary} keepalive_requests 1000000000;"
        f"upstream u {{ server 127.0.0.1:{upstream.port}; keepalive 512; keepalive_requests 1000000000; }}"
        f"server {{ listen 127.0.0.1:{port} backlog=4096; client_max_body_size 64m; client_body_buffer_size 1m;"
        f"location / {{ {asking} proxy_http_version 1.1; proxy_buffering off;"
        'proxy_set_header Connection ""; } } }'
    )
    return [environments.nginx() or "nginx", "-c", str(config)]


def _cannery(place: Place, name: str, *, record: bool, source: Path | None = None) -> list[str]:
    config = place.folder / f"{name}.toml"
    row = f'[[upstreams]]\nname = "fake"\nurl = "{place.upstream.url}"\n'
    if place.upstream.authority:
        row += f'ca = "{place.upstream.authority}"\n'
    config.write_text(row)
    # Another checkout takes precedence over the installed one.
    command = ["env", f"PYTHONPATH={source}"] if source else []
    command += [sys.executable, "-m", "cannery.gateway", "--port", str(place.port)]
    command += ["--config", str(config), "--log-level", "warning"]
    store = place.folder / f"{name}-store"
    return command + (["--store", str(store)] if record else ["--no-record"])


def _litellm(place: Place, python: Path) -> list[str]:
    config = place.folder / "litellm.yaml"
    config.write_text(
        "model_list:\n  - model_name: m\n    litellm_params:\n      model: openai/m\n"
        f"      api_base: {place.upstream.url}\n      api_key: sk-x\n"
        "litellm_settings:\n  telemetry: false\n"
    )
    binary = str(python.parent / "litellm")
    return [binary, "--config", str(config), "--port", str(place.port), "--host", "127.0.0.1"]


def _rosetta(place: Place, python: Path) -> list[str]:
    config = place.folder / "rosetta.json"
    provider = {"api_key": "sk-x", "base_url": place.upstream.url, "type": "openai_chat"}
    server = {"host": "127.0.0.1", "port": place.port, "open_on_no_keys": True}
    config.write_text(
        json.dumps({"providers": {"fake": provider}, "models": {"m": "fake"}, "server": server})
    )
    binary = str(python.parent / "llm-rosetta-gateway")
    return [binary, "--config", str(config), "--host", "127.0.0.1", "--port", str(place.port)]


# Portkey's gateway has no option for the address to bind: without this it listens on every interface.
_ON_LOOPBACK = """
const { Server } = require("node:net");
const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, port, "127.0.0.1", ...rest.filter((each) => typeof each === "function"));
};
"""


def _portkey(place: Place, server: Path) -> list[str]:
    preload = place.folder / "loopback.cjs"
    preload.write_text(_ON_LOOPBACK)
    node = environments.node() or "node"
    return [node, "--require", str(preload), str(server), f"--port={place.port}", "--headless"]


def _portkey_headers(upstream: Upstream) -> Mapping[str, str]:
    return {"x-portkey-provider": "openai", "x-portkey-custom-host": upstream.url}


def _ours(name: str = "cannery", source: Path | None = None) -> Iterator[Proxy]:
    for way, path in (("passing", CHAT), ("translating", MESSAGES)):
        for record in (False, True):
            told = f"{name}, {way}" + (", recording" if record else "")
            files = told.replace(", ", "-").replace(" ", "-")
            launch = partial(_cannery, name=files, record=record, source=source)
            yield Proxy(told, path, launch)


def proxies(
    *, litellm: Path | None, rosetta: Path | None, portkey: Path | None, before: Path | None
) -> Iterator[Proxy]:
    """The contenders; a peer that is not installed is left out."""
    yield Proxy("nginx", CHAT, _nginx)
    yield from _ours()
    if before:
        yield from _ours("cannery before", before)
    if rosetta:
        yield Proxy("llm-rosetta", MESSAGES, partial(_rosetta, python=rosetta))
    if portkey:
        launch = partial(_portkey, server=portkey)
        # Version 1.15.2 answers every stream with 500 under Node 20, because it changes immutable headers.
        yield Proxy("Portkey, same dialect", CHAT, launch, _portkey_headers, streams=False)
    if litellm:
        yield Proxy("litellm, same dialect", CHAT, partial(_litellm, python=litellm))
