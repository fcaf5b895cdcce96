"""Finds a conversation in a history that its client wrote differently than it was stored.

A client repeats the model's output as its dialect can: texts joined, calls after the texts, reasoning as text or not at
all. It also shortens old results. What people asked and what the model said and called stays, in order. So a history is
compared as a list of questions and of the model's runs between them, each with its text and its calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cannery.errors import CanneryError
from cannery.messages import AnyCanister, ReasoningContentClass, Role
from cannery.storage.history import MODEL_ROLES, own_of, plain_text

_TAGS = re.compile(r"</?think(?:ing)?>")


class Continued(NamedTuple):
    """How much of a history is stored, and which of the model's canisters are the same here and there."""

    known: int
    pairs: tuple[tuple[int, int], ...]


class _Part(NamedTuple):
    """A text or a call of the model: its place in the history, and what it says."""

    at: int
    text: str = ""
    own: bytes | None = None


class _Run:
    """What the model said between two questions, with its reasoning; or a question."""

    __slots__ = ("asked", "end", "parts", "thoughts")

    def __init__(self, at: int, asked: bytes | None = None) -> None:
        self.asked = asked
        self.end = at + 1
        self.parts: list[_Part] = []
        self.thoughts: list[_Part] = []

    def add(self, part: _Part) -> None:
        """Add a text or a call."""
        self.parts.append(part)
        self.end = part.at + 1

    def said(self) -> _Said:
        """The text and the calls."""
        return _said(self.parts)

    def thought(self) -> str:
        """The text with the reasoning as part of it."""
        return _said(sorted([*self.thoughts, *self.parts])).text


class _Said(NamedTuple):
    """The text of a run without white space, and its calls."""

    text: str
    calls: tuple[bytes, ...]


def continue_in(
    stored: Sequence[AnyCanister], history: Sequence[AnyCanister], key: bytes = b""
) -> Continued | None:
    """How a history continues a stored conversation; None if it does not contain all that was said there."""
    ours, theirs = _runs(stored, key), _runs(history, key)
    if len(theirs) < len(ours) or not any(run.parts for run in ours):
        return None
    pairs: list[tuple[int, int]] = []
    for own, their in zip(ours[:-1], theirs, strict=False):
        if not _is_same(own, their, their.parts):
            return None
        pairs += _pairs(own, their)
    last, their = ours[-1], theirs[len(ours) - 1]
    end = their.end if last.asked else _end_of(last, their, history)
    if end is None or last.asked != their.asked:
        return None
    return Continued(_behind_results(stored, history, end), (*pairs, *_pairs(last, their)))


def _runs(history: Sequence[AnyCanister], key: bytes) -> list[_Run]:
    """A history from its first question on, without setup and results."""
    runs: list[_Run] = []
    for at, canister in enumerate(history):
        role = canister.role
        if role is not Role.User and (role not in MODEL_ROLES or not runs):
            continue
        own, is_setup = own_of(canister, key)
        thought = _thought(canister)
        if (own is None or is_setup) and not thought:
            continue
        if role is Role.User:
            runs.append(_Run(at, own))
            continue
        if runs[-1].asked is not None:
            runs.append(_Run(at))
        if thought:
            runs[-1].thoughts.append(_Part(at, _bare(thought)))
            continue
        text = plain_text(canister) if role is Role.Assistant else None
        runs[-1].add(_Part(at, own=own) if text is None else _Part(at, _bare(text)))
    return [run for run in runs if run.asked is not None or run.parts]


def _is_same(own: _Run, their: _Run, parts: Sequence[_Part]) -> bool:
    """Whether a run says the same as some parts of another, in which reasoning may be text."""
    if own.asked is not None or their.asked is not None:
        return own.asked == their.asked
    said, found = own.said(), _said(parts)
    if said.calls != found.calls:
        return False
    if said.text == found.text:
        return True
    thoughts = {part.text for part in own.thoughts}
    rest = _said([part for part in parts if _TAGS.sub("", part.text) not in thoughts])
    return bool(thoughts) and (said.text == rest.text or own.thought() == _TAGS.sub("", found.text))


def _end_of(own: _Run, their: _Run, history: Sequence[AnyCanister]) -> int | None:
    """Where a run ends in another that may say more: behind a whole answer, so that what follows is a result."""
    size = len(own.said().text)
    for count in range(1, len(their.parts) + 1):
        parts = their.parts[:count]
        if count < len(their.parts):
            between = history[parts[-1].at + 1 : their.parts[count].at]
            if not any(one.role is Role.Result for one in between):
                continue
        if sum(len(part.text) for part in parts) >= size and _is_same(own, their, parts):
            return parts[-1].at + 1
    return None


def _pairs(own: _Run, their: _Run) -> list[tuple[int, int]]:
    """The parts of two runs that begin at the same place, and so follow the same reasoning."""
    places = {place: part.at for place, part in _places(their.parts)}
    return [(part.at, places[place]) for place, part in _places(own.parts) if place in places]


def _places(parts: Sequence[_Part]) -> list[tuple[tuple[str, int], _Part]]:
    """Parts by the number of calls, or of letters, before them."""
    found: list[tuple[tuple[str, int], _Part]] = []
    letters = calls = 0
    for part in parts:
        if part.own is None:
            found.append((("text", letters), part))
            letters += len(part.text)
        else:
            found.append((("call", calls), part))
            calls += 1
    return found


def _behind_results(stored: Sequence[AnyCanister], history: Sequence[AnyCanister], end: int) -> int:
    """The place behind the results that are stored already."""
    answered, ordinals = _answered(stored), _ordinals(history)
    while (
        end < len(history)
        and history[end].role is Role.Result
        and ordinals.get(history[end].invocation_id) in answered  # type: ignore[union-attr]
    ):
        end += 1
    return end


def _answered(history: Sequence[AnyCanister]) -> set[int | None]:
    """The calls of a history, by their order, that have a result."""
    ordinals = _ordinals(history)
    return {
        ordinals.get(one.invocation_id)  # type: ignore[union-attr]
        for one in history
        if one.role is Role.Result
    }


def _ordinals(history: Sequence[AnyCanister]) -> dict[str, int]:
    calls = [one for one in history if one.role is Role.Invocation]
    return {one.identifier: at for at, one in enumerate(calls)}  # type: ignore[union-attr]


def _thought(canister: AnyCanister) -> str:
    """The readable reasoning of a canister."""
    held = canister.held
    if canister.role is not Role.Assistant or not isinstance(held, ReasoningContentClass):
        return ""
    try:
        return "".join(text for text in (*held.texts, *held.summaries) if text)
    except CanneryError:
        return ""


def _said(parts: Sequence[_Part]) -> _Said:
    calls = tuple(part.own for part in parts if part.own is not None)
    return _Said("".join(part.text for part in parts), calls)


def _bare(text: str) -> str:
    return "".join(text.split())
