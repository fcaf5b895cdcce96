"""Clients with tools of their own dialect work on any upstream: offered as functions, called in their own shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import Running, rows
from tests.gateway.scripted import Scripted, send
from tests.oracles.sdk_streams import parse_stream

HEADERS = [("content-type", "application/json"), ("authorization", "Bearer any")]
TOOLS: list[dict[str, Any]] = [
    {"type": "shell"},
    {"type": "web_search"},
    {
        "type": "namespace",
        "name": "mcp__files",
        "description": "Files.",
        "tools": [
            {
                "type": "function",
                "name": "read",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
    },
]
CALLS = [("shell", {"commands": ["ls"]}), ("mcp__files__read", {})]


def chat_answer() -> dict[str, Any]:
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for number, (name, given) in enumerate(CALLS)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def chat_stream() -> str:
    frames = []
    for number, (name, given) in enumerate(CALLS):
        start = {"index": number, "id": f"call_{number}", "type": "function"}
        start["function"] = {"name": name, "arguments": ""}
        more = {"index": number, "function": {"arguments": json.dumps(given)}}
        frames += [{"tool_calls": [start]}, {"tool_calls": [more]}]
    said = [
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in [*((frame, None) for frame in frames), ({}, "tool_calls")]
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in said) + "data: [DONE]\n\n"


def check_output(output: list[dict[str, Any]]) -> None:
    shell, read = output
    assert (shell["type"], shell["action"]["commands"]) == ("shell_call", ["ls"])
    assert shell["call_id"] == "call_0"
    assert (read["type"], read["name"], read["namespace"]) == (
        "function_call",
        "read",
        "mcp__files",
    )


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_of_responses_on_an_upstream_of_chat(tmp_path: Path, is_streamed: bool) -> None:
    body = {"model": "chat-m", "tools": TOOLS, "stream": is_streamed, "store": False}
    question = {"role": "user", "content": "List my files."}
    with Scripted() as upstream:
        running = Running(tmp_path, rows(upstream.url))
        reply = {"stream": chat_stream()} if is_streamed else {"json": chat_answer()}
        upstream.reply = {"status": 200, **reply}
        data = json.dumps({**body, "input": [question]}).encode()
        status, _, said = send(running.url, "/v1/responses", HEADERS, data)
        assert status == 200, said
        if is_streamed:
            heard = parse_stream("openai_responses", [said])
            assert heard.problems == []
            output = heard.final["output"]
        else:
            output = json.loads(said)["output"]
        check_output(output)
        answered = [
            {
                "type": "shell_call_output",
                "call_id": "call_0",
                "output": [
                    {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
                ],
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "words"},
        ]
        data = json.dumps({**body, "input": [question, *output, *answered]}).encode()
        assert send(running.url, "/v1/responses", HEADERS, data)[0] == 200
        running.stop()
    first, second = map(json.loads, upstream.seen)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["shell", "mcp__files__read"]
    roles = [message["role"] for message in second["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    names = [call["function"]["name"] for call in second["messages"][1]["tool_calls"]]
    assert names == ["shell", "mcp__files__read"]
    assert "a.txt" in second["messages"][2]["content"]


class Listening(Scripted):
    """An upstream of Messages."""

    def answer(self, body: bytes) -> dict[str, Any]:
        told = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
        said = [{"type": "text", "text": "Hi."}]
        ended = {"stop_reason": "end_turn", "stop_sequence": None}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return {"status": 200, "json": {**told, "content": said, **ended, "usage": usage}}


def test_an_mcp_server_reaches_an_upstream_of_messages(tmp_path: Path) -> None:
    server = {
        "type": "mcp",
        "server_label": "wiki",
        "server_url": "https://mcp.example/sse",
        "require_approval": "never",
    }
    body = {"model": "anthropic-m", "tools": [server], "input": "q"}
    with Listening() as upstream:
        running = Running(tmp_path, rows(upstream.url))
        data = json.dumps(body).encode()
        status, _, said = send(running.url, "/v1/responses", HEADERS, data)
        running.stop()
    assert status == 200, said
    (asked,) = map(json.loads, upstream.seen)
    assert upstream.headers[0]["anthropic-beta"] == "mcp-client-2025-11-20"
    assert asked["mcp_servers"] == [
        {"type": "url", "name": "wiki", "url": "https://mcp.example/sse"}
    ]
    assert asked["tools"] == [{"type": "mcp_toolset", "mcp_server_name": "wiki"}]


def test_words_about_mcp_servers_ask_for_no_header(tmp_path: Path) -> None:
    """A question or a schema that names the field is no server."""
    parameters = {"type": "object", "properties": {"mcp_servers": {"type": "string"}}}
    tool = {"type": "function", "name": "configure", "parameters": parameters, "strict": False}
    body = {"model": "anthropic-m", "tools": [tool], "input": 'What is {"mcp_servers":[]}?'}
    with Listening() as upstream:
        running = Running(tmp_path, rows(upstream.url))
        data = json.dumps(body).encode()
        status, _, said = send(running.url, "/v1/responses", HEADERS, data)
        running.stop()
    assert status == 200, said
    assert b'"mcp_servers":' in upstream.seen[0]
    assert "anthropic-beta" not in upstream.headers[0]
