"""Paths, headers, roles, losses, keys and limits, as docs/gateway.md promises them."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

import pytest

import cannery
from cannery.errors import ConfigurationError
from cannery.gateway.serving import check_exposure
from cannery.gateway.settings import load_settings, parse_settings

from .running import Running, rows
from .upstream import Upstream

SEED = (
    'messages.0.role: Role must be one of: system, user, assistant (received: "admin"). '
    'Did you mean "assistant", "ai", or "bot"? Supported variations include: system, System, SYSTEM, '
    "user, User, USER, human, Human, HUMAN, assistant..."
)


def ask(
    gateway: Running,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
) -> tuple[int, dict[str, str], Any]:
    """Ask over plain HTTP: the status, the headers, and the JSON or the bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    found = {name.lower(): value for name, value in answer.getheaders()}
    if found.get("content-type", "").startswith("application/json"):
        return answer.status, found, json.loads(said)
    return answer.status, found, said


def chat(model: str, *messages: tuple[str, Any], **more: Any) -> dict[str, Any]:
    listed = [{"role": role, "content": content} for role, content in messages]
    return {"model": model, "messages": listed, **more}


# --- paths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/openai/v1/chat/completions",
        "/openai/chat/completions",
        "/chat/completions",
    ],
)
def test_chat_is_found_at_its_usual_paths_and_under_its_prefix(gateway: Running, path: str) -> None:
    status, _, said = ask(gateway, path, chat("echo", ("user", "Hi")))
    assert (status, said["choices"][0]["message"]["content"]) == (200, "echo: Hi")


@pytest.mark.parametrize("version", ["/v1beta", "/v1", ""])
@pytest.mark.parametrize("prefix", ["", "/gemini"])
def test_gemini_is_found_with_any_version(gateway: Running, prefix: str, version: str) -> None:
    path = f"{prefix}{version}/models/echo:generateContent"
    status, _, said = ask(gateway, path, {"contents": [{"parts": [{"text": "Hi"}]}]})
    assert (status, said["candidates"][0]["content"]["parts"][0]["text"]) == (200, "echo: Hi")


@pytest.mark.parametrize("model", ["echo", "gemini-model", "chat-model"])
def test_gemini_without_alt_sse_streams_a_json_list(gateway: Running, model: str) -> None:
    path = f"/v1beta/models/{model}:streamGenerateContent"
    status, headers, said = ask(gateway, path, {"contents": [{"parts": [{"text": "one two"}]}]})
    assert (status, headers["content-type"]) == (200, "application/json")
    texts = [
        part.get("text", "")
        for chunk in said
        for candidate in chunk["candidates"]
        for part in candidate.get("content", {}).get("parts", ())
    ]
    assert "".join(texts) == "echo: one two"
    _, headers, _ = ask(gateway, f"{path}?alt=sse", {"contents": [{"parts": [{"text": "x"}]}]})
    assert headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
@pytest.mark.parametrize("key", [{"x-api-key": "k"}, {"authorization": "Bearer k"}])
def test_anthropic_takes_both_generations_of_headers(
    gateway: Running, version: str, key: dict[str, str]
) -> None:
    body = {**chat("echo", ("user", "Hi")), "max_tokens": 9}
    path = "/v1/messages?beta=true"
    status, headers, said = ask(gateway, path, body, {"anthropic-version": version, **key})
    assert (status, said["content"][0]["text"]) == (200, "echo: Hi")
    assert headers["request-id"]


def test_two_headers_of_one_name_are_no_reason_to_refuse(gateway: Running) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        body = json.dumps(chat("echo", ("user", "Hi"))).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nuser-agent: a\r\nuser-agent: b\r\n"
            f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        client.sendall(head.encode() + body)
        assert client.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "headers,key",
    [
        ({}, "data"),
        ({"anthropic-version": "2023-06-01"}, "has_more"),
        ({"x-goog-api-key": "k"}, "models"),
    ],
)
def test_models_are_listed_in_the_callers_dialect(
    gateway: Running, headers: dict[str, str], key: str
) -> None:
    status, _, said = ask(gateway, "/v1/models", headers=headers)
    assert status == 200
    assert key in said
    status, _, said = ask(gateway, "/v1/models/echo", headers=headers)
    assert status == 200
    assert "echo" in (said.get("id"), str(said.get("name")).removeprefix("models/"))


def test_v1beta_models_are_geminis(gateway: Running) -> None:
    assert "models" in ask(gateway, "/v1beta/models")[2]


