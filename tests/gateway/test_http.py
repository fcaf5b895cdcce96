"""HTTP as clients, proxies, browsers and attackers speak it: versions, methods, paths, encodings, limits of time."""

from __future__ import annotations

import gzip
import http.client
import json
import shutil
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cannery.gateway.hosts import Hosts
from cannery.gateway.origins import Origins
from cannery.gateway.packing import find_packing
from cannery.gateway.refusals import CallError
from cannery.gateway.routing import Match, Router

from .running import Running, rows, wait_for
from .test_contract import ask, chat
from .upstream import Upstream

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHAT = "/v1/chat/completions"
HELLO = chat("echo", ("user", "Hi"))
BODY = json.dumps(HELLO).encode()
LIMITS = """
[limits]
header_bytes = 4096
body_bytes = 100000
header_seconds = 1.0
body_seconds = 1.0
idle_seconds = 1.0
"""


@pytest.fixture(scope="module")
def hasty(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway with narrow limits."""
    config = LIMITS + rows(upstream.url)
    running = Running(tmp_path_factory.mktemp("hasty"), config, record=False)
    yield running
    running.stop()


def talk(port: int, said: bytes, seconds: float = 10) -> bytes:
    """Everything that is answered to some bytes, until the other side closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
        client.sendall(said)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    return answer


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *lines, "", ""]).encode()


# --- versions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("version", ["--http2-prior-knowledge", "--http2", "--http1.1"])
def test_curl_is_answered_in_each_version_of_http(
    gateway: Running, version: str, stream: bool
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    body = json.dumps({**HELLO, "stream": stream})
    command = ["curl", "--silent", "--include", version, f"{gateway.url}{CHAT}", "--data", body]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    first = done.stdout.splitlines()[0]
    assert first.split()[:2] == ["HTTP/2" if "prior" in version else "HTTP/1.1", "200"]
    assert "Hi" in done.stdout
    if stream:
        assert done.stdout.rstrip().endswith("data: [DONE]")


def test_expect_100_continue_is_answered_before_the_body(gateway: Running) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as client:
        lines = (f"content-length: {len(BODY)}", "expect: 100-continue", "connection: close")
        client.sendall(head("POST", CHAT, *lines))
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(BODY)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_body_in_chunks_is_taken(gateway: Running) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    sent = head("POST", CHAT, "transfer-encoding: chunked", "connection: close") + chunks
    answer = talk(gateway.port, sent)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"echo: Hi" in answer


def test_several_requests_may_share_a_connection_in_a_row(gateway: Running) -> None:
    one = head("POST", CHAT, f"content-length: {len(BODY)}") + BODY
    last = head("POST", CHAT, f"content-length: {len(BODY)}", "connection: close") + BODY
    assert talk(gateway.port, one + one + last).count(b"echo: Hi") == 3


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the start of TLS
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        head("POST", CHAT, "content-length: none"),
        head("POST", CHAT, "content-length: 5", "content-length: 6"),
        head("POST", CHAT, "transfer-encoding: chunked") + b"zz\r\n",
        head("POST", CHAT, "bad header"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64,
    ],
)
def test_what_is_not_http_is_refused_and_harms_nobody(hasty: Running, said: bytes) -> None:
    answer = talk(hasty.port, said)
    assert b" 200 " not in answer.split(b"\r\n")[0]
    assert ask(hasty, CHAT, HELLO)[0] == 200


def test_the_first_of_several_headers_with_one_name_counts(gateway: Running) -> None:
    lines = ("x-request-id: first", "x-request-id: second", "connection: close")
    sent = head("POST", CHAT, *lines, f"content-length: {len(BODY)}") + BODY
    assert b"x-cannery-request-id: first\r\n" in talk(gateway.port, sent)


@pytest.mark.parametrize("stream", [False, True])
def test_http_1_0_gets_no_chunks(gateway: Running, stream: bool) -> None:
    """A proxy in front may still speak it, and could not tell the chunks from what is said."""
    body = json.dumps({**HELLO, "stream": stream}).encode()
    sent = head("POST", CHAT, f"content-length: {len(body)}").replace(b"HTTP/1.1", b"HTTP/1.0")
    answer = talk(gateway.port, sent + body)
    first, _, said = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in first.lower()
    if stream:
        assert said.startswith(b"data: {")
        assert said.endswith(b"data: [DONE]\n\n")
    else:
        assert json.loads(said)["choices"][0]["message"]["content"] == "echo: Hi"


