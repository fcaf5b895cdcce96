"""Writes Converse requests: a block is an object with one key, its kind, and a cache point follows what it marks.

For another dialect documents get legal and unique names, and a turn with documents gets text.
"""

from __future__ import annotations

import re
from typing import Any

from orjson import Fragment

from cannery.dialects.bedrock_converse.reading import (
    AS_TEXT,
    BARE,
    BEHIND,
    CITED,
    EMPTY,
    FORMAT,
    GUARDED,
    INLINE,
    INNER,
    LENGTHS,
    STRING,
    SUCCESS,
    TYPED,
    format_of,
)
from cannery.dialects.bedrock_converse.settings import write_settings
from cannery.dialects.bedrock_converse.tools import NAME, write_mark
from cannery.families.blocks.contents import PDF
from cannery.families.blocks.writing import TurnWriter
from cannery.messages.canisters import (
    AnyCanister,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
)
from cannery.messages.content import (
    BinaryContentStruct,
    DataContentClass,
    FileContentClass,
    Origin,
    PartsContentClass,
    TextualContentClass,
    new_file,
    new_text,
)
from cannery.messages.json_text import decode_json, is_json_object
from cannery.messages.payload import Location
from cannery.messages.requests import Request
from cannery.messages.residue import PREAMBLE, Residue
from cannery.wire.bodies import Object
from cannery.wire.citations import report_approximated
from cannery.wire.contents import Medium
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Place, Report
from cannery.wire.residues import NO_WORDS, form_words, own_residue, recall, recall_settings

_KINDS = {"search_result": "searchResult", "document": "document"}
# Content that only user messages may have, beside text.
_OF_USERS = frozenset({"image", "document", "video", "audio", "searchResult"})
_ILLEGAL = re.compile(r"[^A-Za-z0-9_\s()\[\]-]")
_LONGEST_NAME = 200


