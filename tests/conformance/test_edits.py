"""Whoever removes, inserts or replaces one canister finds every wire message that it is not part of as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import cannery
from cannery.dialects import find_dialect
from cannery.messages import Conversation, Request, Role, absent
from cannery.wire.places import Places, path_text
from tests.conformance.matrix import DIALECTS, identify
from tests.oracles.corpus import Case, request_cases

CASES = [case for name in DIALECTS for case in request_cases(name)]
KEYS = {
    **dict.fromkeys(DIALECTS, ("messages", "messages")),
    "anthropic_messages": ("messages", "system"),
    "gemini_generate": ("contents", "systemInstruction"),
    "openai_responses": ("input", "instructions"),
}
MOST = 16
NEW = {"user": cannery.user("new"), "assistant": cannery.assistant("new")}
BY_MODEL = (Role.Assistant, Role.Invocation)

Edit = tuple[Conversation, Any, set[int]]


class Body:
    """A request that was read, and which of its messages each canister is part of; None for the preamble."""

    def __init__(self, dialect: str, raw: bytes) -> None:
        self.dialect = dialect
        places = Places()
        self.request: Request = find_dialect(dialect).read_request(raw, places)
        self.listed, self.preamble = self.written(self.request)
        self.places = [self._place(path_text(path)) for path in places.canisters]
        self.bonds = self._bonds() if dialect == "openai_responses" else {}

    def _place(self, path: str) -> int | None:
        found = re.match(rf"{KEYS[self.dialect][0]}(?:\[(\d+)\])?", path)
        return None if found is None else int(found[1] or 0)

    def _bonds(self) -> dict[int, set[int | None]]:
        """By canister, the items that are bound to it: a reasoning item and all that the model says after it."""
        bonds: dict[int, set[int | None]] = {}
        run: list[int] = []
        for index, canister in enumerate([*self.request.conversation, cannery.user("end")]):
            if canister.role in BY_MODEL:
                run.append(index)
                continue
            if any(self._is_reasoning(at) for at in run):
                bonds.update((at, {self.places[each] for each in run}) for at in run)
            run = []
        return bonds

    def _is_reasoning(self, index: int) -> bool:
        held = self.request.conversation[index].held
        return getattr(held, "kind", "") in ("reasoning", "opaque")

    def written(self, request: Request) -> tuple[list[str], str]:
        """The messages and the preamble of a request, each as text that can be compared."""
        rendered = cannery.nativize_request(request, self.dialect)
        body = json.loads(rendered.body)
        key, lead = KEYS[self.dialect]
        found = body.get(key, [])
        messages = found if isinstance(found, list) else [found]
        preamble = None if lead == key else body.get(lead, body.get("system_instruction"))
        return [_text(message) for message in messages], _text(preamble)

    def edits(self) -> Iterator[Edit]:
        """Edited conversations, with what the same is as a list, and the messages that are touched."""
        conversation = self.request.conversation
        for at in range(0, len(conversation), max(1, len(conversation) // MOST)):
            parts = list(conversation)
            yield conversation.without(at), parts[:at] + parts[at + 1 :], self._touched(at)
            for new in NEW.values():
                changed = [*parts[:at], new, *parts[at + 1 :]]
                yield conversation.replaced(at, new), changed, self._touched(at)
                longer = [*parts[:at], new, *parts[at:]]
                yield conversation.insert(at, new), longer, self._split(at)

    def _touched(self, at: int) -> set[Any]:
        return {self.places[at]} | self.bonds.get(at, set())

    def _split(self, at: int) -> set[Any]:
        """What an insertion touches: the message that it divides, and the items that it parts."""
        if not at:
            return set()
        is_divided = self.places[at - 1] == self.places[at]
        divided = {self.places[at]} if is_divided else set()
        bonds = self.bonds.get(at, set())
        return divided | (bonds if self.bonds.get(at - 1) == bonds else set())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def assert_untouched(body: Body, edited: Any, touched: set[int]) -> None:
    messages, preamble = body.written(body.request.replace(conversation=edited))
    rest = iter(messages)
    for number, message in enumerate(body.listed):
        # What is not told apart by paths is media that went back to the result before it.
        if number not in touched and number in body.places:
            assert message in rest, f"message {number}"
    if None not in touched:
        assert preamble == body.preamble


def listed(case: Case) -> list[Any]:
    """The messages of a case; none if they are something else than a list."""
    found = case.body.get(KEYS[case.dialect][0])
    return found if isinstance(found, list) else []


def is_message(item: Any) -> bool:
    """Whether an item of a list has fields around its content."""
    return isinstance(item, dict) and item.get("type", "message") == "message"


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_an_edit_touches_one_wire_message(case: Case):
    body = Body(case.dialect, case.raw)
    for edited, same, touched in body.edits() if listed(case) else ():
        assert_untouched(body, edited, touched)
        assert_untouched(body, same, touched)


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_the_fields_of_a_message_stay_as_long_as_something_of_it_is_left(case: Case):
    marked = [
        {**item, "x_mark": f"<{number}>"} if is_message(item) else item
        for number, item in enumerate(listed(case))
    ]
    key = KEYS[case.dialect][0]
    body = Body(case.dialect, json.dumps({**case.body, key: marked}).encode())
    places = {
        id(part): place for part, place in zip(body.request.conversation, body.places, strict=True)
    }
    bound = set().union(*body.bonds.values())
    for edited, same, _ in body.edits() if marked else ():
        # A turn in which nothing is said may go, and its fields with it.
        said = [part for part in same if part.held is not absent]
        left = {places.get(id(part)) for part in said} - bound - {None}
        for kept in (edited, same):
            messages, _ = body.written(body.request.replace(conversation=kept))
            found = re.findall(r'"x_mark": "<(\d+)>"', "".join(messages))
            assert len(found) == len(set(found))
            expected = {number for number in left if is_message(marked[number])}
            assert expected <= set(map(int, found))