def test_a_request_that_hides_another_is_refused(gateway: Running) -> None:
    """Two lengths are how a request gets past a proxy that believes the other one."""
    hidden = b"0\r\n\r\n" + head("GET", "/v1/models", "connection: close")
    lines = ("transfer-encoding: chunked", f"content-length: {len(hidden)}")
    answer = talk(gateway.port, head("POST", CHAT, *lines) + hidden)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_target_may_be_a_whole_url(gateway: Running) -> None:
    sent = head("GET", f"{gateway.url}/v1/models", "connection: close")
    assert talk(gateway.port, sent).startswith(b"HTTP/1.1 200 ")


# --- methods and paths ------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/docs", "/metrics"])
def test_head_is_get_without_the_body(gateway: Running, path: str) -> None:
    answer = talk(gateway.port, head("HEAD", path, "connection: close"))
    first, _, rest = answer.partition(b"\r\n")
    assert first == b"HTTP/1.1 200 OK"
    assert rest.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "path,allowed",
    [
        (CHAT, "POST, OPTIONS"),
        ("/v1/models", "GET, HEAD, OPTIONS"),
        ("/anthropic/v1/messages", "POST, OPTIONS"),
    ],
)
def test_options_says_which_methods_there_are(gateway: Running, path: str, allowed: str) -> None:
    status, headers, said = ask(gateway, path, method="OPTIONS")
    assert (status, headers["allow"], said) == (204, allowed, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/openai//v1/chat/completions",
        "/openai/v1/v1/chat/completions",
        "/v1/chat%2Fcompletions",
        "/v1/%63hat/completions",
        "/v1/chat/completions?api-version=2026-01-01",
    ],
)
def test_what_base_urls_and_clients_make_of_a_path_is_understood(
    gateway: Running, path: str
) -> None:
    status, _, said = ask(gateway, path, HELLO)
    assert (status, said["choices"][0]["message"]["content"]) == (200, "echo: Hi")


def test_a_models_name_may_be_percent_encoded(gateway: Running) -> None:
    contents = {"contents": [{"parts": [{"text": "Hi"}]}]}
    for path in (
        "/v1beta/models/echo%3AgenerateContent",
        "/v1beta/models/echo%2Fm:generateContent",
    ):
        status, _, said = ask(gateway, path, contents)
        assert (status, said["candidates"][0]["content"]["parts"][0]["text"]) == (200, "echo: Hi")


def test_paths_that_clients_choose_do_not_fill_the_memory() -> None:
    router = Router()
    for number in range(5000):
        found = router.find("POST", f"/v{number}/chat/completions", lambda _: None)
        assert isinstance(found, Match)
    assert len(router._known) <= 1024


# --- compressed bodies ------------------------------------------------------------------------

PACKED: dict[str, Any] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("encoding", sorted(PACKED))
def test_a_compressed_body_is_unpacked(gateway: Running, encoding: str) -> None:
    headers = {"content-encoding": encoding}
    status, _, said = ask(gateway, CHAT, PACKED[encoding](BODY), headers)
    assert (status, said["choices"][0]["message"]["content"]) == (200, "echo: Hi")


@pytest.mark.parametrize("encoding", sorted(PACKED))
def test_a_small_body_that_stands_for_a_huge_one_is_413(hasty: Running, encoding: str) -> None:
    packed = PACKED[encoding](b" " * 5_000_000 + BODY)
    assert len(packed) < 50_000
    status, _, said = ask(hasty, CHAT, packed, {"content-encoding": encoding})
    assert (status, said["error"]["type"]) == (413, "invalid_request_error")


@pytest.mark.parametrize("encoding", sorted(PACKED))
@pytest.mark.parametrize("broken", [b"not packed", b""])
def test_a_body_that_is_not_what_it_says_is_400(
    gateway: Running, encoding: str, broken: bytes
) -> None:
    packed = broken or PACKED[encoding](BODY)[:-3]
    status, _, said = ask(gateway, CHAT, packed, {"content-encoding": encoding})
    assert status == 400
    assert "content-encoding" in said["error"]["message"]


def test_an_unknown_encoding_is_415_and_says_which_are_known(gateway: Running) -> None:
    status, headers, said = ask(gateway, CHAT, BODY, {"content-encoding": "br"})
    assert (status, headers["accept-encoding"]) == (415, "gzip, deflate, zstd")
    assert said["error"]["type"] == "invalid_request_error"
    status, _, _ = ask(gateway, CHAT, BODY, {"content-encoding": "identity"})
    assert status == 200


