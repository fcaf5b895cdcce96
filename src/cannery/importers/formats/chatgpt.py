"""ChatGPT ``conversations.json``: an array of ``{title, mapping: {id: {message, parent, children}}, current_node}``.

The root has no message, and system messages are hidden and mostly empty. A message to another recipient than ``all``
is a call in free text; the tool messages below it are its results. Entries without a mapping are unknown records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import (
    joined,
    moment,
    nodes_with_fields,
    objects,
    opaque,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    ImageContentClass,
    InvocationCanisterClass,
    Location,
    ReasoningContentClass,
    Residue,
    ResultCanisterClass,
    SupervisorCanisterClass,
    TextualContentClass,
    UserCanisterClass,
    absent,
)

NAME = "chatgpt"
# The fields of a conversation and of a message that are read; the others are stored as facts.
_TAKEN = ("mapping", "title", "create_time", "current_node", "id", "conversation_id")
_READ = ("id", "author", "content", "create_time", "recipient", "metadata")
# The key of the text in each type of content.
_TEXTS = {
    "code": "text",
    "execution_output": "text",
    "tether_quote": "text",
    "tether_browsing_display": "result",
    "sonic_webpage": "text",
    "system_error": "text",
    "citable_code_output": "output_str",
}
_SPOKEN = {
    "user": UserCanisterClass,
    "assistant": AssistantCanisterClass,
    "system": SupervisorCanisterClass,
}


def detect(sample: Sample) -> Detection | None:
    """A mapping of messages with an author and a content."""
    seen: set[str] = set()
    for record in sample.objects:
        mapping = record.get("mapping")
        for node in mapping.values() if isinstance(mapping, dict) else ():
            message = node.get("message") if isinstance(node, dict) else None
            if not isinstance(message, dict) or not isinstance(message.get("content"), dict):
                continue
            author = message.get("author")
            if isinstance(author, dict):
                seen.add(text_of(author.get("role")))
    if not seen:
        return None
    return Detection(0.95, f"it has a mapping of messages by {', '.join(sorted(seen))}")


def read(source: Source) -> Iterator[Found]:
    """One conversation per entry, with its branches."""
    for record, value in source.values():
        if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
            yield unknown_record("no mapping", record.place, value)
            continue
        yield _Tree(value, source.place_of(record)).read()


class _Tree:
    """One conversation."""

    def __init__(self, value: dict[str, Any], place: str) -> None:
        self._value = value
        self._place = place
        self._mapping: dict[str, Any] = value["mapping"]
        self._created = moment(value.get("create_time"))
        self._unknown: Counter[str] = Counter()
        self._model: str | None = None

    def read(self) -> Imported:
        parents = self._parents()
        value = self._value
        nodes = nodes_with_fields(
            (
                Node(name, parents.get(name), self._canisters(name, parents))
                for name, node in self._mapping.items()
                if isinstance(node, dict)
            ),
            NAME,
            value,
            *_TAKEN,
        )
        identifier = value.get("conversation_id") or value.get("id") or self._place
        return Imported(
            str(identifier),
            nodes,
            text_of(value.get("title")),
            self._created,
            text_of(value.get("current_node")) or None,
            self._model,
            dict(self._unknown),
            tuple(self._tags()),
        )

    def _tags(self) -> Iterator[str]:
        """Tags for facts about the whole conversation: its GPT, and whether it is archived or starred."""
        value = self._value
        gizmo = text_of(value.get("gizmo_id")) or text_of(value.get("conversation_template_id"))
        if gizmo:
            yield f"gizmo:{gizmo}"
        for mark in ("archived", "starred"):
            if value.get(f"is_{mark}") is True:
                yield mark

    def _parents(self) -> dict[str, str]:
        """The parent of each message, from the links in both directions."""
        parents: dict[str, str] = {}
        for name, node in self._mapping.items():
            if not isinstance(node, dict):
                continue
            children = node.get("children")
            for child in children if isinstance(children, list) else ():
                if isinstance(child, str):
                    parents[child] = name
        for name, node in self._mapping.items():
            if isinstance(node, dict) and isinstance(node.get("parent"), str):
                parents[name] = node["parent"]
        return parents

    def _canisters(self, name: str, parents: dict[str, str]) -> tuple[AnyCanister, ...]:
        message = self._message(name)
        if message is None:
            return ()
        said = with_fields(self._said(name, message, parents), NAME, message, *_READ)
        metadata, author = message.get("metadata"), message.get("author")
        if isinstance(metadata, dict):
            said = with_fields(said, NAME, metadata, "model_slug")
        recipient = message.get("recipient")
        others = {"author": author if isinstance(author, dict) and len(author) > 1 else None}
        others["recipient"] = None if recipient == "all" or self._is_call(message) else recipient
        return with_fields(said, NAME, others)

    def _said(
        self, name: str, message: dict[str, Any], parents: dict[str, str]
    ) -> tuple[AnyCanister, ...]:
        when = moment(message.get("create_time")) or self._created
        author = message.get("author")
        role = author.get("role") if isinstance(author, dict) else None
        contents = list(self._contents(message.get("content")))
        metadata = message.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("model_slug"), str):
            # The conversation has the last model; each answer also has its own.
            self._model = metadata["model_slug"]
        if role == "tool":
            return self._results(contents, self._call_above(name, parents), when)
        if role == "assistant" and self._is_call(message):
            found = self._call(name, message, contents, when)
        else:
            found = self._spoken(role, contents, when)
        model = metadata.get("model_slug") if isinstance(metadata, dict) else None
        if role != "assistant" or not isinstance(model, str):
            return found
        return tuple(canister.replace(residue=Residue(NAME, model=model)) for canister in found)

    def _message(self, name: str) -> dict[str, Any] | None:
        node = self._mapping.get(name)
        message = node.get("message") if isinstance(node, dict) else None
        return message if isinstance(message, dict) else None

    def _spoken(
        self, role: Any, contents: list[Any], when: datetime | None
    ) -> tuple[AnyCanister, ...]:
        make: Any = _SPOKEN.get(text_of(role), UserCanisterClass)
        if text_of(role) not in _SPOKEN:
            self._unknown[f"role {role}"] += 1
        if all(content.kind == "text" and not content.text for content in contents):
            return ()
        return joined([make(content, when or absent) for content in contents])

    def _is_call(self, message: dict[str, Any]) -> bool:
        recipient = message.get("recipient")
        content = message.get("content")
        kind = text_of(content.get("content_type")) if isinstance(content, dict) else ""
        is_known = kind == "text" or kind in _TEXTS
        return isinstance(recipient, str) and recipient not in ("all", "") and is_known

    def _call(
        self, name: str, message: dict[str, Any], contents: list[Any], when: datetime | None
    ) -> tuple[AnyCanister, ...]:
        words = "".join(content.text for content in contents if content.kind == "text")
        recipient = message["recipient"]
        return (InvocationCanisterClass(name, recipient, words, when or absent, is_freeform=True),)

    def _call_above(self, name: str, parents: dict[str, str]) -> str:
        """The call that a tool message answers: the nearest call above it."""
        seen: set[str] = set()
        above = parents.get(name)
        while above is not None and above not in seen:
            seen.add(above)
            message = self._message(above)
            if message is not None and self._is_call(message):
                return above
            above = parents.get(above)
        return name

    def _results(
        self, contents: list[Any], call: str, when: datetime | None
    ) -> tuple[AnyCanister, ...]:
        found = [ResultCanisterClass(call, content, absent, when or absent) for content in contents]
        return joined(list(found)) or (
            ResultCanisterClass(call, TextualContentClass(""), absent, when or absent),
        )

    def _contents(self, content: Any) -> Iterator[Any]:
        if not isinstance(content, dict):
            if content is not None:
                yield opaque(NAME, "no content", content, self._unknown)
            return
        kind = text_of(content.get("content_type"))
        if kind in ("text", "multimodal_text"):
            yield from self._parts(content)
        elif kind in _TEXTS and isinstance(content.get(_TEXTS[kind]), str):
            yield TextualContentClass(content[_TEXTS[kind]])
        elif kind == "thoughts":
            thoughts = objects(content.get("thoughts"))
            yield ReasoningContentClass(
                tuple(text_of(thought.get("content")) for thought in thoughts),
                tuple(filter(None, (text_of(thought.get("summary")) for thought in thoughts))),
            )
        elif kind == "reasoning_recap" and isinstance(content.get("content"), str):
            yield ReasoningContentClass((), (content["content"],))
        elif kind == "user_editable_context":
            keys = ("user_profile", "user_instructions")
            yield TextualContentClass(
                "\n\n".join(filter(None, (text_of(content.get(k)) for k in keys)))
            )
        else:
            yield opaque(NAME, kind, content, self._unknown)

    def _parts(self, content: dict[str, Any]) -> Iterator[Any]:
        parts = content.get("parts")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, str):
                yield TextualContentClass(part)
                continue
            kind = part.get("content_type") if isinstance(part, dict) else None
            if kind == "image_asset_pointer" and text_of(part.get("asset_pointer")):
                yield ImageContentClass(Location("file", part["asset_pointer"]))
            elif kind == "audio_transcription" and isinstance(part.get("text"), str):
                yield TextualContentClass(part["text"])
            elif part is not None:
                yield opaque(NAME, kind, part, self._unknown)


FORMAT = Format(
    NAME,
    "ChatGPT export",
    detect,
    read,
    "openai_responses",
    keys=("mapping", "author", "content_type", "parts", "current_node"),
)
