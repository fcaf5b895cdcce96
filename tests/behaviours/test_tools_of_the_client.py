"""Tools that a provider defines and the client runs: functions elsewhere, and calls in the client's own shape again."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages.events import fold, unfold
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sdk_types import validate_request, validate_response

Object = dict[str, Any]
MODELS = {CHAT: "gpt-5.5", CLAUDE: "claude-opus-4-8", GEMINI: "gemini-3-pro-preview"}
OTHERS = (CHAT, CLAUDE, GEMINI)

# Each tool of Responses with a call of it, the arguments that its function gets, its output, and what that says.
TOOLS: dict[str, tuple[Object, Object, Object, Object, str]] = {
    "shell": (
        {"type": "shell"},
        {
            "type": "shell_call",
            "action": {"commands": ["ls"], "timeout_ms": 9, "max_output_length": 99},
        },
        {"commands": ["ls"], "timeout_ms": 9, "max_output_length": 99},
        {
            "type": "shell_call_output",
            "output": [
                {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
            ],
        },
        "a.txt",
    ),
    "local_shell": (
        {"type": "local_shell"},
        {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"command": ["ls"], "env": {}},
        {"type": "local_shell_call_output", "output": "a.txt"},
        "a.txt",
    ),
    "apply_patch": (
        {"type": "apply_patch"},
        {
            "type": "apply_patch_call",
            "operation": {"type": "create_file", "path": "a.txt", "diff": "+a"},
        },
        {"type": "create_file", "path": "a.txt", "diff": "+a"},
        {"type": "apply_patch_call_output", "output": "created", "status": "completed"},
        "created",
    ),
    "computer": (
        {"type": "computer"},
        {
            "type": "computer_call",
            "actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}],
            "pending_safety_checks": [],
        },
        {"actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}]},
        {
            "type": "computer_call_output",
            "output": {
                "type": "computer_screenshot",
                "image_url": "data:image/png;base64,iVBORw0K",
            },
        },
        "iVBORw0K",
    ),
    "tool_search": (
        {
            "type": "tool_search",
            "execution": "client",
            "description": "Find tools.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
        {"type": "tool_search_call", "execution": "client", "arguments": {"q": "weather"}},
        {"q": "weather"},
        {
            "type": "tool_search_output",
            "execution": "client",
            "status": "completed",
            "tools": [
                {
                    "type": "function",
                    "name": "weather",
                    "parameters": {"type": "object", "properties": {}},
                    "strict": False,
                }
            ],
        },
        "weather",
    ),
}


def asked(tool: Object, *items: Object) -> Object:
    question = {"role": "user", "content": "Go on."}
    return {"model": "gpt-5.5", "tools": [tool], "input": [question, *items]}


def functions(target: str, body: Object) -> dict[str, Any]:
    """The functions that a body offers, with their parameters."""
    if target == GEMINI:
        listed = [each for group in body["tools"] for each in group.get("functionDeclarations", ())]
        return {each["name"]: each["parametersJsonSchema"] for each in listed}
    if target == CHAT:
        return {each["function"]["name"]: each["function"]["parameters"] for each in body["tools"]}
    return {each["name"]: each["input_schema"] for each in body["tools"]}


def calling(dialect: str, name: str, arguments: Object) -> Object:
    """An answer that calls a function."""
    text = json.dumps(arguments)
    if dialect == CHAT:
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
        message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
        choice = {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": message}
        envelope = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.5"}
        return {**envelope, "choices": [choice]}
    if dialect == CLAUDE:
        block = {"type": "tool_use", "id": "call_1", "name": name, "input": arguments}
        return {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [block],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    part = {"functionCall": {"id": "call_1", "name": name, "args": arguments}}
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "responseId": "r"}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("target", OTHERS)
def test_a_tool_is_a_function_and_its_history_stays(name: str, target: str):
    tool, call, arguments, output, words = TOOLS[name]
    pair = [
        {"id": "x_1", "call_id": "call_1", "status": "completed", **call},
        {"id": "call_1", "call_id": "call_1", **output},
    ]
    if name == "local_shell":
        del pair[1]["call_id"]
    body = asked(tool, *pair)
    rendered = cannery.translate(body, source=RESPONSES, target=target, model=MODELS[target])
    written = json.loads(rendered.body)
    assert validate_request(target, written) == []
    offered = functions(target, written)
    assert name in offered
    assert offered[name]["type"] == "object"
    request = cannery.normalize_request(written, target)
    (made,) = [one for one in request.conversation if one.role.value == "invocation"]
    (told,) = [one for one in request.conversation if one.role.value == "result"]
    assert (made.name, json.loads(made.held)) == (name, arguments)
    assert words in rendered.body.decode()
    assert told.invocation_id == made.identifier
    assert not {"lost", "blocked"} & {loss.severity for loss in rendered.losses}
    if name == "tool_search":
        assert "weather" in offered


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("upstream", OTHERS)
def test_a_reply_calls_the_tool_in_its_own_shape(name: str, upstream: str):
    tool, call, arguments, _, _ = TOOLS[name]
    sent = cannery.translate(asked(tool), source=RESPONSES, target=upstream, model=MODELS[upstream])
    answer = calling(upstream, name, arguments)
    response = cannery.normalize_response(answer, upstream)
    rendered = cannery.nativize_response(response, RESPONSES, aliases=sent.aliases)
    written = json.loads(rendered.body)
    assert validate_response(RESPONSES, written) == []
    (item,) = written["output"]
    assert item["call_id"] == "call_1"
    assert {**item, **call} == item
    options = cannery.StreamOptions(aliases=sent.aliases)
    streamed = [*cannery.nativize_stream(unfold(response), upstream)]
    chunks = [
        *cannery.translate_stream(streamed, source=upstream, target=RESPONSES, options=options)
    ]
    heard = parse_stream(RESPONSES, chunks)
    assert heard.problems == []
    (last,) = heard.final["output"]
    assert {**last, **call} == last


CLAUDE_TOOLS = {
    "bash": {"type": "bash_20250124", "name": "bash"},
    "str_replace_based_edit_tool": {
        "type": "text_editor_20250728",
        "name": "str_replace_based_edit_tool",
    },
    "memory": {"type": "memory_20250818", "name": "memory"},
    "computer": {
        "type": "computer_20250124",
        "name": "computer",
        "display_width_px": 800,
        "display_height_px": 600,
    },
}


@pytest.mark.parametrize("name", CLAUDE_TOOLS)
@pytest.mark.parametrize("target", [CHAT, GEMINI, RESPONSES])
def test_tools_of_messages_are_functions(name: str, target: str):
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 64,
        "tools": [CLAUDE_TOOLS[name]],
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
    }
    rendered = cannery.translate(body, source=CLAUDE, target=target, model="m")
    written = json.loads(rendered.body)
    assert validate_request(target, written) == []
    request = cannery.normalize_request(written, target)
    (tool,) = request.tools
    assert (tool.name, tool.parameters["type"]) == (name, "object")
    assert [one.role.value for one in request.conversation][-2:] == ["invocation", "result"]
    assert not {"lost", "blocked"} & {loss.severity for loss in rendered.losses}
    if name == "computer":
        assert "800 x 600" in rendered.body.decode()


# --- groups of functions -------------------------------------------------------------------------

PARAMETERS = {"type": "object", "properties": {}}
GROUP = {
    "type": "namespace",
    "name": "mcp__files",
    "description": "Files.",
    "tools": [
        {"type": "function", "name": "read", "parameters": PARAMETERS, "strict": False},
        {"type": "custom", "name": "write", "description": "Write."},
    ],
}
CALLED = {
    "type": "function_call",
    "call_id": "call_0",
    "name": "read",
    "namespace": "mcp__files",
    "arguments": "{}",
}
HEARD = {"type": "function_call_output", "call_id": "call_0", "output": "words"}


@pytest.mark.parametrize("upstream", OTHERS)
def test_functions_of_a_group_have_names_that_say_both(upstream: str):
    body = asked(GROUP, CALLED, HEARD)
    sent = cannery.translate(body, source=RESPONSES, target=upstream, model=MODELS[upstream])
    written = json.loads(sent.body)
    assert validate_request(upstream, written) == []
    names = [tool.name for tool in cannery.normalize_request(written, upstream).tools]
    assert names == ["mcp__files__read", "mcp__files__write"]
    request = cannery.normalize_request(written, upstream)
    calls = [one.name for one in request.conversation if one.role.value == "invocation"]
    assert calls == ["mcp__files__read"]
    response = cannery.normalize_response(calling(upstream, "mcp__files__read", {}), upstream)
    rendered = cannery.nativize_response(response, RESPONSES, aliases=sent.aliases)
    (item,) = json.loads(rendered.body)["output"]
    assert (item["type"], item["name"]) == ("function_call", "read")
    assert item["namespace"] == "mcp__files"
    assert validate_response(RESPONSES, json.loads(rendered.body)) == []
    options = cannery.StreamOptions(aliases=sent.aliases)
    streamed = [*cannery.nativize_stream(unfold(response), upstream)]
    chunks = [
        *cannery.translate_stream(streamed, source=upstream, target=RESPONSES, options=options)
    ]
    heard = parse_stream(RESPONSES, chunks)
    assert heard.problems == []
    (last,) = heard.final["output"]
    assert (last["name"], last["namespace"]) == ("read", "mcp__files")


@pytest.mark.parametrize("upstream", [CLAUDE, GEMINI])
def test_a_custom_tool_of_a_group_gets_its_free_text_back(upstream: str):
    sent = cannery.translate(asked(GROUP), source=RESPONSES, target=upstream)
    answer = calling(upstream, "mcp__files__write", {"input": "free"})
    response = cannery.normalize_response(answer, upstream)
    rendered = cannery.nativize_response(response, RESPONSES, aliases=sent.aliases)
    (item,) = json.loads(rendered.body)["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "write", "free")
    assert item["namespace"] == "mcp__files"


@pytest.mark.parametrize("target", OTHERS)
def test_tools_that_an_item_adds_are_offered(target: str):
    added = {
        "type": "additional_tools",
        "role": "developer",
        "tools": [GROUP["tools"][0], {"type": "web_search"}, {"type": "file_search"}],  # type: ignore[index]
    }
    body = {
        "model": "gpt-5.5",
        "input": [{"role": "user", "content": "q"}, added, {"role": "user", "content": "r"}],
    }
    rendered = cannery.translate(body, source=RESPONSES, target=target, model=MODELS[target])
    assert "read" in [tool.name for tool in cannery.normalize_request(rendered.body, target).tools]
    losses = {(loss.code, loss.path) for loss in rendered.losses}
    assert ("TOOLS_MOVED", "input[1]") in losses
    assert ("TOOL_DROPPED", "input[1].tools[2]") in losses
    again = cannery.translate(body, source=RESPONSES, target=RESPONSES)
    assert json.loads(again.body) == body


def test_a_name_that_is_taken_is_not_given_twice():
    taken = {"type": "function", "name": "shell", "parameters": PARAMETERS, "strict": False}
    body = {"model": "m", "input": "q", "tools": [taken, {"type": "shell"}]}
    sent = cannery.translate(body, source=RESPONSES, target=CHAT)
    assert [*functions(CHAT, json.loads(sent.body))] == ["shell", "shell_2"]
    for name, kind in (("shell", "function_call"), ("shell_2", "shell_call")):
        answer = calling(CHAT, name, {"commands": ["ls"]})
        response = cannery.normalize_response(answer, CHAT)
        rendered = cannery.nativize_response(response, RESPONSES, aliases=sent.aliases)
        assert json.loads(rendered.body)["output"][0]["type"] == kind


def test_a_call_in_an_answer_waits_for_the_client():
    call = {"id": "x", "call_id": "call_1", "status": "completed", **TOOLS["shell"][1]}
    body = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [call],
    }
    rendered = cannery.translate(body, source=RESPONSES, target=CHAT, kind="response")
    assert json.loads(rendered.body)["choices"][0]["finish_reason"] == "tool_calls"
    response = cannery.normalize_response(body, RESPONSES)
    streamed = [*cannery.nativize_stream(unfold(response), RESPONSES)]
    chunks = cannery.translate_stream(streamed, source=RESPONSES, target=CHAT)
    assert fold(cannery.normalize_stream(chunks, CHAT)).finish is cannery.FinishReason.Tool


def test_a_shell_in_a_container_is_no_work_for_the_client():
    tool = {"type": "shell", "environment": {"type": "container_auto"}}
    place = {"type": "container_reference", "container_id": "cntr_1"}
    call = {"id": "x", "call_id": "call_1", "environment": place, **TOOLS["shell"][1]}
    output = {"call_id": "call_1", **TOOLS["shell"][3]}
    rendered = cannery.translate(asked(tool, call, output), source=RESPONSES, target=CLAUDE)
    written = json.loads(rendered.body)
    assert written["tools"][0]["type"].startswith("code_execution")
    tags = [
        block["type"]
        for message in written["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    assert tags == ["server_tool_use", "bash_code_execution_tool_result"]
