"""Writing contents as blocks.

For the same dialect nothing is judged; for another one a block that the server would refuse is left out with a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from orjson import Fragment

from cannery.dialects.anthropic_messages.models import NAME
from cannery.families.claude.models import is_same_family
from cannery.messages.content import (
    PLAIN,
    AudioContentClass,
    BinaryContentStruct,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    VideoContentClass,
    new_image,
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.losses import Report
from cannery.wire.media import (
    NOT_BASE64,
    SEARCH_RESULT,
    WEB_IMAGES,
    base64_text,
    is_broken,
    is_text_file,
    standard_base64,
)

Place = int | str | None
PDF = "application/pdf"
_TEXTUAL = ("json", "xml", "yaml", "javascript", "sql", "csv", "markdown", "toml")


class BlockWriter:
    """Writes contents as blocks; ``is_same`` when they were read from this same dialect.

    ``is_foreign`` when they come from another one, so that a provider's file id means nothing. ``for_answer`` when they
    are for a client and not for the server.
    """

    # Of the canister under way.
    residue: Residue | None = None

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

    def blocks(self, content: Any, place: Place) -> list[Any]:
        """The blocks of a content: one, or none and a loss; several for several parts."""
        if type(content) is str:
            if not self.is_same and (not content or content.isspace()):
                return (
                    [] if self._is_refused(content, place) else [{"type": "text", "text": content}]
                )
            return [{"type": "text", "text": content}]
        if not self.is_same and isinstance(content, BinaryContentStruct) and is_broken(content):
            self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
            return []
        found = self._writers[type(content)](self, content, place)
        if type(found) is list:
            return found
        return [] if found is None else [found]

    def _is_refused(self, text: str, place: Place) -> bool:
        """Whether the server refuses a text because there is nothing to see in it."""
        if text.strip() or "empty_text" in self.report.off:
            return False
        if text:
            if not self.for_answer:
                self.report.repair("empty_text", place)
            self.report.lose("TEXT_DROPPED", place)
        return True

    def _text(self, content: TextualContentClass, place: Place) -> Any:
        text = content.text
        if not self.is_same and self._is_refused(text, place):
            return None
        block: Object = {"type": "text", "text": text}
        citations: list[Any] = []
        for citation in content.citations:
            if citation.dialect != NAME:
                self.report.lose("CITATION_DROPPED", place)
            elif self.is_same and not self.for_answer:
                citations.append(Fragment(citation.raw))
            else:
                cited = decode_json(citation.raw)
                if not self.for_answer and type(cited) is dict:
                    # Only answers name the file.
                    cited.pop("file_id", None)
                citations.append(cited)
        if citations:
            block["citations"] = citations
        return block

    def _refusal(self, content: RefusalContentClass, place: Place) -> Any:
        self.report.lose("REFUSAL_TO_TEXT", place)
        return self.blocks(content.text, place)

    def _data(self, content: DataContentClass, place: Place) -> Any:
        return self.blocks(content.json, place)

    def _parts(self, content: PartsContentClass, place: Place) -> Any:
        return [block for part in content.parts for block in self.blocks(part, place)]

    def _sound(self, content: AudioContentClass | VideoContentClass, place: Place) -> None:
        self.report.lose("MEDIA_DROPPED", place, f"Messages take no {content.kind}")

    def _opaque(self, content: OpaqueContentClass, place: Place) -> Any:
        if content.dialect == NAME:
            return Fragment(content.json) if self.is_same else decode_json(content.json)
        self.report.lose("OPAQUE_DROPPED", place, f"{content.tag!r} of {content.dialect}")
        return None

    # --- reasoning -----------------------------------------------------------------------------

    def _reasoning(self, content: ReasoningContentClass, place: Place) -> Object | None:
        is_own = self.is_same or self._is_own(content)
        if content.encrypted is not None and is_own:
            return {"type": "redacted_thinking", "data": content.encrypted}
        thought: Object = {"type": "thinking", "thinking": content.text}
        if is_own and (self.is_same or content.signature is not None):
            if content.signature is not None:
                thought["signature"] = content.signature
            return thought
        if content.signature is not None or content.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", place)
        if self.for_answer and content.shown:
            # A client may see thoughts from elsewhere; unsigned, they never go back to a server.
            return {"type": "thinking", "thinking": content.shown, "signature": ""}
        self.report.lose("REASONING_DROPPED", place)
        return None

    def _is_own(self, content: ReasoningContentClass) -> bool:
        origin = content.origin
        if origin is None or origin.dialect != NAME:
            return False
        return self.for_answer or is_same_family(origin.model, self.model)

    # --- media ---------------------------------------------------------------------------------

    def _image(self, content: ImageContentClass, place: Place) -> Object | None:
        if isinstance(content.payload, Location):
            source = self._located(content.payload, place)
            return None if source is None else {"type": "image", "source": source}
        if self.is_same:
            return {"type": "image", "source": self._inline(content, content.mime_type)}
        mime_type = content.mime_type
        if mime_type == PDF:
            return {"type": "document", "source": self._inline(content, PDF)}
        if mime_type not in WEB_IMAGES:
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, f"Messages take no {mime_type}")
            return None
        return {"type": "image", "source": self._inline(content, mime_type)}

    def _located(self, payload: Location, place: Place) -> Object | None:
        if payload.kind == "file":
            if self.is_foreign:
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return None
            return {"type": "file", "file_id": payload.value}
        if not self.is_same and not payload.value.lower().startswith(("http://", "https://")):
            scheme = payload.value.partition(":")[0]
            self.report.lose("REFERENCE_UNRESOLVABLE", place, f"no server fetches {scheme!r}")
            return None
        return {"type": "url", "url": payload.value}

    def _inline(self, content: BinaryContentStruct, mime_type: str) -> Object:
        spell = base64_text if self.is_same else standard_base64
        return {"type": "base64", "media_type": mime_type, "data": spell(content.payload)}

    def _file(self, content: FileContentClass, place: Place) -> Object | None:
        if content.mime_type == SEARCH_RESULT and content.chunks:
            return self._search_result(content, place)
        if not self.is_same and _is_picture(content):
            for fact in ("name", "context", "citable"):
                if getattr(content, fact):
                    self.report.lose("FIELD_DROPPED", place, f"an image has no {fact!r}")
            return self._image(new_image(content.payload, content.mime_type), place)
        source = self._document_source(content, place)
        if source is None:
            return None
        block: Object = {"type": "document", "source": source}
        if content.name is not None:
            block["title"] = content.name
        if content.context is not None:
            block["context"] = content.context
        if content.citable is not None:
            block["citations"] = {"enabled": content.citable}
        return block

    def _search_result(self, content: FileContentClass, place: Place) -> Object:
        block: Object = {
            "type": "search_result",
            "source": content.context or "",
            "title": content.name or "",
            "content": self._chunks(content, place),
        }
        if content.citable is not None:
            block["citations"] = {"enabled": content.citable}
        return block

    def _chunks(self, content: FileContentClass, place: Place) -> list[Object]:
        return [block for chunk in content.chunks for block in self.blocks(chunk, place)]

    def _document_source(self, content: FileContentClass, place: Place) -> Object | None:
        if content.chunks:
            return self._chunked(content, place)
        if isinstance(content.payload, Location):
            return self._located(content.payload, place)
        if self.is_same:
            if content.mime_type.startswith("text/"):
                return self._text_source(content, content.mime_type, place)
            return self._inline(content, content.mime_type)
        if is_text_file(content):
            return self._text_source(content, PLAIN, place)
        mime_type = content.mime_type
        if mime_type == PDF:
            return self._inline(content, PDF)
        subtype = mime_type.partition("/")[2].rpartition("+")[2]
        if subtype in _TEXTUAL or mime_type.startswith("text/"):
            if mime_type != PLAIN:
                # The server knows no other text, so this is said whether or not the repair is switched off.
                self.report.repair("media_types", place, f"{mime_type} became {PLAIN}")
            return self._text_source(content, PLAIN, place)
        self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, f"Messages take no {mime_type}")
        return None

    def _text_source(self, content: FileContentClass, media_type: str, place: Place) -> Object:
        try:
            text = content.data.decode()
        except UnicodeDecodeError:
            text = content.data.decode("utf-8", "replace")
            if not self._is_restored():
                detail = "bytes that are not UTF-8 became U+FFFD"
                self.report.lose("DOCUMENT_TO_TEXT", place, detail)
        return {"type": "text", "media_type": media_type, "data": text}

    def _is_restored(self) -> bool:
        """Whether residue gives back what was read, so that nothing is lost."""
        residue = self.residue
        return (
            self.is_same
            and residue is not None
            and residue.dialect == NAME
            and residue.part is not None
        )

    def _chunked(self, content: FileContentClass, place: Place) -> Object | None:
        chunks = self._chunks(content, place)
        if not self.is_same:
            chunks = [chunk for chunk in chunks if chunk["type"] in ("text", "image")]
        if content.mime_type == PLAIN and is_bare_text(chunks):
            return {"type": "content", "content": chunks[0]["text"]}
        return {"type": "content", "content": chunks} if chunks else None

    _writers: ClassVar[dict[type, Callable[[Any, Any, Place], Any]]] = {
        TextualContentClass: _text,
        ImageContentClass: _image,
        AudioContentClass: _sound,
        VideoContentClass: _sound,
        FileContentClass: _file,
        ReasoningContentClass: _reasoning,
        RefusalContentClass: _refusal,
        DataContentClass: _data,
        OpaqueContentClass: _opaque,
        PartsContentClass: _parts,
    }


def is_bare_text(blocks: list[Any]) -> bool:
    """Whether blocks are one text and nothing else, so that a string may stand for them."""
    if len(blocks) != 1:
        return False
    block = blocks[0]
    if type(block) is not dict or len(block) != 2:
        return False
    return block.get("type") == "text" and "text" in block


def _is_picture(content: FileContentClass) -> bool:
    """Whether a file is an image by its type."""
    return not content.chunks and content.mime_type.startswith("image/")
