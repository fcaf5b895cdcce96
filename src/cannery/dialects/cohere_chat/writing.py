"""Writes Cohere requests: message fields beyond those of the family, and documents beside the messages."""

from __future__ import annotations

from typing import Any, ClassVar

from cannery.dialects.cohere_chat.reading import BARE, DOCUMENT, LISTED, STRING
from cannery.dialects.cohere_chat.settings import NAME, TABLE
from cannery.families.chat.writing import ChatWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import DocumentCanisterClass, SupervisorCanisterClass
from cannery.messages.content import (
    AudioContentClass,
    Citation,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    PartsContentClass,
    ReasoningContentClass,
    TextualContentClass,
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.messages.requests import Request
from cannery.wire.bodies import Object
from cannery.wire.citations import is_sayable, report_approximated
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.markers import flag_error
from cannery.wire.media import is_broken, is_text_file
from cannery.wire.residues import own_residue, recall, recall_settings
from cannery.wire.turns import is_prefill

_PDF = "application/pdf"
_SAYING = ("content", "tool_calls", "tool_plan")


class CohereWriter(ChatWriter):
    """Writes messages: thoughts are parts, citations are beside the content, documents beside the messages."""

    speaks_beside = False
    has_freeform = False
    details: ClassVar[frozenset[str]] = frozenset({"auto", "low", "high"})
    # The citations of the current message; None outside a message.
    _cited: list[Object] | None = None

    def _thinking(self, content: ReasoningContentClass, place: int | None) -> Object | None:
        if content.signature is not None or content.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", place)
        # Only assistant messages have thoughts.
        is_said = bool(content.shown) and self._cited is not None
        if not is_said and not self.is_same:
            self.report.lose("REASONING_DROPPED", place)
            return None
        return {"type": "thinking", "thinking": content.shown}

    def _image(self, content: ImageContentClass, place: int | None) -> Object | None:
        if content.mime_type == _PDF and not self.is_same:
            self.report.lose("MEDIA_DROPPED", place, "Cohere takes no files")
            return None
        return super()._image(content, place)

    def _audio(self, content: AudioContentClass, place: int | None) -> Object | None:  # noqa: ARG002 - none is taken
        self.report.lose("MEDIA_DROPPED", place, "Cohere takes no audio")
        return None

    def _file(self, content: FileContentClass, place: int | None) -> Object | None:
        if isinstance(content.payload, Location) or content.chunks or is_text_file(content):
            return super()._file(content, place)
        self.report.lose("MEDIA_DROPPED", place, "Cohere takes no files")
        return None

    # --- assistant -----------------------------------------------------------------------------

    def assistant(self, turn: list[Piece]) -> Object:
        """One assistant message, with the citations of its texts."""
        self._cited = []
        message = super().assistant(turn)
        if self._cited and "citations" not in message:
            message["citations"] = self._cited
        self._cited = None
        return message

    def _add_spoken(
        self, piece: Piece, message: Object, parts: list[Object], calls: list[Object]
    ) -> None:
        count = len(parts)
        super()._add_spoken(piece, message, parts, calls)
        held = piece.canister.held
        if type(held) is TextualContentClass and self._cited is not None and len(parts) > count:
            said = (each for each in held.citations if is_sayable(each, NAME))
            self._cited += [write_citation(each, held.text, count) for each in said]

    def _report_citations(self, content: TextualContentClass, place: int | None) -> None:
        if self._cited is None:
            super()._report_citations(content, place)
            return
        said = [each for each in content.citations if is_sayable(each, NAME)]
        if len(said) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(said, NAME, self.report, place)

    def _set_content(
        self, message: Object, parts: list[Object], calls: list[Object], form: str | None
    ) -> None:
        if parts and self.for_answer:
            message["content"] = parts
        elif parts or form in ("list", "empty", "string"):
            super()._set_content(message, parts, calls, form)
        elif form == "null":
            message["content"] = None

    # --- results and documents -----------------------------------------------------------------

    def _result_content(self, piece: Piece, form: str | None) -> tuple[Any, list[Object]]:
        canister: Any = piece.canister
        held = canister.held
        contents = held.parts if isinstance(held, PartsContentClass) else (held,)
        words = (form or "").split()
        if words[:1] == [LISTED] and len(words) == len(contents) + 1:
            return self._as_listed(piece, contents, words[1:]), []
        data = [self._data(each) for each in contents]
        if self.is_same or canister.is_error or not any(map(_is_object, data, contents)):
            return super()._result_content(piece, form)
        parts = [
            {"type": DOCUMENT, DOCUMENT: {"data": said}}
            if _is_object(said, each)
            else self.content_part(each, piece.place)
            for said, each in zip(data, contents, strict=True)
            if said is not None
        ]
        others = [each for said, each in zip(data, contents, strict=True) if said is None]
        texts, media = self._result_media(others, canister.invocation_id, piece.place)
        if media:
            self.report.lose("MEDIA_MOVED", piece.place)
        return [*parts, *({"type": "text", "text": text} for text in texts)], media

    def _as_listed(self, piece: Piece, contents: Any, words: list[str]) -> list[Any]:
        """The parts of a result as they came."""
        parts: list[Any] = []
        for content, word in zip(contents, words, strict=True):
            said = content.text if isinstance(content, TextualContentClass) else content
            if isinstance(said, str) and piece.canister.is_error and not parts:  # type: ignore[union-attr]
                said = flag_error(said)
            if word != DOCUMENT:
                parts.append(self.content_part(said, piece.place))
            else:
                data = decode_json(said.json) if isinstance(said, DataContentClass) else said
                parts.append({"type": DOCUMENT, DOCUMENT: {"data": data}})
        return parts

    def _data(self, content: Any) -> Object | None:
        """A content as the data of a document; None if it is not text."""
        if isinstance(content, DataContentClass):
            found = decode_json(content.json)
            return found if type(found) is dict else {"text": content.json}
        if isinstance(content, FileContentClass):
            is_text = is_text_file(content) and not is_broken(content)
            if self._chunk_media(content, None) or not (content.chunks or is_text):
                return None
            facts = {"title": content.name, "context": content.context}
            said = {key: item for key, item in facts.items() if item is not None}
            return {**said, "text": self._file_text(content)}
        text = content.text if isinstance(content, TextualContentClass) else content
        return {"text": text} if isinstance(text, str) else None

    def documents(self, pieces: list[Piece]) -> tuple[list[Any], list[Piece]]:
        """The documents before the first turn in the request's form, and the other pieces."""
        found: list[Any] = []
        others: list[Piece] = []
        for at, piece in enumerate(pieces):
            if not isinstance(piece.canister, (SupervisorCanisterClass, DocumentCanisterClass)):
                return found, [*others, *pieces[at:]]
            is_document = isinstance(piece.canister, DocumentCanisterClass)
            written = self._top_document(piece) if is_document else None
            if written is None:
                others.append(piece)
            else:
                found.append(written)
        return found, others

    def _top_document(self, piece: Piece) -> Any:
        canister: Any = piece.canister
        data = self._data(canister.held)
        if data is None:
            return None
        residue = own_residue(canister, NAME)
        if residue is None:
            report_residue(canister, self.report, piece.place)
        elif residue.form in (STRING, BARE):
            text = data.get("text", "")
            return text if residue.form == STRING else recall({"data": text}, residue.part)
        if canister.title is not absent:
            data = {"title": canister.title, **data}
        return {"data": data} if residue is None else recall({"data": data}, residue.part)


def _is_object(said: Object | None, content: Any) -> bool:
    """Whether a content of a result is written as a document: an object or a file, not plain text."""
    if isinstance(content, DataContentClass):
        return content.json.lstrip().startswith("{")
    return said is not None and isinstance(content, FileContentClass)


def write_citation(citation: Citation, words: str, index: int) -> Object:
    """A citation of a text; one without a span covers all of it."""
    if citation.dialect == NAME:
        return decode_json(citation.raw)  # type: ignore[no-any-return]
    start, end = citation.start, citation.end
    if start is None or end is None:
        start, end = 0, len(words)
    facts = {"url": citation.url, "title": citation.title, "snippet": citation.cited_text}
    document = {key: item for key, item in facts.items() if item is not None}
    return {
        "start": start,
        "end": end,
        "text": words[start:end],
        "sources": [{"type": DOCUMENT, "id": citation.url or citation.title, DOCUMENT: document}],
        "content_index": index,
        "type": "TEXT_CONTENT",
    }


def _says(message: Object) -> bool:
    """Whether a message has content; all of an assistant message's content may have been lost."""
    return message["role"] != "assistant" or any(message.get(key) for key in _SAYING)


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request."""
    is_same = request.source == NAME
    writer = CohereWriter(NAME, report, is_same=is_same)
    body = TABLE.write(request, report)
    body = recall_settings(body, own_residue(request, NAME))
    documents, pieces = writer.documents(pieces)
    messages = writer.messages(pieces)
    body["messages"] = messages if is_same else [each for each in messages if _says(each)]
    if documents:
        body["documents"] = documents
        if not is_same and body.get("response_format", {}).get("type") == "json_object":
            del body["response_format"]
            report.lose("CONTROL_DROPPED", "@output", "Cohere takes no format beside documents")
    if not is_same and pieces and is_prefill(pieces[-1]):
        report.lose("PREFILL_DROPPED", pieces[-1].place)
    return body
