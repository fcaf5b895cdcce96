"""Writing shared by Google's two APIs: media, files, thoughts, instructions and call signatures."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from orjson import Fragment

from cannery.families.gemini.models import same_family
from cannery.families.gemini.reading import ACCOUNT
from cannery.messages.absence import absent
from cannery.messages.canisters import new_user, text_of
from cannery.messages.content import (
    BinaryContentStruct,
    DataContentClass,
    FileContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.citations import has_citations
from cannery.wire.contents import CallWriter, ContentWriter
from cannery.wire.contract import Piece
from cannery.wire.foreign import STAND_INS, report_residue
from cannery.wire.losses import Place, Report
from cannery.wire.markers import supplement, system_envelope
from cannery.wire.media import (
    UNKNOWN_TYPE,
    base64_text,
    context_path,
    is_fetchable,
    standard_base64,
)

# Contents with a text form.
SAID = (str, TextualContentClass, RefusalContentClass, DataContentClass)


class GoogleWriter(ContentWriter, CallWriter):
    """Writes contents for ``model``, which gets back signatures of its own family."""

    # Whether a system instruction is a list of parts, where clients of the same dialect may put any part.
    instructs_in_parts: ClassVar[bool]

    def __init__(self, report: Report, *, is_same: bool, model: Any = None) -> None:
        self.report = report
        self.is_same = is_same
        self.model = model if isinstance(model, str) else None
        # The names of calls, by id.
        self._names: dict[str, str] = {}

    @abstractmethod
    def medium(self, content: BinaryContentStruct, key: str, value: str, mime_type: str) -> Object:
        """The part of a medium with its ``uri`` or its ``data``."""

    @abstractmethod
    def _named_file(self, content: FileContentClass, place: Place) -> list[Any]:
        """The part of a file, with its name if the part has a field for it."""

    # --- pieces --------------------------------------------------------------------------------

    def _report_foreign(self, piece: Piece) -> None:
        """Report the residue of another dialect as lost, and its cache mark."""
        residue = piece.canister.residue
        if residue is not None and residue.dialect != self.dialect:
            report_residue(piece.canister, self.report, piece.place)
            if residue.cache:
                self.report.lose("CACHE_MARK_DROPPED", piece.place, "Gemini has no cache marks")

    def _folded(self, piece: Piece) -> Piece:
        """A late supervisor as a user message.

        The repairs have handled supervisors, unless one was added to a conversation of this dialect, or the rules of an
        endpoint say that it accepts them.
        """
        canister = piece.canister
        self.report.repair("late_supervisors", piece.place)
        words = text_of(canister.held)
        held = system_envelope(words) if words else canister.held
        return Piece(new_user(held, canister.timestamp), piece.place)

    def _instructs(self, piece: Piece) -> bool:
        """Whether a piece is written in the system instruction."""
        canister: Any = piece.canister
        if canister.rank == "developer":
            self.report.lose("RANK_LOWERED", piece.place)
        if isinstance(canister.held, SAID) or (self.is_same and self.instructs_in_parts):
            return True
        self.report.lose("MEDIA_DROPPED", piece.place, "a system instruction is text")
        return False

    def _document(self, piece: Piece) -> list[Any]:
        """The content of a document canister: text with its title, or its file."""
        canister: Any = piece.canister
        content = canister.content
        if not isinstance(content, TextualContentClass):
            return self.content(content, piece.place)
        self.report.lose("DOCUMENT_TO_TEXT", piece.place)
        title = None if canister.title is absent else canister.title
        return [self.text_block(supplement(content.text, title))]

    def _unsigned(self, part: Object, residue: Residue, key: str, place: int | None) -> Object:
        """A part without the signature of another model family."""
        is_read = self.is_same or same_family(residue.model, self.model)
        if not is_read and part.get(key) not in STAND_INS and part.pop(key, None):
            self.report.lose("SIGNATURE_DROPPED", place, within=f".{key}")
        return part

    # --- contents ------------------------------------------------------------------------------

    def _is_own(self, content: ReasoningContentClass) -> bool:
        """Whether a thought is sent back with its signature."""
        origin = content.origin
        if origin is None or origin.dialect != self.dialect:
            return False
        return self.is_same or same_family(origin.model, self.model)

    def _thoughts(self, content: ReasoningContentClass, place: Place) -> list[str]:
        """The text of a thought from elsewhere; its signature is lost."""
        if content.signature is not None or content.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", place)
        thoughts = [words for words in ("".join(content.texts), *content.summaries) if words]
        if not thoughts:
            self.report.lose("REASONING_DROPPED", place)
        return thoughts

    def _media(self, content: BinaryContentStruct, place: Place) -> list[Any]:
        payload, mime_type = content.payload, content.mime_type
        if isinstance(payload, Location):
            is_known = is_fetchable(payload) or payload.value.startswith(ACCOUNT)
            if not (self.is_same or is_known):
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return []
            return [self.medium(content, "uri", payload.value, mime_type)]
        if self.is_same:
            return [self.medium(content, "data", base64_text(payload), mime_type)]
        if not mime_type:
            # Data must have a type here, so this is reported even if the repair is switched off.
            mime_type = UNKNOWN_TYPE
            self.report.repair("media_types", place, f"nothing became {mime_type}")
        return [self.medium(content, "data", standard_base64(payload), mime_type)]

    def _file(self, content: FileContentClass, place: Place) -> list[Any]:
        for lost, path, detail in (
            (content.context, context_path(content), "Gemini has no context of a file"),
            (content.citable, ".citations", "Gemini cites no files"),
        ):
            if lost:
                self.report.lose("FIELD_DROPPED", place, detail, path)
        return self._chunks(content, place) if content.chunks else self._named_file(content, place)

    def _chunks(self, content: FileContentClass, place: Place) -> list[Any]:
        """A file in chunks: its text as one text, then its media."""
        self.report.lose("DOCUMENT_TO_TEXT", place)
        if any(map(has_citations, content.chunks)):
            self.report.lose("CITATION_DROPPED", place)
        texts = [words_of(chunk) for chunk in content.chunks if isinstance(chunk, SAID)]
        others = [chunk for chunk in content.chunks if not isinstance(chunk, SAID)]
        media = [part for chunk in others for part in self.content(chunk, place)]
        if not texts and content.name is None:
            return media
        return [self.text_block(supplement("\n\n".join(texts), content.name)), *media]


def words_of(content: Any) -> str:
    """The text form of a content."""
    if isinstance(content, DataContentClass):
        return content.json
    return content.text if isinstance(content, RefusalContentClass) else text_of(content)


def spelled_json(json: str) -> Any:
    """A JSON value that is written with its own spelling."""
    return decode_json(json) if "\\" in json and "\\u" in json else Fragment(json)
