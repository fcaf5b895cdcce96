"""Sessions of real agents said in every other dialect and back: no text, call, result or image is lost.

The recordings are not part of the project; ``../shared/sessions`` has them where it is there. One is taken for each
program and the kinds of requests that it makes, and of it the last request, which has the whole history. What is
compared are its leaves, by walkers that know nothing of our code, and the ids of calls and results, which the aliases
of both ways map back.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import cannery
from tests.conformance.matrix import DIALECTS
from tests.oracles.leaf import CARRIED
from tests.oracles.leaves import missing_leaves

SHARED = Path(__file__).resolve().parents[3] / "shared" / "sessions"
FILES = sorted(SHARED.glob("[0-9]*.json"))
# Thoughts go back only to where they were made.
KINDS = CARRIED - {"reasoning"}


def chosen() -> list[Path]:
    """One recording for each program and the kinds of its requests."""
    found: dict[Any, Path] = {}
    for path in FILES:
        session = json.loads(path.read_bytes())
        kinds = frozenset(each["kind"] for each in session["requests"])
        found.setdefault((session["agent"], kinds), path)
    return [*found.values()]


@cache
def recorded(path: Path) -> tuple[str, dict[str, Any]]:
    """The dialect and the last body of a session."""
    requests = [each for each in json.loads(path.read_bytes())["requests"] if each["body"]]
    last = [each for each in requests if each["kind"] == "main"][-1]
    kinds = {
        "/v1/messages": "anthropic_messages",
        "/v1/responses": "openai_responses",
        "/v1/chat/completions": "openai_chat",
    }
    dialect = next((kinds[end] for end in kinds if last["path"].endswith(end)), "gemini_generate")
    return dialect, last["body"]


def pairs(request: cannery.Request, *ways: cannery.Rendered) -> list[tuple[str, str]]:
    """Who calls and who answers, each once, by the ids that they had before they were rewritten on some ways."""
    found: dict[tuple[str, str], None] = {}
    for canister in request.conversation:
        identifier = getattr(canister, "identifier", None) or getattr(
            canister, "invocation_id", None
        )
        if identifier is not None:
            for way in ways:
                identifier = way.aliases.ids.get(identifier, identifier)
            found[canister.role.value, identifier] = None
    return [*found]


@pytest.mark.skipif(not FILES, reason="there are no recorded sessions in ../shared/sessions")
@pytest.mark.parametrize("other", DIALECTS)
@pytest.mark.parametrize("path", chosen() or [SHARED], ids=lambda path: path.stem)
def test_a_recorded_session_comes_back(path: Path, other: str) -> None:
    own, body = recorded(path)
    if own == other:
        return
    there = cannery.translate(body, source=own, target=other)
    back = cannery.translate(there.body, source=other, target=own)
    written = json.loads(back.body)
    assert missing_leaves(own, body, other, json.loads(there.body), KINDS) == []
    assert missing_leaves(own, body, own, written, KINDS) == []
    given = cannery.normalize_request(body, own)
    found = cannery.normalize_request(written, own)
    if "CALL_ID_DROPPED" not in {loss.code for loss in there.losses}:
        assert pairs(found, back, there) == pairs(given)
