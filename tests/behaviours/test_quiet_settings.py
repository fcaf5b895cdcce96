"""Marks for a cache and settings inside of settings that a target does not have are named, wherever they stand."""

from __future__ import annotations

from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, told, user

MARK = {"type": "ephemeral"}
ASKED = {"model": "claude-opus-5-5", "max_tokens": 5, "messages": [user("q")]}
USED = {"type": "tool_use", "id": "c", "name": "f", "input": {}, "cache_control": MARK}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
CALLED = [user("q"), {"role": "assistant", "content": [USED]}, user([RESULT])]
MARKED: list[tuple[str, dict[str, Any], str]] = [
    (CLAUDE, {**ASKED, "cache_control": MARK}, "cache_control"),
    (
        CLAUDE,
        {**ASKED, "tools": [{"name": "f", "input_schema": {}, "cache_control": MARK}]},
        "tools[0]",
    ),
    (CLAUDE, {**ASKED, "messages": CALLED}, "messages[1].content[0]"),
    (
        CHAT,
        {"model": "m", "messages": [{**user("q"), "cache_control": MARK}]},
        "messages[0].cache_control",
    ),
    (
        CHAT,
        {"model": "m", "messages": [user([{"type": "text", "text": "q", "cache_control": MARK}])]},
        "messages[0].content[0].cache_control",
    ),
]


@pytest.mark.parametrize("source, body, path", MARKED)
def test_a_mark_that_a_target_does_not_take_is_named(source: str, body: dict[str, Any], path: str):
    for target in {CHAT, RESPONSES, CLAUDE, GEMINI} - {source}:
        found = told(body, source, target)
        assert ("CACHE_MARK_DROPPED", path) in found.paths, target
        request = cannery.normalize_request(body, source)
        general = cannery.nativize_request(request, target)
        assert [loss.code for loss in general.losses] == [
            loss.code for loss in found.rendered.losses
        ]


@pytest.mark.parametrize("target", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize("config", ["toolConfig", "tool_config"])
def test_what_stands_beside_the_choice_of_tools_is_named(target: str, config: str):
    contents = [{"role": "user", "parts": [{"text": "q"}]}]
    beside = {"retrievalConfig": {"languageCode": "de"}}
    found = told({"contents": contents, config: beside}, GEMINI, target)
    assert ("FIELD_DROPPED", f"{config}.retrievalConfig") in found.paths


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_what_nobody_knows_of_a_mark_is_named(target: str):
    system = [{"type": "text", "text": "S", "cache_control": {**MARK, "x_new": 1}}]
    found = told({**ASKED, "system": system}, CLAUDE, target)
    assert ("CACHE_MARK_DROPPED", "system[0].cache_control.x_new") in found.paths
