"""Writes content parts of Chat Completions: text, media, files and documents.

What a dialect cannot say of a content becomes a loss at the place of its piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, assert_never

from cannery.families.openai.shared import detail_place, image_detail, knows_file
from cannery.messages.absence import absent
from cannery.messages.canisters import DocumentCanisterClass
from cannery.messages.content import (
    AnyContent,
    AudioContentClass,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    VideoContentClass,
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.wire.citations import report_approximated
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.markers import supplement
from cannery.wire.media import (
    NOT_BASE64,
    UNKNOWN_TYPE,
    WEB_IMAGES,
    base64_text,
    context_path,
    data_url,
    is_broken,
    is_fetchable,
    is_text_file,
    standard_base64,
)
from cannery.wire.residues import recall

_PDF = "application/pdf"
AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
CACHE_TTL = {"short": "30m", "long": "12h"}
# What a part of text says.
SAID = (str, TextualContentClass, RefusalContentClass, DataContentClass)
Object = dict[str, Any]


class PartWriter:
    """Writes content parts; ``is_same`` if they were read from the same dialect.

    ``for_answer`` if they are for a client, not for the server: then a message has annotations.
    """

    # Whether a message has fields for refusals and thoughts beside its content; otherwise they are parts of it.
    speaks_beside: ClassVar[bool] = True
    # The detail levels of an image.
    details: ClassVar[frozenset[str]] = frozenset({"auto", "low", "high", "original"})

    dialect: str
    report: Report
    is_same: bool
    for_answer: bool

    def parts(self, piece: Piece) -> list[Object]:
        """The parts of one piece: a document's media follow its text."""
        part = self.part(piece)
        if part is None:
            return []
        held = piece.canister.held
        if type(held) is not FileContentClass or self.is_same:
            return [part]
        media = self._chunk_media(held, piece.place)
        if media and "prompt_cache_breakpoint" in part:
            media[-1]["prompt_cache_breakpoint"] = part.pop("prompt_cache_breakpoint")
        return [part, *media]

    def part(self, piece: Piece) -> Object | None:
        """One content part, with this dialect's residue, or None and a loss."""
        canister = piece.canister
        if type(canister) is DocumentCanisterClass:
            return self._document(piece)
        ours = self.content_part(canister.held, piece.place)
        residue = canister.residue
        if residue is None or ours is None:
            if residue is not None:
                report_residue(canister, self.report, piece.place)
            return ours
        if residue.dialect == self.dialect:
            return recall(ours, residue.part)  # type: ignore[no-any-return]
        detail = image_detail(residue)
        if detail in self.details and ours["type"] == "image_url":
            ours["image_url"]["detail"] = detail
            report_residue(canister, self.report, piece.place, detail_place(residue))
        else:
            report_residue(canister, self.report, piece.place)
        if residue.cache:
            ours["prompt_cache_breakpoint"] = {"mode": "explicit", "ttl": CACHE_TTL[residue.cache]}
        return ours

    def content_part(self, content: AnyContent | str, place: int | None) -> Object | None:
        """The usual part for a content."""
        if isinstance(content, str):
            return {"type": "text", "text": content}
        match content:
            case ImageContentClass() | FileContentClass() | AudioContentClass():
                return self._media(content, place)
            case TextualContentClass():
                self._report_citations(content, place)
                return {"type": "text", "text": content.text}
            case VideoContentClass():
                self.report.lose("MEDIA_DROPPED", place, "Chat Completions takes no video")
            case ReasoningContentClass():
                return self._thinking(content, place)
            case RefusalContentClass():
                if self.speaks_beside or self.is_same:
                    return {"type": "refusal", "refusal": content.text}
                self.report.lose("REFUSAL_TO_TEXT", place)
                return {"type": "text", "text": content.text}
            case DataContentClass():
                return {"type": "text", "text": content.json}
            case OpaqueContentClass():
                return self.opaque(content, place)
            case PartsContentClass():
                self.report.lose("STRUCTURE_FLATTENED", place)
                return {"type": "text", "text": "".join(self._texts(content.parts))}
            case _:
                assert_never(content)
        return None

    def _thinking(self, _: ReasoningContentClass, place: int | None) -> Object | None:
        """The part of a thought, if the dialect has one."""
        self.report.lose("REASONING_DROPPED", place)
        return None

    def _report_citations(self, content: TextualContentClass, place: int | None) -> None:
        """Report dropped citations: a request has none, a response those with a URL or its own."""
        said = [
            each
            for each in content.citations
            if self.for_answer
            and (each.url is not None or (self.is_same and each.dialect == self.dialect))
        ]
        if len(said) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(said, self.dialect, self.report, place)

    def opaque(self, content: OpaqueContentClass, place: int | None) -> Object | None:
        """A block that only this dialect understands, or a loss."""
        if content.dialect == self.dialect:
            block: Object = decode_json(content.json)
            return block
        self.report.lose("OPAQUE_DROPPED", place, f"{content.tag!r} of {content.dialect}")
        return None

    def _media(
        self,
        content: ImageContentClass | AudioContentClass | FileContentClass,
        place: int | None,
    ) -> Object | None:
        if not self.is_same and is_broken(content):
            self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
            return None
        if isinstance(content, ImageContentClass):
            return self._image(content, place)
        if isinstance(content, AudioContentClass):
            return self._audio(content, place)
        return self._file(content, place)

    def _image(self, content: ImageContentClass, place: int | None) -> Object | None:
        payload = content.payload
        if isinstance(payload, Location):
            if not self.is_same and not is_fetchable(payload):
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return None
            return {"type": "image_url", "image_url": {"url": payload.value}}
        if self.is_same:
            return {"type": "image_url", "image_url": {"url": data_url(content)}}
        mime_type = content.mime_type
        url = f"data:{mime_type};base64,{standard_base64(payload)}"
        if mime_type == _PDF:
            return {"type": "file", "file": {"file_data": url, "filename": "file.pdf"}}
        if mime_type not in WEB_IMAGES:
            detail = f"Chat takes no {mime_type or 'image of unknown type'}"
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, detail)
            return None
        return {"type": "image_url", "image_url": {"url": url}}

    def _audio(self, content: AudioContentClass, place: int | None) -> Object | None:
        known = AUDIO_FORMATS.get(content.mime_type)
        if isinstance(content.payload, Location) or (known is None and not self.is_same):
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, "Chat takes wav and mp3 as base64")
            return None
        sound = content.mime_type.partition("/")[2] if known is None else known
        spell = base64_text if self.is_same else standard_base64
        return {
            "type": "input_audio",
            "input_audio": {"data": spell(content.payload), "format": sound},
        }

    def _file(self, content: FileContentClass, place: int | None) -> Object | None:
        payload = content.payload
        named: Object = {} if content.name is None else {"filename": content.name}
        if isinstance(payload, Location):
            if payload.kind == "url":
                self.report.lose("MEDIA_DROPPED", place, "Chat takes no file by URL")
                return None
            if not (self.is_same or knows_file(self.dialect, payload, self.report.request)):
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return None
            return {"type": "file", "file": {"file_id": payload.value, **named}}
        if self.is_same:
            return {"type": "file", "file": {"file_data": data_url(content), **named}}
        self._file_facts(content, place)
        if content.chunks or is_text_file(content):
            self.report.lose("DOCUMENT_TO_TEXT", place)
            return {"type": "text", "text": supplement(self._file_text(content), content.name)}
        mime_type = content.mime_type or UNKNOWN_TYPE
        url = f"data:{mime_type};base64,{standard_base64(payload)}"
        return {"type": "file", "file": {"file_data": url, "filename": content.name or "file"}}

    def _file_facts(self, content: FileContentClass, place: int | None) -> None:
        """Report the facts of a file that Chat has no field for."""
        if content.context is not None:
            within = context_path(content)
            self.report.lose("FIELD_DROPPED", place, "Chat has no notes on a file", within)
        if content.citable:
            self.report.lose("FIELD_DROPPED", place, "Chat cites no files", ".citations")
        if content.name and not (content.chunks or is_text_file(content)):
            self.report.lose("NAME_HIDDEN", place)

    def _file_text(self, content: FileContentClass) -> str:
        if content.chunks:
            return "\n\n".join(self._texts(content.chunks))
        return content.data.decode("utf-8", "replace")

    def _chunk_media(self, content: Any, place: int | None) -> list[Object]:
        """The media of a document with several parts, beside its text."""
        if self.is_same or type(content) is not FileContentClass:
            return []
        shown = [chunk for chunk in content.chunks if not isinstance(chunk, SAID)]
        parts = (self.content_part(chunk, place) for chunk in shown)
        return [part for part in parts if part is not None]

    def _document(self, piece: Piece) -> Object | None:
        canister: Any = piece.canister
        content = canister.content
        if not isinstance(content, TextualContentClass):
            return self.content_part(content, piece.place)
        self.report.lose("DOCUMENT_TO_TEXT", piece.place)
        title = None if canister.title is absent else canister.title
        return {"type": "text", "text": supplement(content.text, title)}

    def _texts(self, contents: Any) -> Iterator[str]:
        for content in contents:
            if isinstance(content, str):
                yield content
            elif isinstance(content, (TextualContentClass, RefusalContentClass)):
                yield content.text
            elif isinstance(content, DataContentClass):
                yield content.json
