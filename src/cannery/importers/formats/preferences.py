"""Preferences: rows of ``{prompt, chosen, rejected}``, each a text or a list of messages; the chosen answer is current.

Also OpenAI's ``{input, preferred_output, non_preferred_output}``, and the transcripts of Anthropic's HH-RLHF, texts in
which ``Human:`` and ``Assistant:`` alternate. Shapes as in TRL's "dataset formats" (read 2026-11-18).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cannery.errors import InputError
from cannery.importers.api_messages import is_message, read_messages
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Sample,
)
from cannery.importers.pieces import objects, row_digest, text_of, unknown_record, with_fields
from cannery.importers.sources import Source

NAME = "preferences"
_PAIRS = (("chosen", "rejected"), ("preferred_output", "non_preferred_output"))
_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")
_SPEAKERS = {"Human": "user", "Assistant": "assistant"}


def detect(sample: Sample) -> Detection | None:
    """Two answers to choose from."""
    rows = [record for record in sample.objects if _pair(record) is not None]
    if not rows or len(rows) < len(sample.records) / 2:
        return None
    better, worse = _pair(rows[0]) or ("", "")
    return Detection(0.9, f"its rows have answers to choose from: {better} and {worse}")


def _pair(row: dict[str, Any]) -> tuple[str, str] | None:
    for better, worse in _PAIRS:
        if _is_said(row.get(better)) and _is_said(row.get(worse)):
            return better, worse
    return None


def _is_said(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(is_message, value))
    return isinstance(value, str) or is_message(value)


def read(source: Source) -> Iterator[Found]:
    """One conversation per row."""
    for record, value in source.values():
        pair = _pair(value) if isinstance(value, dict) else None
        if pair is None:
            yield unknown_record(UNREADABLE, record.place, value)
            continue
        try:
            yield _conversation(value, pair, source.place_of(record))
        except InputError as error:
            yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)


def _conversation(row: dict[str, Any], pair: tuple[str, str], place: str) -> Imported:
    asked = [*_system(row), *as_messages(_prompt(row), "user")]
    answers = [as_messages(row[key], "assistant") for key in pair]
    # Some data sets repeat the question in the answers.
    answers = [answer[_begins_with(answer, asked) :] for answer in answers]
    if not asked:
        # The question is the common beginning of both answers.
        shared = _shared(*answers)
        asked, answers = answers[0][:shared], [answer[shared:] for answer in answers]
    nodes: list[Node] = []
    if asked:
        said = with_fields(_said(asked, place), NAME, row, "prompt", "input", "system", *pair)
        nodes.append(Node("prompt", None, said))
    above = "prompt" if asked else None
    nodes += [
        Node(key, above, _said(answer, place)) for key, answer in zip(pair, answers, strict=True)
    ]
    return Imported(place, tuple(nodes), current=pair[0], row=row_digest(row))


def _prompt(row: dict[str, Any]) -> Any:
    given = row.get("input")
    if isinstance(given, dict) and isinstance(given.get("messages"), list):
        return given["messages"]
    return row.get("prompt", row.get("question", given))


def _system(row: dict[str, Any]) -> list[dict[str, Any]]:
    system = text_of(row.get("system"))
    return [{"role": "system", "content": system}] if system else []


def as_messages(value: Any, role: str) -> list[Any]:
    """A value as messages: a list of them, a single one, a transcript, or a text of the given role."""
    if isinstance(value, list):
        return objects(value)
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, str):
        return []
    pieces = _TURN.split(value)
    if len(pieces) > 1 and not pieces[0].strip():
        turns = zip(pieces[1::2], pieces[2::2], strict=True)
        return [{"role": _SPEAKERS[who], "content": text} for who, text in turns]
    return [{"role": role, "content": value}]


def _begins_with(answer: list[Any], asked: list[Any]) -> int:
    """The number of messages at the beginning of an answer that repeat the whole question; 0 if they do not."""
    questions = [_words(message) for message in asked if message.get("role") != "system"]
    said = [_words(message) for message in answer]
    for start in (0, 1) if answer and answer[0].get("role") == "system" else (0,):
        if questions and said[start : start + len(questions)] == questions:
            return start + len(questions) if len(said) > start + len(questions) else 0
    return 0


def _words(message: dict[str, Any]) -> tuple[Any, Any]:
    return message.get("role"), message.get("content")


def _shared(one: list[Any], other: list[Any]) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return max(min(len(one), len(other)) - 1, 0)


def _said(messages: list[Any], place: str) -> tuple[Any, ...]:
    spoken = read_messages(messages, NAME, place)
    if spoken.unknown:
        raise InputError(spoken.unknown[0].place)
    return tuple(canister for _, said in spoken.turns for canister in said)


FORMAT = Format(
    NAME,
    "preference data set",
    detect,
    read,
    is_data_set=True,
    keys=("prompt", "chosen", "rejected"),
)
