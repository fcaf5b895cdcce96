"""Writing generateContent bodies.

Every function gives the usual form of a value and then lets this dialect's own residue restore what was really said. A
part that cannot be said gives nothing and a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from cannery.dialects.gemini_generate.citations import Grounding
from cannery.dialects.gemini_generate.models import STAND_IN, same_family
from cannery.dialects.gemini_generate.outputs import (
    ERROR,
    OUTPUT,
    raw,
    wrap_data,
    wrap_failure,
    wrap_text,
)
from cannery.dialects.gemini_generate.spelling import (
    NAME,
    SIGNATURE,
    Object,
    get,
    read_form,
    spelled,
)
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    new_user,
    text_of,
)
from cannery.messages.content import (
    AnyContent,
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
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.messages.residue import PREAMBLE, Residue
from cannery.messages.role import Role
from cannery.wire.arguments import FREEFORM_INPUT, object_input, wrapped_input
from cannery.wire.citations import report_approximated
from cannery.wire.contract import Piece
from cannery.wire.foreign import STAND_INS, report_residue
from cannery.wire.losses import Report
from cannery.wire.markers import supplement, system_envelope
from cannery.wire.media import (
    NOT_BASE64,
    UNKNOWN_TYPE,
    base64_text,
    is_broken,
    is_fetchable,
    standard_base64,
)
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import MODEL, SUPERVISOR, changed, side, turns

# Where Google keeps files that only their account can read.
ACCOUNT = ("https://generativelanguage.googleapis.com/", "gs://", "files/")
# No function is called nothing here.
_NAMELESS = "unknown_function"
# Shapes of a content without parts.
_EMPTY = frozenset({"absent", "null", "empty"})
_SAID = (str, TextualContentClass, RefusalContentClass, DataContentClass)


class MessageWriter:
    """Writes contents; ``at_home`` when they were read from this same dialect, ``signs`` where calls must be signed.

    ``is_plain`` gives values that can be compared, and not JSON text on its way to the wire. An answer has
    ``grounding`` that takes its citations; a request has no place for any.
    """

    def __init__(
        self,
        report: Report,
        *,
        at_home: bool,
        model: str | None = None,
        is_plain: bool = False,
        grounding: Grounding | None = None,
        signs: bool = False,
    ) -> None:
        self.report = report
        self.at_home = at_home
        self.model = model
        self.is_plain = is_plain
        self.grounding = grounding
        self.signs = signs
        self._position = 0
        self._names: dict[str, str] = {}
        self._idless: set[str] = set()
        self._has_stand_ins = False

    def messages(self, pieces: list[Piece]) -> Object:
        """The contents of all pieces, and the system instruction where there is one."""
        count = next(
            (i for i, piece in enumerate(pieces) if side(piece) != SUPERVISOR), len(pieces)
        )
        body: Object = {}
        leading, others = pieces[:count], pieces[count:]
        displaced: list[Piece] | None = [] if self.at_home else None
        arranged = list(self._arranged(others, displaced, has_lead=count > 0))
        if leading or displaced:
            self._system([*leading, *(displaced or ())], body)
        contents: list[Object] = []
        for turn in turns(arranged):
            content = self.content(turn, "model" if side(turn[0]) == MODEL else "user")
            if content is not None:
                contents.append(content)
        body["contents"] = contents
        return body

    def _arranged(
        self, pieces: list[Piece], displaced: list[Piece] | None, *, has_lead: bool
    ) -> Iterator[Piece]:
        """Pieces of which no supervisor is one, and results that answer one turn together.

        The repairs have seen to supervisors, unless the pieces are at home, where somebody may have added to them, or
        the rules of an endpoint say that it takes them. What was the system instruction at home, and now stands behind
        contents, is left to ``displaced``.
        """
        before: Piece | None = None
        for piece in pieces:
            canister = piece.canister
            if canister.role is Role.Supervisor:
                if displaced is not None and _is_displaced(canister, has_lead=has_lead):
                    displaced.append(piece)
                    continue
                self.report.repair("late_supervisors", piece.place)
                words = text_of(canister.held)
                held = system_envelope(words) if words else canister.held
                before = Piece(new_user(held, canister.timestamp), piece.place)
            elif (
                canister.role is Role.Result
                and (canister.residue is None or not self.at_home)
                and before is not None
                and before.canister.role is Role.Result
            ):
                before = Piece(changed(canister, joined=True), piece.place)
            else:
                before = piece
            yield before

    # --- system --------------------------------------------------------------------------------

    def _system(self, pieces: list[Piece], body: Object) -> None:
        parts = [part for piece in pieces for part in self._system_parts(piece)]
        if not parts:
            return
        head = own_residue(pieces[0].canister, NAME)
        shapes, _ = read_form(None if head is None else head.form)
        key = "system_instruction" if "system_instruction" in shapes else "systemInstruction"
        if "string" in shapes and len(parts) == 1 and parts[0].keys() == {"text"}:
            body[key] = parts[0]["text"]
        elif "list" in shapes:
            body[key] = parts
        elif "part" in shapes and len(parts) == 1:
            body[key] = parts[0]
        else:
            instruction = self.system_envelope(head)
            instruction["parts"] = parts[0] if _is_single("object", shapes, parts) else parts
            body[key] = instruction

    def system_envelope(self, head: Residue | None) -> Object:
        """The system instruction without its parts."""
        return {} if head is None else dict(recall({}, head.envelope))

    def _system_parts(self, piece: Piece) -> Iterable[Object]:
        canister = piece.canister
        if isinstance(canister, SupervisorCanisterClass) and canister.rank == "developer":
            self.report.lose("RANK_LOWERED", piece.place)
        if self.at_home or isinstance(canister.held, _SAID):
            return self.parts(piece)
        self.report.lose("MEDIA_DROPPED", piece.place, "a system instruction is text")
        return ()

    # --- contents ------------------------------------------------------------------------------

    def content(self, turn: list[Piece], role: str) -> Object | None:
        """One content; None for a turn in which nothing was said."""
        head = own_residue(turn[0].canister, NAME)
        shapes, _ = read_form(None if head is None else head.form)
        if len(turn) > 1 and not _EMPTY.isdisjoint(shapes):
            # Something was added to a content without parts.
            turn, shapes = turn[1:], shapes - _EMPTY
        parts = self._signed(turn, role)
        content: Object = {"role": role}
        if head is not None:
            content = dict(recall(content, head.envelope))
        if "absent" in shapes:
            return content
        if not parts and not shapes:
            # What an answer does not say is not put into the model's mouth.
            is_answer = self.grounding is not None
            if is_answer or all(piece.canister.held is absent for piece in turn):
                return None
            parts = [{"text": _omission(turn)}]
        if "null" in shapes or "empty" in shapes:
            content["parts"] = None if "null" in shapes else []
        else:
            content["parts"] = parts[0] if _is_single("object", shapes, parts) else parts
        return content

    def _signed(self, turn: list[Piece], role: str) -> list[Object]:
        """The parts of a turn, the first call among them signed where the model insists."""
        parts: list[Object] = []
        wants_signature = self.signs and role == "model"
        for piece in turn:
            self._position = len(parts)
            written = list(self.parts(piece))
            parts.extend(written)
            if wants_signature and isinstance(piece.canister, InvocationCanisterClass):
                wants_signature = False
                if not get(written[0], SIGNATURE):
                    self._stand_in(written[0], piece.place)
        return parts

    def _stand_in(self, call: Object, place: int | None) -> None:
        """Sign a call that was made elsewhere; told of the first."""
        call[SIGNATURE] = STAND_IN
        if not self._has_stand_ins:
            self.report.lose("SIGNATURE_STANDIN", place)
        self._has_stand_ins = True

    def parts(self, piece: Piece) -> Iterable[Object]:
        """The parts of one canister, with this dialect's residue, or none and a loss."""
        canister = piece.canister
        if canister.held is absent:
            self._report_foreign(piece)
            return ()
        if isinstance(canister, InvocationCanisterClass):
            return (self.call(piece),)
        if isinstance(canister, ResultCanisterClass):
            return (self.result(piece),)
        if canister.role is Role.Document:
            return self._document(piece)
        residue = self._report_foreign(piece)
        ours = self.content_parts(canister.held, piece.place)
        if residue is None or len(ours) != 1:
            return ours
        part = self._restored(ours[0], residue, piece.place)
        return () if self._is_left_blank(part, ours[0], piece.place) else (part,)

    def _is_left_blank(self, part: Object, ours: Object, place: int | None) -> bool:
        """Whether blank text has lost the signature that it was kept for."""
        if self.at_home or part != ours or part.keys() != {"text"} or part["text"].strip():
            return False
        if "empty_text" in self.report.off:
            return False
        self.report.repair("empty_text", place)
        return True

    def _report_foreign(self, piece: Piece) -> Residue | None:
        """This dialect's own residue, or None and losses for what another's held."""
        residue = piece.canister.residue
        if residue is None or residue.dialect == NAME:
            return residue
        report_residue(piece.canister, self.report, piece.place)
        if residue.cache:
            self.report.lose("CACHE_MARK_DROPPED", piece.place, "Gemini has no cache marks")
        return None

    def _restored(self, ours: Object, residue: Residue, place: int | None) -> Object:
        part: Object = recall(ours, residue.part)
        key = spelled(part, SIGNATURE)
        is_any = part.get(key) in STAND_INS
        if self.at_home or is_any or same_family(residue.model, self.model):
            return part
        if part.pop(key, None) is not None:
            self.report.lose("SIGNATURE_DROPPED", place, within=f".{key}")
        return part

    # --- what is said --------------------------------------------------------------------------

    def content_parts(self, content: AnyContent | str, place: int | None) -> tuple[Object, ...]:
        """The usual parts for a content."""
        if isinstance(content, str):
            return ({"text": content},)
        match content:
            case TextualContentClass():
                self._cite(content, place)
                return ({"text": content.text},)
            case BinaryContentStruct() if not self.at_home and is_broken(content):
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
                return self._opaque(content, place)
            case PartsContentClass():
                return tuple(
                    part for inner in content.parts for part in self.content_parts(inner, place)
                )
            case _:
                assert_never(content)

    def _cite(self, content: TextualContentClass, place: int | None) -> None:
        """Carry the citations of a text, or name them as lost."""
        kept = [
            citation
            for citation in content.citations
            if self.grounding is not None
            and self.grounding.add(self._position, content.text, citation)
        ]
        if len(kept) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(kept, NAME, self.report, place)

    def _opaque(self, content: OpaqueContentClass, place: int | None) -> tuple[Object, ...]:
        if content.dialect == NAME:
            return (decode_json(content.json),)
        self.report.lose("OPAQUE_DROPPED", place, f"{content.tag!r} of {content.dialect}")
        return ()

    def _reasoning(self, content: ReasoningContentClass, place: int | None) -> tuple[Object, ...]:
        origin = content.origin
        is_own = origin is not None and origin.dialect == NAME
        if is_own and (self.at_home or same_family(origin.model, self.model)):  # type: ignore[union-attr]
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
            if not (self.at_home or is_known):
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return ()
            file = {"fileUri": payload.value}
            return (
                {
                    "fileData": {**file, "mimeType": content.mime_type}
                    if content.mime_type
                    else file
                },
            )
        if self.at_home:
            blob = {"mimeType": content.mime_type, "data": base64_text(payload)}
            return ({"inlineData": blob},)
        mime_type = content.mime_type
        if not mime_type:
            # Data must have a type here, so this is said whether or not the repair is switched off.
            mime_type = UNKNOWN_TYPE
            self.report.repair("media_types", place, f"nothing became {mime_type}")
        return ({"inlineData": {"mimeType": mime_type, "data": standard_base64(payload)}},)

    def _file(self, content: FileContentClass, place: int | None) -> tuple[Object, ...]:
        if content.context is not None:
            self.report.lose("FIELD_DROPPED", place, "Gemini has no context of a file", ".context")
        if content.citable:
            self.report.lose("FIELD_DROPPED", place, "Gemini cites no files", ".citations")
        if content.chunks:
            return self._chunks(content, place)
        parts = self._media(content, place)
        if parts and content.name is not None:
            # The model sees it only beside Google's own tools (google-genai 3.1.0, Blob.display_name).
            next(iter(parts[0].values()))["displayName"] = content.name
            if not self.at_home:
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
                parts.extend(self.content_parts(chunk, place))
        return tuple(parts)

    def _document(self, piece: Piece) -> tuple[Object, ...]:
        canister: Any = piece.canister
        self._report_foreign(piece)
        content = canister.content
        if not isinstance(content, TextualContentClass):
            return self.content_parts(content, piece.place)
        self.report.lose("DOCUMENT_TO_TEXT", piece.place)
        title = None if canister.title is absent else canister.title
        return ({"text": supplement(content.text, title)},)

    # --- tools ---------------------------------------------------------------------------------

    def call(self, piece: Piece) -> Object:
        """A call, with the id that it got here only if the wire has seen it."""
        canister: Any = piece.canister
        residue = self._report_foreign(piece)
        is_plain = self.is_plain or residue is not None
        inner: Object = {"id": canister.identifier, "name": self._name(canister.name)}
        arguments = self._arguments(canister, piece.place, is_plain=is_plain)
        if arguments is not None:
            inner["args"] = arguments
        part: Object = {"functionCall": inner}
        if residue is not None:
            part = self._restored(part, residue, piece.place)
        self._names[canister.identifier] = canister.name
        self._idless.discard(canister.identifier)
        if "id" not in (get(part, "functionCall") or ()):
            self._idless.add(canister.identifier)
        return part

    def _name(self, name: str | None) -> str:
        """The name of a function; one that is empty stays so where names are not to be repaired."""
        if name == "" and not self.at_home and "function_names" in self.report.off:
            return name
        return name or _NAMELESS

    def _arguments(
        self, canister: InvocationCanisterClass, place: int | None, *, is_plain: bool
    ) -> Any:
        words = canister.arguments_text
        if canister.is_freeform:
            self.report.lose("FREEFORM_WRAPPED", place)
            return {FREEFORM_INPUT: words}
        if self.at_home and not words:
            return None
        spelled_object = object_input(words)
        if spelled_object is None:
            if not self.at_home:
                self.report.lose("ARGUMENTS_WRAPPED", place)
            return wrapped_input(words)
        return decode_json(words) if is_plain and words.strip() else spelled_object

    def result(self, piece: Piece) -> Object:
        """What a tool answered, under the name of the call."""
        canister: Any = piece.canister
        residue = self._report_foreign(piece)
        shapes, name = read_form(None if residue is None else residue.form)
        is_plain = self.is_plain or residue is not None
        inner: Object = {"id": canister.invocation_id}
        called = self._names.get(canister.invocation_id)
        if name is None or (called is not None and not self.at_home):
            name = self._name(called)
            if called is None and not self.at_home:
                detail = f"a result must have a name here; one without its call got {name!r}"
                self.report.lose("NAME_CHANGED", piece.place, detail)
        if "nameless" not in shapes:
            inner["name"] = name
        media, texts = self._result_media(canister.held, piece.place)
        inner["response"] = self._response(canister, shapes, texts, has_media=bool(media))
        if is_plain:
            inner["response"] = _plain(inner["response"])
        if media:
            inner["parts"] = media[0] if "single" in shapes and len(media) == 1 else media
        part: Object = {"functionResponse": inner}
        if residue is not None:
            return self._restored(part, residue, piece.place)
        if canister.invocation_id in self._idless:
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
            return self._failure(canister, words, data, is_text="output" in shapes)
        if data is not None and not texts:
            return wrap_data(data.json)
        if not words and not said and has_media:
            return {}
        return {OUTPUT: words} if "output" in shapes else wrap_text(words)

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
        words = words or ("" if self.at_home else str(canister.error))
        return {ERROR: words} if is_text else wrap_failure(words)

    def _result_media(self, held: Any, place: int | None) -> tuple[list[Object], list[str]]:
        """The media of a result, and the documents among them that became text."""
        contents = held.parts if isinstance(held, PartsContentClass) else (held,)
        parts = [
            part
            for content in contents
            if not isinstance(content, _SAID)
            for part in self.content_parts(content, place)
        ]
        media = [part for part in parts if "text" not in part]
        return media, [part["text"] for part in parts if "text" in part]


def _is_displaced(canister: AnyCanister, *, has_lead: bool) -> bool:
    """Whether a supervisor was the system instruction, and something was put before it."""
    residue = own_residue(canister, NAME)
    form = None if residue is None else residue.form
    return form == PREAMBLE or (form is not None and not has_lead)


def _is_single(shape: str, shapes: frozenset[str], parts: list[Object]) -> bool:
    return shape in shapes and len(parts) == 1


def _words(content: Any) -> str:
    return content.json if isinstance(content, DataContentClass) else _spoken(content)


def _spoken(content: Any) -> str:
    return content.text if isinstance(content, RefusalContentClass) else text_of(content)


def _plain(value: Any) -> Any:
    """A value without JSON text in it."""
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return (
        value
        if type(value) in (str, bool, int, float, list, type(None))
        else decode_json(bytes(value))
    )


def _omission(turn: list[Piece]) -> str:
    kinds = [
        "text" if isinstance(held, str) else held.kind
        for piece in turn
        if (held := piece.canister.held) is not absent
    ]
    return f"[{kinds[0]} omitted]"
