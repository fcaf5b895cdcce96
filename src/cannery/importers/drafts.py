"""Builds one message of a source from its parts: text, reasoning, calls, results, media, and unknown parts.

The canisters of a message are joined; results are not. Every format without a dialect of its own uses this.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import datetime
from typing import Any

from cannery.errors import CanneryError
from cannery.importers.pieces import objects, opaque, spoken_by, text_of, with_facts
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    Base64,
    FileContentClass,
    ImageContentClass,
    InvocationCanisterClass,
    Location,
    PartsContentClass,
    ReasoningContentClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    TextualContentClass,
    Usage,
    UserCanisterClass,
    absent,
)
from cannery.messages.json_text import write_json

_MAKERS: dict[str, Any] = {
    "user": UserCanisterClass,
    "assistant": AssistantCanisterClass,
    "system": SupervisorCanisterClass,
}
# The spellings of roles.
_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "gemini": "assistant",
    "system": "system",
    "developer": "system",
}


def role_of(value: Any) -> str:
    """A role in one spelling: user, assistant or system; "" for any other role."""
    return _ROLES.get(value.lower(), "") if isinstance(value, str) else ""


class Draft:
    """One message: its role, time and source; ``unknown`` counts the parts that are not understood."""

    def __init__(
        self, source: str, role: str, when: datetime | None, unknown: Counter[str]
    ) -> None:
        self._source = source
        self._make = _MAKERS[role]
        self._at = when or absent
        self._unknown = unknown
        self._found: list[AnyCanister] = []

    def _add(self, canister: AnyCanister) -> None:
        is_result = isinstance(canister, ResultCanisterClass)
        follows = bool(self._found) and not isinstance(self._found[-1], ResultCanisterClass)
        self._found.append(canister.replace(joined=True) if follows and not is_result else canister)

    def text(self, words: Any) -> None:
        """Add text, if there is any."""
        if isinstance(words, str) and words:
            self._add(self._make(TextualContentClass(words), self._at))

    def thought(self, words: Any, signature: Any = None) -> None:
        """Add reasoning of the model."""
        if isinstance(words, str) and (words or signature):
            signed = text_of(signature) or None
            content = ReasoningContentClass((words,) if words else (), signature=signed)
            self._add(AssistantCanisterClass(content, self._at))

    def call(self, identifier: Any, name: Any, arguments: Any) -> None:
        """Add a call; the arguments are text or a JSON value."""
        if arguments is None:
            arguments = {}
        words = arguments if isinstance(arguments, str) else write_json(arguments)
        known = text_of(name) or "unknown"
        self._add(InvocationCanisterClass(text_of(identifier), known, words, self._at))

    def answer(self, identifier: Any, given: Any, failed: Any = None) -> None:
        """Add the result of a call: text, parts, or any JSON; ``failed`` is true, or the error text."""
        error = failed if isinstance(failed, str) and failed else True if failed is True else absent
        content = self._answer(given)
        self._add(ResultCanisterClass(text_of(identifier), content, error, self._at))

    def _answer(self, given: Any) -> Any:
        if isinstance(given, str) or given is None:
            return TextualContentClass(given or "")
        parts = objects(given)
        if parts and len(parts) == len(given) and all(map(_is_part, parts)):
            contents = [self._part(part) for part in parts]
            return contents[0] if len(contents) == 1 else PartsContentClass(tuple(contents))
        return TextualContentClass(write_json(given))

    def part(self, part: Any) -> None:
        """Add a part in an API's spelling: text, reasoning, an image, a file; any other becomes an opaque block."""
        if isinstance(part, str):
            self.text(part)
            return
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
            self.text(part["text"])
        elif kind in ("thinking", "reasoning") and isinstance(
            part.get("thinking", part.get("text", part.get("reasoning"))), str
        ):
            words = part.get("thinking", part.get("text", part.get("reasoning")))
            self.thought(words, part.get("signature"))
        else:
            self._add(self._make(self._part(part), self._at))

    def _part(self, part: Any) -> Any:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
            return TextualContentClass(part["text"])
        for dialect in _DIALECTS.get(text_of(kind), ()):
            with contextlib.suppress(CanneryError):
                body = {"model": "m", "max_tokens": 1}
                body |= {"messages": [{"role": "user", "content": [part]}]}
                (only,) = spoken_by(dialect, body, None)
                if only.held is not absent and getattr(only.held, "kind", "") != "opaque":
                    return only.held
        return opaque(self._source, kind, part, self._unknown)

    def media(self, value: Any, mime_type: Any = "", name: Any = None) -> None:
        """Add an image or a file: a URL, a data URL, or base64."""
        kind = text_of(mime_type)
        if not isinstance(value, str) or not value:
            self.strange("media", {"value": value, "type": mime_type, "name": name})
            return
        payload: Any = Location("url" if "://" in value else "file", value)
        if value.startswith("data:"):
            head, _, data = value.partition(",")
            kind = kind or head[5:].partition(";")[0]
            payload = Base64(data)
        try:
            if kind.startswith("image/"):
                content: Any = ImageContentClass(payload, kind)
            else:
                content = FileContentClass(payload, kind, name=text_of(name) or None)
        except CanneryError:
            self.strange("media", {"value": value, "type": mime_type, "name": name})
            return
        self._add(self._make(content, self._at))

    def strange(self, kind: Any, value: Any) -> None:
        """Add a part of an unknown kind as an opaque block."""
        self._add(self._make(opaque(self._source, kind, value, self._unknown), self._at))

    def done(
        self, *, model: Any = None, usage: Usage | None = None, cost: Any = None
    ) -> tuple[AnyCanister, ...]:
        """The canisters of the message, with its model and usage."""
        facts = with_facts(self._found, self._source, model=model, usage=usage, cost=cost)
        return tuple(facts)


# The dialects that know a part, the most likely first.
_DIALECTS = {
    "image": ("anthropic_messages",),
    "document": ("anthropic_messages",),
    "image_url": ("openai_chat",),
    "input_audio": ("openai_chat",),
    "file": ("openai_chat",),
}


def _is_part(part: dict[str, Any]) -> bool:
    return isinstance(part.get("type"), str) and len(part) > 1
