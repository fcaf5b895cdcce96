"""Writes Interactions requests, and the steps of requests and responses.

One walk over the pieces: contents that belong together are gathered in a ``user_input`` or ``model_output``; everything
else is a step of its own. Each is written in the usual form, and this dialect's own residue restores the original.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.gemini_interactions.settings import NAME, TABLE
from cannery.families.gemini.writing import GoogleWriter, spelled_json, words_of
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
    OpaqueContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
)
from cannery.messages.json_text import decode_json
from cannery.messages.requests import Request
from cannery.messages.residue import PREAMBLE, Residue
from cannery.wire.bodies import Object
from cannery.wire.citations import has_citations, is_sayable, report_approximated
from cannery.wire.contract import Piece
from cannery.wire.losses import Place, Report
from cannery.wire.markers import supplement
from cannery.wire.media import (
    is_text_file,
)
from cannery.wire.residues import NO_WORDS, form_words, own_residue, recall, recall_settings
from cannery.wire.turns import MODEL, SIDES, USER, is_prefill, omitted, side

_EMPTY = frozenset({"empty", "null", "absent"})
_STEPS = {USER: "user_input", MODEL: "model_output"}
_SPOKEN = frozenset({UserCanisterClass, AssistantCanisterClass})
_ROLES = {USER: "user", MODEL: "model"}
_KINDS = {"image": "image", "audio": "audio", "video": "video", "file": "document"}


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request."""
    is_same = request.source == NAME
    body = TABLE.write(request, report)
    residue = own_residue(request, NAME)
    body = recall_settings(body, residue)
    writer = StepWriter(report, is_same=is_same, model=request.model)
    system, pieces = _split_instructions(pieces, is_same=is_same)
    told = [words for words in map(writer.instruction, system) if words or is_same]
    if told:
        body["system_instruction"] = "\n\n".join(told)
    if len(told) > 1:
        report.repair("single_system", system[0].place)
    shape = form_words(residue)
    if pieces or not shape & {"absent", "null"}:
        body["input"] = writer.input(pieces, shape)
    elif "null" in shape:
        body["input"] = None
    if not is_same and pieces and is_prefill(pieces[-1]):
        report.lose("PREFILL_DROPPED", pieces[-1].place)
    return body


def _split_instructions(pieces: list[Piece], *, is_same: bool) -> tuple[list[Piece], list[Piece]]:
    """The system instruction, and the rest; from another dialect all leading supervisors, else the first or its own."""
    count = 0
    while count < len(pieces) and isinstance(pieces[count].canister, SupervisorCanisterClass):
        count += 1
    if not is_same or not pieces:
        return pieces[:count], pieces[count:]
    own = (
        index
        for index, piece in enumerate(pieces)
        if form_words(own_residue(piece.canister, NAME)) & {"instructions", PREAMBLE}
    )
    index = 0 if count == 1 else next(own, 0 if count else None)
    if index is None:
        return [], pieces
    return [pieces[index]], [*pieces[:index], *pieces[index + 1 :]]


class _Entry:
    """An entry in the list of steps: a step, contents of a step, a turn, or contents directly in the list."""

    def __init__(self, kind: str, value: Object, contents: list[Any] | None = None) -> None:
        self.kind = kind
        self.value = value
        self.contents = contents
        self.words: frozenset[str] = NO_WORDS
        self.residue: Residue | None = None
        # A description of the first content for people.
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


