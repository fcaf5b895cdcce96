"""Writing Interactions requests, and the steps of requests and answers.

One walk over the pieces: contents that belong together are gathered in a ``user_input`` or ``model_output``, everything
else is a step of its own. Each is written in the usual form, and this dialect's own residue restores what was said.
"""

from __future__ import annotations

from typing import Any, assert_never

from orjson import Fragment

from cannery.dialects.gemini_interactions.reading import ACCOUNT
from cannery.dialects.gemini_interactions.settings import NAME, write_settings
from cannery.families.gemini.models import same_family
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    DocumentCanisterClass,
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
from cannery.messages.requests import Request
from cannery.messages.residue import PREAMBLE, Residue
from cannery.wire.arguments import FREEFORM_INPUT, object_input, object_text, wrapped_input
from cannery.wire.bodies import Object
from cannery.wire.citations import report_approximated
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Place, Report
from cannery.wire.markers import supplement, system_envelope
from cannery.wire.media import (
    NOT_BASE64,
    UNKNOWN_TYPE,
    base64_text,
    context_path,
    is_broken,
    is_fetchable,
    is_text_file,
    standard_base64,
)
from cannery.wire.residues import own_residue, recall, recall_settings
from cannery.wire.turns import MODEL, USER, is_prefill, side

_NO_WORDS: frozenset[str] = frozenset()
_EMPTY = frozenset({"empty", "null", "absent"})
_STEPS = {USER: "user_input", MODEL: "model_output"}
_ROLES = {USER: "user", MODEL: "model"}
_KINDS = {"image": "image", "audio": "audio", "video": "video", "file": "document"}
# What a system instruction can say.
_SAID = (str, TextualContentClass, RefusalContentClass, DataContentClass)


