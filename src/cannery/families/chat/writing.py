"""Writes messages of the Chat Completions shape, which several dialects share.

Each function writes the usual form of a value and applies the residue of the same dialect to it. A part that has no
form here gives None and a loss.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, ClassVar

from cannery.families.chat.contents import CACHE_TTL, SAID, PartWriter
from cannery.families.chat.fields import (
    EMPTY,
    add_thought,
    as_list,
    field_of_form,
    recalled,
    say_more,
)
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
)
from cannery.messages.content import (
    AudioContentClass,
    FileContentClass,
    ImageContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
)
from cannery.messages.json_text import decode_json, read_object, write_json
from cannery.messages.payload import Location
from cannery.wire.arguments import FREEFORM_INPUT
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue, says_only_text
from cannery.wire.losses import Report
from cannery.wire.markers import flag_error, media_label
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import MODEL, SIDES, SUPERVISOR, is_unsaid, omission, turns

_TEXT = {"type", "text"}
# The form of a result whose media came in a user message after it.
ATTACHED = "attached"
Object = dict[str, Any]


class ChatWriter(PartWriter):
    """Writes messages of content parts."""

    # Whether there are free-text calls; otherwise the text is the argument of a function.
    has_freeform: ClassVar[bool] = True

    def __init__(
        self,
        dialect: str,
        report: Report,
        *,
        is_same: bool,
        for_answer: bool = False,
    ) -> None:
        self.dialect = dialect
        self.report = report
        self.is_same = is_same
        self.for_answer = for_answer
        # The names of calls, by id.
        self.called: dict[str, str] = {}
        # The calls that were written in the legacy form, which requires results in the legacy form.
        self._legacy: dict[str, str] = {}

    def messages(self, pieces: list[Piece]) -> list[Object]:
        """The messages of all pieces; media of results wait until all results of their turn are written."""
        written: list[Object] = []
        media: list[Object] = []
        for turn in turns(pieces):
            head = turn[0].canister
            kind = type(head)
            if media and kind is not ResultCanisterClass:
                written.append({"role": "user", "content": media})
                media = []
            whose = SIDES[kind]
            if whose is MODEL:
                self._add_message(self.assistant(turn), turn, written)
            elif whose is SUPERVISOR:
                role = "developer" if head.rank == "developer" else "system"  # type: ignore[union-attr]
                self._add_message(self.spoken(turn, role), turn, written)
            elif len(turn) > 1:
                media = self._user_side(turn, media, written)
            elif kind is not ResultCanisterClass:
                self._add_message(self.spoken(turn, "user"), turn, written)
            else:
                media = self._result(turn[0], media, written)
        if media:
            written.append({"role": "user", "content": media})
        return written

    def _add_message(self, message: Object, turn: list[Piece], written: list[Object]) -> None:
        """Add the message of a turn, unless nothing of the turn can be written for another dialect."""
        if message.get("content") != "" or self.is_same or not is_unsaid(message, turn):
            written.append(message)

    # --- user and system -----------------------------------------------------------------------

    def _user_side(
        self, turn: list[Piece], media: list[Object], written: list[Object]
    ) -> list[Object]:
        """Write tool messages, and user content after the waiting media; returns the media that still wait."""
        for is_result, run in groupby(
            turn, lambda piece: type(piece.canister) is ResultCanisterClass
        ):
            if is_result:
                for piece in run:
                    media = self._result(piece, media, written)
                continue
            said = [*run]
            message = self.spoken(said, "user")
            if media:
                message["content"] = [*media, *as_list(message["content"])]
                media = []
            self._add_message(message, said, written)
        return media

    def _result(self, piece: Piece, media: list[Object], written: list[Object]) -> list[Object]:
        """Write a tool message; returns the media that wait behind it."""
        message, more = self.result(piece)
        written.append(self._as_called(message, piece) if self._legacy else message)
        return [*media, *more] if more else media

    def _as_called(self, message: Object, piece: Piece) -> Object:
        """A tool message, in the legacy form if its call had it and the result has no form of its own."""
        name = self._legacy.get(str(message.get("tool_call_id")))
        if name is None or own_residue(piece.canister, self.dialect) is not None:
            return message
        rest = {key: item for key, item in message.items() if key not in ("role", "tool_call_id")}
        if type(rest.get("content")) is list:
            rest["content"] = "".join(part["text"] for part in rest["content"])
        return {"role": "function", "name": name, **rest}

    def spoken(self, turn: list[Piece], role: str) -> Object:
        """A system, developer or user message."""
        canister = turn[0].canister
        is_document = type(canister) is DocumentCanisterClass
        if not is_document and says_only_text(turn, self.dialect, self.report):
            return {"role": role, "content": canister.held}
        head = own_residue(canister, self.dialect)
        write = self.parts if role == "user" or self.is_same else self._system_parts
        form = None if head is None else head.form
        if form in EMPTY and len(turn) > 1:
            # Something was added to a message without content.
            turn, form = turn[1:], "list" if form == "empty" else None
        parts = [part for piece in turn for part in write(piece)]
        message: Object = {"role": role}
        if form == "absent":
            pass
        elif form == "null":
            message["content"] = None
        elif form == "empty":
            message["content"] = []
        elif form != "list" and _is_bare_text(parts):
            message["content"] = parts[0]["text"]
        else:
            message["content"] = parts or ("" if self.is_same or role != "user" else omission(turn))
        return message if head is None else recalled(message, head.envelope)

    def _system_parts(self, piece: Piece) -> list[Object]:
        parts = self.parts(piece)
        texts = [part for part in parts if part["type"] == "text"]
        if len(texts) < len(parts):
            self.report.lose("MEDIA_DROPPED", piece.place, "a system message of Chat is text")
        return texts

    # --- tools ---------------------------------------------------------------------------------

    def result(self, piece: Piece) -> tuple[Object, list[Object]]:
        """A tool message, and the media that it cannot hold."""
        canister: Any = piece.canister
        residue = canister.residue
        is_own = residue is not None and residue.dialect == self.dialect
        if residue is not None and not is_own:
            report_residue(canister, self.report, piece.place)
        content, media = self._result_content(piece, residue.form if is_own else None)
        if residue is not None and not is_own and residue.cache:
            content = self._marked(content, media, residue.cache, piece.place)
        message: Object = {"role": "tool", "tool_call_id": canister.invocation_id}
        if content is not None:
            message["content"] = content
        return (recall(message, residue.envelope) if is_own else message), media

    def _result_content(self, piece: Piece, form: str | None) -> tuple[Any, list[Object]]:
        canister: Any = piece.canister
        held = canister.held
        if form is None and type(held) is str and not canister.is_error:
            return held, []
        if form == "absent" or (form == "empty" and held == ""):
            return (None if form == "absent" else []), []
        contents = held.parts if isinstance(held, PartsContentClass) else (held,)
        if self.is_same and form != ATTACHED and isinstance(held, PartsContentClass):
            return [self.content_part(content, piece.place) for content in contents], []
        texts = list(self._texts(contents))
        if canister.is_error:
            texts = self._flagged(texts, canister, piece.place)
        documents, media = self._result_media(contents, canister.invocation_id, piece.place)
        if media and not (self.is_same and form == ATTACHED):
            self.report.lose("MEDIA_MOVED", piece.place)
        if form == "list" or (len(texts) + len(documents) > 1 and not media):
            return [{"type": "text", "text": text} for text in (*texts, *documents)], media
        return "\n\n".join(filter(None, ("".join(texts), *documents))), media

    def _flagged(self, texts: list[str], canister: ResultCanisterClass, place: Any) -> list[str]:
        if not self.is_same:
            self.report.lose("ERROR_FLAG_TO_TEXT", place)
        told = str(canister.stated_error or "")
        words = texts if any(texts) or not told else [told]
        return [flag_error(words[0] if words else ""), *words[1:]]

    def _result_media(
        self, contents: Any, call_id: str, place: int | None
    ) -> tuple[list[str], list[Object]]:
        """The documents of a result that became text, and its media after a line that names the call."""
        texts: list[str] = []
        media: list[Object] = []
        for content in contents:
            if isinstance(content, SAID):
                continue
            part = self.content_part(content, place)
            if part is not None and part["type"] == "text":
                texts.append(part["text"])
            elif part is not None:
                media.append(part)
            media += self._chunk_media(content, place)
        if media:
            media.insert(0, {"type": "text", "text": media_label(call_id)})
        return texts, media

    def _marked(self, content: Any, media: list[Object], cache: str, place: int | None) -> Any:
        """The content of a result with its cache mark, if there is text to carry it."""
        if media or not content:
            self.report.lose("CACHE_MARK_DROPPED", place)
            return content
        parts = as_list(content)
        parts[-1]["prompt_cache_breakpoint"] = {"mode": "explicit", "ttl": CACHE_TTL[cache]}
        return parts

    def call(self, piece: Piece) -> Object:
        """One entry of ``tool_calls``."""
        canister: Any = piece.canister
        arguments = canister.held
        if canister.is_freeform and (self.has_freeform or self.is_same):
            kind, inner = "custom", {"name": canister.name, "input": arguments}
        else:
            if canister.is_freeform:
                self.report.lose("FREEFORM_WRAPPED", piece.place)
                arguments = write_json({FREEFORM_INPUT: arguments})
            if not self.is_same and not arguments.strip():
                arguments = "{}"
            kind, inner = "function", {"name": canister.name, "arguments": arguments}
        ours: Object = {"id": canister.identifier, "type": kind, kind: inner}
        residue = canister.residue
        if residue is None:
            return ours
        if residue.dialect != self.dialect:
            report_residue(canister, self.report, piece.place)
            if residue.cache:
                self.report.lose("CACHE_MARK_DROPPED", piece.place)
            return ours
        if residue.form == "function_call":
            return {**ours, "function": recall(inner, residue.part)}
        return recall(ours, residue.part)  # type: ignore[no-any-return]

    # --- assistant -----------------------------------------------------------------------------

    def assistant(self, turn: list[Piece]) -> Object:
        """One assistant message."""
        first = turn[0].canister
        # Some responses list even a single text.
        is_asked = type(first) is AssistantCanisterClass and not self.for_answer
        if is_asked and says_only_text(turn, self.dialect, self.report):
            return {"role": "assistant", "content": first.held}
        head = own_residue(first, self.dialect)
        message: Object = {"role": "assistant"}
        parts: list[Object] = []
        calls: list[Object] = []
        for piece in turn:
            canister = piece.canister
            held = canister.held
            if type(canister) is InvocationCanisterClass:
                self._add_call(piece, message, calls)
            elif held is not absent:
                count = len(parts)
                if type(held) is str and canister.residue is None:
                    parts.append({"type": "text", "text": held})
                else:
                    self._add_spoken(piece, message, parts, calls)
                if calls and len(parts) > count and not self.is_same:
                    self.report.lose("ORDER_CHANGED", piece.place)
            elif canister.residue is not None and canister.residue.dialect != self.dialect:
                report_residue(canister, self.report, piece.place)
        if not (parts or calls or self.is_same or self.for_answer) and len(message) == 1:
            parts = [{"type": "text", "text": text} for text in (omission(turn),) if text]
        self._set_content(message, parts, calls, None if head is None else head.form)
        if calls:
            message["tool_calls"] = calls
        return message if head is None else recalled(message, head.envelope)

    def _add_call(self, piece: Piece, message: Object, calls: list[Object]) -> None:
        canister: Any = piece.canister
        residue = own_residue(canister, self.dialect)
        self.called[canister.identifier] = canister.name
        call = self.call(piece)
        if residue is not None and residue.form == "function_call":
            message["function_call"] = call["function"]
            self._legacy[call["id"]] = str(call["function"].get("name"))
        else:
            calls.append(call)

    def _add_spoken(
        self, piece: Piece, message: Object, parts: list[Object], calls: list[Object]
    ) -> None:
        canister: Any = piece.canister
        held = canister.held
        residue = own_residue(canister, self.dialect)
        place = None if residue is None else field_of_form(residue.form, held)
        if isinstance(held, ReasoningContentClass) and (self.speaks_beside or place):
            self._add_reasoning(held, message, place, piece)
        elif (
            isinstance(held, RefusalContentClass) and self.speaks_beside and not self.is_same
        ) or place == "refusal":
            if residue is None:
                report_residue(canister, self.report, piece.place)
            message["refusal"] = message.get("refusal", "") + held.text
        elif place == "audio" and isinstance(held.payload, Location):
            message["audio"] = recall({"id": held.payload.value}, residue.part)  # type: ignore[union-attr]
        elif place == "tool_calls":
            calls.append(decode_json(held.json))
        elif isinstance(held, (ImageContentClass, AudioContentClass, FileContentClass)) and not (
            self.is_same
        ):
            self.report.lose("MEDIA_DROPPED", piece.place, "Chat takes no media from the assistant")
        else:
            part = self.part(piece)
            if part is not None:
                parts.append(part)

    def _add_reasoning(
        self, held: ReasoningContentClass, message: Object, field: str | None, piece: Piece
    ) -> None:
        if field is not None:
            add_thought(message, field, held, piece.canister.residue)
            return
        report_residue(piece.canister, self.report, piece.place)
        if self.report.takes_reasoning and held.shown:
            say_more(message, "reasoning_content", held.shown)
        else:
            self.report.lose("REASONING_DROPPED", piece.place)
        if held.signature is not None or held.encrypted is not None:
            self.report.lose("SIGNATURE_DROPPED", piece.place)

    def _set_content(
        self, message: Object, parts: list[Object], calls: list[Object], form: str | None
    ) -> None:
        is_list = form in ("list", "empty")
        if not is_list and _is_bare_text(parts):
            text = parts[0]["text"]
            is_object = form == "json" and self.for_answer and read_object(text) is not None
            message["content"] = decode_json(text) if is_object else text
        elif parts or is_list:
            message["content"] = parts
        elif form == "string":
            message["content"] = ""
        elif form != "absent":
            said = message.get("refusal") or "function_call" in message or "audio" in message
            silent = calls or self.is_same or said
            message["content"] = None if silent else ""


def _is_bare_text(parts: list[Object]) -> bool:
    return len(parts) == 1 and parts[0].keys() == _TEXT and parts[0]["type"] == "text"