def test_deflate_is_understood_with_and_without_its_header_and_gzip_in_several_members() -> None:
    packer = zlib.compressobj(wbits=-15)
    raw = packer.compress(BODY) + packer.flush()
    deflate, gunzip = find_packing("deflate"), find_packing("GZip")
    assert deflate is not None
    assert gunzip is not None
    assert deflate(raw, 1000) == deflate(zlib.compress(BODY), 1000) == BODY
    assert gunzip(gzip.compress(BODY[:9]) + gzip.compress(BODY[9:]), 1000) == BODY


# --- web pages --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "https://127.0.0.1", "app://obsidian.md"]
)
def test_a_page_of_this_machine_may_call_and_read(gateway: Running, origin: str) -> None:
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    status, headers, _ = ask(gateway, CHAT, method="OPTIONS", headers=asked)
    assert status == 204
    assert headers["access-control-allow-origin"] == origin
    assert "POST" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-headers"] == "authorization, content-type"
    for body in (HELLO, {**HELLO, "stream": True}, {"model": "nobody-has-it", "messages": []}):
        _, headers, _ = ask(gateway, CHAT, body, {"origin": origin})
        assert headers["access-control-allow-origin"] == origin
        assert "x-cannery-conversation" in headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1.evil.example",
        "null",
        "http://[::1",
        "http://[localhost]",
        "chrome-extension://aapbdbdomjkkjkaonfhkkikfgjllcleb",
        "moz-extension://2c127fa4-62c7-7e4f-90e5-472b45eecfdc",
        "safari-web-extension://0B3A9B2C",
    ],
)
def test_a_page_of_the_web_may_not_use_a_gateway_without_keys(
    gateway: Running, origin: str
) -> None:
    """A browser would send this without asking first, and the owner would pay for it."""
    headers = {"origin": origin, "content-type": "text/plain"}
    status, headers, said = ask(gateway, CHAT, HELLO, headers)
    assert (status, said["error"]["code"]) == (403, "origin_not_allowed")
    assert "access-control-allow-origin" not in headers
    asked = {"origin": origin, "access-control-request-method": "POST"}
    _, headers, _ = ask(gateway, CHAT, method="OPTIONS", headers=asked)
    assert "access-control-allow-origin" not in headers


def test_configured_pages_are_welcome_and_keys_are_enough() -> None:
    listed = Origins(["https://app.example/"], has_keys=False)
    assert listed.refusal("https://app.example") is None
    assert isinstance(listed.refusal("https://other.example"), CallError)
    assert Origins(["*"], has_keys=False).refusal("https://other.example") is None
    guarded = Origins([], has_keys=True)
    assert guarded.refusal("https://other.example") is None
    assert guarded.headers("https://other.example") == []
    # An extension that has a key may read what it asked for.
    assert guarded.headers("chrome-extension://abc")


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/v1/models", "/healthz", "/metrics", "/docs", "/nothing", "/v1/conversations/x"],
)
def test_a_name_that_is_not_the_gateways_is_refused_on_every_path(
    gateway: Running, path: str
) -> None:
    """A page whose name was given the address of this machine sends no Origin when it reads."""
    for host in (
        "evil.example",
        "evil.example:8484",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "127.0.0.1:1x",
        "[::1]x",
        "[::1",
    ):
        status, _, said = ask(gateway, path, headers={"host": host})
        assert (status, said["error"]["code"]) == (403, "host_not_allowed")
    own = [f"localhost:{gateway.port}", "LOCALHOST.", "127.0.0.1", "[::1]:1", "app.localhost"]
    for host in own:
        assert ask(gateway, path, headers={"host": host})[0] != 403, host


def test_a_refused_name_is_answered_in_the_callers_dialect_and_in_http2(
    gateway: Running,
) -> None:
    status, _, said = ask(gateway, "/v1/messages", HELLO, {"host": "evil.example"})
    assert (status, said["type"], said["error"]["type"]) == (403, "error", "permission_error")
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    command = ["curl", "--silent", "--include", "--http2-prior-knowledge", f"{gateway.url}/metrics"]
    for more, expected in ((["--header", "host: evil.example"], "403"), ([], "200")):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=True)
        assert done.stdout.split()[1] == expected


