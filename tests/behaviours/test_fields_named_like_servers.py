"""Fields of a client that are named like those of servers are lost like any others."""

from __future__ import annotations

import pytest

from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, told


@pytest.mark.parametrize("target", [CLAUDE, GEMINI, RESPONSES])
def test_settings_and_fields_of_messages_are_named(target: str):
    message = {"role": "user", "content": "hi", "status": "urgent", "index": "x"}
    body = {"model": "m", "id": "I", "status": "S", "messages": [message]}
    found = told(body, CHAT, target)
    dropped = {path for code, path in found.paths if code == "FIELD_DROPPED"}
    assert dropped >= {"id", "status", "messages[0].status", "messages[0].index"}
