"""Writing contents as blocks, which are objects with one key.

For the same dialect nothing is judged; for another one a block that the server would refuse is left out with a loss,
and documents get legal and unique names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from orjson import Fragment

from cannery.dialects.bedrock_converse.reading import (
    AS_TEXT,
    CITED,
    FORMAT,
    LENGTHS,
    format_of,
)
from cannery.dialects.bedrock_converse.tools import NAME
from cannery.messages.canisters import (
    AnyCanister,
    DocumentCanisterClass,
)
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
    new_file,
    new_image,
    new_text,
)
from cannery.messages.json_text import decode_json, is_json_object
from cannery.messages.payload import Location
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.citations import report_approximated
from cannery.wire.losses import Report
from cannery.wire.media import (
    NOT_BASE64,
    SEARCH_RESULT,
    base64_text,
    is_broken,
    standard_base64,
)

Place = int | str | None
_TEXTUAL = ("json", "xml", "yaml", "javascript", "sql", "csv", "markdown", "toml")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_\s()\[\]-]")
_LONGEST_NAME = 200


class BlockWriter:
    """Writes contents; ``for_answer`` when they are for a client and not for the server."""

    def __init__(self, report: Report, *, is_same: bool, for_answer: bool = False) -> None:
        self.report = report
        self.is_same = is_same
        self.for_answer = for_answer
        # The names that documents get, by the places of their canisters and the names that they had.
        self.names: dict[tuple[Place, str | None], list[str]] = {}
        # Of the form of what is under way, and whether that is in a result.
        self.words: list[str] = []
        self.is_in_result = False

    def content(self, content: Any, place: Place) -> list[Any]:
        """The blocks of a content: one, or none and a loss; several for several parts."""
        if type(content) is str:
            if CITED in self.words:
                return self._text(new_text(content), place)
            return self._said(content, place)
        if not self.is_same and isinstance(content, BinaryContentStruct) and is_broken(content):
            self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
            return []
        return self._writers[type(content)](self, content, place)

    def _said(self, text: str, place: Place) -> list[Any]:
        if self.is_same or text.strip() or "empty_text" in self.report.off:
            return [{"text": text}]
        if text:
            if not self.for_answer:
                self.report.repair("empty_text", place)
            self.report.lose("TEXT_DROPPED", place)
        return []

    def _text(self, content: TextualContentClass, place: Place) -> list[Any]:
        cited = [each for each in content.citations if self._is_said(each)]
        if len(cited) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        if not cited and CITED not in self.words:
            return self._said(content.text, place)
        if not self.is_same:
            report_approximated(cited, NAME, self.report, place)
        citations = [
            decode_json(each.raw) if each.dialect == NAME else _web_citation(each) for each in cited
        ]
        pieces = [{"text": piece} for piece in self._pieces(content.text)]
        return [{"citationsContent": {"content": pieces, "citations": citations}}]

    def _is_said(self, citation: Any) -> bool:
        """Whether a citation can be said: ours, or for a client the address of a page."""
        return citation.dialect == NAME or (self.for_answer and bool(citation.url))

    def _pieces(self, text: str) -> list[str]:
        """The pieces of a text, where their lengths are known and still add up to it."""
        lengths = [word.removeprefix(LENGTHS) for word in self.words if word.startswith(LENGTHS)]
        sizes = [int(size) for size in lengths[0].split(",")] if lengths else []
        if sum(sizes) != len(text) or not sizes:
            return [text]
        ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
        return [text[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def _refusal(self, content: RefusalContentClass, place: Place) -> list[Any]:
        self.report.lose("REFUSAL_TO_TEXT", place)
        return self._said(content.text, place)

    def _data(self, content: DataContentClass, place: Place) -> list[Any]:
        if self.is_same or (self.is_in_result and is_json_object(content.json)):
            return [{"json": Fragment(content.json)}]
        return self._said(content.json, place)

    def _parts(self, content: PartsContentClass, place: Place) -> list[Any]:
        return [block for part in content.parts for block in self.content(part, place)]

    def _opaque(self, content: OpaqueContentClass, place: Place) -> list[Any]:
        if content.dialect == NAME:
            return [decode_json(content.json)]
        self.report.lose("OPAQUE_DROPPED", place, f"{content.tag!r} of {content.dialect}")
        return []

    def _reasoning(self, content: ReasoningContentClass, place: Place) -> list[Any]:
        origin = content.origin
        is_own = self.is_same or (origin is not None and origin.dialect == NAME)
        if content.encrypted is not None and is_own:
            return [{"reasoningContent": {"redactedContent": content.encrypted}}]
        thought: Object = {"text": content.text}
        if is_own and (self.is_same or content.signature is not None):
            if content.signature is not None:
                thought["signature"] = content.signature
            return [{"reasoningContent": {"reasoningText": thought}}]
        if content.signature is not None or content.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", place)
        if self.for_answer and content.shown:
            # A client may see thoughts from elsewhere; unsigned, they never go back to a server.
            return [{"reasoningContent": {"reasoningText": {"text": content.shown}}}]
        self.report.lose("REASONING_DROPPED", place)
        return []

    # --- media ---------------------------------------------------------------------------------

    def _medium(self, content: BinaryContentStruct, place: Place) -> list[Any]:
        kind = content.kind
        if not self.is_same:
            if kind == "audio" and self.is_in_result:
                self.report.lose("MEDIA_DROPPED", place, "results hold no audio")
                return []
            if content.mime_type == "application/pdf":
                return self._file(new_file(content.payload, content.mime_type), place)
        name = self._format(kind, content.mime_type)
        if name is None:
            shown = content.mime_type or f"{kind} of unknown type"
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, f"Converse takes no {shown}")
            return []
        source = self._payload(content, place)
        return [] if source is None else [{kind: {"format": name, "source": source}}]

    def _format(self, kind: str, mime_type: str) -> str | None:
        """The format of a medium: as it was said, or that of its type."""
        for word in self.words:
            if word.startswith(FORMAT):
                return word.removeprefix(FORMAT)
        return format_of(kind, mime_type)

    def _payload(self, content: BinaryContentStruct, place: Place) -> Object | None:
        payload = content.payload
        if not isinstance(payload, Location):
            spell = base64_text if self.is_same else standard_base64
            return {"bytes": spell(payload)}
        if payload.kind == "url" and (self.is_same or payload.value.startswith("s3://")):
            return {"s3Location": {"uri": payload.value}}
        if payload.kind == "file":
            self.report.lose("REFERENCE_UNRESOLVABLE", place)
        else:
            self.report.lose("MEDIA_DROPPED", place, "Converse fetches nothing but from S3")
        return None

    def _file(self, content: FileContentClass, place: Place) -> list[Any]:
        if content.mime_type == SEARCH_RESULT and content.chunks:
            return [{"searchResult": self._search_result(content, place)}]
        if not self.is_same and not content.chunks and content.mime_type.startswith("image/"):
            for fact in ("name", "context", "citable"):
                if getattr(content, fact):
                    self.report.lose("FIELD_DROPPED", place, f"an image has no {fact!r}")
            return self._medium(new_image(content.payload, content.mime_type), place)
        name = self._name(content, place)
        source = self._source(content, place)
        if source is None:
            return []
        document: Object = {"name": name, "source": source}
        form = self._document_format(content, place)
        if form is None:
            shown = content.mime_type or "file of unknown type"
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, f"Converse takes no {shown}")
            return []
        if form:
            document["format"] = form
        if content.context is not None:
            document["context"] = content.context
        if content.citable is not None:
            document["citations"] = {"enabled": content.citable}
        return [{"document": document}]

    def _name(self, content: FileContentClass, place: Place) -> str:
        """The name of a document, which is legal and unique unless it comes from this dialect."""
        listed = self.names.get((place, content.name))
        if self.is_same or not listed:
            return content.name or ""
        name = listed.pop(0)
        if content.name is not None and name != content.name:
            detail = f"a document needs a legal and unique name; {name!r} was sent"
            self.report.lose("NAME_CHANGED", place, detail)
        return name

    def _document_format(self, content: FileContentClass, place: Place) -> str | None:
        """The format of a document; "" where it needs none, None where there is none."""
        found = self._format("document", content.mime_type)
        if found is not None or self.is_same:
            return found or ""
        if content.chunks:
            return ""
        mime_type = content.mime_type
        subtype = mime_type.partition("/")[2].rpartition("+")[2]
        if subtype in _TEXTUAL or mime_type.startswith("text/"):
            # The server knows no other text, so this is said whether or not the repair is switched off.
            self.report.repair("media_types", place, f"{mime_type} became {PLAIN}")
            return "txt"
        return None

    def _source(self, content: FileContentClass, place: Place) -> Object | None:
        if content.chunks:
            return self._chunked(content, place)
        if AS_TEXT in self.words and self.is_same:
            return {"text": content.data.decode("utf-8", "replace")}
        return self._payload(content, place)

    def _chunked(self, content: FileContentClass, place: Place) -> Object | None:
        texts = self._chunk_texts(content, place)
        return {"content": texts} if texts else None

    def _chunk_texts(self, content: FileContentClass, place: Place) -> list[Object]:
        found: list[Object] = []
        for chunk in content.chunks:
            if type(chunk) is TextualContentClass:
                if chunk.citations:
                    self.report.lose("CITATION_DROPPED", place)
                found += self._said(chunk.text, place)
            else:
                self.report.lose("MEDIA_DROPPED", place, "the chunks of a document are text")
        return found

    def _search_result(self, content: FileContentClass, place: Place) -> Object:
        block: Object = {
            "source": content.context or "",
            "title": content.name or "",
            "content": self._chunk_texts(content, place),
        }
        if content.citable is not None:
            block["citations"] = {"enabled": content.citable}
        return block

    _writers: ClassVar[dict[type, Callable[[Any, Any, Place], list[Any]]]] = {
        TextualContentClass: _text,
        ImageContentClass: _medium,
        AudioContentClass: _medium,
        VideoContentClass: _medium,
        FileContentClass: _file,
        ReasoningContentClass: _reasoning,
        RefusalContentClass: _refusal,
        DataContentClass: _data,
        OpaqueContentClass: _opaque,
        PartsContentClass: _parts,
    }


def document_names(
    canisters: Iterable[AnyCanister],
) -> dict[tuple[Place, str | None], list[str]]:
    """The legal and unique names of all documents, by the places of their canisters and the names that they had.

    "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and
    square brackets" and no two spaces in a row, and two documents of one name are refused
    (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html, read 2026-11-18); recorded requests
    with underscores were taken.
    """
    taken: set[str] = set()
    found: dict[tuple[Place, str | None], list[str]] = {}
    for place, canister in enumerate(canisters):
        for content in _files(canister):
            legal = re.sub(r"\s+", " ", _ILLEGAL.sub("-", content.name or "")).strip()
            name = stem = legal[:_LONGEST_NAME].strip() or "document"
            number = 2
            while name in taken:
                name = f"{stem[: _LONGEST_NAME - 8]} ({number})"
                number += 1
            taken.add(name)
            found.setdefault((place, content.name), []).append(name)
    return found


def _files(canister: AnyCanister) -> Iterator[FileContentClass]:
    """The documents that a canister shows, in their order."""
    held: Any = as_file(canister) if type(canister) is DocumentCanisterClass else canister.held
    for part in held.parts if type(held) is PartsContentClass else (held,):
        if isinstance(part, BinaryContentStruct):
            is_search = part.mime_type == SEARCH_RESULT
            if isinstance(part, FileContentClass) and not is_search:
                yield part
            elif part.mime_type.lower() == "application/pdf":
                yield new_file(part.payload, part.mime_type)


def words_of(residue: Residue | None) -> list[str]:
    """The words of a form."""
    return [] if residue is None or residue.form is None else residue.form.split()


def _web_citation(citation: Any) -> Object:
    """The citation of a page as this dialect says it."""
    found: Object = {"location": {"web": {"url": citation.url}}}
    if citation.title is not None:
        found["title"] = citation.title
    if citation.cited_text:
        found["sourceContent"] = [{"text": citation.cited_text}]
    return found


def as_file(canister: Any) -> Any:
    """The content of a document canister as a file with the canister's title."""
    content = canister.content
    title = canister.title if isinstance(canister.title, str) else None
    if isinstance(content, TextualContentClass):
        return new_file(content.text.encode(), PLAIN, title)
    if isinstance(content, FileContentClass) and content.name is None and title is not None:
        facts = (content.context, content.citable, content.chunks)
        return new_file(content.payload, content.mime_type, title, *facts)
    return content