def test_names_come_from_the_configuration_and_from_the_address() -> None:
    listed = Hosts("127.0.0.1", ["gateway.example", "[2001:db8::1]"])
    for host in ("gateway.example:80", "GATEWAY.example", "[2001:db8::1]:9", None):
        assert listed.refusal(host) is None
    assert isinstance(listed.refusal("10.0.0.1"), CallError)
    assert isinstance(listed.refusal(""), CallError)
    assert Hosts("127.0.0.1", ["*"]).refusal("any.example") is None
    everywhere = Hosts("0.0.0.0", [])  # noqa: S104 - nothing listens
    assert everywhere.refusal("10.0.0.1:8484") is None
    assert everywhere.refusal(socket.gethostname()) is None
    assert isinstance(everywhere.refusal("evil.example"), CallError)
    assert Hosts("10.0.0.1", []).refusal("10.0.0.1:1") is None


def test_names_that_clients_choose_do_not_fill_the_memory() -> None:
    hosts = Hosts("127.0.0.1", ["*"])
    for number in range(1000):
        assert hosts.refusal(f"{number}.example") is None
    assert len(hosts.known) < 300


# --- what RFC 9112 refuses --------------------------------------------------------------------


@pytest.mark.parametrize(
    "said,status",
    [
        pytest.param(b"GET /v1/models HTTP/1.1\r\n\r\n", 400, id="no Host"),
        pytest.param(head("GET", "/v1/models", "Host: localhost"), 400, id="two Hosts"),
        pytest.param(
            head("POST", CHAT, "transfer-encoding: gzip, chunked") + b"0\r\n\r\n", 501, id="coding"
        ),
        pytest.param(
            head("POST", CHAT, "transfer-encoding: gzip", "transfer-encoding: chunked"),
            501,
            id="coding in two headers",
        ),
        pytest.param(head("POST", CHAT, "transfer-encoding: gzip"), 501, id="no length"),
        pytest.param(b"GET /v1/models HTTP/2.0\r\nhost: localhost\r\n\r\n", 505, id="version"),
        pytest.param(b"GET / HTTP/1.1\r\nbroken\r\n\r\n", 400, id="not a header"),
        pytest.param(b"NONSENSE\r\n\r\n", 400, id="not HTTP"),
        pytest.param(head("POST", CHAT, f"x-large: {'x' * 200_000}"), 431, id="too large"),
    ],
)
def test_what_the_listener_refuses_has_a_body(gateway: Running, said: bytes, status: int) -> None:
    first, _, rest = talk(gateway.port, said).partition(b"\r\n")
    assert first.split()[1] == str(status).encode()
    told, _, body = rest.partition(b"\r\n\r\n")
    assert b"connection: close" in told
    assert json.loads(body)["error"]["message"]


def test_a_refusal_of_the_listener_is_in_the_callers_dialect(gateway: Running) -> None:
    answer = talk(gateway.port, b"POST /v1/messages HTTP/1.1\r\n\r\n")
    said = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (said["type"], said["error"]["type"]) == ("error", "invalid_request_error")
    broken = b"POST /gemini/v1beta/models/x:generateContent HTTP/1.1\r\nbroken\r\n\r\n"
    said = json.loads(talk(gateway.port, broken).partition(b"\r\n\r\n")[2])
    assert said["error"]["status"] == "INVALID_ARGUMENT"


# --- models -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["../../x", "gemini-x/../../secret", "gemini/..", "a/./b"])
def test_a_models_name_walks_no_path(gateway: Running, upstream: Upstream, model: str) -> None:
    upstream.seen.clear()
    gemini = f"gemini-{model}" if not model.startswith("gemini") else model
    bodies = [chat(gemini, ("user", "Hi")), chat(model, ("user", "Hi"))]
    for body in bodies:
        assert ask(gateway, CHAT, body)[0] == 404
        assert ask(gateway, "/v1/messages", {**body, "max_tokens": 1})[0] == 404
    assert upstream.seen == []


# --- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/anthropic/v1/messages"])
def test_headers_that_are_too_large_are_431_in_the_callers_dialect(
    hasty: Running, path: str
) -> None:
    body = None if path.endswith("models") else HELLO
    status, _, said = ask(hasty, path, body, {"x-large": "x" * 5000})
    assert (status, said["error"]["type"]) == (431, "invalid_request_error")
    assert "4096 bytes" in said["error"]["message"]


def test_headers_that_are_far_too_large_or_too_many_are_431(hasty: Running) -> None:
    assert b" 431 " in talk(hasty.port, head("POST", CHAT, f"x-large: {'x' * 50_000}"))
    many = [f"x-{number}: 1" for number in range(500)]
    assert b" 431 " in talk(hasty.port, head("POST", CHAT, *many))


