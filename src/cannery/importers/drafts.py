"""One message of a source, written down piece by piece: words, thoughts, calls, answers, media, and what is not known.

The pieces of a message belong together; an answer to a call stands for itself. Every format that has no dialect of its
own writes its messages with this.
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
# How programs spell who speaks.
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
    """Who speaks, in one spelling: user, assistant or system; "" for any other role."""
    return _ROLES.get(value.lower(), "") if isinstance(value, str) else ""


class Draft:
    """One message: who says it, when, and of which source; ``unknown`` counts what is not understood."""

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
        """Words; none if there are none."""
        if isinstance(words, str) and words:
            self._add(self._make(TextualContentClass(words), self._at))

    def thought(self, words: Any, signature: Any = None) -> None:
        """What the model thought, in full."""
        if isinstance(words, str) and (words or signature):
            signed = text_of(signature) or None
            content = ReasoningContentClass((words,) if words else (), signature=signed)
            self._add(AssistantCanisterClass(content, self._at))

    def call(self, identifier: Any, name: Any, arguments: Any) -> None:
        """A call; the arguments are text or what they stand for."""
        if arguments is None:
            arguments = {}
        words = arguments if isinstance(arguments, str) else write_json(arguments)
        known = text_of(name) or "unknown"
        self._add(InvocationCanisterClass(text_of(identifier), known, words, self._at))

    def answer(self, identifier: Any, given: Any, failed: Any = None) -> None:
        """What a call gave: text, parts, or any JSON; ``failed`` is true, or says why."""
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
        """A part as the APIs of providers spell it: text, thinking, an image, a file; else kept as it is."""
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
        """An image or a file: a URL, a data URL, or base64."""
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
        """A piece that is not understood, kept in its place."""
        self._add(self._make(opaque(self._source, kind, value, self._unknown), self._at))

    def done(
        self, *, model: Any = None, usage: Usage | None = None, cost: Any = None
    ) -> tuple[AnyCanister, ...]:
        """The canisters of the message, with who made it and what it took."""
        facts = with_facts(self._found, self._source, model=model, usage=usage, cost=cost)
        return tuple(facts)


# Which dialects know a part, the likeliest first.
_DIALECTS = {
    "image": ("anthropic_messages",),
    "document": ("anthropic_messages",),
    "image_url": ("openai_chat",),
    "input_audio": ("openai_chat",),
    "file": ("openai_chat",),
}


def _is_part(part: dict[str, Any]) -> bool:
    return isinstance(part.get("type"), str) and len(part) > 1
