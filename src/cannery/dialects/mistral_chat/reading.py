"""Reads Mistral requests: message fields beyond those of the family.

A ``reference`` after a text is a citation of that text. ``prefix`` is only the form of a message: its request to
continue is expressed by the last position. A result without an id answers the first waiting call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from cannery.dialects.mistral_chat.settings import NAME, TABLE
from cannery.errors import DialectError
from cannery.families.chat.reading import ChatReader, Held
from cannery.families.chat.tools import take_tools
from cannery.messages.content import (
    Citation,
    Origin,
    new_audio,
    new_file,
    new_opaque,
    new_reasoning,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64, Location
from cannery.messages.requests import Request, new_request
from cannery.wire.bodies import Object, is_named, is_text_part, listed_reader
from cannery.wire.citations import cited
from cannery.wire.media import read_url, sniff
from cannery.wire.places import Path, Places, path_text
from cannery.wire.residues import nested, set_again, take_usual

# The forms of an assistant message with an explicit ``prefix``.
PREFIX = {"prefix": True, "unprefixed": False}
_PREFIX_WORDS = {flag: word for word, flag in PREFIX.items()}
# Chunks that may omit their type, by the field that shows it.
_UNTYPED = {
    **{key: key for key in ("text", "image_url", "document_url", "input_audio", "thinking")},
    "reference_ids": "reference",
    "file_id": "file",
    "content": "resource",
    "uri": "resource_link",
}


class MistralReader(ChatReader):
    """Reads the messages of one body."""

    needs_call_ids = False

    def _is_call_id(self, identifier: str) -> bool:
        # The official client writes "null" for a missing id.
        return identifier not in ("", "null")

    def part(self, part: Any, path: Path) -> Held:
        """The content of one chunk; a missing type follows from the field."""
        key = None
        if type(part) is dict and part.get("type") is None:
            key = next((key for key in _UNTYPED if key in part), None)
        if key is None:
            return super().part(part, path)
        held, patch = super().part({**part, "type": _UNTYPED[key]}, path)
        if type(held) is not str and held.kind == "opaque":
            return new_opaque(NAME, _UNTYPED[key], write_json(part)), None
        patch = patch or {}
        if "type" in part:
            return held, {**patch, "s": {**patch.get("s", {}), "type": None}}
        return held, {**patch, "x": ["type", *patch.get("x", ())]}

    def _parts(self, content: list[Any], *args: Any, **more: Any) -> None:
        """Add the chunks; references are attached to the text before them."""
        start = len(self.canisters)
        super()._parts(content, *args, **more)
        for index in range(len(self.canisters) - 1, start, -1):
            self._cite(index)

    def _cite(self, index: int) -> None:
        """Make a reference a citation of the text before it."""
        reference, text = self.canisters[index].held, self.canisters[index - 1]
        is_reference = getattr(reference, "tag", None) == "reference" and reference.dialect == NAME
        if not is_reference or type(text.held) is not str:
            return
        self.canisters[index - 1] = cited(text, (Citation(NAME, reference.json),))
        del self.canisters[index], self.places[index]

    def _form(self, message: Object, form: str | None) -> str | None:
        prefix = message.get("prefix")
        if type(prefix) is not bool:
            return form
        del message["prefix"]
        return f"{form or ''} {_PREFIX_WORDS[prefix]}".strip()

    def _document(self, part: Object, path: Path) -> Held | None:
        url, name = part.get("document_url"), part.get("document_name")
        if type(url) is not str:
            url = self.text(url, f"{path_text(path)}.document_url")
        if not is_named(url):
            return None
        payload, mime_type, spelling = read_url(url)
        del part["document_url"], part["type"]
        if type(name) is str:
            del part["document_name"]
        title = name if type(name) is str else None
        return new_file(payload, mime_type, title), nested(part, {"document_url": spelling})

    def _sound(self, part: Object, _path: Path) -> Held | None:
        sound = part.get("input_audio")
        if not is_named(sound):
            return None
        del part["input_audio"], part["type"]
        payload, mime_type, spelling = read_url(sound)
        if isinstance(payload, Location) and "://" not in sound:
            payload = Base64(sound)
            mime_type, spelling = sniff(payload) or "audio/wav", {"p": [0, len(sound), ""]}
        return new_audio(payload, mime_type), nested(part, {"input_audio": spelling})

    def _filed(self, part: Object, _path: Path) -> Held | None:
        identifier = part.get("file_id")
        if not is_named(identifier):
            return None
        del part["file_id"], part["type"]
        return new_file(Location("file", identifier), "", None), set_again(part)

    def _thinking(self, part: Object, path: Path) -> Held | None:
        items = self.list(self.field(part, "thinking", path_text(path)), path_text(path))
        texts = [item["text"] for item in items if is_text_part(item)]
        if not texts and items:
            return None
        signature = part.get("signature")
        del part["thinking"], part["type"]
        if type(signature) is str:
            del part["signature"]
        dropped: list[str] = []
        take_usual(part, "closed", True, dropped)
        is_plain = all(is_text_part(item) and len(item) == 2 for item in items)
        spelling = None if is_plain else {"v": items}
        held = new_reasoning(
            tuple(texts),
            (),
            signature if type(signature) is str else None,
            None,
            Origin(NAME, self.model),
        )
        return held, nested(part, {"thinking": spelling}, dropped)

    part_readers: ClassVar[Mapping[str, Any]] = {
        **ChatReader.part_readers,
        "document_url": _document,
        "input_audio": _sound,
        "file": _filed,
        "thinking": _thinking,
    }


@listed_reader(NAME)
def read_request(body: Object, places: Places) -> Request:
    """Read the request from a body."""
    if "messages" not in body:
        raise DialectError(NAME, "messages", "is required")
    messages = body.pop("messages")
    tools = take_tools(NAME, body, places.tools) if "tools" in body else ()
    settings = TABLE.read(body, places, tools)
    reader = MistralReader(NAME, places.canisters, settings[0])
    reader.messages(messages)
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]