@pytest.mark.parametrize("path,status", [(CHAT, 431), ("/v1/models", 431), ("/v1/none", 404)])
@pytest.mark.parametrize("attempt", range(5))
def test_a_refusal_in_http2_reaches_a_client_that_is_still_sending(
    hasty: Running, path: str, status: int, attempt: int
) -> None:
    """A stream that is closed while its body is on the way would be reset, and the answer with it."""
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    command = ["curl", "--silent", "--include", "--http2-prior-knowledge", f"{hasty.url}{path}"]
    command += ["--header", f"x-large: {'x' * (5000 if status == 431 else 5)}"]
    if path != "/v1/models":
        command += ["--data", json.dumps(HELLO)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["HTTP/2", str(status)])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked for idle connections")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"P", id="a byte that may become HTTP/2"),
        pytest.param(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", id="HTTP/2 without a request"
        ),
        pytest.param(b"POST /v1/chat/completions HTTP/1.1\r\nho", id="half a head"),
        pytest.param(head("GET", "/healthz"), id="nothing after an answer"),
    ],
)
def test_a_connection_that_nobody_uses_is_closed(hasty: Running, said: bytes) -> None:
    talk(hasty.port, said, seconds=20)


@pytest.mark.parametrize(
    "start,drop,answer",
    [
        pytest.param(b"POST /v1/chat/completions HTTP/1.1\r\nx: ", b"a", b"", id="head"),
        pytest.param(head("POST", CHAT, "content-length: 1000"), b" ", b"HTTP/1.1 408 ", id="body"),
        pytest.param(
            head("POST", CHAT, "transfer-encoding: chunked"),
            b"1\r\n \r\n",
            b"HTTP/1.1 408 ",
            id="chunks",
        ),
    ],
)
def test_a_client_that_trickles_is_not_waited_for(
    hasty: Running, start: bytes, drop: bytes, answer: bytes
) -> None:
    """Each drop would start a timer anew that only looked at silence."""
    got = b""
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=0.1) as client:
        client.sendall(start)
        for _ in range(200):
            try:
                piece = client.recv(4096)
            except TimeoutError:
                client.sendall(drop)
                continue
            except ConnectionError:
                break
            if not piece:
                break
            got += piece
        else:
            pytest.fail("it is still listening")
    assert got.startswith(answer)


def test_a_long_answer_is_not_taken_for_silence(hasty: Running, upstream: Upstream) -> None:
    """The upstream thinks for longer than the limit for silence."""
    for version in ("--http1.1", "--http2-prior-knowledge"):
        if shutil.which("curl") is None:
            pytest.skip("needs curl")
        body = json.dumps(chat("chat-pause", ("user", "x")))
        command = ["curl", "--silent", version, f"{hasty.url}{CHAT}", "--data", body]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        assert "echo: " in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel gives such clients up")
def test_a_client_that_does_not_read_is_given_up(hasty: Running, upstream: Upstream) -> None:
    before = upstream.hang_ups
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", hasty.port))
        body = json.dumps(chat("chat-flood", ("user", "x"), stream=True)).encode()
        client.sendall(head("POST", CHAT, f"content-length: {len(body)}") + body)
        wait_for(lambda: upstream.hang_ups > before, "the upstream still talks to nobody")
    wait_for(lambda: not hasty.metrics()["cannery_active_requests"], "the call goes on")


# --- the port ---------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_said_so(gateway: Running, tmp_path: Path) -> None:
    """Even by another gateway: two of them would share the calls, and each would know half of the histories."""
    command = [sys.executable, "-m", "cannery.gateway", "--no-record", "--port", str(gateway.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert f"port {gateway.port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("port", ["70000", "-2"])
def test_a_port_that_cannot_be_is_refused(tmp_path: Path, port: str) -> None:
    command = [sys.executable, "-m", "cannery.gateway", "--no-record", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "cannery: server.port: must lie between 0 and 65535\n",
    )


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_a_host_may_be_a_name_or_an_address_of_version_6(tmp_path: Path, host: str) -> None:
    try:
        socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        ).close()
    except OSError:
        pytest.skip(f"needs {host}")
    running = Running(tmp_path, "", "--host", host, record=False)
    try:
        connection = http.client.HTTPConnection(host, running.port, timeout=10)
        connection.request("POST", CHAT, BODY)
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        running.stop()
