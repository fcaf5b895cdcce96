"""Settings that a model of the target refuses, or that two settings of the source say in two ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    RESPONSES,
    assistant,
    call,
    calls,
    tool,
    user,
)
from tests.oracles.server_rules import check_request_rules

SAMPLING = {"temperature": 0.2, "top_p": 0.9}
CLAUDE_BODY = {"model": "claude-opus-4-5", "max_tokens": 9000, "messages": [user("q")]}


def rendered(
    body: dict[str, Any], source: str, target: str, model: str | None = None
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What was written and lost."""
    found = cannery.translate(body, source=source, target=target, model=model)
    written = json.loads(found.body)
    assert check_request_rules(target, written) == []
    return written, [(loss.code, loss.path) for loss in found.losses]


def from_chat(target: str, model: str, **settings: Any) -> Any:
    return rendered({"model": "m", "messages": [user("q")], **settings}, CHAT, target, model)


# --- sampling for Claude -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-4-1",
        "claude-opus-4-1-20250805",
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-haiku-4-5",
        "claude-opus-4.5",
        "claude-sonnet-4-6",
    ],
)
def test_claude_gets_temperature_or_top_p_where_it_refuses_both(model: str):
    written, losses = from_chat(CLAUDE, model, max_tokens=9, **SAMPLING)
    assert (written["temperature"], "top_p" in written) == (0.2, False)
    assert losses == [("CONTROL_DROPPED", "top_p")]
    for name, value in SAMPLING.items():
        written, losses = from_chat(CLAUDE, model, max_tokens=9, **{name: value})
        assert (written[name], losses) == (value, [])


@pytest.mark.parametrize(
    "model", ["claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5", "claude-fable-5"]
)
def test_claude_gets_no_sampling_where_it_refuses_any(model: str):
    written, losses = from_chat(CLAUDE, model, max_tokens=9, **SAMPLING)
    assert not written.keys() & SAMPLING.keys()
    assert losses == [("CONTROL_DROPPED", "temperature"), ("CONTROL_DROPPED", "top_p")]
    body = {"contents": [{"parts": [{"text": "q"}]}], "generationConfig": {"topK": 4}}
    written, losses = rendered(body, GEMINI, CLAUDE, model)
    assert "top_k" not in written
    assert ("CONTROL_DROPPED", "generationConfig.topK") in losses


@pytest.mark.parametrize(
    "model", ["claude-3-7-sonnet-latest", "claude-opus-4-20250514", "claude-sonnet-4-0", "llama-4"]
)
def test_other_models_keep_their_sampling(model: str):
    written, losses = from_chat(CLAUDE, model, max_tokens=9, **SAMPLING)
    assert (written["temperature"], written["top_p"], losses) == (0.2, 0.9, [])


def test_a_conversation_made_by_hand_obeys_the_model_too():
    controls = cannery.Controls(max_tokens=9, temperature=0.2, top_p=0.9)
    conversation = cannery.Conversation([cannery.user("q")])
    for model, kept in (("claude-sonnet-4-5", {"temperature"}), ("claude-opus-5", set())):
        request = cannery.Request(conversation, model, controls=controls)
        for _ in range(3):
            found = cannery.nativize_request(request, CLAUDE)
            assert json.loads(found.body).keys() & SAMPLING.keys() == kept
            assert len(found.losses) == 2 - len(kept)


def test_at_home_sampling_is_nobody_elses_business():
    body = {**CLAUDE_BODY, "model": "claude-opus-4-7", **SAMPLING}
    found = cannery.translate(body, source=CLAUDE, target=CLAUDE)
    assert (json.loads(found.body), found.losses) == (body, ())


# --- thinking for Claude -----------------------------------------------------------------------

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


