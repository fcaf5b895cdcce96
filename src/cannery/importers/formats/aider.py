"""aider's ``.aider.chat.history.md``: in Markdown ``####`` is the user, ``>`` aider itself, the rest the model.

Every start of the program begins a conversation. Lines of aider itself are not part of it, except the model and token
counts in them; they are stored as unknown records. Seen with aider 0.86.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.importers.api_messages import Turn
from cannery.importers.contract import Detection, Format, Found, Imported, Sample, Unknown
from cannery.importers.drafts import Draft
from cannery.importers.pieces import unknown_record, usage_of
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.messages import Usage

NAME = "aider"
_START = re.compile(r"^# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_MODEL = re.compile(r"^> (?:Main )?[Mm]odel: (\S+)")
_TOKENS = re.compile(r"^> Tokens: ([\d.,]+)(k?) sent,.*?([\d.,]+)(k?) received")
_COST = re.compile(r"Cost: \$([\d.]+) message")


def detect(sample: Sample) -> Detection | None:
    """A line with the start time of a chat."""
    if any(map(_START.match, sample.text.splitlines())):
        return Detection(0.95, 'it has lines of "aider chat started at"')
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per start of the program."""
    chat: _Chat | None = None
    number = 0
    for number, line in enumerate(source.text().splitlines(), 1):
        start = _START.match(line)
        if start is not None:
            if chat is not None:
                yield from chat.imported(source.name)
            when = datetime.strptime(start[1], "%Y-%m-%d %H:%M:%S").astimezone()
            chat = _Chat(when, number)
        elif chat is not None:
            chat.take(line, number)
        elif line.strip():
            yield unknown_record("text before a chat", f"line {number}", line)
    if chat is not None:
        yield from chat.imported(source.name)


class _Chat:
    """The lines from one start of the program to the next."""

    def __init__(self, when: datetime, number: int) -> None:
        self._when = when
        self._number = number
        self._turns: list[Turn] = []
        self._said: list[Unknown] = []
        self._role = ""
        self._lines: list[str] = []
        self._model: str | None = None
        self._usage: Usage | None = None
        self._cost: float | None = None

    def take(self, line: str, number: int) -> None:
        """Read a line."""
        if line.startswith("#### "):
            role, text = "user", line[5:].removesuffix("  ")
        elif line.startswith("> ") or line.rstrip() == ">":
            role, text = "aider", line[2:].rstrip()
            self._heed(line)
        else:
            role, text = "assistant", line
            if not text.strip() and self._role != "assistant":
                return
        if role != self._role:
            self._turn(number)
            self._role = role
        self._lines.append(text)

    def _heed(self, line: str) -> None:
        """Read the model, and the usage of the last answer, from a line of aider."""
        model, tokens, cost = _MODEL.match(line), _TOKENS.match(line), _COST.search(line)
        if model is not None:
            self._model = model[1]
        if tokens is not None:
            self._usage = usage_of(
                fresh=_count(tokens[1], tokens[2]), output=_count(tokens[3], tokens[4])
            )
            self._cost = float(cost[1].rstrip(".")) if cost is not None else None
            self._turn(0)
            self._role = "aider"

    def _turn(self, number: int) -> None:
        """End the current turn."""
        text = "\n".join(self._lines).strip("\n").rstrip()
        place = f"line {number}"
        self._lines = []
        if not text:
            return
        if self._role == "aider":
            above = self._turns[-1][0] if self._turns else None
            self._said.append(unknown_record("said by aider", place, text, above))
            return
        draft = Draft(NAME, self._role, self._when, Counter())
        draft.text(text)
        made: dict[str, Any] = {}
        if self._role == "assistant":
            made = {"model": self._model, "usage": self._usage, "cost": self._cost}
            self._usage = self._cost = None
        self._turns.append((f"#{len(self._turns)}", draft.done(**made)))

    def imported(self, name: str) -> Iterator[Found]:
        """The chat, and the lines of aider in it; nothing for a start without messages."""
        self._turn(0)
        if self._turns:
            yield from self._said
            place = f"{name}, line {self._number}"
            yield Imported(place, linear(self._turns), "", self._when, model=self._model)


def _count(number: str, thousands: str) -> int:
    return int(float(number.replace(",", "")) * (1000 if thousands else 1))


FORMAT = Format(
    NAME,
    "aider chat history",
    detect,
    read,
)