@pytest.mark.parametrize(
    "path,shape",
    [
        ("/openai/v1/nothing", lambda said: said["error"]["type"]),
        ("/anthropic/v1/nothing", lambda said: said["error"]["type"]),
        ("/gemini/v1beta/nothing", lambda said: said["error"]["status"]),
    ],
)
def test_unknown_paths_are_404_in_the_callers_dialect(
    gateway: Running, path: str, shape: Any
) -> None:
    status, _, said = ask(gateway, path)
    assert status == 404
    assert shape(said)
    assert path in said["error"]["message"]


def test_a_wrong_method_is_405_and_says_which_is_right(gateway: Running) -> None:
    status, headers, _ = ask(gateway, "/v1/chat/completions")
    assert (status, headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/v1/responses", "/openai/v1/responses"])
def test_a_websocket_on_responses_is_426(gateway: Running, path: str) -> None:
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    status, _, said = ask(gateway, path, headers=headers)
    assert status == 426
    assert "POST" in said["error"]["message"]


def test_http2_without_tls_is_spoken(gateway: Running) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        client.settimeout(5)
        client.sendall(preface + settings)
        assert client.recv(9)[3] == 4  # the server's own SETTINGS frame


@pytest.mark.parametrize(
    "path,headers,body,key",
    [
        (
            "/v1/messages/count_tokens",
            {"anthropic-version": "x"},
            chat("echo", ("user", "Hi")),
            "input_tokens",
        ),
        (
            "/v1beta/models/echo:countTokens",
            {},
            {"contents": [{"parts": [{"text": "Hi"}]}]},
            "totalTokens",
        ),
    ],
)
def test_tokens_are_counted(
    gateway: Running, path: str, headers: dict[str, str], body: Any, key: str
) -> None:
    status, found, said = ask(gateway, path, body, headers)
    assert status == 200
    assert said[key] > 0
    assert found["x-cannery-estimated"] == "true"


def test_tokens_are_counted_by_an_upstream_that_can(gateway: Running) -> None:
    body = chat("anthropic-model", ("user", "Hi"))
    status, headers, said = ask(gateway, "/anthropic/v1/messages/count_tokens", body)
    assert (status, said) == (200, {"input_tokens": 42})
    assert "x-cannery-estimated" not in headers


def test_counting_tells_the_upstream_what_the_caller_told(
    gateway: Running, upstream: Upstream
) -> None:
    headers = {"anthropic-beta": "context-management-2025-06-27", "anthropic-version": "2026-10-21"}
    path = "/anthropic/v1/messages/count_tokens?beta=true"
    assert ask(gateway, path, chat("anthropic-model", ("user", "Hi")), headers)[0] == 200
    seen = upstream.seen[-1]
    assert seen.path == "/v1/messages/count_tokens?beta=true"
    assert headers.items() <= seen.headers.items()


@pytest.mark.parametrize("fault,status", [("429", 429), ("garbage", 502)])
def test_an_upstream_that_cannot_count_is_not_the_callers_fault(
    gateway: Running, fault: str, status: int
) -> None:
    contents = {"contents": [{"parts": [{"text": "Hi"}]}]}
    for path, body in (
        ("/anthropic/v1/messages/count_tokens", chat(f"anthropic-{fault}", ("user", "Hi"))),
        (f"/gemini/v1beta/models/gemini-{fault}:countTokens", contents),
    ):
        found, headers, said = ask(gateway, path, body)
        assert found == status
        assert said["error"]["message"]
        assert headers.get("retry-after") == ("7" if fault == "429" else None)


# --- roles ------------------------------------------------------------------------------------


def test_a_cline_request_with_capital_roles_works(gateway: Running, upstream: Upstream) -> None:
    before = gateway.metrics()
    body = chat("chat-model", ("System", "You are Cline"), (" User ", "Hello!"))
    status, _, said = ask(gateway, "/v1/chat/completions", body)
    assert (status, said["choices"][0]["message"]["content"]) == (200, "echo: Hello!")
    sent = upstream.seen[-1].json["messages"]
    assert [message["role"] for message in sent] == ["system", "user"]
    name = 'cannery_role_transformations_total{before="system",after="system"}'
    assert gateway.metrics()[name] == before.get(name, 0) + 1


@pytest.mark.parametrize(
    "path,body,where",
    [
        ("/v1/chat/completions", chat("echo", ("admin", "x")), "messages"),
        ("/v1/messages", {**chat("echo", ("admin", "x")), "max_tokens": 5}, "messages"),
        ("/v1/responses", {"model": "echo", "input": [{"role": "admin", "content": "x"}]}, "input"),
        (
            "/v1beta/models/echo:generateContent",
            {"contents": [{"role": "admin", "parts": [{"text": "x"}]}]},
            "contents",
        ),
    ],
)
def test_admin_is_400_with_the_seeds_text(
    gateway: Running, path: str, body: Any, where: str
) -> None:
    status, _, said = ask(gateway, path, body)
    assert status == 400
    assert said["error"]["message"] == SEED.replace("messages.", f"{where}.", 1)


def test_a_role_after_an_item_without_one_is_named_by_its_own_position(gateway: Running) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    body = {"model": "echo", "input": [call, {"role": "root", "content": "x"}]}
    status, _, said = ask(gateway, "/v1/responses", body)
    assert status == 400
    assert said["error"]["message"].startswith("input.1.role: Role must be one of")


def test_mappings_and_client_formats_come_from_the_configuration(tmp_path: Path) -> None:
    config = '[roles.mappings]\nnarrator = "system"\n[roles.clients.odd]\nme = "user"\n'
    running = Running(tmp_path, config, "--development", record=False)
    try:
        body = chat("echo", ("Narrator", "s"), ("me", "Hi"))
        path = "/v1/chat/completions"
        assert ask(running, path, body)[0] == 400
        assert ask(running, path, body, {"user-agent": "Odd/1.0"})[0] == 200
        assert ask(running, path, body, {"x-cannery-client": "odd"})[0] == 200
        running.wait_for_log('🔄 Role normalized: \\"Narrator\\" → \\"system\\"')
    finally:
        running.stop()


# --- losses -----------------------------------------------------------------------------------

LOSSY = {
    **chat("anthropic-model", ("user", "Hi")),
    "logit_bias": {"1": 2},
    "seed": 7,
    "presence_penalty": 0.5,
}


def test_losses_are_counted_in_a_header_and_a_metric(gateway: Running) -> None:
    status, headers, _ = ask(gateway, "/v1/chat/completions", LOSSY)
    assert status == 200
    count, _, codes = headers["x-cannery-losses"].partition("; codes=")
    assert int(count) >= 1
    metrics = gateway.metrics()
    for code in codes.split(","):
        assert metrics[f'cannery_losses_total{{code="{code}"}}'] >= 1


def test_strict_is_422_before_anything_is_sent(gateway: Running, upstream: Upstream) -> None:
    before = len(upstream.seen)
    headers = {"x-cannery-loss-policy": "strict"}
    status, _, said = ask(gateway, "/v1/chat/completions", LOSSY, headers)
    assert status == 422
    assert said["error"]["code"] == "translation_would_lose"
    assert len(upstream.seen) == before


FILE = {"type": "input_file", "file_id": "file-1"}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
ODD = {
    **LOSSY,
    "messages": [
        {"role": "System", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, AUDIO]},
    ],
}


