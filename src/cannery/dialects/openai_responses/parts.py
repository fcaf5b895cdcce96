"""Writing the parts of Responses messages and tool outputs.

What people and tools say is ``input_text``, ``input_image`` and ``input_file``; what the model says
is ``output_text`` and ``refusal``. A part that cannot be said gives nothing and a loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from cannery.dialects.openai_responses.settings import NAME
from cannery.families.openai.shared import detail_place, image_detail
from cannery.messages.absence import absent
from cannery.messages.canisters import DocumentCanisterClass
from cannery.messages.content import (
    AnyContent,
    AudioContentClass,
    BinaryContentStruct,
    Citation,
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
from cannery.wire.bodies import Object
from cannery.wire.citations import report_approximated
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.markers import supplement
from cannery.wire.media import (
    NOT_BASE64,
    UNKNOWN_TYPE,
    WEB_IMAGES,
    data_url,
    is_broken,
    is_fetchable,
    standard_base64,
)
from cannery.wire.residues import recall

CACHE_TTL = {"short": "30m", "long": "12h"}
_FILE_NAMES = {"application/pdf": "file.pdf", "text/plain": "file.txt"}


class PartWriter:
    """Writes parts; ``at_home`` when they were read from this same dialect."""

    def __init__(self, report: Report, *, at_home: bool) -> None:
        self.report = report
        self.at_home = at_home

    def parts(self, piece: Piece, role: str) -> list[Object]:
        """The parts of one piece, with this dialect's residue."""
        canister = piece.canister
        if isinstance(canister, DocumentCanisterClass):
            written = self._document(canister, piece.place)
        elif role == "assistant":
            written = self.output_parts(canister.held, piece.place)
        else:
            written = self.input_parts(canister.held, piece.place)
        residue = canister.residue
        if residue is None:
            return written
        if residue.dialect == NAME:
            return [recall(part, residue.part) for part in written]
        detail = image_detail(residue)
        if detail is not None and written and written[0]["type"] == "input_image":
            written[0]["detail"] = detail
            report_residue(canister, self.report, piece.place, detail_place(residue))
        else:
            report_residue(canister, self.report, piece.place)
        if residue.cache and not self.mark(written, residue.cache, role):
            self.report.lose("CACHE_MARK_DROPPED", piece.place)
        return written

    def mark(self, parts: list[Object], cache: str, role: str) -> bool:
        """Set a cache mark on the last part, where one may stand."""
        if not parts or role == "assistant":
            return False
        parts[-1]["prompt_cache_breakpoint"] = {"mode": "explicit", "ttl": CACHE_TTL[cache]}
        return True

    # --- what people and tools say -------------------------------------------------------------

    def input_parts(self, content: AnyContent | str, place: int | None) -> list[Object]:
        """The usual parts for a content of a user, a supervisor or a tool."""
        if isinstance(content, str):
            return [_input_text(content)]
        match content:
            case TextualContentClass():
                return self._cited_text(content, place)
            case ImageContentClass() | FileContentClass():
                return self._shown(content, place)
            case AudioContentClass() | VideoContentClass():
                detail = f"Responses takes no {content.kind}"
                self.report.lose("MEDIA_DROPPED", place, detail)
                return []
            case ReasoningContentClass():
                self.drop_reasoning(content, place)
                return []
            case RefusalContentClass():
                return self._refusal_text(content, place)
            case DataContentClass():
                return [_input_text(content.json)]
            case OpaqueContentClass():
                return self.opaque(content, place)
            case PartsContentClass():
                return [part for inner in content.parts for part in self.input_parts(inner, place)]
            case _:
                assert_never(content)

    def _cited_text(self, content: TextualContentClass, place: int | None) -> list[Object]:
        if not content.citations:
            return [_input_text(content.text)]
        if self.at_home and all(citation.dialect == NAME for citation in content.citations):
            return [_output_text(content.text, self._annotations(content, place))]
        self.report.lose("CITATION_DROPPED", place)
        return [_input_text(content.text)]

    def _refusal_text(self, content: RefusalContentClass, place: int | None) -> list[Object]:
        if self.at_home:
            return [{"type": "refusal", "refusal": content.text}]
        self.report.lose("REFUSAL_TO_TEXT", place)
        return [_input_text(content.text)]

    def opaque(self, content: OpaqueContentClass, place: int | None) -> list[Object]:
        """A block that only this dialect understands, or a loss."""
        if content.dialect == NAME:
            return [decode_json(content.json)]
        self.report.lose("OPAQUE_DROPPED", place, f"{content.tag!r} of {content.dialect}")
        return []

    def drop_reasoning(self, content: ReasoningContentClass, place: int | None) -> None:
        """Name reasoning that cannot go back, and what it was signed with."""
        if content.texts or content.summaries or not (content.signature or content.encrypted):
            self.report.lose("REASONING_DROPPED", place)
        if content.signature or content.encrypted:
            self.report.lose("SIGNATURE_DROPPED", place)

    def _shown(
        self, content: ImageContentClass | FileContentClass, place: int | None
    ) -> list[Object]:
        if not self.at_home and is_broken(content):
            self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
            return []
        if isinstance(content, ImageContentClass):
            return self._image(content, place)
        return self._file(content, place)

    def _image(self, content: ImageContentClass, place: int | None) -> list[Object]:
        image: Object = {"type": "input_image", "detail": "auto"}
        payload = content.payload
        if self.at_home:
            if not isinstance(payload, Location):
                return [{**image, "image_url": data_url(content)}]
            key = "file_id" if payload.kind == "file" else "image_url"
            return [{**image, key: payload.value}]
        if isinstance(payload, Location):
            return self._image_elsewhere(image, payload, place)
        mime_type = content.mime_type
        if mime_type == "application/pdf":
            return [self._inline_file(content, mime_type, None)]
        if mime_type not in WEB_IMAGES:
            detail = f"Responses takes no {mime_type or 'image of unknown type'}"
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, detail)
            return []
        return [{**image, "image_url": f"data:{mime_type};base64,{standard_base64(payload)}"}]

    def _image_elsewhere(self, image: Object, payload: Location, place: int | None) -> list[Object]:
        if not is_fetchable(payload):
            self.report.lose("REFERENCE_UNRESOLVABLE", place)
            return []
        return [{**image, "image_url": payload.value}]

    def _file(self, content: FileContentClass, place: int | None) -> list[Object]:
        payload = content.payload
        file: Object = {"type": "input_file"}
        if content.name is not None:
            file["filename"] = content.name
        if self.at_home:
            if not isinstance(payload, Location):
                return [{**file, "file_data": data_url(content)}]
            key = "file_id" if payload.kind == "file" else "file_url"
            return [{**file, key: payload.value}]
        for field, within in (("context", ".context"), ("citable", ".citations")):
            if getattr(content, field):
                self.report.lose("FIELD_DROPPED", place, f"a file has no {field!r} here", within)
        if content.chunks:
            return self._chunks(content, place)
        if not isinstance(payload, Location):
            return [self._inline_file(content, content.mime_type, content.name)]
        if not is_fetchable(payload):
            self.report.lose("REFERENCE_UNRESOLVABLE", place)
            return []
        return [{**file, "file_url": payload.value}]

    def _inline_file(
        self, content: BinaryContentStruct, mime_type: str, name: str | None
    ) -> Object:
        url = f"data:{mime_type or UNKNOWN_TYPE};base64,{standard_base64(content.payload)}"
        filename = name or _FILE_NAMES.get(mime_type, "file")
        return {"type": "input_file", "filename": filename, "file_data": url}

    def _chunks(self, content: FileContentClass, place: int | None) -> list[Object]:
        """A document of several parts: its text as text, its media behind it."""
        self.report.lose("DOCUMENT_TO_TEXT", place)
        parts = [part for chunk in content.chunks for part in self.input_parts(chunk, place)]
        texts = [part["text"] for part in parts if part["type"] == "input_text"]
        media = [part for part in parts if part["type"] != "input_text"]
        return [_input_text(supplement("\n\n".join(texts), content.name)), *media]

    def _document(self, canister: DocumentCanisterClass, place: int | None) -> list[Object]:
        content = canister.content
        if not isinstance(content, TextualContentClass):
            return self.input_parts(content, place)
        self.report.lose("DOCUMENT_TO_TEXT", place)
        title = canister.title if isinstance(canister.title, str) else None
        return [_input_text(supplement(content.text, title))]

    # --- what the model says -------------------------------------------------------------------

    def output_parts(self, content: AnyContent | str, place: int | None) -> list[Object]:
        """The usual parts for a content of the model, in a message that has an id."""
        if isinstance(content, str):
            return [_output_text(content, [])]
        match content:
            case TextualContentClass():
                return [_output_text(content.text, self._annotations(content, place))]
            case RefusalContentClass():
                return [{"type": "refusal", "refusal": content.text}]
            case DataContentClass():
                return [_output_text(content.json, [])]
            case OpaqueContentClass():
                return self.opaque(content, place)
            case PartsContentClass():
                return [part for inner in content.parts for part in self.output_parts(inner, place)]
            case ReasoningContentClass():
                self.drop_reasoning(content, place)
                return []
            case (
                ImageContentClass() | AudioContentClass() | VideoContentClass() | FileContentClass()
            ):
                if self.at_home:
                    return self.input_parts(content, place)
                detail = f"Responses takes no {content.kind} from the assistant"
                self.report.lose("MEDIA_DROPPED", place, detail)
                return []
            case _:
                assert_never(content)

    def _annotations(self, content: TextualContentClass, place: int | None) -> list[Any]:
        said = [citation for citation in content.citations if is_sayable(citation)]
        if len(said) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(said, NAME, self.report, place)
        return [write_citation(citation, len(content.text)) for citation in said]

    def spoken_texts(self, piece: Piece) -> Iterator[str]:
        """What the model said, as the bare text that an easy message takes."""
        canister: Any = piece.canister
        residue = canister.residue
        if residue is not None and residue.dialect != NAME:
            report_residue(canister, self.report, piece.place)
            if residue.cache:
                self.report.lose("CACHE_MARK_DROPPED", piece.place)
        held = canister.held
        if isinstance(held, TextualContentClass) and held.citations:
            self.report.lose("CITATION_DROPPED", piece.place)
            yield held.text
            return
        for part in self.output_parts(held, piece.place):
            if part.get("type") == "refusal":
                self.report.lose("REFUSAL_TO_TEXT", piece.place)
                yield part["refusal"]
            elif type(part.get("text")) is str:
                yield part["text"]


def is_sayable(citation: Citation) -> bool:
    """Whether an annotation can say it: this dialect's own, or one with a URL."""
    return citation.dialect == NAME or citation.url is not None


def write_citation(citation: Citation, length: int) -> Any:
    """An annotation: this dialect's own as it was; any other without a span covers the whole text."""
    if citation.dialect == NAME:
        return decode_json(citation.raw)
    has_span = citation.start is not None and citation.end is not None
    return {
        "type": "url_citation",
        "start_index": citation.start if has_span else 0,
        "end_index": citation.end if has_span else length,
        "title": citation.title or "",
        "url": citation.url,
    }


def is_plain(part: Object) -> bool:
    """Whether a part says no more than a bare string would."""
    return part.keys() == {"type", "text"} and part["type"] == "input_text"


def kind_of_held(held: Any) -> str:
    """What a person would call a content that could not be said."""
    if isinstance(held, OpaqueContentClass):
        return held.tag or "block"
    return "message" if held is absent or isinstance(held, str) else str(held.kind)


def _input_text(text: str) -> Object:
    return {"type": "input_text", "text": text}


def _output_text(text: str, annotations: list[Any]) -> Object:
    return {"type": "output_text", "text": text, "annotations": annotations}