@pytest.mark.parametrize("limit", [None, 1536, 2000, 3000, 9000, 64_000])
def test_an_effort_leaves_room_for_the_answer(limit: int | None):
    given = {} if limit is None else {"max_completion_tokens": limit}
    budgets = []
    for effort in EFFORTS:
        written, losses = from_chat(CLAUDE, "claude-sonnet-4-5", reasoning_effort=effort, **given)
        budget = written["thinking"]["budget_tokens"]
        left = written["max_tokens"] - budget
        assert budget >= 1024
        assert left == 4096 if limit is None else left >= min(limit // 2, limit - 1024)
        assert losses.count(("CONTROL_CHANGED", "reasoning_effort")) == 1
        budgets.append(budget)
    assert budgets == sorted(budgets)
    assert limit is not None or len({*budgets}) == 5
    assert written["max_tokens"] <= 32_000 or limit == written["max_tokens"]


@pytest.mark.parametrize("limit", [1, 1024, 1025, 1535])
def test_an_effort_gives_way_where_the_limit_leaves_no_room(limit: int):
    written, losses = from_chat(
        CLAUDE, "claude-sonnet-4-5", reasoning_effort="low", max_completion_tokens=limit
    )
    assert "thinking" not in written
    assert losses == [("CONTROL_DROPPED", "reasoning_effort")]


def from_budget(model: str, budget: int, limit: int | None) -> Any:
    config: dict[str, Any] = {"thinkingConfig": {"thinkingBudget": budget}}
    if limit is not None:
        config["maxOutputTokens"] = limit
    body = {"contents": [{"parts": [{"text": "q"}]}], "generationConfig": config}
    return rendered(body, GEMINI, CLAUDE, model)


@pytest.mark.parametrize(
    "budget, limit, expected, is_told",
    [
        (1800, 2000, 1800, False),
        (1024, 1025, 1024, False),
        (300, 2000, 1024, True),
        (300, 1100, None, True),
        (4000, 3000, 1500, True),
        (2000, 2000, 1024, True),
        (1400, 1400, None, True),
        (100_000, None, 100_000, False),
    ],
)
def test_a_given_budget_is_kept_where_it_can_be(
    budget: int, limit: int | None, expected: int | None, is_told: bool
):
    written, losses = from_budget("claude-sonnet-4-5", budget, limit)
    assert written.get("thinking", {}).get("budget_tokens") == expected
    config = "generationConfig.thinkingConfig"
    kept = ("CONTROL_CHANGED", f"{config}.thinkingBudget")
    assert ((("CONTROL_DROPPED", config) if expected is None else kept) in losses) == is_told


def test_a_model_that_thinks_adaptively_gets_an_effort_for_a_budget():
    written, losses = from_budget("claude-opus-4-7", 8000, 9000)
    assert written["thinking"] == {"type": "adaptive"}
    assert written["output_config"] == {"effort": "medium"}
    assert losses == [("CONTROL_CHANGED", "generationConfig.thinkingConfig.thinkingBudget")]


def test_claude_before_thinking_gets_none():
    written, losses = from_chat(
        CLAUDE, "claude-3-5-sonnet-20241022", max_tokens=9000, reasoning_effort="low"
    )
    assert "thinking" not in written
    assert losses == [("CONTROL_DROPPED", "reasoning_effort")]
    _, losses = from_chat(CLAUDE, "claude-3-5-haiku-latest", max_tokens=9, reasoning_effort="none")
    assert losses == []


# --- two settings that say how much is thought -------------------------------------------------


@pytest.mark.parametrize("target", [CHAT, RESPONSES, GEMINI])
def test_a_budget_beside_an_effort_is_not_lost_in_silence(target: str):
    thinking = {"type": "enabled", "budget_tokens": 4321}
    body = {**CLAUDE_BODY, "thinking": thinking, "output_config": {"effort": "low"}}
    _, losses = rendered(body, CLAUDE, target)
    left_out = "output_config.effort" if target == GEMINI else "thinking.budget_tokens"
    assert losses == [("CONTROL_DROPPED", left_out)]


@pytest.mark.parametrize("target", [CHAT, RESPONSES, GEMINI])
def test_an_effort_does_not_switch_thinking_on(target: str):
    settings = {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}
    written, losses = rendered({**CLAUDE_BODY, **settings}, CLAUDE, target)
    config = written.get("generationConfig", {}).get("thinkingConfig", {})
    word = written.get("reasoning_effort", written.get("reasoning", {}).get("effort"))
    assert word == "none" or config == {"thinkingBudget": 0}
    assert losses == [("CONTROL_DROPPED", "output_config.effort")]


# --- thinking for Gemini -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, effort, expected, is_told",
    [
        ("gemini-2.5-flash", "max", {"thinkingBudget": 24576}, True),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}, False),
        ("gemini-2.5-flash-lite", "xhigh", {"thinkingBudget": 24576}, True),
        ("gemini-2.5-flash-lite", "none", {"thinkingBudget": 0}, False),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 32768}, True),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}, True),
        ("models/gemini-2.5-pro-preview-06-05", "none", {"thinkingBudget": 128}, True),
        ("gemini-3-pro-preview", "none", {"thinkingLevel": "LOW"}, True),
        ("gemini-3-pro-preview", "minimal", {"thinkingLevel": "LOW"}, True),
        ("gemini-3-flash", "none", {"thinkingLevel": "MINIMAL"}, True),
        ("gemini-3-flash", "minimal", {"thinkingLevel": "MINIMAL"}, False),
        ("gemini-3.7-flash", "minimal", {"thinkingLevel": "LOW"}, True),
        ("some-model", "none", {"thinkingBudget": 0}, False),
    ],
)
def test_gemini_thinks_as_its_model_can(
    model: str, effort: str, expected: dict[str, Any], is_told: bool
):
    written, losses = from_chat(GEMINI, model, reasoning_effort=effort)
    assert written["generationConfig"]["thinkingConfig"] == expected
    assert losses == [("CONTROL_CHANGED", "reasoning_effort")] * is_told