class StepWriter(GoogleWriter):
    """Writes steps."""

    dialect = NAME
    instructs_in_parts = False

    def instruction(self, piece: Piece) -> str:
        """The text of the system instruction."""
        self._report_foreign(piece)
        if not self._instructs(piece):
            return ""
        held = piece.canister.held
        if has_citations(held):
            self.report.lose("CITATION_DROPPED", piece.place, "a system instruction is text")
        if isinstance(held, RefusalContentClass):
            self.report.lose("REFUSAL_TO_TEXT", piece.place)
        return words_of(held)

    def input(self, pieces: list[Piece], shape: frozenset[str]) -> Any:
        """The input of a request, in its original shape if it still fits."""
        entries = self._entries(pieces)
        words = form_words(own_residue(pieces[0].canister, NAME)) if len(pieces) == 1 else NO_WORDS
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
            canister: Any = given.canister
            is_late = type(canister) is SupervisorCanisterClass
            piece = self._folded(given) if is_late else given
            canister = piece.canister
            if (
                canister.residue is None
                and type(canister.held) is str
                and type(canister) in _SPOKEN
            ):
                self._add_text(canister, entries)
                continue
            residue = own_residue(canister, NAME)
            words = form_words(residue)
            step = self._step(piece, residue, words)
            if step is None:
                self._add_contents(piece, residue, words, entries)
            elif "turn" in words or ("within" in words and _is_turn(entries)):
                self._turn(piece, residue, words, entries).append(step)
            else:
                entries.append(_Entry("step", step))
        return [entry for entry in entries if entry.contents or self._says_something(entry)]

    def _add_text(self, canister: AnyCanister, entries: list[_Entry]) -> None:
        """Put a text into the open step, or a new one."""
        kind = _STEPS[SIDES[type(canister)]]
        last = entries[-1] if entries else None
        if last is None or last.kind != kind or not canister.joined:
            last = _Entry(kind, {"type": kind}, [])
            entries.append(last)
        last.contents.append({"type": "text", "text": canister.held})  # type: ignore[union-attr]

    def _says_something(self, entry: _Entry) -> bool:
        """Whether an entry is sent; a user entry whose content was lost gets a placeholder."""
        if entry.contents is None or entry.contents or entry.words & _EMPTY:
            return True
        if entry.omitted and entry.value.get("type") == "user_input":
            entry.contents.append(self.text_block(entry.omitted))
            return True
        return entry.residue is not None

    def _turn(
        self, piece: Piece, residue: Residue | None, words: frozenset[str], entries: list[_Entry]
    ) -> list[Any]:
        """The contents of the turn that a piece opens or belongs to."""
        if "turn" in words:
            entry = _Entry("turn", {"role": _ROLES[side(piece)]}, [])
            entry.words, entry.residue = words, residue
            entries.append(entry)
        return entries[-1].contents  # type: ignore[return-value]

    def _add_contents(
        self, piece: Piece, residue: Residue | None, words: frozenset[str], entries: list[_Entry]
    ) -> None:
        """Put the contents of a piece into the open step, or a new one."""
        canister = piece.canister
        contents = self.piece_contents(piece, residue)
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
            last.omitted = omitted(canister.held)
            entries.append(last)
        last.contents.extend(contents)  # type: ignore[union-attr]

    def _step(self, piece: Piece, residue: Residue | None, words: frozenset[str]) -> Object | None:
        """A step of its own; None for contents of a step."""
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

    # --- what is said --------------------------------------------------------------------------

    def piece_contents(self, piece: Piece, residue: Residue | None) -> list[Object]:
        """The contents of one piece, with this dialect's residue."""
        canister: Any = piece.canister
        held = canister.held
        if residue is None:
            self._report_foreign(piece)
        if held is absent or (held == "" and form_words(residue) & _EMPTY):
            return []
        if isinstance(canister, DocumentCanisterClass):
            return self._document(piece)
        written = self.content(held, piece.place)
        if residue is not None and residue.part is not None and len(written) == 1:
            return [recall(written[0], residue.part)]
        return written

    def text_block(self, text: str) -> Object:
        """The content of a text."""
        return {"type": "text", "text": text}

    def _text(self, content: TextualContentClass, place: Place) -> list[Any]:
        written = self.text_block(content.text)
        said = [each for each in content.citations if is_sayable(each, NAME)]
        if len(said) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(said, NAME, self.report, place)
        if said:
            written["annotations"] = [write_citation(each, content.text) for each in said]
        return [written]

    def _refusal(self, content: RefusalContentClass, place: Place) -> list[Any]:
        """A refusal as text; the server accepts no blank text."""
        said = super()._refusal(content, place)
        return said if content.text.strip() else []

    def _reasoning(self, _: ReasoningContentClass, place: Place) -> list[Any]:
        """A thought is a step of its own, and only the model has one."""
        self.report.lose("REASONING_DROPPED", place)
        return []

    def medium(self, content: BinaryContentStruct, key: str, value: str, mime_type: str) -> Object:
        """The content of an image, audio, video or file."""
        typed = {"mime_type": mime_type} if mime_type else {}
        return {"type": _KINDS[content.kind], key: value, **typed}

    def _named_file(self, content: FileContentClass, place: Place) -> list[Any]:
        if not self.is_same and is_text_file(content):
            self.report.lose("DOCUMENT_TO_TEXT", place)
            text = content.data.decode("utf-8", "replace")
            return [self.text_block(supplement(text, content.name))]
        if content.name and not self.is_same:
            self.report.lose("FIELD_DROPPED", place, "a file has no name here")
        return self._media(content, place)

    def _thought(self, piece: Piece, residue: Residue | None) -> Object | None:
        """A thought: this dialect's own unchanged, any other as a summary without a signature."""
        content: ReasoningContentClass = piece.canister.held
        if self._is_own(content):
            step = thought(content.summaries or content.texts)
            if content.signature is not None:
                step["signature"] = content.signature
            return step if residue is None else recall(step, residue.part)
        if residue is None:
            self._report_foreign(piece)
        words = self._thoughts(content, piece.place)
        return thought(words) if words else None

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
            "arguments": self.arguments(canister, piece.place),
        }
        if residue is None:
            return step
        return self._unsigned(recall(step, residue.part), residue, "signature", piece.place)

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
        """The output of a tool: text, an object, or a list of contents."""
        held: Any = canister.held
        if held == "" and words & {"null", "empty"}:
            return None if "null" in words else []
        if isinstance(held, DataContentClass):
            is_object = held.json.lstrip()[:1] == "{"
            return spelled_json(held.json) if self.is_same or is_object else held.json
        if isinstance(held, str):
            stated = canister.stated_error
            text = held or (stated if canister.is_error and isinstance(stated, str) else "")
            return [self.text_block(text)] if "list" in words else text
        contents = self.content(held, place)
        return contents or omitted(held)


def _is_turn(entries: list[_Entry]) -> bool:
    return bool(entries) and entries[-1].kind == "turn"


def thought(texts: Any) -> Object:
    """A thought in the usual form."""
    step: Object = {"type": "thought"}
    if texts:
        step["summary"] = [{"type": "text", "text": text} for text in texts]
    return step


def write_citation(citation: Citation, text: str) -> Any:
    """An annotation: this dialect's own unchanged; any other without a span covers the whole text."""
    if citation.dialect == NAME:
        return decode_json(citation.raw)
    start, end = citation.start, citation.end
    if start is None or end is None:
        start, end = 0, len(text)
    span = {"start_index": len(text[:start].encode()), "end_index": len(text[:end].encode())}
    if citation.url is None:
        return {"type": "file_citation", **span, "file_name": citation.title}
    written: Object = {"type": "url_citation", **span, "url": citation.url}
    if citation.title is not None:
        written["title"] = citation.title
    return written