def paths_of(losses: Any) -> set[tuple[str, str]]:
    return {(loss.code, loss.path) for loss in losses}


def test_a_strict_refusal_names_places_in_the_callers_body(gateway: Running) -> None:
    body = {"model": "anthropic-model", "messages": ODD["messages"]}
    headers = {"x-cannery-loss-policy": "strict"}
    status, found, said = ask(gateway, "/v1/chat/completions", body, headers)
    assert (status, found["x-cannery-losses"]) == (422, "1; codes=MEDIA_DROPPED")
    assert "messages[1].content[1]" in said["error"]["message"]
    assert "conversation[" not in said["error"]["message"]


def test_the_log_names_what_was_lost_where_the_caller_said_it(
    upstream: Upstream, tmp_path: Path
) -> None:
    running = Running(tmp_path, rows(upstream.url), "--log-level", "debug")
    expected: dict[str, set[tuple[str, str]]] = {}
    body = json.dumps(ODD).encode().replace(b"System", b"system")
    for model in ("anthropic-model", "gemini-model"):
        target = {"anthropic": "anthropic_messages", "gemini": "gemini_generate"}[
            model.split("-")[0]
        ]
        rendered = cannery.translate(body, source="openai_chat", target=target, model=model)
        expected[model] = paths_of(rendered.losses)
        ask(running, "/v1/chat/completions", {**ODD, "model": model}, {"x-request-id": model})
    # What the store gives back has no place in the body; what is new has.
    asked = {"role": "user", "content": [FILE, {"type": "input_text", "text": "Hi"}]}
    first = {"model": "chat-model", "input": [asked]}
    again = {**first, "model": "gemini-model", "store": True}
    _, _, said = ask(running, "/v1/responses", first)
    again["previous_response_id"] = said["id"]
    ask(running, "/v1/responses", again, {"x-request-id": "again"})
    assert running.stop() == 0
    logged: dict[str, set[tuple[str, str]]] = {}
    for line in map(json.loads, running.log.splitlines()):
        if line["event"] == "translation":
            logged[line["request_id"]] = {(loss["code"], loss["path"]) for loss in line["losses"]}
    for model, wanted in expected.items():
        assert logged[model] == wanted
    places = {path for code, path in logged["again"] if code == "REFERENCE_UNRESOLVABLE"}
    assert places == {"history[0]", "input[0].content[0]"}


