"""A hosted tool that a request defines twice is offered once, since servers refuse two tools of one name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviours.bodies import CLAUDE, GEMINI, RESPONSES, told

QUESTION = [{"role": "user", "parts": [{"text": "q"}]}]
TWICE: dict[str, list[Any]] = {
    "in two spellings": [{"googleSearch": {}, "google_search": {}}],
    "in two groups": [{"googleSearch": {}}, {"googleSearch": {}}],
    "in two forms": [{"googleSearch": {}}, {"google_search": {}, "codeExecution": {}}],
}


@pytest.mark.parametrize("target", [CLAUDE, RESPONSES, "gemini_interactions"])
@pytest.mark.parametrize("case", TWICE)
def test_a_search_that_is_asked_for_twice_is_two_tools(case: str, target: str):
    body = {"contents": QUESTION, "tools": TWICE[case]}
    found = told(body, GEMINI, target)
    kinds = [tool["type"].split("_2")[0] for tool in found.body["tools"]]
    assert sum("search" in kind for kind in kinds) == 1
    assert len(kinds) == len(set(kinds))
    assert "TOOL_DROPPED" not in found.losses
    assert told(body, GEMINI, GEMINI).body == body


@pytest.mark.parametrize("target", [CLAUDE, RESPONSES])
def test_a_second_search_with_other_options_is_left_out_in_silence(target: str):
    tools = [{"googleSearch": {}, "google_search": {"excludeDomains": ["a.org"]}}]
    found = told({"contents": QUESTION, "tools": tools}, GEMINI, target)
    assert len(found.body["tools"]) == 1
    assert ("TOOL_DROPPED", "tools[0].google_search") in found.paths


def test_servers_and_stores_of_their_own_are_one_tool():
    servers = [
        {"type": "mcp", "server_label": label, "server_url": f"https://{label}.example.org"}
        for label in ("a", "b")
    ]
    body = {"model": "m", "input": "q", "tools": servers}
    found = told(body, RESPONSES, CLAUDE)
    assert [server["name"] for server in found.body["mcp_servers"]] == ["a", "b"]