@pytest.mark.parametrize(
    "model, budget, expected",
    [
        ("gemini-2.5-flash-lite", 128, 512),
        ("gemini-2.5-flash", 128, 128),
        ("gemini-2.5-flash", 30_000, 24_576),
        ("gemini-2.5-pro", 30_000, 30_000),
        ("gemini-2.5-pro", 60_000, 32_768),
    ],
)
def test_a_budget_for_gemini_is_one_that_its_model_takes(model: str, budget: int, expected: int):
    thinking = {"type": "enabled", "budget_tokens": budget}
    written, losses = rendered({**CLAUDE_BODY, "thinking": thinking}, CLAUDE, GEMINI, model)
    assert written["generationConfig"]["thinkingConfig"] == {"thinkingBudget": expected}
    assert losses == [("CONTROL_CHANGED", "thinking.budget_tokens")] * (budget != expected)


def test_gemini_before_thinking_gets_none():
    written, losses = from_chat(GEMINI, "gemini-2.0-flash", reasoning_effort="low")
    assert "generationConfig" not in written
    assert losses == [("CONTROL_DROPPED", "reasoning_effort")]
    _, losses = from_chat(GEMINI, "gemini-2.0-flash", reasoning_effort="none")
    assert losses == []


def test_an_effort_leaves_gemini_room_for_the_answer():
    written, _ = from_chat(
        GEMINI, "gemini-2.5-flash", reasoning_effort="high", max_completion_tokens=4000
    )
    assert written["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 2000}


# --- thinking of Claude ------------------------------------------------------------------------

FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}
LOOP = [user("q"), calls(call("a")), tool("a", "r")]