def test_a_policy_that_does_not_exist_is_refused(gateway: Running) -> None:
    headers = {"x-cannery-loss-policy": "sometimes"}
    assert ask(gateway, "/v1/chat/completions", LOSSY, headers)[0] == 400


def test_without_losses_there_is_no_header(gateway: Running) -> None:
    _, headers, _ = ask(gateway, "/v1/chat/completions", chat("chat-model", ("user", "Hi")))
    assert "x-cannery-losses" not in headers


# --- safety -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys").write_text("# one a line\nsesame\nmellon\n")
    limits = "[limits]\nbody_bytes = 2000\nbody_seconds = 1.0\nheader_seconds = 1.0\nidle_seconds = 1.0\n"
    config = f'[keys]\nfile = "{folder / "keys"}"\n{limits}'
    running = Running(folder, config + rows(upstream.url), record=False)
    yield running
    running.stop()


@pytest.mark.parametrize(
    "headers",
    [{"authorization": "Bearer sesame"}, {"x-api-key": "mellon"}, {"x-goog-api-key": "sesame"}],
)
def test_a_key_is_taken_wherever_a_client_puts_it(
    guarded: Running, headers: dict[str, str]
) -> None:
    body = chat("chat-model", ("user", "Hi"))
    assert ask(guarded, "/v1/chat/completions", body, headers)[0] == 200


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer no"}, {"x-api-key": ""}])
def test_without_a_right_key_nothing_is_answered(guarded: Running, headers: dict[str, str]) -> None:
    body = chat("chat-model", ("user", "Hi"))
    assert ask(guarded, "/v1/chat/completions", body, headers)[0] == 401
    assert ask(guarded, "/v1/models", headers=headers)[0] == 401
    assert ask(guarded, "/healthz")[0] == 200


def test_the_callers_key_never_reaches_an_upstream_that_has_its_own(
    guarded: Running, upstream: Upstream
) -> None:
    body = chat("chat-model", ("user", "Hi"))
    ask(guarded, "/v1/chat/completions", body, {"authorization": "Bearer sesame"})
    assert upstream.seen[-1].headers["authorization"] == "Bearer secret-upstream-key"


def test_keys_and_content_are_not_logged(guarded: Running) -> None:
    body = chat("chat-model", ("user", "a very private matter"))
    ask(guarded, "/v1/chat/completions", body, {"authorization": "Bearer sesame"})
    bad = chat("chat-429", ("user", "a very private matter"))
    headers = {"authorization": "Bearer sesame", "x-request-id": "the-last"}
    ask(guarded, "/v1/chat/completions", bad, headers)
    guarded.wait_for_log("the-last")
    for secret in ("sesame", "mellon", "secret-upstream-key", "private matter"):
        assert secret not in guarded.log


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_that_is_too_large_is_413(guarded: Running, is_announced: bool) -> None:
    body = json.dumps(chat("chat-model", ("user", "x" * 4000))).encode()
    connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=10)
    headers = {"authorization": "Bearer sesame", "content-type": "application/json"}
    data: Any = body if is_announced else iter([body[:1000], body[1000:]])
    connection.request(
        "POST", "/v1/chat/completions", data, headers, encode_chunked=not is_announced
    )
    assert connection.getresponse().status == 413


def test_a_client_that_sends_too_slowly_is_told_so(guarded: Running) -> None:
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer sesame\r\n"
        "content-length: 500\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", guarded.port)) as client:
        client.settimeout(10)
        client.sendall(head.encode())
        assert client.recv(100).startswith(b"HTTP/1.1 408")
    with socket.create_connection(("127.0.0.1", guarded.port)) as client:
        client.settimeout(10)
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nho")
        assert client.recv(100) == b""


def test_a_public_address_needs_keys() -> None:
    with pytest.raises(ConfigurationError, match="keys"):
        check_exposure(load_settings(None, host="0.0.0.0"))  # noqa: S104 - the point of the test
    check_exposure(load_settings(None, host="127.0.0.1"))
    check_exposure(load_settings(None, host="::1"))


