"""Headers that pass through, from a caller to its upstream and back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cannery.gateway.settings import parse_settings

from .running import EVERY, Running, rows
from .test_contract import ask, chat
from .upstream import LIMITS, Upstream

CHAT = "/v1/chat/completions"
NAMES = tuple(EVERY)


@pytest.fixture(scope="module")
def forwarding(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = rows(
        upstream.url, forward_headers='["x-team", "Helicone-User-Id"]', forward_key="true"
    )
    running = Running(tmp_path_factory.mktemp("forwarding"), config, record=False)
    yield running
    running.stop()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("behaviour", ["limited", "exhausted"])
def test_limits_come_back_to_the_caller(
    gateway: Running, name: str, stream: bool, behaviour: str
) -> None:
    body = chat(f"{name}-{behaviour}", ("user", "Hi"), stream=stream)
    status, headers, _ = ask(gateway, CHAT, body)
    assert status == (200 if behaviour == "limited" else 429)
    assert {name: headers.get(name) for name in LIMITS} == LIMITS
    assert headers.get("retry-after") == ("3" if status == 429 else None)
    assert "set-cookie" not in headers
    assert "server" not in headers


@pytest.mark.parametrize("name", NAMES)
def test_a_row_lists_headers_to_send_on(forwarding: Running, upstream: Upstream, name: str) -> None:
    upstream.seen.clear()
    headers = {"x-team": "blue", "helicone-user-id": "7", "x-other": "no", "cookie": "a=b"}
    assert ask(forwarding, CHAT, chat(f"{name}-m", ("user", "Hi")), headers)[0] == 200
    (seen,) = upstream.seen
    assert (seen.headers["x-team"], seen.headers["helicone-user-id"]) == ("blue", "7")
    assert "x-other" not in seen.headers
    assert "cookie" not in seen.headers


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_token_stays_a_token_and_a_key_a_key(
    forwarding: Running, upstream: Upstream, path: str
) -> None:
    body = {**chat("anthropic-m", ("user", "Hi")), "max_tokens": 5}
    if path.endswith("tokens"):
        del body["max_tokens"]
    beta = {"anthropic-beta": "oauth-2025-04-20"}
    for shown, expected, absent in (
        (
            {"authorization": "Bearer sk-ant-oat01-x"},
            ("authorization", "Bearer sk-ant-oat01-x"),
            "x-api-key",
        ),
        ({"x-api-key": "sk-ant-api03-x"}, ("x-api-key", "sk-ant-api03-x"), "authorization"),
    ):
        upstream.seen.clear()
        assert ask(forwarding, path, body, {**shown, **beta})[0] == 200
        (seen,) = upstream.seen
        assert seen.headers[expected[0]] == expected[1]
        assert seen.headers["anthropic-beta"] == "oauth-2025-04-20"
        assert absent not in seen.headers
    # A caller of another dialect shows its key where its own dialect has it.
    upstream.seen.clear()
    key = {"authorization": "Bearer sk-ant-api03-x"}
    assert ask(forwarding, CHAT, chat("anthropic-m", ("user", "Hi")), key)[0] == 200
    assert upstream.seen[0].headers["x-api-key"] == "sk-ant-api03-x"
    assert "authorization" not in upstream.seen[0].headers


@pytest.mark.parametrize("name", ["Authorization", "host", "not a name", "x-api-key", "Cookie"])
def test_what_belongs_to_the_connection_is_never_sent_on(name: str) -> None:
    text = f'[[upstreams]]\nname = "x"\nurl = "http://localhost"\nforward_headers = ["{name}"]\n'
    with pytest.raises(ValueError, match="cannot be forwarded"):
        parse_settings(text)


@pytest.mark.parametrize("name", ["ca", "certificate", "certificate_key"])
def test_a_certificate_for_a_plain_upstream_is_a_mistake(name: str) -> None:
    text = f'[[upstreams]]\nname = "x"\nurl = "http://localhost"\n{name} = "~/x.pem"\n'
    with pytest.raises(ValueError, match=r"line 4.* is used with TLS only"):
        parse_settings(text)
    assert parse_settings(text.replace("http:", "https:"))