def test_thinking_holds_to_no_small_share_of_probability():
    settings = {"reasoning_effort": "high", "max_tokens": 9000, "top_p": 0.5}
    written, losses = from_chat(CLAUDE, "claude-opus-4-6", **settings)
    assert (written["top_p"], losses) == (0.95, [("CONTROL_CHANGED", "top_p")])
    assert from_chat(CLAUDE, "claude-opus-4-6", top_p=0.5, max_tokens=9)[0]["top_p"] == 0.5


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-sonnet-4-20250514"])
def test_a_model_that_thinks_by_budget_is_not_told_to_think_adaptively(model: str):
    body = {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": -1}},
    }
    written, losses = rendered(body, GEMINI, CLAUDE, model)
    assert written["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert ("CONTROL_CHANGED", "generationConfig.thinkingConfig") in losses


@pytest.mark.parametrize("model", ["claude-fable-5", "claude-mythos-5-1"])
def test_a_model_that_always_thinks_is_not_told_to_stop(model: str):
    written, losses = from_chat(CLAUDE, model, reasoning_effort="none", max_tokens=9)
    assert (written.get("thinking"), written["output_config"]) == (None, {"effort": "low"})
    assert losses == [("CONTROL_CHANGED", "reasoning_effort")]


@pytest.mark.parametrize(
    "model, effort", [("claude-opus-4-6", "high"), ("claude-opus-4-7", "xhigh")]
)
def test_an_effort_that_a_model_does_not_know_is_the_one_below(model: str, effort: str):
    written, losses = from_chat(CLAUDE, model, reasoning_effort="xhigh", max_tokens=9)
    assert written["output_config"] == {"effort": effort}
    assert losses == ([] if effort == "xhigh" else [("CONTROL_CHANGED", "reasoning_effort")])


@pytest.mark.parametrize(
    "messages, thinks",
    [
        ([user("q")], True),
        (LOOP, False),
        ([*LOOP, calls(call("b")), tool("b", "r")], False),
        ([*LOOP, user("go on")], False),
        ([*LOOP, assistant("done"), user("thanks")], True),
        ([user("q"), assistant("It is")], False),
    ],
)
def test_who_begins_a_turn_without_a_thought_does_not_think_in_it(
    messages: list[Any], thinks: bool
):
    tools = [{"type": "function", "function": FUNCTION}]
    settings = {"reasoning_effort": "high", "max_tokens": 9000, "tools": tools}
    body = {"model": "claude-sonnet-4-5", "messages": messages, **settings}
    written, losses = rendered(body, CHAT, CLAUDE)
    assert ("thinking" in written) == thinks
    assert (("CONTROL_DROPPED", "reasoning_effort") in losses) != thinks
    body["model"] = "claude-opus-4-6"
    assert rendered(body, CHAT, CLAUDE)[0]["thinking"] == {"type": "adaptive"}


def test_a_conversation_that_grows_is_looked_at_again():
    body = {"model": "claude-sonnet-4-5", "messages": [user("q")], "reasoning_effort": "high"}
    request = cannery.normalize_request(body, CHAT)
    found = []
    for _ in range(3):
        found.append("thinking" in json.loads(cannery.nativize_request(request, CLAUDE).body))
        made = cannery.invocation(f"c{len(found)}", "f", {})
        longer = request.conversation.append(made).append(cannery.result(made.identifier, "r"))
        request = request.replace(conversation=longer)
    assert found == [True, False, False]


# --- levels of Gemini --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, effort, level",
    [
        ("gemini-3-pro-preview", "medium", "HIGH"),
        ("gemini-3.1-pro-preview", "medium", "MEDIUM"),
        ("gemini-3-flash", "medium", "MEDIUM"),
        ("gemini-3-flash", "xhigh", "HIGH"),
    ],
)
def test_a_level_is_one_that_the_model_takes(model: str, effort: str, level: str):
    written, losses = from_chat(GEMINI, model, reasoning_effort=effort)
    assert written["generationConfig"]["thinkingConfig"] == {"thinkingLevel": level}
    assert losses == ([] if level.lower() == effort else [("CONTROL_CHANGED", "reasoning_effort")])


def test_the_highest_level_of_gemini_is_an_effort():
    config = {"thinkingConfig": {"thinkingLevel": "XHIGH", "includeThoughts": False}}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "generationConfig": config,
    }
    assert rendered(body, GEMINI, CHAT, "m")[0]["reasoning_effort"] == "xhigh"
    assert rendered(body, GEMINI, CHAT, "m")[1] == []
    home = cannery.nativize_request(cannery.normalize_request(body, GEMINI), GEMINI)
    assert json.loads(home.body) == body