# --- configuration ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text,line,words",
    [
        ("[server]\nport = 'x'\n", 2, "port"),
        ("[server]\nhost = '127.0.0.1'\nprot = 1\n", 3, "prot"),
        (
            "[[upstreams]]\nname = 'a'\nurl = 'http://x'\n\n[[upstreams]]\nname = 'b'\nurl = 'ftp://x'\n",
            7,
            "http",
        ),
        (
            "[[upstreams]]\nname = 'a'\nurl = 'http://x'\ndialect = 'klingon'\n",
            4,
            "klingon",
        ),
        ("[[upstreams]]\nname = 'a'\nurl = 5\n", 3, "str"),
        (
            "[[upstreams]]\nname = 'a'\nurl = 'http://x'\n[upstreams.quirks]\nflies = true\n",
            4,
            "flies",
        ),
        ("[losses]\npolicy = 'never'\n", 2, "policy"),
        ("[limits]\nbody_bytes = -5\n", 2, "at least 1"),
        ("[limits]\n\nheader_seconds = 0.0\n", 3, "at least 0.1"),
        ("[limits]\nbody_seconds = nan\n", 2, "at least 0.1"),
        ("[recording]\nqueue = 0\n", 2, "at least 1"),
        ("[server]\ndrain_seconds = -1.0\n", 2, "at least 0"),
        ("[[upstreams]]\nname = 'a'\nurl = 'http://x:99999'\n", 3, "http"),
        ("[[upstreams]]\nname = 'a'\nurl = 'http:// x'\n", 3, "http"),
        (
            "[[upstreams]]\nname = 'a'\nurl = 'http://x'\ntimeouts = { connect = 0.0 }\n",
            4,
            "connect must be",
        ),
        (
            "[[upstreams]]\nname = 'a'\nurl = 'http://x'\nheaders = { a = \"b\\r\\nc: d\" }\n",
            4,
            "header",
        ),
        ("[roles.mappings]\nroot = 'system'\n", 2, "dangerous"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text, "gateway.toml")
    assert f"gateway.toml, line {line}" in str(caught.value)
    assert words in str(caught.value)


def test_what_is_not_toml_is_named_with_its_line() -> None:
    with pytest.raises(ConfigurationError, match="line 2"):
        parse_settings("[server]\nport = = 3\n")


def test_aliases_and_prefixes_lead_to_models(upstream: Upstream, tmp_path: Path) -> None:
    one = rows(upstream.url).split("[[upstreams]]")[1]
    config = f'[[upstreams]]{one}aliases = {{ fast = "chat-model" }}\n'
    running = Running(tmp_path, config, record=False)
    try:
        for name in ("fast", "chat/chat-model"):
            status, _, _ = ask(running, "/v1/chat/completions", chat(name, ("user", "Hi")))
            assert status == 200
            assert upstream.seen[-1].json["model"] == "chat-model"
        status, _, said = ask(running, "/v1/chat/completions", chat("nobody", ("user", "Hi")))
        assert (status, said["error"]["code"]) == (404, "model_not_found")
    finally:
        running.stop()


# --- operations -------------------------------------------------------------------------------


def test_health_readiness_documents_and_banner(gateway: Running) -> None:
    assert ask(gateway, "/healthz")[2] == {"status": "ok"}
    assert ask(gateway, "/readyz")[2]["status"] == "ready"
    document = ask(gateway, "/openapi.json")[2]
    assert document["openapi"].startswith("3.")
    assert "/v1/chat/completions" in document["paths"]
    assert "/anthropic/v1/messages" in document["paths"]
    assert document["paths"]["/openai/v1/conversations/{conversation}"]["delete"]
    status, headers, page = ask(gateway, "/docs")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"/v1/messages" in page
    assert "docs  " in gateway.whole_banner()
    for words in (
        "OPENAI_BASE_URL=",
        "ANTHROPIC_BASE_URL=",
        "GOOGLE_GEMINI_BASE_URL=",
        "Cline",
        "claude",
        "curl ",
    ):
        assert words in gateway.banner


def test_a_request_id_is_kept_or_made(gateway: Running) -> None:
    body = chat("echo", ("user", "Hi"))
    _, headers, _ = ask(gateway, "/v1/chat/completions", body, {"x-request-id": "mine-1"})
    assert headers["x-cannery-request-id"] == "mine-1"
    _, headers, _ = ask(gateway, "/v1/chat/completions", body)
    assert headers["x-cannery-request-id"].startswith("req_")
