"""Writing generateContent bodies.

Every function gives the usual form of a value and then lets this dialect's own residue restore what was really said. A
part that cannot be said gives nothing and a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any, assert_never

from cannery.dialects.gemini_generate.forms import (
    ERROR,
    NAME,
    NO_SHAPES,
    OUTPUT,
    SIGNATURE,
    get,
    raw,
    read_form,
    spelled,
    spelled_object,
    wrap_data,
    wrap_failure,
    wrap_text,
)
from cannery.families.gemini.models import STAND_IN, same_family
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
    new_user,
    text_of,
)
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
from cannery.messages.residue import PREAMBLE, Residue
from cannery.wire.arguments import FREEFORM_INPUT, wrapped_input
from cannery.wire.bodies import Object
from cannery.wire.citations import report_approximated
from cannery.wire.contract import Piece
from cannery.wire.foreign import STAND_INS, report_residue
from cannery.wire.losses import Report
from cannery.wire.markers import supplement, system_envelope
from cannery.wire.media import (
    NOT_BASE64,
    UNKNOWN_TYPE,
    base64_text,
    context_path,
    is_broken,
    is_fetchable,
    standard_base64,
)
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import SIDES

# Where Google keeps files that only their account can read.
ACCOUNT = ("https://generativelanguage.googleapis.com/", "gs://", "files/")
# No function is called nothing here.
_NAMELESS = "unknown_function"
# Shapes of a content without parts.
_EMPTY = frozenset({"absent", "null", "empty"})
# Whose bare text is a content of its own.
_SPEAKERS = frozenset({UserCanisterClass, AssistantCanisterClass})
_SAID = (str, TextualContentClass, RefusalContentClass, DataContentClass)


class MessageWriter:
    """Writes contents; ``is_same`` when they were read from this same dialect, ``signs`` where calls must be signed.

    In an answer ``cite`` takes a citation of the text of a part, if it can; a request has no place for any.
    """

    def __init__(
        self,
        report: Report,
        *,
        is_same: bool,
        model: str | None = None,
        cite: Callable[[int, str, Citation], bool] | None = None,
        signs: bool = False,
    ) -> None:
        self.report = report
        self.is_same = is_same
        self.model = model
        self._cite = cite
        self.signs = signs
        self._position = 0
        self._names: dict[str, str] = {}
        self._idless: set[str] = set()
        self._has_stand_ins = False

    def messages(self, pieces: list[Piece]) -> Object:
        """The contents of all pieces, and the system instruction where there is one."""
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
            if whose is side and self._follows(piece.canister, turn[-1].canister):
                turn.append(piece)
                continue
            if turn:
                contents.append(self.content(turn, side))
            turn, side = [piece], whose
        if turn:
            contents.append(self.content(turn, side))
        body: Object = {}
        if system:
            self._system(system, body)
        # An empty object is a content that came without anything.
        body["contents"] = [content for content in contents if content is not None]
        return body

    def _is_displaced(self, canister: AnyCanister, *, has_lead: bool) -> bool:
        """Whether a supervisor was the system instruction here, and something was put before it."""
        residue = own_residue(canister, NAME) if self.is_same else None
        form = None if residue is None else residue.form
        return form == PREAMBLE or (form is not None and not has_lead)

    def _folded(self, piece: Piece) -> Piece:
        """A late supervisor as a user says it.

        The repairs have seen to supervisors, unless one was added to a conversation of this dialect, or the rules of an
        endpoint say that it takes them.
        """
        self.report.repair("late_supervisors", piece.place)
        words = text_of(piece.canister.held)
        held = system_envelope(words) if words else piece.canister.held
        return Piece(new_user(held, piece.canister.timestamp), piece.place)

    def _follows(self, canister: AnyCanister, last: AnyCanister) -> bool:
        """Whether a canister goes into the same content as the last; results that answer one turn always do."""
        kind = type(canister)
        if canister.joined or kind is InvocationCanisterClass:
            return True
        is_free = canister.residue is None or not self.is_same
        return is_free and kind is ResultCanisterClass and type(last) is ResultCanisterClass

    # --- system --------------------------------------------------------------------------------

    def _system(self, pieces: list[Piece], body: Object) -> None:
        parts: list[Object] = []
        for piece in pieces:
            self._add_system(piece, parts)
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

    def _add_system(self, piece: Piece, parts: list[Object]) -> None:
        canister = piece.canister
        if isinstance(canister, SupervisorCanisterClass) and canister.rank == "developer":
            self.report.lose("RANK_LOWERED", piece.place)
        if self.is_same or isinstance(canister.held, _SAID):
            self.add_parts(piece, parts)
        else:
            self.report.lose("MEDIA_DROPPED", piece.place, "a system instruction is text")

    # --- contents ------------------------------------------------------------------------------

    def content(self, turn: list[Piece], role: str) -> Object | None:
        """One content; None for a turn in which nothing was said."""
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
        """A text in the place of what could not be said; what an answer does not say is not put into its mouth."""
        is_answer = self._cite is not None
        if is_answer or all(piece.canister.held is absent for piece in turn):
            return []
        return [{"text": _omission(turn)}]

    def _sign(self, turn: list[Piece], parts: list[Object]) -> None:
        """Sign the first call of a turn if it has no signature; only the first stand-in is reported."""
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
            report_residue(canister, self.report, piece.place)
            if residue.cache:
                self.report.lose("CACHE_MARK_DROPPED", piece.place, "Gemini has no cache marks")
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
            written = self._document(piece) if is_document else self._said(held, piece.place)
            if residue is None or residue.part is None or is_document or len(written) != 1:
                parts.extend(written)
                return
            part = self._restored(written[0], residue, piece.place)
            if not self._is_left_blank(part, written[0], piece.place):
                parts.append(part)

    def _is_left_blank(self, part: Object, ours: Object, place: int | None) -> bool:
        """Whether blank text has lost the signature that it was kept for."""
        if self.is_same or part != ours or part.keys() != {"text"} or part["text"].strip():
            return False
        if "empty_text" in self.report.off:
            return False
        self.report.repair("empty_text", place)
        return True

    def _restored(self, ours: Object, residue: Residue, place: int | None) -> Object:
        part: Object = recall(ours, residue.part)
        if self.is_same or same_family(residue.model, self.model):
            return part
        key = spelled(part, SIGNATURE)
        if part.get(key) not in STAND_INS and part.pop(key, None) is not None:
            self.report.lose("SIGNATURE_DROPPED", place, within=f".{key}")
        return part

    # --- what is said --------------------------------------------------------------------------

    def _said(self, content: AnyContent | str, place: int | None) -> tuple[Object, ...]:
        """The usual parts for a content."""
        if isinstance(content, str):
            return ({"text": content},)
        match content:
            case TextualContentClass():
                self._cite_text(content, place)
                return ({"text": content.text},)
            case BinaryContentStruct() if not self.is_same and is_broken(content):
                self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
                return ()
            case ImageContentClass() | AudioContentClass() | VideoContentClass():
                return self._media(content, place)
            case FileContentClass():
                return self._file(content, place)
            case ReasoningContentClass():
                return self._reasoning(content, place)
            case RefusalContentClass():
                self.report.lose("REFUSAL_TO_TEXT", place)
                return ({"text": content.text},)
            case DataContentClass():
                return ({"text": content.json},)
            case OpaqueContentClass():
                if content.dialect == NAME:
                    return (decode_json(content.json),)
                self.report.lose("OPAQUE_DROPPED", place, f"{content.tag!r} of {content.dialect}")
                return ()
            case PartsContentClass():
                return tuple(part for inner in content.parts for part in self._said(inner, place))
            case _:
                assert_never(content)

    def _cite_text(self, content: TextualContentClass, place: int | None) -> None:
        """Carry the citations of a text, or name them as lost."""
        cite, text = self._cite, content.text
        kept = [
            each
            for each in content.citations
            if cite is not None and cite(self._position, text, each)
        ]
        if len(kept) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(kept, NAME, self.report, place)

    def _reasoning(self, content: ReasoningContentClass, place: int | None) -> tuple[Object, ...]:
        origin = content.origin
        is_own = origin is not None and origin.dialect == NAME
        if is_own and (self.is_same or same_family(origin.model, self.model)):  # type: ignore[union-attr]
            part: Object = {"text": content.text, "thought": True}
            if content.signature is not None:
                part[SIGNATURE] = content.signature
            return (part,)
        if content.signature is not None or content.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", place)
        thoughts = [words for words in ("".join(content.texts), *content.summaries) if words]
        if not thoughts:
            self.report.lose("REASONING_DROPPED", place)
        return tuple({"text": words, "thought": True} for words in thoughts)

    def _media(self, content: BinaryContentStruct, place: int | None) -> tuple[Object, ...]:
        payload = content.payload
        if isinstance(payload, Location):
            is_known = is_fetchable(payload) or payload.value.startswith(ACCOUNT)
            if not (self.is_same or is_known):
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return ()
            file = {"fileUri": payload.value}
            if content.mime_type:
                file["mimeType"] = content.mime_type
            return ({"fileData": file},)
        mime_type = content.mime_type
        if self.is_same:
            return ({"inlineData": {"mimeType": mime_type, "data": base64_text(payload)}},)
        if not mime_type:
            # Data must have a type here, so this is said whether or not the repair is switched off.
            mime_type = UNKNOWN_TYPE
            self.report.repair("media_types", place, f"nothing became {mime_type}")
        return ({"inlineData": {"mimeType": mime_type, "data": standard_base64(payload)}},)

    def _file(self, content: FileContentClass, place: int | None) -> tuple[Object, ...]:
        if content.context is not None:
            within = context_path(content)
            self.report.lose("FIELD_DROPPED", place, "Gemini has no context of a file", within)
        if content.citable:
            self.report.lose("FIELD_DROPPED", place, "Gemini cites no files", ".citations")
        if content.chunks:
            return self._chunks(content, place)
        parts = self._media(content, place)
        if parts and content.name is not None:
            # The model sees it only beside Google's own tools (google-genai 3.1.0, Blob.display_name).
            next(iter(parts[0].values()))["displayName"] = content.name
            if not self.is_same:
                self.report.lose("NAME_HIDDEN", place)
        return parts

    def _chunks(self, content: FileContentClass, place: int | None) -> tuple[Object, ...]:
        self.report.lose("DOCUMENT_TO_TEXT", place)
        texts = [_words(chunk) for chunk in content.chunks if isinstance(chunk, _SAID)]
        parts: list[Object] = []
        if texts or content.name is not None:
            parts.append({"text": supplement("\n\n".join(texts), content.name)})
        for chunk in content.chunks:
            if not isinstance(chunk, _SAID):
                parts.extend(self._said(chunk, place))
        return tuple(parts)

    def _document(self, piece: Piece) -> tuple[Object, ...]:
        canister: Any = piece.canister
        content = canister.content
        if not isinstance(content, TextualContentClass):
            return self._said(content, piece.place)
        self.report.lose("DOCUMENT_TO_TEXT", piece.place)
        title = None if canister.title is absent else canister.title
        return ({"text": supplement(content.text, title)},)

    # --- tools ---------------------------------------------------------------------------------

    def _call(self, piece: Piece, residue: Residue | None) -> Object:
        """A call, with the id that it got here only if the wire has seen it."""
        canister: Any = piece.canister
        identifier = canister.identifier
        inner: Object = {"id": identifier, "name": self._name(canister.name)}
        arguments = self._arguments(canister, piece.place)
        if arguments is not None:
            inner["args"] = arguments
        part: Object = {"functionCall": inner}
        self._names[identifier] = canister.name
        self._idless.discard(identifier)
        if residue is not None and residue.part is not None:
            part = self._restored(part, residue, piece.place)
            if "id" not in (get(part, "functionCall") or ()):
                self._idless.add(identifier)
        return part

    def _name(self, name: str | None) -> str:
        """The name of a function; one that is empty stays so where names are not to be repaired."""
        if name == "" and not self.is_same and "function_names" in self.report.off:
            return name
        return name or _NAMELESS

    def _arguments(self, canister: InvocationCanisterClass, place: int | None) -> Any:
        words = canister.held
        if canister.is_freeform:
            self.report.lose("FREEFORM_WRAPPED", place)
            return {FREEFORM_INPUT: words}
        if not words:
            return None if self.is_same else {}
        found = spelled_object(words)
        if found is None:
            if not self.is_same:
                self.report.lose("ARGUMENTS_WRAPPED", place)
            return wrapped_input(words)
        return found

    def _result(self, piece: Piece, residue: Residue | None) -> Object:
        """What a tool answered, under the name of the call."""
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
        said = [content for content in contents if isinstance(content, _SAID)]
        words = "".join(_words(content) for content in said)
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
            return {ERROR: raw(data.json)}
        told = canister.stated_error
        if isinstance(told, str) and words and told != words:
            # A failure that is described beside what the tool gave is told whole.
            return {ERROR: told, OUTPUT: words}
        words = words or ("" if self.is_same else str(canister.error))
        return {ERROR: words} if is_text else wrap_failure(words)

    def _result_media(self, held: Any, place: int | None) -> tuple[list[Object], list[str]]:
        """The media of a result, and the documents among them that became text."""
        contents = held.parts if isinstance(held, PartsContentClass) else (held,)
        parts = [
            part
            for content in contents
            if not isinstance(content, _SAID)
            for part in self._said(content, place)
        ]
        media = [part for part in parts if "text" not in part]
        return media, [part["text"] for part in parts if "text" in part]


def _is_single(shape: str, shapes: frozenset[str], parts: list[Object]) -> bool:
    return shape in shapes and len(parts) == 1


def _words(content: Any) -> str:
    if isinstance(content, DataContentClass):
        return content.json
    return content.text if isinstance(content, RefusalContentClass) else text_of(content)


def _omission(turn: list[Piece]) -> str:
    kinds = [
        "text" if isinstance(held, str) else held.kind
        for piece in turn
        if (held := piece.canister.held) is not absent
    ]
    return f"[{kinds[0]} omitted]"
