"""Judges request bodies by what the servers document or are known to refuse.

Types say what a body may look like; these rules say what a server accepts: order, pairing, ids,
names, empty text, limits, media. Most rest on SDK docstrings or on server errors quoted in public;
`UNCONFIRMED` lists those that rest on common knowledge of the APIs only. A translation should keep
them too. A request that a live server took outranks a rule: `tests/corpus` holds the rules against
recorded requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .judges import JUDGES
from .rules import anthropic_messages, gemini_generate, openai_chat, openai_responses

_COMMON = frozenset({"empty", "tool-choice", "name-duplicate"})
_MORE = _COMMON | {"tools-missing", "id-duplicate", "media-mismatch"}
UNCONFIRMED: dict[str, frozenset[str]] = {
    "openai_chat": _MORE | {"image-url", "media-type", "refusal-alone"},
    "openai_responses": _MORE | {"id-prefix", "part-role", "image-url", "media-type"},
    "anthropic_messages": _MORE
    | {"prefill-space", "cache-order", "stop-blank", "server-result-orphan", "range"},
    "gemini_generate": _COMMON
    | {"call-role", "response-role", "system-text", "stop-limit", "media-type"},
    **{name: judge.unconfirmed for name, judge in JUDGES.items()},
}


def check_request_rules(dialect: str, body: Any, *, model: str | None = None) -> list[str]:
    """The broken rules as `path: code: sentence`; `model` (Gemini) switches on signature rules."""
    if not isinstance(body, dict):
        return ["$: object: the body is no object"]
    try:
        return list(_rules(dialect, body, model))
    except (AttributeError, KeyError, TypeError) as error:
        # The rules presuppose the shapes that the types prove.
        return [f"$: shape: a value has the wrong type: {error}"]


def _rules(dialect: str, body: dict[str, Any], model: str | None) -> Iterator[str]:
    match dialect:
        case "openai_chat":
            return openai_chat.check(body)
        case "openai_responses":
            return openai_responses.check(body)
        case "anthropic_messages":
            return anthropic_messages.check(body)
        case "gemini_generate":
            return gemini_generate.check(body, model)
    return JUDGES[dialect].rules(body)


def confirmed(dialect: str, problems: list[str]) -> list[str]:
    """The findings whose rule has a document or a quoted server error behind it."""
    return [problem for problem in problems if not codes([problem]) <= UNCONFIRMED[dialect]]


def codes(problems: list[str]) -> set[str]:
    """The codes of the findings, without paths and sentences."""
    return {problem.split(": ", 2)[1] for problem in problems}
