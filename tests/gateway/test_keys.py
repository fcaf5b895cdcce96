"""Keys that open the gateway: who may come in, under which name, and that no such key ever leaves."""

from __future__ import annotations

import base64
import hmac
import itertools
import json
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from cannery.gateway import keys as gateway_keys
from cannery.gateway.keys import Key, Keyring
from cannery.gateway.refusals import CallError
from cannery.gateway.settings import Keys, NamedKey, load_settings, parse_settings

from .running import Running
from .test_contract import ask, chat

CANARY = "canary-0a1b2c3d4e5f"
OWN = "own-key-of-the-provider"
CHAT, MESSAGES, GEMINI = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1beta/models/gemini-x:generateContent",
)


# --- coming in --------------------------------------------------------------------------------


class Shown:
    """A call that shows keys."""

    def __init__(self, headers: dict[str, str], query: str = "") -> None:
        self.header = headers.get
        self.query = query
        self.key: Key | None = None
        self.secrets: tuple[str, ...] = ()


def ring(*secrets: bytes) -> Keyring:
    return Keyring(Key(secret.decode(), secret) for secret in secrets)


@pytest.mark.parametrize("position", range(3))
def test_every_key_is_compared_in_constant_time_whichever_is_right(
    monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    keys = (b"one", b"two", b"three")
    compared: list[tuple[bytes, bytes]] = []

    def compare(shown: bytes, key: bytes) -> bool:
        compared.append((shown, key))
        return hmac.compare_digest(shown, key)

    double = type("", (), {"compare_digest": staticmethod(compare)})
    monkeypatch.setattr(gateway_keys, "hmac", double)
    shown = keys[position]
    call: Any = Shown({"authorization": f"Bearer {shown.decode()}"})
    ring(*keys).admit(call)
    assert compared == [(shown, key) for key in keys]
    assert call.key.secret == shown


def test_only_the_comparison_in_constant_time_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    call: Any = Shown({"x-api-key": "wrong"})
    for verdict in (True, False):
        never = type("", (), {"compare_digest": staticmethod(lambda *_, verdict=verdict: verdict)})
        monkeypatch.setattr(gateway_keys, "hmac", never)
        if verdict:
            ring(b"right").admit(call)
        else:
            with pytest.raises(CallError):
                ring(b"right").admit(call)


@pytest.mark.parametrize(
    "headers,query",
    [
        ({"authorization": "Bearer of-the-provider", "x-api-key": "mine"}, ""),
        ({"authorization": "bearer  mine "}, ""),
        ({"api-key": "mine"}, ""),
        ({}, "alt=sse&key=%6Dine"),
    ],
)
def test_the_right_key_counts_wherever_it_stands(headers: dict[str, str], query: str) -> None:
    call: Any = Shown(headers, query)
    ring(b"mine").admit(call)
    assert call.secrets == ("mine",)


# --- the configuration ------------------------------------------------------------------------


def test_keys_that_are_asked_for_but_not_there_let_nobody_in(tmp_path: Path) -> None:
    """A variable that was forgotten must not open the door to everybody."""
    config = '[keys]\nvariables = ["NO_SUCH_KEY"]\n'
    (tmp_path / "gateway.toml").write_text(config)
    command = [sys.executable, "-m", "cannery.gateway", "--port", "0", "--no-record", "--config"]
    done = subprocess.run(
        [*command, str(tmp_path / "gateway.toml")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "cannery: keys: neither the variables nor the file hold a key\n"
    with pytest.raises(ValueError, match=r"keys\.file: .* cannot be read: "):
        Keyring.of(Keys(file=str(tmp_path / "missing")), {})
    with pytest.raises(ValueError, match="hold a key"):
        Keyring.of(Keys(named={"alice": NamedKey(variable="NO_SUCH_KEY")}), {})


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("\ufeffsecret\n", encoding="utf-8")
    config = tmp_path / "gateway.toml"
    config.write_text(f'\ufeff[keys]\nfile = "{keys}"\n', encoding="utf-8")
    found = Keyring.of(load_settings(config).keys, {})
    assert [key.secret for key in found.keys] == [b"secret"]


def test_keys_have_names_from_the_file_and_from_tables(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nalice: KEY-A\n\nKEY-B\nalice: KEY-A2\nuser:pass\n")
    config = (
        f'[keys]\nfile = "{file}"\n[keys.alice]\noperator = true\n[keys.bob]\nvariable = "BOB"\n'
    )
    found = Keyring.of(parse_settings(config).keys, {"BOB": "KEY-C"})
    named = {key.secret.decode(): (key.name, key.is_operator) for key in found.keys}
    assert named["KEY-A"] == named["KEY-A2"] == ("alice", True)
    assert named["KEY-C"] == ("bob", False)
    # A key without a name is a scope of its own, whatever stands beside it in the file.
    assert named["KEY-B"][0].startswith("key-")
    assert "KEY-B" not in named["KEY-B"][0]
    assert named["user:pass"][0].startswith("key-")
    assert len({name for name, _ in named.values()}) == 4


def test_a_wrong_setting_of_a_named_key_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"line 3: keys\.alice\.colour"):
        parse_settings('[keys.alice]\nvariable = "A"\ncolour = "red"\n')


# --- what leaves ------------------------------------------------------------------------------


class Ear(socketserver.ThreadingTCPServer):
    """An upstream that keeps every byte that it is sent."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Heard)
        self.heard: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Heard(socketserver.StreamRequestHandler):
    server: Ear

    def handle(self) -> None:
        while line := self.rfile.readline():
            said, length = [line], 0
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                said.append(line)
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            said.append(self.rfile.read(length))
            self.server.heard.append(b"".join(said))
            body = b'{"error":{"message":"no","type":"x","code":"y"}}'
            head = (
                b"HTTP/1.1 418 No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            )
            self.wfile.write(head % len(body) + body)


ROW = """
[[upstreams]]
name = "{name}{number}"
dialect = "{dialect}"
url = "{url}"
models = ["{name}-{number}*", "{name}-list-*"]
forward_key = {forward}
{key}
"""


def _rows(url: str) -> str:
    names = {
        "chat": "openai_chat",
        "responses": "openai_responses",
        "claude": "anthropic_messages",
        "gemini": "gemini_generate",
    }
    kinds = [("true", ""), ("false", ""), ("true", 'key_variable = "TEST_KEY"')]
    return "".join(
        ROW.format(name=name, number=number, dialect=dialect, url=url, forward=forward, key=key)
        for name, dialect in names.items()
        for number, (forward, key) in enumerate(kinds)
    )


@pytest.fixture(scope="module")
def ear() -> Iterator[Ear]:
    made = Ear()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def guarded(ear: Ear, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = '[server]\nlog_level = "debug"\n[keys]\nvariables = ["CANARY"]\n' + _rows(ear.url)
    folder = tmp_path_factory.mktemp("guarded")
    running = Running(folder, config, environment={"CANARY": CANARY})
    yield running
    running.stop()


SHOWN = [
    {"authorization": f"Bearer {CANARY}"},
    {"authorization": f"bearer  {CANARY} "},
    {"x-api-key": CANARY},
    {"x-goog-api-key": CANARY},
    {"api-key": CANARY},
    {"authorization": f"Bearer {CANARY}", "x-api-key": CANARY, "api-key": f" {CANARY}"},
    {"authorization": f"Bearer {OWN}", "x-api-key": CANARY},
    {"authorization": f"Bearer {CANARY}", "x-goog-api-key": OWN},
    {},
]
BESIDE = [
    {},
    {
        "anthropic-beta": f"a,{CANARY}",
        "anthropic-version": CANARY,
        "openai-beta": CANARY,
        "openai-organization": CANARY,
        "openai-project": f"x {CANARY}",
        "x-request-id": f"id-{CANARY}",
        "cookie": f"key={CANARY}",
        "user-agent": f"tool/{CANARY}",
        "x-cannery-client": CANARY,
        "referer": f"http://127.0.0.1/?key={CANARY}",
    },
]
QUERIES = [
    "",
    f"?key={CANARY}",
    f"?beta=true&key={CANARY}",
    f"?beta={CANARY}&alt=sse&api_key={CANARY}",
]


def _bodies(number: int) -> Iterator[tuple[str, Any]]:
    for name in ("chat", "responses", "claude", "gemini"):
        model = f"{name}-{number}"
        yield CHAT, chat(model, ("user", "Hi"))
        yield CHAT, chat(model, ("user", "Hi"), stream=True)
        yield MESSAGES, {**chat(model, ("user", "Hi")), "max_tokens": 5}
        yield "/v1/messages/count_tokens", chat(model, ("user", "Hi"))
        yield "/v1/responses", {"model": model, "input": "Hi"}
        yield (
            f"/v1beta/models/{model}:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        )


def test_a_key_that_opened_the_gateway_never_leaves_it(guarded: Running, ear: Ear) -> None:
    ear.heard.clear()
    opened = 0
    for shown, beside in itertools.product(SHOWN, BESIDE):
        for index, query in enumerate(QUERIES):
            if not shown and "?key=" not in query and "&key=" not in query:
                continue
            headers = {**shown, **beside}
            # Every body with one query, and one body with each.
            for path, body in itertools.islice(
                _bodies(len(headers) % 3), None if index == 2 else 4
            ):
                status, _, _ = ask(guarded, path + query, body, headers)
                assert status in (200, 418), (path, query, headers)
                opened += 1
            for path in ("/v1/models", "/anthropic/v1/models", "/gemini/v1beta/models"):
                assert ask(guarded, path + query, None, headers)[0] == 200
    left = b"\n".join(ear.heard)
    assert len(ear.heard) > opened * 0.8
    assert CANARY.encode() not in left
    # What the caller has for its provider does go there, where the row says so, and stays what it was.
    assert f"authorization: Bearer {OWN}".encode() in left
    assert f"x-goog-api-key: {OWN}".encode() in left
    assert b"secret-upstream-key" in left
    # A parameter that a provider knows passes.
    assert b"/v1/messages?beta=true HTTP" in left


ODD = "canary/0a1b+2c=3d"


@pytest.fixture(scope="module")
def odd(ear: Ear, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway whose key has characters that URLs quote."""
    more = '[[upstreams]]\nforward_headers = ["referer", "x-custom"]'
    rows = _rows(ear.url).replace("[[upstreams]]", more)
    config = '[keys]\nvariables = ["ODD"]\n' + rows
    running = Running(tmp_path_factory.mktemp("odd"), config, environment={"ODD": ODD})
    yield running
    running.stop()


def test_a_key_does_not_leave_in_quotes_either(odd: Running, ear: Ear) -> None:
    ear.heard.clear()
    once = quote(ODD, safe="")
    contents = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    shown = {"authorization": f"Bearer {ODD}"}
    plain = chat("claude-1", ("user", "Hi"), max_tokens=5)
    encoded = base64.b64encode(f"alice:{ODD}".encode()).decode()
    basic = (f"Basic {encoded}", f"basic  {encoded.rstrip('=')} ")
    for text in (ODD, once, once.lower(), quote(once), quote(quote(once)), *basic):
        beside = {**shown, "referer": f"http://x/?key={text}", "x-custom": text}
        assert ask(odd, MESSAGES, plain, beside)[0] == 418
        assert ask(odd, f"/v1/files?a={quote(text)}", None, shown)[0] == 418
        typed = {**shown, "content-type": f"application/json; x={text}", "x-request-id": text}
        assert ask(odd, "/v1/embeddings", {"model": "chat-1", "input": "x"}, typed)[0] == 418
    for name in (f"claude-1-{ODD}", f"gemini-1-{ODD}", f"chat-1-{once}"):
        assert ask(odd, MESSAGES, {**plain, "model": name}, shown)[0] == 400
        told = {**shown, "content-type": "application/json"}
        assert ask(odd, "/v1/embeddings", {"model": name, "input": "x"}, told)[0] == 404
    path = f"/v1beta/models/gemini-1-{once}:generateContent"
    assert ask(odd, path, contents, shown)[0] in (400, 404)
    left = b"\n".join(ear.heard).decode("latin-1")
    assert left.count("POST ") == 14
    logged = odd.log
    assert encoded.rstrip("=") not in left
    assert encoded.rstrip("=") not in logged
    for _ in range(4):
        assert ODD not in left
        assert ODD not in logged
        left, logged = unquote(left), unquote(logged)


def test_neither_a_refused_nor_a_misplaced_key_is_logged(guarded: Running, ear: Ear) -> None:
    wrong = {"authorization": "Bearer wrong", "x-request-id": CANARY}
    assert ask(guarded, CHAT, chat("chat-1", ("user", "Hi")), wrong)[0] == 401
    right = {"authorization": f"Bearer {CANARY}"}
    named = {**right, "x-cannery-conversation": CANARY}
    status, _, said = ask(guarded, CHAT, chat("chat-1", ("user", "Hi")), named)
    assert (status, said["error"]["code"]) == (400, "invalid_conversation")
    path = f"/v1beta/models/gemini-1-{CANARY}:generateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    assert ask(guarded, path, body, right)[0] == 400
    assert ask(guarded, f"/v1/{CANARY}/x", {}, right)[0] == 404
    guarded.wait_for_log('"status":400', 2)
    guarded.settle()
    assert CANARY not in guarded.log
    assert OWN not in guarded.log
    assert CANARY.encode() not in b"\n".join(ear.heard)
    kept = [path.read_bytes() for path in guarded.store.rglob("*") if path.is_file()]
    assert kept
    assert not any(CANARY.encode() in content for content in kept)
    assert CANARY not in json.dumps(guarded.metrics())


@pytest.mark.parametrize("name", ["user-agent", "x-session-id", "x-claude-code-session-id"])
def test_a_key_is_no_name_of_a_program_or_a_session(guarded: Running, name: str) -> None:
    shown = {"authorization": f"Bearer {CANARY}"}
    for value in (CANARY, f"tool/{CANARY}"):
        body = chat("echo", ("user", f"{name} {value == CANARY}"))
        assert ask(guarded, CHAT, body, {**shown, name: value})[0] == 200
    guarded.settle()
    kept = [path.read_bytes() for path in guarded.store.rglob("*") if path.is_file()]
    assert not any(CANARY.encode() in content for content in kept)
