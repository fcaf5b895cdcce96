"""Writes Ollama's messages: each turn is one flat message with one text, images beside it, and calls.

Content without a field of its own is written into the text if possible (documents, refusals, failed results), and
reported.
"""

from __future__ import annotations

from typing import Any, assert_never

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
)
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
from cannery.messages.payload import Location
from cannery.wire.bodies import Object
from cannery.wire.contents import CallWriter
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue, says_only_text
from cannery.wire.losses import Report
from cannery.wire.markers import SUPPLEMENT, flag_error, supplement
from cannery.wire.media import (
    NOT_BASE64,
    WEB_IMAGES,
    base64_text,
    context_path,
    is_broken,
    is_text_file,
    standard_base64,
)
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import MODEL, SIDES, SUPERVISOR, is_unsaid, omission, turns

# A text, or an image as its base64 with the patch of its spelling.
_Said = tuple[list[str], list[Any]]


class OllamaWriter(CallWriter):
    """Writes messages; ``is_same`` if they were read from the same dialect."""

    def __init__(
        self,
        dialect: str,
        report: Report,
        *,
        is_same: bool,
        for_answer: bool = False,
        takes_calls: bool = True,
    ) -> None:
        self.dialect = dialect
        self.takes_calls = takes_calls or is_same
        self.report = report
        self.is_same = is_same
        self.for_answer = for_answer
        self._called: dict[str, str] = {}

    def messages(self, pieces: list[Piece]) -> list[Object]:
        """The messages of all pieces."""
        written: list[Object] = []
        for turn in turns(pieces):
            whose = SIDES[type(turn[0].canister)]
            if whose is MODEL:
                self._add_message(self.assistant(turn), turn, written)
            elif whose is SUPERVISOR:
                self._add_message(self.spoken(turn, "system"), turn, written)
            else:
                self._user_side(turn, written)
        return written

    def _add_message(self, message: Object, turn: list[Piece], written: list[Object]) -> None:
        """Add the message of a turn, unless nothing of the turn can be written for another dialect."""
        if self.is_same or not is_unsaid(message, turn):
            written.append(message)

    def _user_side(self, turn: list[Piece], written: list[Object]) -> None:
        """Write results as messages of their own, and the user content between them as one."""
        spoken: list[Piece] = []
        for piece in turn:
            if type(piece.canister) is ResultCanisterClass:
                if spoken:
                    self._add_message(self.spoken(spoken, "user"), spoken, written)
                    spoken = []
                written.append(self._result(piece))
            else:
                spoken.append(piece)
        if spoken:
            self._add_message(self.spoken(spoken, "user"), spoken, written)

    def spoken(self, turn: list[Piece], role: str) -> Object:
        """A system or user message."""
        head = turn[0].canister
        is_document = type(head) is DocumentCanisterClass
        if not is_document and says_only_text(turn, self.dialect, self.report):
            return {"role": role, "content": head.held}
        texts: list[str] = []
        images: list[Any] = []
        for piece in turn:
            said, shown = self._piece(piece)
            if shown and role == "system" and not self.is_same:
                self.report.lose("MEDIA_DROPPED", piece.place, "a system message is text")
                shown = []
            texts += said
            images += shown
        if not texts and not images and role == "user":
            texts = self._omitted(turn)
        return self._message(role, texts, images, turn)

    def _omitted(self, turn: list[Piece]) -> list[str]:
        """The placeholder for a turn whose content was lost; only requests have one."""
        text = "" if self.is_same or self.for_answer else omission(turn)
        return [text] if text else []

    def _message(self, role: str, texts: list[str], images: list[Any], turn: list[Piece]) -> Object:
        """A message, whose texts are joined to one."""
        head = own_residue(turn[0].canister, self.dialect)
        form = None if head is None else head.form
        text = "\n\n".join(texts) if role == "system" else joined(texts)
        message: Object = {"role": role}
        if text or form not in ("absent", "null"):
            message["content"] = text
        elif form == "null":
            message["content"] = None
        if images:
            message["images"] = images
        return message if head is None else self._recalled(message, head.envelope)

    def _recalled(self, message: Object, patch: str | None) -> Object:
        return recall(message, patch)  # type: ignore[no-any-return]

    def _piece(self, piece: Piece) -> _Said:
        """The text and images of one piece."""
        canister: Any = piece.canister
        residue = canister.residue
        if residue is not None and residue.dialect != self.dialect:
            report_residue(canister, self.report, piece.place)
        held = canister.held
        if held is absent:
            return [], []
        if type(canister) is DocumentCanisterClass and not isinstance(
            held, (FileContentClass, ImageContentClass)
        ):
            self.report.lose("DOCUMENT_TO_TEXT", piece.place)
            title = None if canister.title is absent else canister.title
            texts, images = self.content(held, piece.place)
            return [supplement("".join(texts), title)], images
        texts, images = self.content(held, piece.place)
        if images and residue is not None and residue.dialect == self.dialect:
            images = [recall(image, residue.part) for image in images]
        return texts, images

    def content(self, content: AnyContent | str, place: int | None) -> _Said:
        """The texts and the images of a content, or a loss."""
        if isinstance(content, str):
            return [content], []
        match content:
            case TextualContentClass():
                if content.citations:
                    self.report.lose("CITATION_DROPPED", place)
                return [content.text], []
            case ImageContentClass():
                return [], self._image(content, place)
            case FileContentClass():
                return self._file(content, place)
            case AudioContentClass() | VideoContentClass():
                self.report.lose("MEDIA_DROPPED", place, f"Ollama takes no {content.kind}")
            case ReasoningContentClass():
                self.report.lose("REASONING_DROPPED", place)
            case RefusalContentClass():
                self.report.lose("REFUSAL_TO_TEXT", place)
                return [content.text], []
            case DataContentClass():
                return [content.json], []
            case OpaqueContentClass():
                detail = f"{content.tag!r} of {content.dialect}"
                self.report.lose("OPAQUE_DROPPED", place, detail)
            case PartsContentClass():
                said = [self.content(part, place) for part in content.parts]
                return [text for each, _ in said for text in each], [i for _, e in said for i in e]
            case _:
                assert_never(content)
        return [], []

    def _image(self, content: ImageContentClass, place: int | None) -> list[str]:
        payload = content.payload
        if self.is_same and not isinstance(payload, Location):
            return [base64_text(payload)]
        if self.for_answer:
            # The official client refuses an image in a response (ollama 0.6.3).
            self.report.lose("MEDIA_DROPPED", place, "an answer shows no images")
        elif isinstance(payload, Location):
            code = "REFERENCE_UNRESOLVABLE" if payload.kind == "file" else "MEDIA_DROPPED"
            self.report.lose(code, place, "Ollama takes images as base64 only")
        elif is_broken(content):
            self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
        elif content.mime_type not in WEB_IMAGES:
            kind = content.mime_type or "image of unknown type"
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, f"Ollama takes no {kind}")
        else:
            return [standard_base64(payload)]
        return []

    def _file(self, content: FileContentClass, place: int | None) -> _Said:
        images: list[Any] = []
        if content.chunks:
            said = [self.content(chunk, place) for chunk in content.chunks]
            text = "\n\n".join(text for texts, _ in said for text in texts)
            images = [image for _, shown in said for image in shown]
        elif is_text_file(content) and not is_broken(content):
            text = content.data.decode("utf-8", "replace")
        else:
            self.report.lose("MEDIA_DROPPED", place, "Ollama takes no files")
            return [], []
        self.report.lose("DOCUMENT_TO_TEXT", place)
        for within, lost in (
            (context_path(content), content.context),
            (".citations", content.citable),
        ):
            if lost:
                self.report.lose("FIELD_DROPPED", place, "", within)
        return [supplement(text, content.name)], images

    def _result(self, piece: Piece) -> Object:
        canister: Any = piece.canister
        residue = own_residue(canister, self.dialect)
        if residue is None:
            report_residue(canister, self.report, piece.place)
        texts, images = self.content(canister.held, piece.place)
        text = joined(texts)
        if canister.is_error:
            if not self.is_same:
                self.report.lose("ERROR_FLAG_TO_TEXT", piece.place)
            stated = canister.stated_error
            text = flag_error(text if text or stated is absent else stated)
        message: Object = {"role": "tool"}
        form = None if residue is None else residue.form
        if text or form not in ("absent", "null"):
            message["content"] = text
        elif form == "null":
            message["content"] = None
        if images:
            message["images"] = images
        name = self._called.get(canister.invocation_id)
        if name is not None and not self.is_same:
            message["tool_name"] = name
        message["tool_call_id"] = canister.invocation_id
        return message if residue is None else self._recalled(message, residue.envelope)

    def assistant(self, turn: list[Piece]) -> Object:
        """One assistant message."""
        head = turn[0].canister
        is_spoken = type(head) is AssistantCanisterClass
        if is_spoken and says_only_text(turn, self.dialect, self.report):
            return {"role": "assistant", "content": head.held}
        texts: list[str] = []
        images: list[Any] = []
        thoughts: list[str] = []
        calls: list[Object] = []
        for piece in turn:
            canister: Any = piece.canister
            if type(canister) is InvocationCanisterClass:
                calls += self._calls(piece)
            elif type(canister.held) is ReasoningContentClass:
                thoughts += self._thoughts(piece)
            else:
                said, shown = self._piece(piece)
                if calls and (said or shown) and not self.is_same:
                    self.report.lose("ORDER_CHANGED", piece.place)
                texts += said
                images += shown
        if not (texts or images or thoughts or calls):
            texts = self._omitted(turn)
        message = self._message("assistant", ["".join(texts)] if texts else [], images, turn)
        if thoughts:
            message["thinking"] = "\n\n".join(thoughts)
        if calls:
            message["tool_calls"] = calls
        return message

    def _thoughts(self, piece: Piece) -> list[str]:
        held: Any = piece.canister.held
        if piece.canister.residue is not None and piece.canister.residue.dialect != self.dialect:
            report_residue(piece.canister, self.report, piece.place)
        if held.signature is not None or held.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", piece.place)
        found = [text for text in (*held.texts, *held.summaries) if text]
        if not found and not self.is_same:
            self.report.lose("REASONING_DROPPED", piece.place)
        return found

    def _calls(self, piece: Piece) -> list[Object]:
        if self.takes_calls:
            return [self._call(piece)]
        self.report.lose("CALL_DROPPED", piece.place)
        return []

    def _call(self, piece: Piece) -> Object:
        canister: Any = piece.canister
        self._called[canister.identifier] = canister.name
        function = {"name": canister.name, "arguments": self.arguments(canister, piece.place)}
        ours: Object = {"id": canister.identifier, "function": function}
        residue = canister.residue
        if residue is not None and residue.dialect != self.dialect:
            report_residue(canister, self.report, piece.place)
            residue = None
        return ours if residue is None else recall(ours, residue.part)


def joined(texts: list[str]) -> str:
    """Joined texts: nothing between them except the blank line around a document."""
    whole = ""
    is_apart = False
    for text in texts:
        is_document = text.startswith(SUPPLEMENT)
        whole += "\n\n" + text if whole and (is_apart or is_document) else text
        is_apart = is_document
    return whole
