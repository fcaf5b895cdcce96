"""Asking upstreams: TLS, proxies, HTTP/2, compressed answers, limits, and a reason for each failure."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from cannery.errors import ConfigurationError
from cannery.gateway.refusals import NoAnswerError
from cannery.gateway.settings import Row, Timeouts
from cannery.gateway.upstream_client import Answer, Outgoing, Sender

from .running import Running, wait_for
from .test_contract import ask, chat

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

REPLY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Yes."},
                "finish_reason": "stop",
            }
        ],
    }
).encode()
# {"answer":"yes yes yes yes"}, compressed by the reference implementation.
BROTLI = bytes.fromhex("1b1b00f88dc43816f1467121d52220797b5ba76cae4fc2210925b1c9b7615606")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
}


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy but those that a test names."""
    for name in (*_PROXIES, "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# --- servers ----------------------------------------------------------------------------------


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        server = self.server
        server.asked.append(self.path)
        server.most = max(server.most, server.add(1))
        time.sleep(server.seconds)
        server.add(-1)
        if self.path.startswith("/moved"):
            self._say(302, b"", {"location": f"{server.url}/elsewhere"})
            return
        encoding = self.headers.get("x-encoding")
        if encoding:
            self._say(200, ENCODINGS[encoding](REPLY), {"content-encoding": encoding})
            return
        self._say(200, REPLY, {})

    def _say(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """An upstream, with TLS if it has a context."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://localhost:{self.server_address[1]}"
        self.asked: list[str] = []
        self.seconds = 0.0
        self.most = 0
        self._count = 0
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def add(self, number: int) -> int:
        with self._lock:
            self._count += number
            return self._count

    def handle_error(self, *_: Any) -> None:
        """A handshake that fails is what some tests want."""

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        yield self
        self.shutdown()
        self.server_close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def bundle(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture
def plain() -> Iterator[Server]:
    with Server().running() as server:
        yield server


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[Server]:
    with Server(_context(authority, "localhost")).running() as server:
        yield server


def _context(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def send(row: Row, path: str = "/v1", headers: dict[str, str] | None = None) -> Answer:
    """One request."""

    async def run() -> Answer:
        sender = Sender(row, 1 << 20)
        return await sender.send(Outgoing(row.url + path, headers or {}, b"{}"))

    return asyncio.run(run())


def failure(row: Row) -> NoAnswerError:
    with pytest.raises(NoAnswerError) as caught:
        send(row)
    return caught.value


# --- TLS --------------------------------------------------------------------------------------


def test_a_row_has_its_own_authorities(secure: Server, bundle: Path) -> None:
    assert send(Row("x", secure.url, ca=str(bundle))).body == REPLY


def test_authorities_come_from_the_environment(
    secure: Server, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert send(Row("x", secure.url)).status == 200


def test_a_certificate_that_nobody_vouches_for_is_the_reason(secure: Server) -> None:
    error = failure(Row("x", secure.url))
    assert (error.code, error.status_hint) == ("upstream_unreachable", 502)
    assert "certificate cannot be verified" in str(error)
    assert secure.asked == []


def test_a_certificate_for_another_name_is_refused(authority: trustme.CA, bundle: Path) -> None:
    with Server(_context(authority, "other.example")).running() as server:
        error = failure(Row("x", server.url, ca=str(bundle)))
    assert "certificate" in str(error)


def test_a_row_shows_its_certificate(authority: trustme.CA, bundle: Path, tmp_path: Path) -> None:
    context = _context(authority, "localhost")
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    mine = authority.issue_cert("client.example")
    chain = mine.cert_chain_pems[0].bytes()
    (tmp_path / "key.pem").write_bytes(_key(mine))
    (tmp_path / "certificate.pem").write_bytes(chain)
    (tmp_path / "both.pem").write_bytes(chain + _key(mine))
    with Server(context).running() as server:
        apart = {"certificate": str(tmp_path / "certificate.pem")}
        apart["certificate_key"] = str(tmp_path / "key.pem")
        for files in (apart, {"certificate": str(tmp_path / "both.pem")}):
            assert send(Row("x", server.url, ca=str(bundle), **files)).status == 200  # type: ignore[arg-type]
        error = failure(Row("x", server.url, ca=str(bundle)))
        assert error.code in ("upstream_unreachable", "upstream_broken")
    mine.private_key_pem.write_to_path(tmp_path / "old.pem")
    old = Row(
        "x", server.url, certificate=apart["certificate"], certificate_key=str(tmp_path / "old.pem")
    )
    with pytest.raises(ConfigurationError, match="PKCS 8"):
        Sender(old, 1)


def test_the_key_of_another_certificate_is_a_problem_of_the_configuration(
    authority: trustme.CA, tmp_path: Path
) -> None:
    paths = [tmp_path / "certificate.pem", tmp_path / "key.pem"]
    authority.issue_cert("one").cert_chain_pems[0].write_to_path(paths[0])
    paths[1].write_bytes(_key(authority.issue_cert("two")))
    row = Row("x", "https://localhost", certificate=str(paths[0]), certificate_key=str(paths[1]))
    with pytest.raises(ConfigurationError, match=r"'x': .*the key is that of another certificate"):
        Sender(row, 1)


@pytest.mark.parametrize("field", ["ca", "certificate"])
def test_a_file_that_is_no_certificate_is_a_problem_of_the_configuration(
    tmp_path: Path, field: str
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("nonsense")
    for path in (broken, tmp_path / "missing.pem"):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            Sender(Row("x", "https://localhost", **{field: str(path)}), 1)  # type: ignore[arg-type]


# --- reasons ----------------------------------------------------------------------------------


def test_a_refused_connection_is_the_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = failure(Row("x", f"http://127.0.0.1:{taken.getsockname()[1]}"))
    assert str(error) == "upstream 'x' cannot be reached: it refused the connection"


def test_a_name_that_is_not_known_is_the_reason() -> None:
    error = failure(Row("x", "http://no-such-host.invalid"))
    assert str(error) == "upstream 'x' cannot be reached: its name cannot be resolved"


def test_a_handshake_that_takes_too_long_is_a_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        error = failure(Row("x", url, timeouts=Timeouts(connect=0.3)))
    assert (error.code, error.status_hint) == ("upstream_timeout", 504)
    assert "within 0.3 s" in str(error)


@pytest.mark.parametrize("timeouts", [Timeouts(read=0.3), Timeouts(total=0.3)])
def test_an_answer_that_takes_too_long_is_a_time_out(plain: Server, timeouts: Timeouts) -> None:
    plain.seconds = 1.0
    error = failure(Row("x", plain.url, timeouts=timeouts))
    assert (error.code, str(error)) == (
        "upstream_timeout",
        "upstream 'x' did not answer in time",
    )


def test_the_reason_is_in_the_answer_and_in_the_log(tmp_path: Path) -> None:
    config = '[[upstreams]]\nname = "x"\nurl = "http://no-such-host.invalid"\n'
    running = Running(tmp_path, config, record=False)
    status, _, said = ask(running, "/v1/chat/completions", chat("m", ("user", "Hi")))
    assert (status, said["error"]["code"]) == (502, "upstream_unreachable")
    assert "its name cannot be resolved" in said["error"]["message"]
    running.stop()
    assert '"upstream_failed"' in running.log
    assert "its name cannot be resolved" in running.log


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_compressed_answer_is_unpacked(plain: Server, encoding: str) -> None:
    assert send(Row("x", plain.url), headers={"x-encoding": encoding}).body == REPLY


def test_every_encoding_is_asked_for() -> None:
    heard = listen_once(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    asked = heard(lambda url: send(Row("x", url))).lower()
    (accepted,) = [line for line in asked.split(b"\r\n") if line.startswith(b"accept-encoding")]
    for encoding in (b"gzip", b"br", b"zstd"):
        assert encoding in accepted


def test_brotli_is_unpacked() -> None:
    said = b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: %d\r\n\r\n%b"
    found: list[Answer] = []
    heard = listen_once(said % (len(BROTLI), BROTLI))
    heard(lambda url: found.append(send(Row("x", url))))
    assert found[0].body == b'{"answer":"yes yes yes yes"}'


def test_no_redirect_is_followed(plain: Server) -> None:
    assert send(Row("x", plain.url), "/moved").status == 302
    assert plain.asked == ["/moved"]


def test_a_connection_that_was_closed_while_idle_is_replaced() -> None:
    """Many servers close a connection after five seconds without a word."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        # The next request finds the connection closed.
        await reader.read(1)
        writer.transport.abort()

    async def run() -> list[int]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        sender = Sender(Row("x", url), 1 << 20)
        found = [(await sender.send(Outgoing(url, {}, b"{}"))).status for _ in range(4)]
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.1)
        return found

    assert asyncio.run(run()) == [200] * 4


def test_a_call_that_is_cancelled_hangs_up_at_once() -> None:
    async def run() -> bytes:
        heard = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            heard.set_result(await reader.read(1))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        sender = Sender(Row("x", url), 1 << 20)
        task = asyncio.create_task(sender.send(Outgoing(url, {}, b"{}")))
        await asyncio.sleep(0.3)
        task.cancel()
        found = await asyncio.wait_for(heard, 5)
        server.close()
        await asyncio.sleep(0.1)
        return bytes(found)

    assert asyncio.run(run()) == b""


@pytest.mark.parametrize("patience", [20.0, 0.1])
def test_a_row_has_no_more_connections_than_it_may(plain: Server, patience: float) -> None:
    plain.seconds = 0.3
    row = Row("x", plain.url, connections=2, timeouts=Timeouts(connect=patience))

    async def run() -> list[Any]:
        sender = Sender(row, 1 << 20)
        work = [sender.send(Outgoing(plain.url, {}, b"{}")) for _ in range(6)]
        return await asyncio.gather(*work, return_exceptions=True)

    found = asyncio.run(run())
    assert plain.most == 2
    busy = [error for error in found if isinstance(error, NoAnswerError)]
    assert len(busy) == (4 if patience < 1 else 0)
    assert {(error.code, error.status_hint) for error in busy} <= {("upstream_busy", 503)}


def listen_once(answer: bytes) -> Callable[[Callable[[str], object]], bytes]:
    """A server that answers one request with some bytes; what it was sent."""

    def heard(ask_it: Callable[[str], object]) -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as server:
            said: list[bytes] = []

            def serve() -> None:
                client, _ = server.accept()
                with client:
                    said.append(client.recv(65536))
                    client.sendall(answer)
                    client.recv(1)

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            ask_it(f"http://127.0.0.1:{server.getsockname()[1]}")
            return said[0]

    return heard


# --- HTTP/2 -----------------------------------------------------------------------------------

_HTTP2_SERVER = """
import asyncio, sys
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server
from pathlib import Path

async def application(scope, proto):
    await proto()
    proto.response_bytes(200, [("x-version", scope.http_version)], b"{}")

async def main():
    port, certificate, key = sys.argv[1:]
    server = Server(application, port=int(port), interface=Interfaces.RSGI, http=HTTPModes.auto,
                    ssl_cert=Path(certificate), ssl_key=Path(key), log_enabled=False, websockets=False)
    await server.serve()
asyncio.run(main())
"""


@pytest.mark.parametrize("is_wanted", [True, False])
def test_http2_is_spoken_where_the_upstream_speaks_it(
    authority: trustme.CA, bundle: Path, tmp_path: Path, is_wanted: bool
) -> None:
    issued = authority.issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    (tmp_path / "key.pem").write_bytes(_key(issued))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    files = [str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")]
    command = [sys.executable, "-c", _HTTP2_SERVER, str(port), *files]
    server = subprocess.Popen(command)
    try:
        wait_for(lambda: _is_open(port), "the server does not start")
        row = Row("x", f"https://localhost:{port}", ca=str(bundle), http2=is_wanted)
        assert send(row).headers.get("x-version") == ("2" if is_wanted else "1.1")
    finally:
        server.kill()
        server.wait()


def _key(issued: trustme.LeafCert) -> bytes:
    """The key of a certificate in PKCS 8."""
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


# --- proxies ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A forward proxy that somebody else wrote (proxy.py), and its log."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("proxy") / "log"
    command = [sys.executable, "-m", "proxy", "--hostname", "127.0.0.1", "--port", str(port)]
    command += ["--num-workers", "1", "--num-acceptors", "1", "--log-file", str(log)]
    command += ["--basic-auth", "somebody:secret"]
    process = subprocess.Popen(command)
    wait_for(lambda: _is_open(port), "the proxy does not start")
    yield f"http://somebody:secret@127.0.0.1:{port}", log
    process.terminate()
    process.wait(10)


@pytest.mark.parametrize(
    "variables,is_proxied",
    [
        ({"HTTPS_PROXY": "{proxy}"}, True),
        ({"ALL_PROXY": "{proxy}"}, True),
        ({"https_proxy": "{proxy}"}, True),
        ({"HTTPS_PROXY": "{proxy}", "NO_PROXY": "other.example,localhost"}, False),
        ({"HTTP_PROXY": "{proxy}"}, False),
    ],
)
def test_a_secure_upstream_is_asked_through_the_proxy_of_the_environment(
    secure: Server,
    bundle: Path,
    proxy: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    is_proxied: bool,
) -> None:
    _set(monkeypatch, variables, proxy[0])
    before = _text(proxy[1])
    assert send(Row("x", secure.url, ca=str(bundle))).body == REPLY
    _expect(proxy[1], before, f"localhost:{secure.server_address[1]}", is_proxied)


@pytest.mark.parametrize(
    "variables,is_proxied",
    [
        ({"HTTP_PROXY": "{proxy}"}, True),
        ({"ALL_PROXY": "{proxy}"}, True),
        ({"HTTP_PROXY": "{proxy}", "NO_PROXY": "localhost"}, False),
        ({"HTTPS_PROXY": "{proxy}"}, False),
    ],
)
def test_a_plain_upstream_is_asked_through_the_proxy_of_the_environment(
    plain: Server,
    proxy: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    is_proxied: bool,
) -> None:
    _set(monkeypatch, variables, proxy[0])
    before = _text(proxy[1])
    assert send(Row("x", plain.url)).body == REPLY
    _expect(proxy[1], before, f"localhost:{plain.server_address[1]}", is_proxied)


def test_a_proxy_that_is_not_there_is_named_without_its_password(
    secure: Server, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://somebody:password@127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("HTTPS_PROXY", url)
        error = failure(Row("x", secure.url, ca=str(bundle)))
    assert error.code == "upstream_unreachable"
    assert "password" not in str(error)


def _set(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(proxy=url))


def _text(log: Path) -> str:
    return log.read_text() if log.exists() else ""


def _expect(log: Path, before: str, place: str, is_proxied: bool) -> None:
    """Whether the proxy tells of a place that it was not asked for before: ports are used again."""

    def is_named() -> bool:
        return _text(log).count(place) > before.count(place)

    if is_proxied:
        wait_for(is_named, "the proxy was not asked", 10)
    else:
        time.sleep(0.3)
        assert not is_named()
