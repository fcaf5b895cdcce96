"""The proxies of the environment: which upstream is asked through which, and why one cannot be."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cannery.errors import ConfigurationError
from cannery.gateway.proxies import proxy_for
from cannery.gateway.settings import Row

from .raw_servers import Raw
from .test_upstream_client import direct, failure, send  # noqa: F401 - a fixture that is used by all

PROXY = "http://proxy.example:3128"
TLS = {"HTTPS_PROXY": PROXY}


@pytest.mark.parametrize(
    "value,expected",
    [
        (PROXY, PROXY),
        ("proxy.example:3128", PROXY),
        ("HTTP://proxy.example:3128", PROXY),
        ("https://user:pass@proxy.example", "https://user:pass@proxy.example"),
        ("socks5h://[::1]:1080", "socks5h://[::1]:1080"),
        ("socks://127.0.0.1:1080/", "socks5://127.0.0.1:1080/"),
        ("  ", None),
    ],
)
def test_a_proxy_has_a_scheme(value: str, expected: str | None) -> None:
    assert proxy_for("https://api.example/v1", {"ALL_PROXY": value}) == expected


@pytest.mark.parametrize(
    "value",
    ["::::", "not a proxy", "ftp://secret@p.example", "http://secret@p:x", "http://", "p:0"],
)
def test_a_proxy_that_cannot_be_used_is_not_passed_by(value: str) -> None:
    with pytest.raises(
        ConfigurationError, match="HTTPS_PROXY: is not the URL of a proxy"
    ) as caught:
        proxy_for("https://api.example", {"HTTPS_PROXY": value, "ALL_PROXY": PROXY})
    assert "secret" not in str(caught.value)


def test_a_gateway_with_such_a_proxy_does_not_start(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text('[[upstreams]]\nname = "x"\nurl = "https://api.example"\n')
    command = [sys.executable, "-m", "cannery.gateway", "--no-record", "--config", str(config)]
    environment = {**os.environ, "HTTPS_PROXY": "nonsense://secret@p"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=False, env=environment
    )
    assert done.returncode == 2
    assert done.stderr.startswith("cannery: HTTPS_PROXY: is not the URL of a proxy, like http://")
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    "environment,url,expected",
    [
        ({"HTTP_PROXY": "a", "HTTPS_PROXY": "b", "ALL_PROXY": "c"}, "https://x", "http://b"),
        ({"HTTP_PROXY": "a", "HTTPS_PROXY": "b", "ALL_PROXY": "c"}, "http://x", "http://a"),
        ({"HTTP_PROXY": "a", "all_proxy": "c"}, "https://x", "http://c"),
        ({"http_proxy": "a", "HTTP_PROXY": "b"}, "http://x", "http://b"),
        ({"HTTPS_PROXY": "", "https_proxy": "b"}, "https://x", "http://b"),
        ({"HTTPS_PROXY": "b"}, "http://x", None),
    ],
)
def test_the_scheme_of_the_upstream_selects_the_variable(
    environment: dict[str, str], url: str, expected: str | None
) -> None:
    assert proxy_for(url, environment) == expected


@pytest.mark.parametrize(
    "listed,url,is_exempt",
    [
        ("*", "https://api.corp.example", True),
        ("api.corp.example", "https://api.corp.example", True),
        ("API.Corp.Example", "https://api.corp.example", True),
        ("corp.example", "https://api.corp.example", True),
        (".corp.example", "https://api.corp.example", True),
        ("*.corp.example", "https://api.corp.example", True),
        ("other.example , corp.example", "https://api.corp.example", True),
        ("other.example corp.example", "https://api.corp.example", True),
        ("api.corp.example", "https://api.corp.example.", True),
        ("api.corp.example:443", "https://api.corp.example", True),
        ("api.corp.example:8443", "https://api.corp.example:8443/v1", True),
        ("*:8443", "https://api.corp.example:8443/v1", True),
        ("api.corp.example:8443", "https://api.corp.example", False),
        ("pi.corp.example", "https://api.corp.example", False),
        ("example.com", "https://api.corp.example", False),
        (",, ,", "https://api.corp.example", False),
        (".", "https://api.corp.example", False),
        ("127.0.0.1", "https://127.0.0.1:9", True),
        ("127.0.0.1:9", "https://127.0.0.1:9", True),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.0.0.0/8", "https://11.1.2.3", False),
        ("10.0.0.0/8", "https://api.corp.example", False),
        ("::1", "https://[::1]:9", True),
        ("[::1]:9", "https://[::1]:9", True),
        ("fe80::/10", "https://[fe80::1]", True),
        ("localhost", "https://127.0.0.1", False),
    ],
)
def test_hosts_may_be_exempt(listed: str, url: str, is_exempt: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        assert proxy_for(url, {**TLS, name: listed}) == (None if is_exempt else PROXY)


@pytest.mark.parametrize(
    "said,reason",
    [
        (b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n", "it asks for a user name and a password"),
        (b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n", "it refuses to connect to the upstream"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "it is not an HTTP proxy"),
    ],
)
def test_why_a_proxy_does_not_connect_is_told(
    monkeypatch: pytest.MonkeyPatch,
    said: bytes,
    reason: str,
) -> None:
    def deny(taken: socket.socket) -> None:
        taken.sendall(said)

    with Raw(deny) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        error = failure(Row("x", "https://api.corp.example"))
    assert error.code == "upstream_unreachable"
    assert str(error) == f"upstream 'x' cannot be reached through the proxy: {reason}"


def test_a_plain_upstream_is_not_blamed_for_its_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deny(taken: socket.socket) -> None:
        taken.sendall(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n")

    with Raw(deny) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        error = failure(Row("x", "http://api.corp.example"))
    assert error.code == "upstream_unreachable"
    assert "through the proxy: it asks for a user name and a password" in str(error)


def test_a_socks_proxy_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first bytes of RFC 1928, and then the upstream itself."""
    asked: list[bytes] = []

    def connect(taken: socket.socket) -> None:
        taken.sendall(b"\x05\x00")
        asked.append(taken.recv(1000))
        taken.sendall(b"\x05\x00\x00\x01" + bytes(6))
        asked.append(taken.recv(1000))
        taken.sendall(b"HTTP/1.1 204 No\r\n\r\n")

    with Raw(connect) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url.replace("http", "socks5h"))
        assert send(Row("x", "http://api.corp.example")).status == 204
    assert asked[0] == b"\x05\x01\x00\x03\x10api.corp.example\x00\x50"
    assert asked[1].startswith(b"POST /v1 HTTP/1.1\r\n")
