"""Writes Mistral requests: message fields beyond those of the family."""

from __future__ import annotations

from typing import Any, ClassVar

from cannery.dialects.mistral_chat.reading import PREFIX
from cannery.dialects.mistral_chat.settings import NAME, TABLE
from cannery.families.chat.fields import as_list
from cannery.families.chat.writing import ChatWriter
from cannery.messages.content import (
    AudioContentClass,
    FileContentClass,
    ImageContentClass,
    ReasoningContentClass,
    TextualContentClass,
    new_file,
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.messages.requests import Request
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece
from cannery.wire.losses import Report
from cannery.wire.markers import system_envelope
from cannery.wire.media import (
    UNKNOWN_TYPE,
    base64_text,
    is_fetchable,
    is_text_file,
    standard_base64,
)
from cannery.wire.residues import own_residue, recall_settings


class MistralWriter(ChatWriter):
    """Writes messages: thoughts and documents are chunks, references follow the text that they cite."""

    speaks_beside = False
    has_freeform = False
    details: ClassVar[frozenset[str]] = frozenset({"auto", "low", "high"})

    def parts(self, piece: Piece) -> list[Object]:
        """The chunks of one piece, with its references."""
        return [*super().parts(piece), *_references(piece)]

    def _add_spoken(
        self, piece: Piece, message: Object, parts: list[Object], calls: list[Object]
    ) -> None:
        super()._add_spoken(piece, message, parts, calls)
        parts += _references(piece)

    def _thinking(self, content: ReasoningContentClass, place: int | None) -> Object | None:
        origin = content.origin
        is_own = self.is_same or (origin is not None and origin.dialect == self.dialect)
        sealed = content.encrypted if is_own else content.encrypted or content.signature
        if sealed is not None:
            self.report.lose("SIGNATURE_DROPPED", place)
        texts = (*content.texts, *content.summaries)
        if not any(texts) and not is_own:
            self.report.lose("REASONING_DROPPED", place)
            return None
        chunk: Object = {
            "type": "thinking",
            "thinking": [{"type": "text", "text": text} for text in texts],
        }
        if is_own and content.signature is not None:
            chunk["signature"] = content.signature
        return {**chunk, "closed": True}

    def _report_citations(self, content: TextualContentClass, place: int | None) -> None:
        if any(each.dialect != self.dialect for each in content.citations):
            self.report.lose("CITATION_DROPPED", place)

    def _audio(self, content: AudioContentClass, place: int | None) -> Object | None:
        payload = content.payload
        if isinstance(payload, Location):
            if not self.is_same and not is_fetchable(payload):
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return None
            return {"type": "input_audio", "input_audio": payload.value}
        spell = base64_text if self.is_same else standard_base64
        sound = f"data:{content.mime_type};base64,{spell(payload)}"
        return {"type": "input_audio", "input_audio": sound}

    def _image(self, content: ImageContentClass, place: int | None) -> Object | None:
        if self.is_same or content.mime_type != "application/pdf":
            return super()._image(content, place)
        # A PDF that was declared an image.
        return self._file(new_file(content.payload, content.mime_type), place)

    def _file(self, content: FileContentClass, place: int | None) -> Object | None:
        payload = content.payload
        if isinstance(payload, Location) and payload.kind == "file":
            if not self.is_same:
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return None
            return {"type": "file", "file_id": payload.value}
        if not self.is_same:
            if content.chunks or is_text_file(content):
                return super()._file(content, place)
            self._file_facts(content, place)
        if isinstance(payload, Location):
            url = payload.value
        else:
            spell = base64_text if self.is_same else standard_base64
            url = f"data:{content.mime_type or UNKNOWN_TYPE};base64,{spell(payload)}"
        chunk: Object = {"type": "document_url", "document_url": url}
        return chunk if content.name is None else {**chunk, "document_name": content.name}

    def result(self, piece: Piece) -> tuple[Object, list[Object]]:
        """A tool message, which names its function."""
        message, media = super().result(piece)
        name = self.called.get(piece.canister.invocation_id)  # type: ignore[union-attr]
        if name is not None and not self.is_same:
            message["name"] = name
        return message, media

    def _set_content(
        self, message: Object, parts: list[Object], calls: list[Object], form: str | None
    ) -> None:
        words = (form or "").split()
        own = [word for word in words if word not in PREFIX]
        super()._set_content(message, parts, calls, own[0] if own else None)
        for word in words:
            if word in PREFIX:
                message["prefix"] = PREFIX[word]


def _references(piece: Piece) -> list[Any]:
    """The references after a text."""
    held = piece.canister.held
    if type(held) is not TextualContentClass:
        return []
    return [decode_json(each.raw) for each in held.citations if each.dialect == NAME]


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request; the model continues a trailing assistant message."""
    is_same = request.source == NAME
    writer = MistralWriter(NAME, report, is_same=is_same)
    body = TABLE.write(request, report)
    body = recall_settings(body, own_residue(request, NAME))
    messages = writer.messages(pieces)
    body["messages"] = messages if is_same else _legal(messages, report)
    return body


def _legal(messages: list[Object], report: Report) -> list[Object]:
    """Messages without empty turns of the model, with a last message that Mistral accepts."""
    said = [each for each in messages if each["role"] != "assistant" or _says(each)]
    last: Object = said[-1] if said else {"role": "tool"}
    if last["role"] == "assistant" and not last.get("tool_calls"):
        last["prefix"] = True
    elif last["role"] == "system":
        report.repair("late_supervisors", None)
        text = "".join(part["text"] for part in as_list(last["content"]))
        said[-1] = {"role": "user", "content": system_envelope(text)}
    return said


def _says(message: Object) -> bool:
    return bool(message.get("content") or message.get("tool_calls"))
