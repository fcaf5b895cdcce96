"""Gemini CLI's sessions: a header, one message per line, and lines that change earlier ones.

A message contains its calls with their results beside its text, so that only some violations can be fixed in place:
texts, and calls without a result. A message with a known id replaces the earlier one; ``$rewindTo`` goes back to before
a message. Seen with Gemini CLI 0.61.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import Object
from cannery.doctor.sessions.contract import Line, Session, text_of

_FAILED = "error"


class GeminiSession(Session):
    """A session of Gemini CLI."""

    dialect = "gemini_generate"
    key = "contents"

    def history(self) -> Iterator[tuple[Any, Line]]:
        """The contents that the agent would send, each with its line."""
        self._calls: list[Object] = []
        said: dict[str, tuple[Object, Line]] = {}
        for line in self.lines:
            value = line.object
            named = value.get("$rewindTo")
            if isinstance(named, str):
                names = list(said)
                kept = names[: names.index(named)] if named in said else []
                said = {name: said[name] for name in kept}
            for message in _messages(value):
                said[text_of(message.get("id"))] = (message, line)
        for message, line in said.values():
            for content in self._contents(message):
                yield content, line

    def _contents(self, message: Object) -> Iterator[Object]:
        if message.get("type") not in ("user", "gemini"):
            return
        role = "user" if message["type"] == "user" else "model"
        words = message.get("content")
        items = words if isinstance(words, list) else [words] if words else []
        parts = [{"text": item} if isinstance(item, str) else item for item in items]
        calls = [call for call in message.get("toolCalls") or () if isinstance(call, dict)]
        answers: list[Any] = []
        for call in calls:
            part = {
                "functionCall": {key: call[key] for key in ("id", "name", "args") if key in call}
            }
            self._calls.append(call)
            parts.append(part)
            result = call.get("result")
            answers += result if isinstance(result, list) else [result] if result else []
        if parts:
            yield {"role": role, "parts": parts}
        if answers:
            yield {"role": "user", "parts": answers}

    def model(self) -> str | None:
        """The model of the last answer."""
        models = [
            text_of(message.get("model"))
            for line in self.lines
            for message in _messages(line.object)
        ]
        return next(filter(None, reversed(models)), None)

    def written(self) -> bytes:
        """The file, with added results stored in their calls; other added contents are discarded."""
        held = {id(message) for message, _ in self.said}
        for content in self.body[self.key]:
            for part in content.get("parts", ()):
                response = part.get("functionResponse") if isinstance(part, dict) else None
                if isinstance(response, dict):
                    self._give(response, part)
        self.body[self.key] = [each for each in self.body[self.key] if id(each) in held]
        kept = {id(each) for each in self.body[self.key]}
        self.body[self.key] += [message for message, _ in self.said if id(message) not in kept]
        return super().written()

    def _give(self, response: Object, part: Object) -> None:
        for call in self._calls:
            is_own = response.get("id") == call.get("id") and response.get("name") == call.get(
                "name"
            )
            if is_own and not call.get("result"):
                call["result"] = [part]
                call["status"] = _FAILED

    def new_line(self, _: Any, __: Line | None) -> bytes:
        """Return no line: an added result is stored in its call."""
        return b""


def _messages(value: Object) -> Iterator[Object]:
    """The messages of a line: itself, or those in a header or ``$set``."""
    facts = value.get("$set") if isinstance(value.get("$set"), dict) else value
    listed = facts.get("messages") if isinstance(facts, dict) else None
    for message in listed if isinstance(listed, list) else ():
        if isinstance(message, dict):
            yield message
    if isinstance(value.get("id"), str) and "type" in value:
        yield value


def open_session(data: bytes) -> Session:
    """Open a session."""
    return GeminiSession(data)