class ConverseWriter(TurnWriter):
    """Writes messages and the system field."""

    dialect = NAME
    takes = "Converse takes"

    # The form of the current canister, and whether it is inside a result.
    words: frozenset[str] = frozenset()
    is_in_result = False

    def __init__(self, report: Report, **facts: Any) -> None:
        super().__init__(report, **facts)
        # The names of the documents in the body.
        self._names: set[str] = set()

    # --- messages ------------------------------------------------------------------------------

    def split(self, pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
        """Split off the pieces of the system field."""
        leading: list[Piece] = []
        others: list[Piece] = []
        for piece in pieces:
            canister = piece.canister
            is_system = type(canister) is SupervisorCanisterClass and not (
                self.is_same and INLINE in form_words(own_residue(canister, NAME))
            )
            if is_system and (not others or self._was_leading(canister)):
                leading.append(piece)
            else:
                others.append(piece)
        return leading, others

    def _was_leading(self, canister: AnyCanister) -> bool:
        """Whether something was inserted before the pieces of the system field."""
        residue = own_residue(canister, NAME)
        return self.is_same and residue is not None and residue.form == PREAMBLE

    def message(self, turn: list[Piece], role: str) -> Object | None:
        """The message of a turn; None if it is empty."""
        alone = self._alone(turn)
        if alone is not None:
            return {"role": role, "content": [{"text": alone}]}
        residue = own_residue(turn[0].canister, NAME)
        message: Object = {"role": role}
        if residue is not None and residue.envelope is not None:
            message = recall(message, residue.envelope)
        blocks = self.blocks(turn, role)
        if not blocks and not self.is_same:
            return None
        message["content"] = blocks
        return message

    def blocks(self, turn: list[Piece], role: str) -> list[Any]:
        """The blocks of a turn; the server requires text beside a document."""
        blocks = super().blocks(turn, role)
        is_free = self.is_same or self.for_answer
        if is_free or any("text" in block for block in blocks):
            return blocks
        document = next((block["document"] for block in blocks if "document" in block), None)
        if document is None:
            return blocks
        words = f"[document: {document['name']}]"
        detail = f"a document needs text beside it; {words!r} was sent"
        self.report.lose("CONTROL_DEFAULTED", None, detail)
        results = [block for block in blocks if "toolResult" in block]
        others = [block for block in blocks if "toolResult" not in block]
        return [*results, {"text": words}, *others]

    def _is_medium(self, block: Object) -> bool:
        return not (self.for_answer or _OF_USERS.isdisjoint(block))

    # --- pieces --------------------------------------------------------------------------------

    def piece_blocks(self, piece: Piece) -> list[Any]:
        """The blocks of one piece, with this dialect's residue and the cache point of its mark."""
        canister: Any = piece.canister
        if canister.residue is None:
            self.words = NO_WORDS
            return self._written(piece)
        residue = own_residue(canister, NAME)
        self.words = form_words(residue)
        if residue is None:
            report_residue(canister, self.report, piece.place)
        if self.is_same and EMPTY in self.words and type(canister) is not ResultCanisterClass:
            return [] if not canister.held else self._written(piece)
        return self._marked(piece, _recalled(self._written(piece), residue))

    def _marked(self, piece: Piece, blocks: list[Any]) -> list[Any]:
        residue = piece.canister.residue
        if residue is None or not residue.cache or (self.for_answer and not self.is_same):
            return blocks
        if not blocks or (not self.is_same and "reasoningContent" in blocks[-1]):
            self.report.lose("CACHE_MARK_DROPPED", piece.place)
            return blocks
        form = residue.form if residue.dialect == NAME else None
        return [*blocks, write_mark(residue.cache, form)]

    def whole(self, content: Any, residue: Residue | None) -> list[Any]:
        """The blocks of a content that arrives at once in a stream."""
        self.words = form_words(residue)
        return _recalled(self.content(content, None), residue)

    def _call(self, canister: InvocationCanisterClass, piece: Piece) -> Object:
        if self.is_same and STRING in self.words:
            given: Any = canister.held
        elif self.is_same and BARE in self.words:
            given = Fragment(canister.held)
        else:
            given = self.arguments(canister, piece.place)
        call: Object = {"toolUseId": canister.identifier, "name": canister.name, "input": given}
        if TYPED in self.words:
            call["type"] = TYPED
        return {"toolUse": call}

    def _result(self, canister: ResultCanisterClass, piece: Piece) -> Object:
        words = self.words
        held: Any = canister.held
        blocks: list[Any] = []
        if not (self.is_same and EMPTY in words and held == ""):
            self.is_in_result = True
            parts = held.parts if type(held) is PartsContentClass else (held,)
            for index, part in enumerate(parts):
                if words:
                    start = f"{index}:"
                    own = (word.removeprefix(start) for word in words if word.startswith(start))
                    self.words = frozenset(own)
                blocks += self.content(part, piece.place)
            self.is_in_result = False
        if not self.is_same:
            if canister.is_error:
                blocks = self._explained(blocks, canister)
            blocks = blocks or self._omitted([piece])
        result: Object = {"toolUseId": canister.invocation_id, "content": blocks}
        if canister.is_error:
            result["status"] = "error"
        elif SUCCESS in words:
            result["status"] = SUCCESS
        return {"toolResult": result}

    # --- blocks --------------------------------------------------------------------------------

    def text_block(self, text: str) -> Object:
        """The block of a text."""
        return {"text": text}

    def tagged(self, kind: str, fields: Object) -> Object:
        """A block of a given kind."""
        return {_KINDS[kind]: fields}

    def thought_block(self, text: str, signature: str | None) -> Object:
        """The block of a thought."""
        thought: Object = {"text": text}
        if signature is not None:
            thought["signature"] = signature
        return {"reasoningContent": {"reasoningText": thought}}

    def sealed_block(self, encrypted: str) -> Object:
        """The block of a thought that only the server can read."""
        return {"reasoningContent": {"redactedContent": encrypted}}

    def is_own(self, origin: Origin) -> bool:
        """Whether a thought was produced here."""
        return origin.dialect == NAME

    def said(self, text: str, place: Place) -> list[Any]:
        """The block of a text; a text from a block for citations is written as one again."""
        if self.words and CITED in self.words:
            return self._text(new_text(text), place)
        return super().said(text, place)

    def _text(self, content: TextualContentClass, place: Place) -> list[Any]:
        cited = [each for each in content.citations if self._is_said(each)]
        if len(cited) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        if not cited and CITED not in self.words:
            return self.said(content.text, place)
        if not self.is_same:
            report_approximated(cited, NAME, self.report, place)
        citations = [
            decode_json(each.raw) if each.dialect == NAME else web_citation(each) for each in cited
        ]
        block: Object = {"citations": citations}
        if BEHIND in self.words:
            return [*self.said(content.text, place), {"citationsContent": block}]
        pieces = self._pieces(content.text)
        if pieces is not None:
            block["content"] = [{"text": piece} for piece in pieces]
        return [{"citationsContent": block}]

    def _is_said(self, citation: Any) -> bool:
        """Whether a citation can be written: ours or, in a response, the address of a page."""
        return citation.dialect == NAME or (self.for_answer and bool(citation.url))

    def _pieces(self, text: str) -> list[str] | None:
        """The pieces of a cited text, as they came if known; None if the block has only citations."""
        lengths = [word.removeprefix(LENGTHS) for word in self.words if word.startswith(LENGTHS)]
        sizes = [int(size) for size in lengths[0].split(",") if size] if lengths else []
        if not lengths or sum(sizes) != len(text):
            return [text] if text else None
        ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
        return [text[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def _data(self, content: DataContentClass, place: Place) -> list[Any]:
        if self.is_same or (self.is_in_result and is_json_object(content.json)):
            return [{"json": Fragment(content.json)}]
        return self.said(content.json, place)

    def _media(self, content: Medium, place: Place) -> list[Any]:
        kind = content.kind
        if not self.is_same:
            if kind == "audio" and self.is_in_result:
                self.report.lose("MEDIA_DROPPED", place, "results hold no audio")
                return []
            if content.mime_type == PDF:
                return self._document(new_file(content.payload, PDF), place)
        source, name = self._payload(content, place), self._format(kind, content.mime_type)
        if source is None:
            return []
        if name is None:
            self._refuse_type(content, place)
            return []
        return [{kind: {"format": name, "source": source}}]

    def _format(self, kind: str, mime_type: str) -> str | None:
        """The format of a medium: the original one, or that of its type."""
        for word in self.words:
            if word.startswith(FORMAT):
                return word.removeprefix(FORMAT)
        return format_of(kind, mime_type)

    def _payload(self, content: BinaryContentStruct, place: Place) -> Object | None:
        payload = content.payload
        if not isinstance(payload, Location):
            return {"bytes": self._base64(payload)}
        if payload.kind == "url" and (self.is_same or payload.value.startswith("s3://")):
            return {"s3Location": {"uri": payload.value}}
        if payload.kind == "file":
            self.report.lose("REFERENCE_UNRESOLVABLE", place)
        else:
            self.report.lose("MEDIA_DROPPED", place, "Converse fetches nothing but from S3")
        return None

    def _document(self, content: FileContentClass, place: Place) -> list[Any]:
        source = self._source(content, place)
        if source is None:
            return []
        form = self._document_format(content, place)
        if form is None:
            self._refuse_type(content, place)
            return []
        fields: Object = {"name": self._name(content, place), "source": source}
        if form:
            fields["format"] = form
        return self._document_block(fields, content)

    def _name(self, content: FileContentClass, place: Place) -> str:
        """The name of a document, made legal and unique unless it comes from this dialect.

        "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses,
        and square brackets" and no two spaces in a row, and two documents of one name are refused
        (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html, read 2026-11-18); recorded
        requests with underscores were accepted.
        """
        if self.is_same:
            return content.name or ""
        legal = re.sub(r"\s+", " ", _ILLEGAL.sub("-", content.name or "")).strip()
        name = stem = legal[:_LONGEST_NAME].strip() or "document"
        number = 2
        while name in self._names:
            name = f"{stem[: _LONGEST_NAME - 8]} ({number})"
            number += 1
        self._names.add(name)
        self.report.is_bound = True
        if content.name is not None and name != content.name:
            detail = f"a document needs a legal and unique name; {name!r} was sent"
            self.report.lose("NAME_CHANGED", place, detail)
        return name

    def _document_format(self, content: FileContentClass, place: Place) -> str | None:
        """The format of a document; "" if it needs none, None if there is none."""
        found = self._format("document", content.mime_type)
        if found is not None or self.is_same or content.chunks:
            return found or ""
        return "txt" if self._is_plain(content.mime_type, place) else None

    def _source(self, content: FileContentClass, place: Place) -> Object | None:
        if content.chunks:
            texts = self._chunks(content, place)
            return {"content": texts} if texts else None
        if AS_TEXT in self.words and self.is_same:
            return {"text": content.data.decode("utf-8", "replace")}
        return self._payload(content, place)

    def _chunks(self, content: FileContentClass, place: Place) -> list[Object]:
        found: list[Object] = []
        for chunk in content.chunks:
            if type(chunk) is TextualContentClass:
                if chunk.citations:
                    self.report.lose("CITATION_DROPPED", place)
                found += self.said(chunk.text, place)
            else:
                self.report.lose("MEDIA_DROPPED", place, "the chunks of a document are text")
        return found


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request."""
    is_same = request.source == NAME
    writer = ConverseWriter(report, is_same=is_same)
    leading, others = writer.split(pieces)
    system = writer.blocks(leading, "system")
    messages = writer.messages(others)
    body = recall_settings(write_settings(request, report, messages), own_residue(request, NAME))
    if "modelId" in body and isinstance(request.model, str):
        body["modelId"] = request.model
    if system:
        body["system"] = system
    body["messages"] = messages
    return body


def _recalled(blocks: list[Any], residue: Residue | None) -> list[Any]:
    """The block with its residue applied."""
    if residue is None or len(blocks) != 1:
        return blocks
    if GUARDED in form_words(residue) and residue.part is not None:
        return [_guarded(blocks[0], residue.part)]
    if INNER in form_words(residue):
        return [{kind: recall(held, residue.part) for kind, held in blocks[0].items()}]
    return [recall(blocks[0], residue.part)]


def _guarded(block: Object, part: str) -> Object:
    """A block inside its guard."""
    patch = decode_json(part)
    guard = patch["d"]["guardContent"]["v"]
    kind = next(iter(block))
    inner = {"text": block["text"]} if kind == "text" else block[kind]
    guarded = {**guard, kind: {**inner, **guard.get(kind, {})}}
    return {"guardContent": guarded, **patch.get("s", {})}


def web_citation(citation: Any) -> Object:
    """The citation of a page in this dialect's form."""
    found: Object = {"location": {"web": {"url": citation.url}}}
    if citation.title is not None:
        found["title"] = citation.title
    if citation.cited_text:
        found["sourceContent"] = [{"text": citation.cited_text}]
    return found
