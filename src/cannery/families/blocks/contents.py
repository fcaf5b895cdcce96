"""Writes contents as blocks, as Messages and Converse share them.

For the same dialect nothing is checked; for another one a block that the server would refuse is left out with a loss. A
dialect defines the blocks: ``tagged`` joins a kind and its fields, and images and documents are its own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from orjson import Fragment

from cannery.messages.content import (
    PLAIN,
    BinaryContentStruct,
    FileContentClass,
    OpaqueContentClass,
    Origin,
    ReasoningContentClass,
    new_image,
)
from cannery.messages.payload import Payload
from cannery.wire.bodies import Object
from cannery.wire.contents import CallWriter, ContentWriter
from cannery.wire.losses import Place, Report
from cannery.wire.media import (
    SEARCH_RESULT,
    base64_text,
    standard_base64,
)

PDF = "application/pdf"
_TEXTUAL = ("json", "xml", "yaml", "javascript", "sql", "csv", "markdown", "toml")


class BlockWriter(ContentWriter, CallWriter):
    """Writes contents; ``is_same`` if they come from this dialect.

    ``is_foreign`` if they come from another one, so that a provider's file id means nothing. ``for_answer`` if they are
    for a client and not for the server. ``model`` is the requested model, or the one that answered.
    """

    # The beginning of a loss detail that names what the server refuses.
    takes: ClassVar[str]
    # The signature of an unsigned thought, if the server's clients require one.
    unsigned: ClassVar[str | None] = None

    def __init__(
        self,
        report: Report,
        *,
        is_same: bool,
        is_foreign: bool = False,
        for_answer: bool = False,
        model: str | None = None,
    ) -> None:
        self.report = report
        self.is_same = is_same
        self.is_foreign = is_foreign
        self.for_answer = for_answer
        self.model = model

    # --- how a dialect spells it ---------------------------------------------------------------

    @abstractmethod
    def tagged(self, kind: str, fields: Object) -> Object:
        """A block of a given kind."""

    @abstractmethod
    def thought_block(self, text: str, signature: str | None) -> Object:
        """The block of a thought."""

    @abstractmethod
    def sealed_block(self, encrypted: str) -> Object:
        """The block of a thought that only the server can read."""

    @abstractmethod
    def is_own(self, origin: Origin) -> bool:
        """Whether a thought comes from this provider and is sent back with its signature."""

    @abstractmethod
    def _document(self, content: FileContentClass, place: Place) -> list[Any]:
        """The block of a file that is not an image, or none and a loss."""

    # --- text ----------------------------------------------------------------------------------

    def said(self, text: str, place: Place) -> list[Any]:
        """The block of a text, unless the server refuses it because it has no visible character."""
        if self.is_same or (text and not text.isspace()) or "empty_text" in self.report.off:
            return [self.text_block(text)]
        if text:
            if not self.for_answer:
                self.report.repair("empty_text", place)
            self.report.lose("TEXT_DROPPED", place)
        return []

    def _opaque(self, content: OpaqueContentClass, place: Place) -> list[Any]:
        if self.is_same and not self.for_answer and content.dialect == self.dialect:
            return [Fragment(content.json)]
        return super()._opaque(content, place)

    def _reasoning(self, content: ReasoningContentClass, place: Place) -> list[Any]:
        origin = content.origin
        is_own = self.is_same or (origin is not None and self.is_own(origin))
        if is_own and content.encrypted is not None:
            return [self.sealed_block(content.encrypted)]
        if is_own and (self.is_same or content.signature is not None):
            return [self.thought_block(content.text, content.signature)]
        if content.signature is not None or content.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", place)
        if self.for_answer and content.shown:
            # A client may show thoughts from elsewhere; unsigned, they are never sent back to a server.
            return [self.thought_block(content.shown, self.unsigned)]
        self.report.lose("REASONING_DROPPED", place)
        return []

    # --- media ---------------------------------------------------------------------------------

    def _base64(self, payload: Payload) -> str:
        return base64_text(payload) if self.is_same else standard_base64(payload)

    def _refuse_type(self, content: BinaryContentStruct, place: Place) -> None:
        shown = content.mime_type or f"{content.kind} of unknown type"
        self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, f"{self.takes} no {shown}")

    def _is_plain(self, mime_type: str, place: Place) -> bool:
        """Whether a file is written as plain text, the only text type of the server; this repair is always on."""
        subtype = mime_type.partition("/")[2].rpartition("+")[2]
        if subtype not in _TEXTUAL and not mime_type.startswith("text/"):
            return False
        if mime_type != PLAIN:
            self.report.repair("media_types", place, f"{mime_type} became {PLAIN}")
        return True

    def _file(self, content: FileContentClass, place: Place) -> list[Any]:
        if content.mime_type == SEARCH_RESULT and content.chunks:
            found: Object = {
                "source": content.context or "",
                "title": content.name or "",
                "content": self._chunks(content, place),
            }
            return [self.tagged("search_result", _citable(found, content))]
        if self.is_same or content.chunks or not content.mime_type.startswith("image/"):
            return self._document(content, place)
        for fact in ("name", "context", "citable"):
            if getattr(content, fact):
                self.report.lose("FIELD_DROPPED", place, f"an image has no {fact!r}")
        return self.content(new_image(content.payload, content.mime_type), place)

    def _chunks(self, content: FileContentClass, place: Place) -> list[Any]:
        return [block for chunk in content.chunks for block in self.content(chunk, place)]

    def _document_block(self, fields: Object, content: FileContentClass) -> list[Any]:
        """The block of a document with the fields that both dialects have."""
        if content.context is not None:
            fields["context"] = content.context
        return [self.tagged("document", _citable(fields, content))]


def _citable(fields: Object, content: FileContentClass) -> Object:
    if content.citable is not None:
        fields["citations"] = {"enabled": content.citable}
    return fields
