"""DeepSeek exports: ``{id, title, mapping}`` as in ChatGPT's, but each message is a list of ``fragments``.

A fragment has a type: ``REQUEST`` is the user's, ``THINK`` and ``RESPONSE`` are the model's; ``SEARCH`` and others
become opaque blocks. Older exports have ``content`` and ``reasoning_content`` in the message instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.drafts import Draft, role_of
from cannery.importers.pieces import (
    moment,
    nodes_with_fields,
    objects,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import AnyCanister

NAME = "deepseek"
# The fields of a message that are read; the others are stored as facts.
_READ = ("fragments", "role", "inserted_at", "model", "content", "reasoning_content", "files")


def detect(sample: Sample) -> Detection | None:
    """A mapping of messages with fragments."""
    for record in sample.objects:
        for message in _messages(record):
            if objects(message.get("fragments")) or "reasoning_content" in message:
                return Detection(0.95, "it has a mapping of messages with fragments")
    return None


def _messages(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    mapping = record.get("mapping")
    for node in mapping.values() if isinstance(mapping, dict) else ():
        message = node.get("message") if isinstance(node, dict) else None
        if isinstance(message, dict):
            yield message


def read(source: Source) -> Iterator[Found]:
    """One conversation per entry, with its branches."""
    for record, value in source.values():
        if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
            yield unknown_record("no mapping", record.place, value)
            continue
        yield _conversation(value, source.place_of(record))


def _conversation(value: dict[str, Any], place: str) -> Imported:
    unknown: Counter[str] = Counter()
    nodes = []
    models = []
    for name, node in value["mapping"].items():
        if not isinstance(node, dict):
            continue
        message = node.get("message")
        said = _canisters(message, unknown) if isinstance(message, dict) else ()
        if isinstance(message, dict):
            models.append(text_of(message.get("model")))
        nodes.append(Node(name, text_of(node.get("parent")) or None, said))
    return Imported(
        text_of(value.get("id")) or place,
        nodes_with_fields(nodes, NAME, value, "id", "title", "mapping", "inserted_at"),
        text_of(value.get("title")),
        moment(value.get("inserted_at")),
        text_of(value.get("current_message_id")) or (nodes[-1].identifier if nodes else None),
        next(filter(None, reversed(models)), None),
        dict(unknown),
    )


def _canisters(message: dict[str, Any], unknown: Counter[str]) -> tuple[AnyCanister, ...]:
    fragments = objects(message.get("fragments"))
    is_asked = any(fragment.get("type") == "REQUEST" for fragment in fragments)
    role = role_of(text_of(message.get("role"))) or ("user" if is_asked else "assistant")
    draft = Draft(NAME, role, moment(message.get("inserted_at")), unknown)
    draft.thought(message.get("reasoning_content"))
    for fragment in fragments:
        kind = fragment.get("type")
        if kind in ("REQUEST", "RESPONSE") and isinstance(fragment.get("content"), str):
            draft.text(fragment["content"])
        elif kind == "THINK" and isinstance(fragment.get("content"), str):
            draft.thought(fragment["content"])
        else:
            draft.strange(kind, fragment)
    draft.text(message.get("content"))
    for file in objects(message.get("files")):
        draft.strange("file", file)
    said = draft.done(model=None if role == "user" else message.get("model"))
    return with_fields(said, NAME, message, *_READ)


FORMAT = Format(
    NAME,
    "DeepSeek export",
    detect,
    read,
    keys=("mapping", "fragments", "inserted_at", "parent"),
)
