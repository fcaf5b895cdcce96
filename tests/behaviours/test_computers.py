"""Computers and browsers that the client runs: functions elsewhere, with their history, and mapped back."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.oracles.sdk_types import validate_request, validate_response

INTERACTIONS = "gemini_interactions"
Object = dict[str, Any]
PIXEL = "iVBORw0KGgo="
MODELS = {
    CHAT: "gpt-5",
    CLAUDE: "claude-opus-4-8",
    GEMINI: "gemini-3-pro-preview",
    INTERACTIONS: "gemini-3-pro-preview",
    RESPONSES: "gpt-5.5",
}
SHOT = {"type": "base64", "media_type": "image/png", "data": PIXEL}


def messages(toolset: str, *blocks: Object, **settings: Any) -> Object:
    asked: list[Object] = [{"role": "user", "content": "q"}]
    if blocks:
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block["id"],
                "content": [{"type": "image", "source": SHOT}],
            }
            for block in blocks
        ]
        asked += [{"role": "assistant", "content": [*blocks]}, {"role": "user", "content": results}]
    tool = {"type": f"{toolset}_toolset_20260801", **settings}
    return {"model": "claude-opus-4-8", "max_tokens": 99, "messages": asked, "tools": [tool]}


def used(name: str, toolset: str, **given: Any) -> Object:
    call = {"type": "tool_use", "id": f"toolu_{name}", "name": name, "toolset_name": toolset}
    return {**call, "input": given, "caller": {"type": "direct"}}


BODY = messages("computer", used("left_click", "computer", coordinate=[1, 2]))


def functions(body: Object, dialect: str) -> dict[str, Object]:
    tools = body["tools"]
    if dialect == GEMINI:
        listed = tools[0]["functionDeclarations"]
        return {tool["name"]: tool["parametersJsonSchema"] for tool in listed}
    if dialect == CHAT:
        tools = [tool["function"] for tool in tools]
    key = "input_schema" if dialect == CLAUDE else "parameters"
    return {tool["name"]: tool[key] for tool in tools}


@pytest.mark.parametrize("target", [CHAT, GEMINI, INTERACTIONS, RESPONSES])
def test_a_toolset_is_a_function_for_each_action(target: str):
    rendered = cannery.translate(BODY, source=CLAUDE, target=target, model=MODELS[target])
    written = json.loads(rendered.body)
    offered = functions(written, target)
    assert len(offered) == 17
    assert "computer__left_click" in offered
    for schema in offered.values():
        assert schema["type"] == "object"
    if target != INTERACTIONS:
        assert validate_request(target, written) == []
    assert b"computer__left_click" in rendered.body
    assert PIXEL.encode() in rendered.body
    assert [loss for loss in rendered.losses if loss.severity != "info"] == []


def test_what_a_toolset_switches_off_is_not_offered():
    body = messages("browser", configs={"javascript_exec": {"enabled": False}, "key": {}})
    written = json.loads(cannery.translate(body, source=CLAUDE, target=CHAT).body)
    offered = functions(written, CHAT)
    assert len(offered) == 30
    assert "browser__javascript_exec" not in offered
    assert "browser__key" in offered


def test_the_actions_are_those_of_the_sdk():
    computer = pytest.importorskip("anthropic.types.computer_member_name").ComputerMemberName
    browser = pytest.importorskip("anthropic.types.browser_member_name").BrowserMemberName
    for toolset, names in (("computer", computer), ("browser", browser)):
        written = json.loads(cannery.translate(messages(toolset), source=CLAUDE, target=CHAT).body)
        offered = functions(written, CHAT)
        assert {*offered} == {f"{toolset}__{name}" for name in names.__args__}
        for name in names.__args__:
            words = "".join(part.title() for part in (toolset, *name.split("_")))
            module = __import__(f"anthropic.types.{toolset}_{name}_input", fromlist=["x"])
            fields = getattr(module, f"{words}Input").model_fields
            schema = offered[f"{toolset}__{name}"]
            spelled = {field.alias or key: field for key, field in fields.items()}
            assert schema["properties"].keys() == spelled.keys()
            needed = {key for key, field in spelled.items() if field.is_required()}
            assert {*schema["required"]} == needed


def test_a_reply_comes_back_as_a_call_of_the_toolset():
    rendered = cannery.translate(BODY, source=CLAUDE, target=CHAT, model="gpt-5")
    call = {"name": "computer__type", "arguments": '{"text":"hi"}'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
    }
    reply = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
    }
    answered = cannery.nativize_response(
        cannery.normalize_response(reply, CHAT), CLAUDE, aliases=rendered.aliases
    )
    body = json.loads(answered.body)
    [block] = body["content"]
    assert (block["name"], block["toolset_name"]) == ("type", "computer")
    assert block["input"] == {"text": "hi"}
    assert validate_response(CLAUDE, body) == []


def test_the_same_dialect_keeps_a_toolset():
    assert json.loads(cannery.translate(BODY, source=CLAUDE, target=CLAUDE).body) == BODY


# --- Gemini --------------------------------------------------------------------------------------

CLICK = {"functionCall": {"name": "click_at", "args": {"x": 1, "y": 2}}}
SEEN = {
    "functionResponse": {
        "name": "click_at",
        "response": {"url": "https://a.example"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
    }
}


def gemini(**settings: Any) -> Object:
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [CLICK]},
            {"role": "user", "parts": [SEEN]},
        ],
        "tools": [{"computerUse": {"environment": "ENVIRONMENT_BROWSER", **settings}}],
    }


@pytest.mark.parametrize("target", [CHAT, CLAUDE, RESPONSES])
def test_the_actions_of_gemini_are_functions(target: str):
    body = gemini(excludedPredefinedFunctions=["drag_and_drop"])
    rendered = cannery.translate(body, source=GEMINI, target=target, model=MODELS[target])
    written = json.loads(rendered.body)
    offered = functions(written, target)
    assert len(offered) == 12
    assert {"click_at", "type_text_at"} <= offered.keys()
    assert "drag_and_drop" not in offered
    assert validate_request(target, written) == []
    assert PIXEL.encode() in rendered.body
    assert [loss for loss in rendered.losses if loss.severity != "info"] == []


def test_a_definition_of_the_clients_own_stands_for_an_action():
    own = {"name": "click_at", "description": "My own.", "parameters": {"type": "OBJECT"}}
    body = gemini()
    body["tools"].append({"functionDeclarations": [own]})
    rendered = cannery.translate(body, source=GEMINI, target=CHAT, model="gpt-5")
    tools = [tool["function"] for tool in json.loads(rendered.body)["tools"]]
    clicks = [tool["description"] for tool in tools if tool["name"] == "click_at"]
    assert clicks == ["My own."]


def test_an_environment_with_other_actions_is_named():
    body = gemini(environment="ENVIRONMENT_MOBILE")
    rendered = cannery.translate(body, source=GEMINI, target=CHAT, model="gpt-5")
    lost = [loss.path for loss in rendered.losses if loss.severity != "info"]
    assert lost == ["tools[0].computerUse.environment"]


def test_the_two_dialects_of_gemini_have_the_like():
    body = gemini(excludedPredefinedFunctions=["search"])
    rendered = cannery.translate(body, source=GEMINI, target=INTERACTIONS, model="gemini-3-pro")
    [tool] = json.loads(rendered.body)["tools"]
    assert tool == {
        "type": "computer_use",
        "environment": "browser",
        "excluded_predefined_functions": ["search"],
    }
    back = cannery.translate(rendered.body, source=INTERACTIONS, target=GEMINI)
    assert json.loads(back.body)["tools"] == body["tools"]


@pytest.mark.parametrize("target", [CHAT, INTERACTIONS])
def test_an_environment_that_is_not_specified_says_nothing(target: str):
    body = gemini(environment="ENVIRONMENT_UNSPECIFIED")
    rendered = cannery.translate(body, source=GEMINI, target=target, model="gemini-3-pro")
    assert "environment" not in json.loads(rendered.body)["tools"][0]
    assert [loss for loss in rendered.losses if loss.severity != "info"] == []
    assert validate_request(target, json.loads(rendered.body)) == []
