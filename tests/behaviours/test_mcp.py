"""MCP servers in every direction: headers, tokens, allowed tools, approval; no secret in what is reported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.oracles.sdk_types import validate_request

INTERACTIONS = "gemini_interactions"
Object = dict[str, Any]
URL = "https://mcp.example/sse"
MODELS = {
    CHAT: "gpt-5",
    CLAUDE: "claude-opus-4-8",
    GEMINI: "gemini-3-pro-preview",
    INTERACTIONS: "gemini-3-pro-preview",
    RESPONSES: "gpt-5.5",
}
SECRET = "s3cr3t"


def responses(*items: Object, **settings: Any) -> Object:
    server = {"type": "mcp", "server_label": "wiki", "server_url": URL, **settings}
    asked = {"role": "user", "content": "q"}
    return {"model": MODELS[RESPONSES], "input": [asked, *items], "tools": [server]}


def messages(**settings: Any) -> Object:
    return {
        "model": MODELS[CLAUDE],
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "q"}],
        "mcp_servers": [{"type": "url", "name": "wiki", "url": URL, **settings}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "wiki"}],
    }


def gemini(headers: Object) -> Object:
    transport = {"url": URL, "headers": headers}
    return {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "tools": [{"mcpServers": [{"name": "wiki", "streamableHttpTransport": transport}]}],
    }


def interactions(headers: Object, **settings: Any) -> Object:
    server = {"type": "mcp_server", "name": "wiki", "url": URL, "headers": headers, **settings}
    return {"model": MODELS[INTERACTIONS], "input": "q", "tools": [server]}


def sent(body: Object, target: str) -> Object:
    """The server as the target is told of it."""
    if target == CLAUDE:
        return body["mcp_servers"][0]  # type: ignore[no-any-return]
    tool = body["tools"][0]
    return tool["mcpServers"][0] if target == GEMINI else tool  # type: ignore[no-any-return]


def translated(body: Object, source: str, target: str) -> tuple[Object, list[tuple[str, str, str]]]:
    rendered = cannery.translate(body, source=source, target=target, model=MODELS[target])
    written = json.loads(rendered.body)
    if target != INTERACTIONS:
        assert validate_request(target, written) == []
    told = [(loss.code, loss.path, loss.detail) for loss in rendered.losses]
    return written, told


BEARER = {"Authorization": f"Bearer {SECRET}"}
SOURCES = {
    RESPONSES: responses(authorization=SECRET, require_approval="never"),
    "headers of Responses": responses(headers=BEARER, require_approval="never"),
    CLAUDE: messages(authorization_token=SECRET),
    GEMINI: gemini(BEARER),
    "lower case": gemini({"authorization": f"Bearer {SECRET}"}),
    INTERACTIONS: interactions(BEARER),
}
WHERE = {"headers of Responses": RESPONSES, "lower case": GEMINI}
TOKENS: dict[str, Any] = {
    RESPONSES: lambda server: server["authorization"],
    CLAUDE: lambda server: server["authorization_token"],
    GEMINI: lambda server: server["streamableHttpTransport"]["headers"]["Authorization"],
    INTERACTIONS: lambda server: server["headers"]["Authorization"],
}


@pytest.mark.parametrize("target", TOKENS)
@pytest.mark.parametrize("name", SOURCES)
def test_a_token_reaches_the_server_in_every_direction(name: str, target: str):
    source = WHERE.get(name, name)
    if source == target:
        return
    written, told = translated(SOURCES[name], source, target)
    token = TOKENS[target](sent(written, target))
    assert token == (SECRET if target in (RESPONSES, CLAUDE) else f"Bearer {SECRET}")
    assert [code for code, _, _ in told if code == "FIELD_DROPPED"] == []


def test_other_headers_go_where_there_is_room_for_them():
    body = responses(headers={**BEARER, "X-Team": "a"}, require_approval="never")
    written, told = translated(body, RESPONSES, INTERACTIONS)
    assert sent(written, INTERACTIONS)["headers"] == {**BEARER, "X-Team": "a"}
    written, told = translated(body, RESPONSES, CLAUDE)
    assert sent(written, CLAUDE) == {
        "type": "url", "name": "wiki", "url": URL, "authorization_token": SECRET,
    }  # fmt: skip
    assert ("FIELD_DROPPED", "tools[0].headers") in [each[:2] for each in told]
    written, _ = translated(interactions({"X-Team": "a"}), INTERACTIONS, RESPONSES)
    assert sent(written, RESPONSES)["headers"] == {"X-Team": "a"}


@pytest.mark.parametrize("allowed", [["ask"], {"tool_names": ["ask"], "read_only": True}])
def test_only_the_allowed_tools_are_offered(allowed: Any):
    body = responses(allowed_tools=allowed, require_approval="never")
    written, told = translated(body, RESPONSES, CLAUDE)
    assert written["tools"][0]["configs"] == {"ask": {"enabled": True}}
    lost = [path for code, path, _ in told if code == "FIELD_DROPPED"]
    assert lost == (["tools[0].allowed_tools.read_only"] if type(allowed) is dict else [])
    _, told = translated(body, RESPONSES, GEMINI)
    assert "tools[0].allowed_tools" in [path for _, path, _ in told]


@pytest.mark.parametrize(
    "approval, path",
    [
        ({"require_approval": "never"}, None),
        ({"require_approval": "always"}, "tools[0].require_approval"),
        ({"require_approval": {"never": {"tool_names": ["a"]}}}, "tools[0].require_approval"),
        # Nothing said is a yes here, and no other server asks.
        ({}, "tools[0]"),
    ],
)
@pytest.mark.parametrize("target", [CLAUDE, GEMINI, INTERACTIONS])
def test_approval_that_no_other_server_asks_for_is_named(
    approval: Object, path: str | None, target: str
):
    _, told = translated(responses(**approval), RESPONSES, target)
    assert [path for code, path, _ in told if code == "FIELD_DROPPED"] == [path] * bool(path)


QUESTION = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "wiki",
    "name": "ask",
    "arguments": '{"q":"x"}',
}
CALL = {**QUESTION, "type": "mcp_call", "id": "mcp_1", "approval_request_id": "mcpr_1"}
LISTING = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "wiki", "tools": []}


def consent(*, is_granted: bool, reason: str | None = None) -> Object:
    said = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}
    return {**said, "approve": is_granted, **({} if reason is None else {"reason": reason})}


def test_a_consent_needs_no_words_where_none_is_asked_for():
    items = (LISTING, QUESTION, consent(is_granted=True), {**CALL, "output": "42"})
    body = responses(*items, require_approval="never")
    written, told = translated(body, RESPONSES, CLAUDE)
    blocks = [block["type"] for block in written["messages"][1]["content"]]
    assert blocks == ["mcp_tool_use", "mcp_tool_result"]
    implied = [path for code, path, _ in told if code == "HOSTED_IMPLIED"]
    assert implied == ["input[1]", "input[2]", "input[3]"]
    assert all(code != "OPAQUE_DROPPED" for code, _, _ in told)
    assert json.loads(cannery.translate(body, source=RESPONSES, target=RESPONSES).body) == body


def test_a_refusal_is_what_came_of_the_call():
    items = (QUESTION, consent(is_granted=False, reason="too dear"))
    written, _ = translated(responses(*items, require_approval="never"), RESPONSES, CLAUDE)
    [asked, answered] = written["messages"][1]["content"]
    assert asked["name"] == "ask"
    assert answered["is_error"] is True
    assert answered["content"][0]["text"] == "the user refused: too dear"
    rendered = cannery.translate(
        responses(*items), source=RESPONSES, target=CHAT, hosted="text", model="gpt-5"
    )
    assert b"the user refused: too dear" in rendered.body


@given(
    st.text("abcdef0123456789", min_size=12, max_size=20),
    st.sampled_from(list(MODELS)),
    st.sampled_from(["native", "text"]),
    st.integers(0, 5),
)
def test_no_secret_is_told(secret: str, target: str, way: str, case: int):
    headers = {"Authorization": f"Bearer {secret}", "X-Key": secret, "Cookie": [secret]}
    server = responses(authorization=secret, headers=headers)["tools"][0]
    group = {"type": "namespace", "name": "n", "tools": [server, {"type": "web_search"}]}
    asked: list[tuple[str, Object]] = [
        (RESPONSES, responses(authorization=secret, headers=headers)),
        (RESPONSES, responses(authorization={"new": secret}, server_url=None)),
        (RESPONSES, {"model": "m", "input": "q", "tools": [group]}),
        (CLAUDE, messages(authorization_token=secret, headers=headers)),
        (GEMINI, gemini(headers)),
        (INTERACTIONS, interactions(headers, token=secret)),
    ]
    source, body = asked[case]
    rendered = cannery.translate(
        body, source=source, target=target, model=MODELS[target], hosted=way, policy="allow"
    )
    assert secret not in repr((rendered.losses, rendered.repairs, rendered.headers))


TARGETS = [name for name in MODELS if name != RESPONSES]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", ["native", "text"])
def test_the_tools_that_a_server_listed_in_an_answer_are_a_note_or_text(target: str, way: str):
    listing = {**LISTING, "tools": [{"name": "ask"}, {"name": "tell"}]}
    text = {"type": "output_text", "text": "So.", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    answer = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5"}
    body = json.dumps(answer | {"output": [listing, {**said, "content": [text]}]}).encode()
    rendered = cannery.translate(body, source=RESPONSES, target=target, kind="response", hosted=way)
    told = {(loss.code, loss.path) for loss in rendered.losses if loss.path.startswith("output")}
    code = "HOSTED_TO_TEXT" if way == "text" else "HOSTED_IMPLIED"
    assert told == {(code, "output[0]")}
    assert (b"[tools of wiki: ask, tell]" in rendered.body) is (way == "text")
