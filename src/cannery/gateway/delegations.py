"""The latest calls of models, by which the first request of a sub-agent is recognised if its program sends no id.

A sub-agent begins with a task that the model wrote into a call. So a new history whose first question is the whole of a
text in a recent call is taken for that of a sub-agent. The filer checks in the store that the call has no result yet
and that the question is not one of the same conversation. A gateway knows the calls that it passed on, and only the
latest of each scope.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from cannery.errors import CanneryError
from cannery.messages import AnyCanister, InvocationCanisterClass, UserCanisterClass
from cannery.titles import typed_text

_MOST = 256
_LONGEST = 16_384
_SHORTEST_TASK = 20


class _Call(NamedTuple):
    """The conversation of a call, and its arguments."""

    conversation: str
    arguments: str


class Delegations:
    """The latest calls of each scope."""

    def __init__(self) -> None:
        self._calls: dict[str | None, deque[_Call]] = {}

    def remember(
        self, scope: str | None, conversation: str, canisters: Iterable[AnyCanister]
    ) -> None:
        """Keep the calls of an answer."""
        for one in canisters:
            if isinstance(one, InvocationCanisterClass):
                text = one.held
                if _SHORTEST_TASK <= len(text) <= _LONGEST:
                    calls = self._calls.setdefault(scope, deque(maxlen=_MOST))
                    calls.append(_Call(conversation, text))

    def find(self, scope: str | None, history: Iterable[AnyCanister]) -> str | None:
        """The conversation with the latest call that has the first question of a history as one of its texts."""
        calls = self._calls.get(scope)
        task = first_question(history) if calls else ""
        if not calls or len(task) < _SHORTEST_TASK:
            return None
        # Both ways to write JSON, and a line end that was cut off.
        spelled = {
            json.dumps(task + end, ensure_ascii=way) for way in (True, False) for end in ("", "\n")
        }
        for call in reversed(calls):
            if any(one in call.arguments for one in spelled):
                return call.conversation
        return None


def first_question(history: Iterable[AnyCanister]) -> str:
    """The first text that a person typed, or a program in a person's place."""
    for one in history:
        if isinstance(one, UserCanisterClass):
            try:
                typed = typed_text(one.text).strip()
            except (AttributeError, CanneryError):
                continue
            if typed:
                return typed
    return ""