def words_of(residue: Residue | None) -> frozenset[str]:
    """The words of a form."""
    if residue is None or residue.form is None:
        return _NO_WORDS
    return frozenset(residue.form.split())


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request."""
    is_same = request.source == NAME
    body = write_settings(request, report)
    residue = own_residue(request, NAME)
    body = recall_settings(body, residue)
    writer = StepWriter(report, is_same=is_same, model=request.model)
    system, pieces = _split_instructions(pieces, is_same=is_same)
    told = [words for words in map(writer.instruction, system) if words or is_same]
    if told:
        body["system_instruction"] = "\n\n".join(told)
    if len(told) > 1:
        report.repair("single_system", system[0].place)
    shape = words_of(residue)
    if pieces or not shape & {"absent", "null"}:
        body["input"] = writer.input(pieces, shape)
    elif "null" in shape:
        body["input"] = None
    if not is_same and pieces and is_prefill(pieces[-1]):
        report.lose("PREFILL_DROPPED", pieces[-1].place)
    return body


def _split_instructions(pieces: list[Piece], *, is_same: bool) -> tuple[list[Piece], list[Piece]]:
    """The system instruction, and the rest; of other dialects all that leads is one, of this the first or its own."""
    count = 0
    while count < len(pieces) and isinstance(pieces[count].canister, SupervisorCanisterClass):
        count += 1
    if not is_same or not pieces:
        return pieces[:count], pieces[count:]
    own = (
        index
        for index, piece in enumerate(pieces)
        if words_of(own_residue(piece.canister, NAME)) & {"instructions", PREAMBLE}
    )
    index = 0 if count == 1 else next(own, 0 if count else None)
    if index is None:
        return [], pieces
    return [pieces[index]], [*pieces[:index], *pieces[index + 1 :]]


class _Entry:
    """What stands in the list of steps: a step, contents of a step, a turn, or contents in the list itself."""

    def __init__(self, kind: str, value: Object, contents: list[Any] | None = None) -> None:
        self.kind = kind
        self.value = value
        self.contents = contents
        self.words: frozenset[str] = _NO_WORDS
        self.residue: Residue | None = None
        # What a person would call the first content.
        self.omitted = ""

    def written(self) -> Object:
        """The step."""
        if self.contents is None:
            return self.value
        value, contents, words = {**self.value}, self.contents, self.words
        if not contents and words & _EMPTY:
            if "absent" not in words:
                value["content"] = [] if "empty" in words else None
        elif len(contents) == 1 and "string" in words and contents[0].keys() == {"type", "text"}:
            value["content"] = contents[0]["text"]
        elif len(contents) == 1 and "single" in words:
            value["content"] = contents[0]
        else:
            value["content"] = contents
        return value if self.residue is None else recall(value, self.residue.envelope)


class StepWriter:
    """Writes steps; ``is_same`` when they were read from this same dialect."""

    def __init__(self, report: Report, *, is_same: bool, model: Any = None) -> None:
        self.report = report
        self.is_same = is_same
        self.model = model if isinstance(model, str) else None
        self._names: dict[str, str] = {}

    def instruction(self, piece: Piece) -> str:
        """The words of the system instruction."""
        canister: Any = piece.canister
        if own_residue(canister, NAME) is None:
            self._report_foreign(piece)
            if canister.rank == "developer":
                self.report.lose("RANK_LOWERED", piece.place)
        held = canister.held
        if isinstance(held, (str, TextualContentClass)):
            if not isinstance(held, str) and held.citations and not self.is_same:
                self.report.lose("CITATION_DROPPED", piece.place, "a system instruction is text")
            return text_of(held)
        if isinstance(held, _SAID):
            return "".join(part["text"] for part in self.contents(held, piece.place))
        self.report.lose("MEDIA_DROPPED", piece.place, "a system instruction is text")
        return ""

    def input(self, pieces: list[Piece], shape: frozenset[str]) -> Any:
        """The input of a request, in the shape that it came in if it still has that."""
        entries = self._entries(pieces)
        words = words_of(own_residue(pieces[0].canister, NAME)) if len(pieces) == 1 else _NO_WORDS
        if len(pieces) == 1 and entries and entries[0].contents:
            content = entries[0].contents[0]
            if "content" in words:
                return content
            if "input" in words and content.keys() == {"type", "text"}:
                return content["text"]
        is_bare = "mixed" in shape or all(entry.kind == "bare" for entry in entries)
        written: list[Any] = []
        for entry in entries:
            if entry.kind == "bare" and is_bare:
                written += entry.contents or ()
            else:
                written.append(entry.written())
        return written

    def _entries(self, pieces: list[Piece]) -> list[_Entry]:
        entries: list[_Entry] = []
        for given in pieces:
            piece = self._folded(given)
            canister = piece.canister
            residue = own_residue(canister, NAME)
            words = words_of(residue)
            step = self._step(piece, residue, words)
            if step is None:
                self._add_contents(piece, residue, words, entries)
            elif "turn" in words or ("within" in words and _is_turn(entries)):
                self._turn(piece, residue, words, entries).append(step)
            else:
                entries.append(_Entry("step", step))
        return [entry for entry in entries if self._says_something(entry)]

    def _says_something(self, entry: _Entry) -> bool:
        """Whether an entry is sent; where a user said only what could not be said, a word stands for it."""
        if entry.contents is None or entry.contents or entry.words & _EMPTY:
            return True
        if entry.omitted and entry.value.get("type") == "user_input":
            entry.contents.append(_text(f"[{entry.omitted} omitted]"))
            return True
        return entry.residue is not None

    def _folded(self, piece: Piece) -> Piece:
        """A late supervisor as a user says it: one that was added to a conversation of this dialect."""
        canister = piece.canister
        if not isinstance(canister, SupervisorCanisterClass):
            return piece
        self.report.repair("late_supervisors", piece.place)
        words = text_of(canister.held)
        held = system_envelope(words) if words else canister.held
        return Piece(new_user(held, canister.timestamp), piece.place)

    def _turn(
        self, piece: Piece, residue: Residue | None, words: frozenset[str], entries: list[_Entry]
    ) -> list[Any]:
        """The contents of the turn that a piece opens or stands in."""
        if "turn" in words:
            entry = _Entry("turn", {"role": _ROLES[side(piece)]}, [])
            entry.words, entry.residue = words, residue
            entries.append(entry)
        return entries[-1].contents  # type: ignore[return-value]

    def _add_contents(
        self, piece: Piece, residue: Residue | None, words: frozenset[str], entries: list[_Entry]
    ) -> None:
        """Put what a piece says into the step under way, or a new one."""
        canister = piece.canister
        contents = self.said(piece, residue)
        if "turn" in words or ("within" in words and _is_turn(entries)):
            self._turn(piece, residue, words, entries).extend(contents)
            return
        is_bare = bool(words & {"bare", "content", "input"})
        kind = "bare" if is_bare else _STEPS[side(piece)]
        opens = "opens" in words or (residue is not None and residue.envelope is not None)
        last = entries[-1] if entries else None
        if last is None or last.kind != kind or not canister.joined or opens:
            last = _Entry(kind, {"type": _STEPS[side(piece)]}, [])
            last.words, last.residue = words, residue
            last.omitted = "" if canister.held in (absent, "") else _kind_of(canister.held)
            entries.append(last)
        last.contents.extend(contents)  # type: ignore[union-attr]

    def _step(self, piece: Piece, residue: Residue | None, words: frozenset[str]) -> Object | None:
        """What is a step of its own; None for contents of a step."""
        canister, held = piece.canister, piece.canister.held
        if isinstance(canister, InvocationCanisterClass):
            return self.call(piece, residue)
        if isinstance(canister, ResultCanisterClass):
            return self._result(piece, residue, words)
        if isinstance(held, OpaqueContentClass) and held.dialect == NAME and "part" not in words:
            return decode_json(held.json)  # type: ignore[no-any-return]
        if isinstance(held, ReasoningContentClass) and side(piece) is MODEL:
            return self._thought(piece, residue)
        return None

    def _report_foreign(self, piece: Piece) -> None:
        """Report the residue of another dialect as lost, its cache mark too."""
        residue = piece.canister.residue
        if residue is not None and residue.dialect != NAME:
            report_residue(piece.canister, self.report, piece.place)
            if residue.cache:
                self.report.lose("CACHE_MARK_DROPPED", piece.place, "Gemini has no cache marks")

    # --- what is said --------------------------------------------------------------------------

    def said(self, piece: Piece, residue: Residue | None) -> list[Object]:
        """The contents of one piece, with this dialect's residue."""
        canister: Any = piece.canister
        held = canister.held
        if residue is None:
            self._report_foreign(piece)
        if held is absent or (held == "" and words_of(residue) & _EMPTY):
            return []
        if isinstance(canister, DocumentCanisterClass) and isinstance(
            canister.content, TextualContentClass
        ):
            self.report.lose("DOCUMENT_TO_TEXT", piece.place)
            title = None if canister.title is absent else canister.title
            return [_text(supplement(canister.content.text, title))]
        written = self.contents(held, piece.place)
        if residue is not None and residue.part is not None and len(written) == 1:
            return [recall(written[0], residue.part)]
        return written

    def contents(self, content: AnyContent | str, place: Place) -> list[Object]:
        """The usual contents for what is said."""
        if isinstance(content, str):
            return [_text(content)]
        match content:
            case TextualContentClass():
                return [self._cited(content, place)]
            case BinaryContentStruct() if not self.is_same and is_broken(content):
                self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
            case FileContentClass():
                return self._file(content, place)
            case ImageContentClass() | AudioContentClass() | VideoContentClass():
                return self._media(content, place)
            case ReasoningContentClass():
                self.report.lose("REASONING_DROPPED", place)
            case RefusalContentClass():
                self.report.lose("REFUSAL_TO_TEXT", place)
                return [_text(content.text)] if content.text.strip() else []
            case DataContentClass():
                return [_text(content.json)]
            case OpaqueContentClass():
                if content.dialect == NAME:
                    return [decode_json(content.json)]
                self.report.lose("OPAQUE_DROPPED", place, f"{content.tag!r} of {content.dialect}")
            case PartsContentClass():
                return [part for inner in content.parts for part in self.contents(inner, place)]
            case _:
                assert_never(content)
        return []

    def _cited(self, content: TextualContentClass, place: Place) -> Object:
        written = _text(content.text)
        said = [each for each in content.citations if each.dialect == NAME or each.url is not None]
        if len(said) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(said, NAME, self.report, place)
        if said:
            written["annotations"] = [write_citation(each, content.text) for each in said]
        return written

    def _media(self, content: BinaryContentStruct, place: Place) -> list[Object]:
        payload, mime_type = content.payload, content.mime_type
        written: Object = {"type": _KINDS[content.kind]}
        if isinstance(payload, Location):
            is_known = is_fetchable(payload) or payload.value.startswith(ACCOUNT)
            if not (self.is_same or is_known):
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return []
            written["uri"] = payload.value
        elif self.is_same:
            written["data"] = base64_text(payload)
        else:
            written["data"] = standard_base64(payload)
            if not mime_type:
                # Data must have a type here, so this is said whether or not the repair is switched off.
                mime_type = UNKNOWN_TYPE
                self.report.repair("media_types", place, f"nothing became {mime_type}")
        if mime_type:
            written["mime_type"] = mime_type
        return [written]

    def _file(self, content: FileContentClass, place: Place) -> list[Object]:
        for path, lost in (
            (context_path(content), content.context),
            (".citations", content.citable),
        ):
            if lost:
                self.report.lose("FIELD_DROPPED", place, f"a file has no {path[1:]!r} here", path)
        if content.chunks:
            self.report.lose("DOCUMENT_TO_TEXT", place)
            parts = [part for chunk in content.chunks for part in self.contents(chunk, place)]
            texts = [part["text"] for part in parts if part["type"] == "text"]
            media = [part for part in parts if part["type"] != "text"]
            return [_text(supplement("\n\n".join(texts), content.name)), *media]
        if not self.is_same and is_text_file(content):
            self.report.lose("DOCUMENT_TO_TEXT", place)
            text = content.data.decode("utf-8", "replace")
            return [_text(supplement(text, content.name))]
        if content.name and not self.is_same:
            self.report.lose("FIELD_DROPPED", place, "a file has no name here")
        return self._media(content, place)

    def _thought(self, piece: Piece, residue: Residue | None) -> Object | None:
        """A thought: this dialect's own as it was, any other as a summary without a signature."""
        content: ReasoningContentClass = piece.canister.held
        origin = content.origin
        is_own = origin is not None and origin.dialect == NAME
        if is_own and (self.is_same or same_family(origin.model, self.model)):  # type: ignore[union-attr]
            step = thought(content.summaries or content.texts)
            if content.signature is not None:
                step["signature"] = content.signature
            return step if residue is None else recall(step, residue.part)
        if residue is None:
            self._report_foreign(piece)
        if content.signature is not None or content.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", piece.place)
        words = [text for text in ("".join(content.texts), *content.summaries) if text]
        if not words:
            self.report.lose("REASONING_DROPPED", piece.place)
            return None
        return thought(words)

    # --- tools ---------------------------------------------------------------------------------

    def call(self, piece: Piece, residue: Residue | None) -> Object:
        """A call of a function."""
        canister: Any = piece.canister
        if residue is None:
            self._report_foreign(piece)
        self._names[canister.identifier] = canister.name
        step: Object = {
            "type": "function_call",
            "id": canister.identifier,
            "name": canister.name,
            "arguments": self._arguments(canister, piece.place),
        }
        if residue is None:
            return step
        step = recall(step, residue.part)
        is_read = self.is_same or same_family(residue.model, self.model)
        if not is_read and step.pop("signature", None):
            self.report.lose("SIGNATURE_DROPPED", piece.place, within=".signature")
        return step

    def _arguments(self, canister: InvocationCanisterClass, place: Place) -> Any:
        text = canister.held
        if canister.is_freeform:
            self.report.lose("FREEFORM_WRAPPED", place)
            return {FREEFORM_INPUT: text}
        found = object_text(text) or object_input(text)
        if found is None:
            if not self.is_same:
                self.report.lose("ARGUMENTS_WRAPPED", place)
            return wrapped_input(text)
        return found

    def _result(self, piece: Piece, residue: Residue | None, words: frozenset[str]) -> Object:
        canister: Any = piece.canister
        if residue is None:
            self._report_foreign(piece)
        step: Object = {"type": "function_result", "call_id": canister.invocation_id}
        called = self._names.get(canister.invocation_id)
        if called is not None:
            step["name"] = called
        if "absent" not in words:
            step["result"] = self._answer(canister, piece.place, words)
        if canister.is_error:
            step["is_error"] = True
        return step if residue is None else recall(step, residue.part)

    def _answer(self, canister: ResultCanisterClass, place: Place, words: frozenset[str]) -> Any:
        """What a tool answered: text, an object, or a list of contents."""
        held: Any = canister.held
        if held == "" and words & {"null", "empty"}:
            return None if "null" in words else []
        if isinstance(held, DataContentClass):
            is_object = held.json.lstrip()[:1] == "{"
            return _json(held.json) if self.is_same or is_object else held.json
        if isinstance(held, str):
            stated = canister.stated_error
            text = held or (stated if canister.is_error and isinstance(stated, str) else "")
            return [_text(text)] if "list" in words else text
        contents = self.contents(held, place)
        parts = getattr(held, "parts", (held,))
        return contents or (f"[{_kind_of(parts[0])} omitted]" if parts else "")


