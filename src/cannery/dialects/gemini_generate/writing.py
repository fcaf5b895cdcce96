"""Writes generateContent bodies.

Every function gives the usual form of a value and then applies this dialect's own residue, which restores the original.
A part that cannot be written gives nothing and a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

from cannery.dialects.gemini_generate.forms import (
    APART,
    ERROR,
    NAME,
    NO_SHAPES,
    OUTPUT,
    SIGNATURE,
    WITHIN,
    get,
    read_form,
    spelled,
    wrap_data,
    wrap_failure,
    wrap_text,
)
from cannery.families.gemini.models import STAND_IN
from cannery.families.gemini.writing import SAID, GoogleWriter, spelled_json, words_of
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
)
from cannery.messages.content import (
    BinaryContentStruct,
    Citation,
    DataContentClass,
    FileContentClass,
    PartsContentClass,
    ReasoningContentClass,
    TextualContentClass,
)
from cannery.messages.residue import PREAMBLE, Residue
from cannery.wire.answers import NAMELESS
from cannery.wire.bodies import Object
from cannery.wire.citations import report_approximated
from cannery.wire.contract import Piece
from cannery.wire.losses import Place, Report
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import MODEL, SIDES, USER, omission

# Shapes of a content without parts.
_EMPTY = frozenset({"absent", "null", "empty"})
# Canisters whose bare text is a content of its own.
_SPEAKERS = frozenset({UserCanisterClass, AssistantCanisterClass})


class MessageWriter(GoogleWriter):
    """Writes contents; ``is_same`` if they come from this dialect, ``signs`` if calls must be signed.

    In a response ``cite`` takes a citation of a part's text, if it can; a request has no place for one.
    """

    dialect = NAME
    instructs_in_parts = True

    def __init__(
        self,
        report: Report,
        *,
        is_same: bool,
        model: Any = None,
        cite: Callable[[int, str, Citation], bool] | None = None,
        signs: bool = False,
    ) -> None:
        super().__init__(report, is_same=is_same, model=model)
        self._cite = cite
        self.signs = signs
        self._position = 0
        self._idless: set[str] = set()
        self._has_stand_ins = False

    def messages(self, pieces: list[Piece]) -> Object:
        """The contents of all pieces, and the system instruction if there is one."""
        system: list[Piece] = []
        contents: list[Object | None] = []
        turn: list[Piece] = []
        side, has_lead = "", False
        for given in pieces:
            piece = given
            kind = type(piece.canister)
            if kind is SupervisorCanisterClass:
                if not side or self._is_displaced(piece.canister, has_lead=has_lead):
                    has_lead = has_lead or not side
                    system.append(piece)
                    continue
                piece = self._folded(piece)
                kind = UserCanisterClass
            whose = SIDES[kind]
            if kind is ResultCanisterClass and self.is_same:
                whose = self._side_of_result(piece.canister)
            if whose is side and self._follows(piece.canister, turn[-1].canister):
                turn.append(piece)
                continue
            if turn:
                contents.append(self.turn(turn, side))
            turn, side = [piece], whose
        if turn:
            contents.append(self.turn(turn, side))
        body: Object = {}
        if system:
            self._system(system, body)
        # An empty object is a content that came without fields.
        body["contents"] = self._closed(contents)
        return body

    def _side_of_result(self, canister: AnyCanister) -> str:
        """The side that a result came from: some clients keep results in the model's turns."""
        residue = canister.residue
        if residue is None or residue.form is None or residue.dialect != NAME:
            return USER
        return MODEL if APART in read_form(residue)[0] else USER

    def _closed(self, contents: list[Object | None]) -> list[Object]:
        """The contents without turns that turned out empty; the turns around one are merged."""
        kept: list[Object] = []
        is_gap = False
        for content in contents:
            if content is None:
                is_gap = not self.is_same and "alternation" not in self.report.off
            elif is_gap and kept and kept[-1].get("role") == content.get("role"):
                kept[-1] = {**kept[-1], "parts": [*kept[-1]["parts"], *content["parts"]]}
                self.report.repair("alternation", None)
            else:
                kept.append(content)
                is_gap = False
        return kept

    def _is_displaced(self, canister: AnyCanister, *, has_lead: bool) -> bool:
        """Whether a supervisor was in the system instruction, and something was inserted before it."""
        residue = own_residue(canister, NAME) if self.is_same else None
        form = None if residue is None else residue.form
        return form == PREAMBLE or (form is not None and not has_lead)

    def _follows(self, canister: AnyCanister, last: AnyCanister) -> bool:
        """Whether a canister belongs to the same content as the last; results that answer one turn always do."""
        kind = type(canister)
        residue = canister.residue
        if canister.joined or kind is InvocationCanisterClass:
            return True
        if self.is_same and residue is not None and residue.form and residue.dialect == NAME:
            return WITHIN in read_form(residue)[0]
        is_free = residue is None or not self.is_same
        return is_free and kind is ResultCanisterClass and type(last) is ResultCanisterClass

    # --- system --------------------------------------------------------------------------------

    def _system(self, pieces: list[Piece], body: Object) -> None:
        parts: list[Object] = []
        for piece in pieces:
            if self._instructs(piece):
                self.add_parts(piece, parts)
        if not parts:
            return
        head = own_residue(pieces[0].canister, NAME)
        if head is None:
            body["systemInstruction"] = {"parts": parts}
            return
        shapes, _ = read_form(head)
        key = "system_instruction" if "system_instruction" in shapes else "systemInstruction"
        if "string" in shapes and len(parts) == 1 and parts[0].keys() == {"text"}:
            body[key] = parts[0]["text"]
        elif "list" in shapes:
            body[key] = parts
        elif "part" in shapes and len(parts) == 1:
            body[key] = parts[0]
        else:
            instruction = dict(recall({}, head.envelope))
            instruction["parts"] = parts[0] if _is_single("object", shapes, parts) else parts
            body[key] = instruction

    # --- contents ------------------------------------------------------------------------------

    def turn(self, turn: list[Piece], role: str) -> Object | None:
        """One content; None if the turn is empty."""
        first = turn[0].canister
        head = first.residue
        is_alone = head is None and len(turn) == 1 and type(first) in _SPEAKERS
        if is_alone and type(first.held) is str:
            return {"role": role, "parts": [{"text": first.held}]}
        content: Object = {"role": role}
        shapes = NO_SHAPES
        if head is not None and head.dialect == NAME:
            shapes, _ = read_form(head)
            if head.envelope is not None:
                content = recall(content, head.envelope)
            if len(turn) > 1 and not _EMPTY.isdisjoint(shapes):
                # Something was added to a content without parts.
                turn, shapes = turn[1:], shapes - _EMPTY
        parts: list[Object] = []
        for piece in turn:
            self.add_parts(piece, parts)
        if self.signs and role == "model":
            self._sign(turn, parts)
        if not shapes:
            content["parts"] = parts or self._unsaid(turn)
            return content if content["parts"] else None
        if "null" in shapes or "empty" in shapes:
            content["parts"] = None if "null" in shapes else []
        elif "absent" not in shapes:
            content["parts"] = parts[0] if _is_single("object", shapes, parts) else parts
        return content

    def _unsaid(self, turn: list[Piece]) -> list[Object]:
        """The placeholder text for a lost turn; a response gets none, so that no text is attributed to the model."""
        text = "" if self._cite is not None else omission(turn)
        return [{"text": text}] if text else []

    def _sign(self, turn: list[Piece], parts: list[Object]) -> None:
        """Sign the first call of a turn if it has no signature; only the first placeholder is reported."""
        call = next((part for part in parts if spelled(part, "functionCall") in part), None)
        if call is None or get(call, SIGNATURE):
            return
        call[SIGNATURE] = STAND_IN
        if not self._has_stand_ins:
            calls = (type(piece.canister) is InvocationCanisterClass for piece in turn)
            places = (piece.place for piece in compress(turn, calls))
            self.report.lose("SIGNATURE_STANDIN", next(places, None))
        self._has_stand_ins = True

    def add_parts(self, piece: Piece, parts: list[Object]) -> None:
        """Add the parts of one canister, with this dialect's residue, or none and a loss."""
        canister = piece.canister
        kind, held, residue = type(canister), canister.held, canister.residue
        if residue is not None and residue.dialect != NAME:
            self._report_foreign(piece)
            residue = None
        if kind is InvocationCanisterClass:
            parts.append(self._call(piece, residue))
        elif kind is ResultCanisterClass:
            parts.append(self._result(piece, residue))
        elif type(held) is str and residue is None and kind is not DocumentCanisterClass:
            parts.append({"text": held})
        elif held is not absent:
            self._position = len(parts)
            is_document = kind is DocumentCanisterClass
            written = self._document(piece) if is_document else self.content(held, piece.place)
            if residue is None or residue.part is None or is_document or len(written) != 1:
                parts.extend(written)
                return
            part = self._restored(written[0], residue, piece.place)
            if not self._is_left_blank(part, written[0], piece.place):
                parts.append(part)

    def _is_left_blank(self, part: Object, ours: Object, place: int | None) -> bool:
        """Whether blank text lost the signature for which it was kept."""
        if self.is_same or part != ours or part.keys() != {"text"} or part["text"].strip():
            return False
        if "empty_text" in self.report.off:
            return False
        self.report.repair("empty_text", place)
        return True

    def _restored(self, ours: Object, residue: Residue, place: int | None) -> Object:
        part: Object = recall(ours, residue.part)
        return self._unsigned(part, residue, spelled(part, SIGNATURE), place)

    # --- what is said --------------------------------------------------------------------------

    def text_block(self, text: str) -> Object:
        """The part of a text."""
        return {"text": text}

    def _text(self, content: TextualContentClass, place: Place) -> list[Any]:
        """The part of a text; its citations are written, or reported as lost."""
        cite, text = self._cite, content.text
        kept = [
            each
            for each in content.citations
            if cite is not None and cite(self._position, text, each)
        ]
        if len(kept) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(kept, NAME, self.report, place)
        return [{"text": text}]

    def _reasoning(self, content: ReasoningContentClass, place: Place) -> list[Any]:
        if not self._is_own(content):
            thoughts = self._thoughts(content, place)
            return [{"text": words, "thought": True} for words in thoughts]
        part: Object = {"text": content.text, "thought": True}
        return [part if content.signature is None else {**part, SIGNATURE: content.signature}]

    def medium(self, _: BinaryContentStruct, key: str, value: str, mime_type: str) -> Object:
        """The part of an image, audio, video or file."""
        if key == "data":
            return {"inlineData": {"mimeType": mime_type, "data": value}}
        typed = {"mimeType": mime_type} if mime_type else {}
        return {"fileData": {"fileUri": value, **typed}}

    def _named_file(self, content: FileContentClass, place: Place) -> list[Any]:
        parts = self._media(content, place)
        if parts and content.name is not None:
            # The model sees it only beside Google's own tools (google-genai 3.1.0, Blob.display_name).
            next(iter(parts[0].values()))["displayName"] = content.name
            if not self.is_same:
                self.report.lose("NAME_HIDDEN", place)
        return parts

    # --- tools ---------------------------------------------------------------------------------

    def _call(self, piece: Piece, residue: Residue | None) -> Object:
        """A call, with a generated id only if the client has seen it."""
        canister: Any = piece.canister
        identifier = canister.identifier
        inner: Object = {"id": identifier, "name": self._name(canister.name)}
        if canister.held or not self.is_same:
            inner["args"] = self.arguments(canister, piece.place)
        part: Object = {"functionCall": inner}
        self._names[identifier] = canister.name
        self._idless.discard(identifier)
        if residue is not None and residue.part is not None:
            part = self._restored(part, residue, piece.place)
            if "id" not in (get(part, "functionCall") or ()):
                self._idless.add(identifier)
        return part

    def _name(self, name: str | None) -> str:
        """The name of a function; an empty one stays empty if names are not to be repaired."""
        if name == "" and not self.is_same and "function_names" in self.report.off:
            return name
        return name or NAMELESS

    def _result(self, piece: Piece, residue: Residue | None) -> Object:
        """The output of a tool, under the name of the call."""
        canister: Any = piece.canister
        shapes, name = read_form(residue)
        identifier = canister.invocation_id
        inner: Object = {"id": identifier}
        called = self._names.get(identifier)
        if name is None or (called is not None and not self.is_same):
            name = self._name(called)
            if called is None and not self.is_same:
                detail = f"a result must have a name here; one without its call got {name!r}"
                self.report.lose("NAME_CHANGED", piece.place, detail)
        if "nameless" not in shapes:
            inner["name"] = name
        held = canister.held
        if type(held) is str and not canister.is_error:
            inner["response"] = {OUTPUT: held} if OUTPUT in shapes else wrap_text(held)
        elif type(held) is DataContentClass and not canister.is_error:
            inner["response"] = wrap_data(held.json)
        else:
            media, texts = self._result_media(held, piece.place)
            inner["response"] = self._response(canister, shapes, texts, has_media=bool(media))
            if media:
                inner["parts"] = media[0] if _is_single("single", shapes, media) else media
        part: Object = {"functionResponse": inner}
        if residue is not None:
            return self._restored(part, residue, piece.place)
        if identifier in self._idless:
            del inner["id"]
        return part

    def _response(
        self,
        canister: ResultCanisterClass,
        shapes: frozenset[str],
        texts: list[str],
        *,
        has_media: bool,
    ) -> Any:
        held = canister.held
        contents = held.parts if isinstance(held, PartsContentClass) else (held,)
        said = [content for content in contents if isinstance(content, SAID)]
        words = "".join(words_of(content) for content in said)
        words = "\n\n".join(filter(None, [words, *texts]))
        data = said[0] if len(said) == 1 and isinstance(said[0], DataContentClass) else None
        if canister.is_error:
            return self._failure(canister, words, data, is_text=OUTPUT in shapes)
        if data is not None and not texts:
            return wrap_data(data.json)
        if not words and not said and has_media:
            return {}
        return {OUTPUT: words} if OUTPUT in shapes else wrap_text(words)

    def _failure(
        self,
        canister: ResultCanisterClass,
        words: str,
        data: DataContentClass | None,
        *,
        is_text: bool,
    ) -> Any:
        if data is not None:
            return {ERROR: spelled_json(data.json)}
        told = canister.stated_error
        if isinstance(told, str) and words and told != words:
            # A failure described beside the tool's output is written in full.
            return {ERROR: told, OUTPUT: words}
        words = words or ("" if self.is_same else str(canister.error))
        return {ERROR: words} if is_text else wrap_failure(words)

    def _result_media(self, held: Any, place: int | None) -> tuple[list[Object], list[str]]:
        """The media of a result, and the documents among them that became text."""
        contents = held.parts if isinstance(held, PartsContentClass) else (held,)
        parts = [
            part
            for content in contents
            if not isinstance(content, SAID)
            for part in self.content(content, place)
        ]
        media = [part for part in parts if "text" not in part]
        return media, [part["text"] for part in parts if "text" in part]


def _is_single(shape: str, shapes: frozenset[str], parts: list[Object]) -> bool:
    return shape in shapes and len(parts) == 1
