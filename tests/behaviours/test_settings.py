"""Settings abroad: a choice among tools that could not be sent, and settings that only their dialect knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
FUNCTION_NAME = {"type": "function", "name": "f"}
SEARCH = {"type": "web_search"}
FILES = {"type": "file_search", "vector_store_ids": ["vs_1"]}
TARGETS = ("anthropic_messages", "gemini_generate", "openai_chat")


def translated(target: str, **settings: Any) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    body = {"model": "m", "input": "q", **settings}
    rendered = cannery.translate(body, source="openai_responses", target=target)
    return json.loads(rendered.body), {(loss.code, loss.path) for loss in rendered.losses}


@pytest.mark.parametrize("target", TARGETS)
def test_no_tool_may_be_demanded_when_none_could_be_sent(target: str):
    written, losses = translated(target, tools=[FILES], tool_choice="required")
    assert not written.keys() & {"tools", "tool_choice", "toolConfig"}
    assert ("CONTROL_DROPPED", "tool_choice") in losses


@pytest.mark.parametrize("target", TARGETS)
def test_a_chosen_tool_that_is_hosted_is_named_as_lost(target: str):
    written, losses = translated(target, tools=[FILES, FUNCTION], tool_choice=FILES)
    assert not written.keys() & {"tool_choice", "toolConfig"}
    assert ("CONTROL_DROPPED", "tool_choice") in losses


@pytest.mark.parametrize("source, key", [("anthropic_messages", "tool_choice")])
@pytest.mark.parametrize("target", ["gemini_generate", "openai_chat"])
def test_a_hosted_tool_is_not_chosen_as_a_function(source: str, key: str, target: str):
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "q"}],
        "tools": [
            {"type": "web_search_20250305", "name": "web_search"},
            {"name": "f", "input_schema": {"type": "object"}},
        ],
        key: {"type": "tool", "name": "web_search"},
    }
    rendered = cannery.translate(body, source=source, target=target)
    assert '"name":"web_search"' not in rendered.body.decode()
    assert ("CONTROL_DROPPED", key) in {(loss.code, loss.path) for loss in rendered.losses}


def test_calls_need_tools_before_they_can_be_kept_from_running_in_parallel():
    written, losses = translated("openai_chat", parallel_tool_calls=False)
    assert "parallel_tool_calls" not in written
    assert ("CONTROL_DROPPED", "parallel_tool_calls") in losses


def test_an_effort_that_chat_does_not_know_is_changed():
    written, losses = translated("openai_chat", reasoning={"effort": "colossal"})
    assert written["reasoning_effort"] == "medium"
    assert ("CONTROL_CHANGED", "reasoning.effort") in losses


@pytest.mark.parametrize("way", [{"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1500}])
@pytest.mark.parametrize(
    "target, model",
    [
        ("openai_chat", "gpt-5.5"),
        ("openai_responses", "gpt-5.5"),
        ("gemini_generate", "gemini-3-flash"),
        ("gemini_generate", "gemini-2.0-flash"),
    ],
)
def test_an_effort_beside_a_way_to_think_is_named_by_its_own_path(
    way: dict[str, Any], target: str, model: str
):
    body = {
        "model": "claude-opus-4-6",
        "max_tokens": 2000,
        "messages": [{"role": "user", "content": "q"}],
        "thinking": way,
        "output_config": {"effort": "colossal"},
    }
    losses = cannery.translate(body, source="anthropic_messages", target=target, model=model).losses
    assert "output_config.effort" in {loss.path for loss in losses}


@pytest.mark.parametrize("target", ["openai_chat", "anthropic_messages", "gemini_generate"])
@pytest.mark.parametrize(
    "reasoning, path",
    [
        ({"effort": 7}, "reasoning.effort"),
        ({"effort": "high", "summary": 7}, "reasoning.summary"),
        ({"summary": ["a"]}, "reasoning.summary"),
    ],
)
def test_reasoning_that_is_no_word_is_named(target: str, reasoning: dict[str, Any], path: str):
    body = {"model": "gpt-5.5", "input": "q", "reasoning": reasoning}
    rendered = cannery.translate(body, source="openai_responses", target=target)
    assert ("CONTROL_DROPPED", path) in {(loss.code, loss.path) for loss in rendered.losses}


def test_thinking_that_was_set_by_hand_is_named_by_its_part():
    controls = cannery.Controls(thinking=cannery.Thinking(effort="colossal", summary="auto"))
    request = cannery.Request([cannery.user("q")], model="gpt-5.5", controls=controls)
    losses = cannery.nativize_request(request, "openai_chat").losses
    assert [loss.path for loss in losses] == ["thinking.effort", "thinking.summary"]


@pytest.mark.parametrize("target", ["anthropic_messages", "gemini_generate", "openai_responses"])
def test_an_output_format_of_the_future_is_named_as_lost(target: str):
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "q"}],
        "response_format": {"type": "haiku", "lines": 3},
    }
    rendered = cannery.translate(body, source="openai_chat", target=target)
    assert ("CONTROL_DROPPED", "response_format") in {(x.code, x.path) for x in rendered.losses}


@pytest.mark.parametrize("broken", [b"\xd6", b"\xed\xa0\x80", rb"\ud800"])
def test_broken_text_in_a_schema_is_replaced(broken: bytes):
    schema = b'{"type":"object","description":"a%sb"}' % broken
    body = (
        b'{"model":"m","messages":[{"role":"user","content":"q"}],'
        b'"tools":[{"type":"function","function":{"name":"f","parameters":%s}}]}' % schema
    )
    request = cannery.normalize_request(body, "openai_chat")
    assert set(request.tools[0].parameters["description"][1:-1]) == {"\ufffd"}
    for target in TARGETS:
        rendered = cannery.translate(body, source="openai_chat", target=target)
        told = {repair.name for repair in rendered.repairs}
        assert ("broken_unicode" in told) is (target != "openai_chat" or broken == b"\xd6")


CUSTOM = {"type": "custom", "name": "k"}


def test_custom_tools_that_are_allowed_stay_custom():
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION_NAME, CUSTOM]}
    written, losses = translated("openai_chat", tools=[FUNCTION, CUSTOM], tool_choice=allowed)
    named = [
        {"type": "function", "function": {"name": "f"}},
        {"type": "custom", "custom": {"name": "k"}},
    ]
    assert written["tool_choice"]["allowed_tools"] == {"mode": "auto", "tools": named}
    assert losses == set()
    back = cannery.translate(written, source="openai_chat", target="openai_responses")
    assert json.loads(back.body)["tool_choice"] == allowed
    assert back.losses == ()


@pytest.mark.parametrize("choice", ["auto", "none"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_free_choice_without_tools_says_nothing(target: str, choice: str):
    written, losses = translated(target, tools=[], tool_choice=choice)
    assert not written.keys() & {"tools", "tool_choice", "toolConfig"}
    assert losses - {("CONTROL_DEFAULTED", "$")} == set()


@pytest.mark.parametrize("kind", ["between_tools", "of_the_future"])
@pytest.mark.parametrize("target", ["gemini_generate", "openai_chat", "openai_responses"])
def test_a_way_to_think_that_nobody_knows_is_named_beside_an_effort(target: str, kind: str):
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "q"}],
        "thinking": {"type": kind},
        "output_config": {"effort": "low"},
    }
    rendered = cannery.translate(body, source="anthropic_messages", target=target)
    assert ("CONTROL_DROPPED", "thinking") in {(x.code, x.path) for x in rendered.losses}


@pytest.mark.parametrize("beside", [{"includeThoughts": True}, {"thinkingBudget": 100}])
@pytest.mark.parametrize("target", ["anthropic_messages", "openai_chat", "openai_responses"])
def test_a_level_that_nobody_knows_is_named(target: str, beside: dict[str, Any]):
    config = {"thinkingConfig": {"thinkingLevel": "ULTRA", **beside}}
    body = {"contents": [{"parts": [{"text": "q"}]}], "generationConfig": config}
    rendered = cannery.translate(body, source="gemini_generate", target=target, model="m")
    place = "generationConfig.thinkingConfig.thinkingLevel"
    assert ("CONTROL_DROPPED", place) in {(x.code, x.path) for x in rendered.losses}


@pytest.mark.parametrize(
    "source, settings, path",
    [
        ("gemini_generate", {"generationConfig": {"speechConfig": {"a": 1}}}, "speechConfig"),
        ("gemini_generate", {"generationConfig": {"haiku": True}}, "haiku"),
        ("openai_responses", {"reasoning": {"mode": "pro"}}, "mode"),
    ],
)
def test_a_setting_within_settings_is_named_by_its_own_path(
    source: str, settings: dict[str, Any], path: str
):
    said = {"contents": [{"parts": [{"text": "q"}]}], "input": "q"}
    key = "contents" if source == "gemini_generate" else "input"
    body = {**({} if key == "contents" else {"model": "m"}), key: said[key], **settings}
    rendered = cannery.translate(body, source=source, target="openai_chat", model="m")
    place = f"{next(iter(settings))}.{path}"
    assert [(loss.code, loss.path) for loss in rendered.losses] == [("FIELD_DROPPED", place)]


@pytest.mark.parametrize("target", ["anthropic_messages", "gemini_generate", "openai_responses"])
def test_a_search_without_options_is_a_search(target: str):
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "q"}],
        "web_search_options": {},
    }
    rendered = cannery.translate(body, source="openai_chat", target=target)
    assert json.loads(rendered.body)["tools"]
    assert not {"lost", "blocked"} & {loss.severity for loss in rendered.losses}


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses"])
def test_hidden_thoughts_are_what_openai_does_anyway(target: str):
    body = {"contents": [{"parts": [{"text": "q"}]}]}
    config = {"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": False}}
    given = {**body, "generationConfig": config}
    rendered = cannery.translate(
        given, source="gemini_generate", target=target, model="m", policy="strict"
    )
    assert rendered.losses == ()


# --- requests made by hand ---------------------------------------------------------------------


def by_hand(target: str, **facts: Any) -> tuple[dict[str, Any], set[str]]:
    request = cannery.Request([cannery.user("q")], model="m", **facts)
    rendered = cannery.nativize_request(request, target)
    return json.loads(rendered.body), {loss.code for loss in rendered.losses}


def test_options_of_a_stream_need_a_stream():
    controls = cannery.Controls(include_usage=True)
    assert "stream_options" not in by_hand("openai_chat", controls=controls)[0]
    streamed = by_hand("openai_chat", controls=controls, stream=True)[0]
    assert streamed["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("budget, effort", [(0, "none"), (-1, None)])
def test_a_budget_of_nothing_is_no_thinking_and_a_negative_one_the_models_choice(
    budget: int, effort: str | None
):
    controls = cannery.Controls(thinking=cannery.Thinking(budget=budget))
    written, losses = by_hand("openai_chat", controls=controls)
    assert written.get("reasoning_effort") == effort
    assert losses == (set() if effort else {"CONTROL_DROPPED"})


def test_a_grammar_needs_a_custom_tool():
    tools = [cannery.Tool("f", grammar={"type": "text"})]
    function = {"type": "function", "function": {"name": "f"}}
    assert by_hand("openai_chat", tools=tools)[0]["tools"] == [function]


@pytest.mark.parametrize("target", ["gemini_generate", "openai_chat"])
def test_a_custom_tool_has_no_schema(target: str):
    tools = [cannery.Tool("f", schema={"type": "object", "title": "T"}, is_freeform=True)]
    assert "title" not in json.dumps(by_hand(target, tools=tools)[0])