def _is_turn(entries: list[_Entry]) -> bool:
    return bool(entries) and entries[-1].kind == "turn"


def _kind_of(held: Any) -> str:
    """What a person would call a content that could not be said."""
    if isinstance(held, OpaqueContentClass):
        return held.tag or "block"
    return "text" if isinstance(held, str) else str(held.kind)


def _text(text: str) -> Object:
    return {"type": "text", "text": text}


def _json(json: str) -> Any:
    """A JSON value that goes to the wire as it is spelled."""
    return decode_json(json) if "\\u" in json else Fragment(json)


def thought(texts: Any) -> Object:
    """A thought in the usual form."""
    step: Object = {"type": "thought"}
    if texts:
        step["summary"] = [_text(text) for text in texts]
    return step


def write_citation(citation: Citation, text: str) -> Any:
    """An annotation: this dialect's own as it was; any other without a span covers the whole text."""
    if citation.dialect == NAME:
        return decode_json(citation.raw)
    start, end = citation.start, citation.end
    if start is None or end is None:
        start, end = 0, len(text)
    written: Object = {
        "type": "url_citation",
        "start_index": len(text[:start].encode()),
        "end_index": len(text[:end].encode()),
        "url": citation.url,
    }
    if citation.title is not None:
        written["title"] = citation.title
    return written
