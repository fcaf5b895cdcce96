"""Writes Responses items.

One walk over the pieces: texts and media that belong to one message are gathered, everything else is an item of its
own. Each item is written in the usual form, and this dialect's own residue restores the original. Content of another
dialect becomes easy messages and bare calls: only the server generates item ids, and the types require one on an
assistant's message with parts. A reasoning item and its follower stay together, or the follower loses its id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from orjson import Fragment

from cannery.dialects.openai_responses.forms import (
    BARE,
    MADE,
    MADE_WORDS,
    PART,
    call_item,
    form_words,
    inline_file,
    item_id,
    made_item,
    own_media,
    reasoning_before,
    reasoning_item,
    write_citation,
)
from cannery.dialects.openai_responses.settings import NAME
from cannery.families.openai.shared import detail_place, image_detail, knows_file
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    text_of,
)
from cannery.messages.content import (
    AnyContent,
    BinaryContentStruct,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
)
from cannery.messages.payload import Location
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.citations import is_sayable, report_approximated
from cannery.wire.contents import ContentWriter, Medium
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue, says_only_text
from cannery.wire.losses import Place, Report
from cannery.wire.markers import flag_error, supplement
from cannery.wire.media import (
    NOT_BASE64,
    WEB_IMAGES,
    context_path,
    is_broken,
    is_fetchable,
    standard_base64,
)
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import MODEL, omission, omitted, side

_FAMILY = re.compile(r"[a-z]+-?\d+|.+", re.IGNORECASE | re.DOTALL)
_EMPTY = frozenset({"empty", "null", "absent"})
# The placeholder for a message whose content was lost.
_NOTHING = "[message omitted]"
_SHAPES = _EMPTY | {"list", PART}
_CACHE_TTL = {"short": "30m", "long": "12h"}


def _stands_apart(canister: AnyCanister) -> bool:
    """Whether a canister is written as an item of its own, not as a part of a message."""
    held = canister.held
    if type(held) is OpaqueContentClass:
        return held.dialect == NAME and PART not in form_words(own_residue(canister, NAME))
    if type(held) is ImageContentClass and type(canister) is AssistantCanisterClass:
        residue = own_residue(canister, NAME)
        if residue is not None:
            return MADE in form_words(residue)
        return not isinstance(held.payload, Location)
    return type(held) is ReasoningContentClass


class ItemWriter(ContentWriter):
    """Writes items; ``is_same`` if they come from this dialect."""

    dialect = NAME

    def __init__(
        self, report: Report, *, is_same: bool, model: Any = None, is_stored: bool = True
    ) -> None:
        self.report = report
        self.is_same = is_same
        self.is_stored = is_stored
        self.model = model if isinstance(model, str) else None
        # The instructions, if something was inserted before them; if instructions lead, no others are looked for.
        self.displaced: str | None = None
        self.has_lead = True
        # The seed for the ids of items that need one and have none.
        self.identifier = "request"
        self.written: list[Any] = []
        self._reasoning_id: str | None = None
        self._freeform: set[str] = set()

    def items(self, pieces: list[Piece]) -> list[Any]:
        """The items of all pieces."""
        group: list[Piece] = []
        for index, piece in enumerate(pieces):
            canister = piece.canister
            kind = type(canister)
            if kind is InvocationCanisterClass or kind is ResultCanisterClass:
                if group:
                    self._end_message(group)
                if kind is InvocationCanisterClass:
                    self.written.append(self.call(piece))
                else:
                    self.written.append(self.result(piece))
                    self._reasoning_id = None
            elif canister.held is absent:
                if own_residue(canister, NAME) is None:
                    report_residue(canister, self.report, piece.place)
            elif type(canister.held) is not str and _stands_apart(canister):
                if group:
                    self._end_message(group)
                self._put(self._item(piece, _follower(pieces, index)))
                if kind is not AssistantCanisterClass:
                    self._reasoning_id = None
            else:
                if group and not (canister.joined and self._goes_on(piece, group[-1])):
                    self._end_message(group)
                group.append(piece)
        if group:
            self._end_message(group)
        return self.written

    def _put(self, item: Any) -> None:
        if item is not None:
            self.written.append(item)

    def _goes_on(self, piece: Piece, before: Piece) -> bool:
        """Whether a joined piece belongs to the message of the piece before it."""
        residue = piece.canister.residue
        is_opening = residue is not None and residue.dialect == NAME and residue.envelope
        return not is_opening and side(piece) == side(before)

    def _end_message(self, group: list[Piece]) -> None:
        message = self.message(group)
        if message is not None:
            self.written.append(message)
        if type(group[0].canister) is not AssistantCanisterClass:
            self._reasoning_id = None
        group.clear()

    def _item(self, piece: Piece, follower: Piece | None) -> Any:
        """An item of its own; None if it cannot be written."""
        held = piece.canister.held
        if type(held) is ReasoningContentClass:
            return self.reasoning(piece, follower)
        if type(held) is ImageContentClass:
            return self._image_item(piece)
        return self.opaque_item(held)

    def opaque_item(self, content: OpaqueContentClass) -> Any:
        """An item that only this dialect understands."""
        return Fragment(content.json)

    def is_detached(self, residue: Residue) -> bool:
        """Whether the reasoning item that an item belongs to is gone; the item then loses its id."""
        before = reasoning_before(residue)
        return before is not None and before != self._reasoning_id

    def message(self, group: list[Piece]) -> Object | None:
        """One message; None if its content was lost."""
        head: Any = group[0].canister
        kind, held = type(head), head.held
        if kind is SupervisorCanisterClass:
            role = "developer" if head.rank == "developer" else "system"
        else:
            role = "assistant" if kind is AssistantCanisterClass else "user"
        if (
            type(held) is str
            and held
            and kind is not DocumentCanisterClass
            and says_only_text(group, NAME, self.report)
        ):
            return {"role": role, "content": held}
        residue = own_residue(head, NAME)
        words = form_words(residue)
        if words and not self.has_lead and self.displaced is None and "instructions" in words:
            self.displaced = text_of(held)
            return None
        if role == "assistant" and _SHAPES.isdisjoint(words):
            message = self._easy(group)
        else:
            message = {"role": role, "content": self._content(group, role, words)}
            if "absent" in words and len(group) == 1:
                del message["content"]
        if residue is None:
            return message
        restored: Object = recall(message or {"role": role, "content": ""}, residue.envelope)
        if self.is_detached(residue):
            restored.pop("id", None)
        return restored

    def _easy(self, group: list[Piece]) -> Object | None:
        """A message of the model without an id, which holds only text."""
        texts = [text for piece in group for text in self._spoken_texts(piece)]
        text = "".join(texts) or omission(group)
        return {"role": "assistant", "content": text} if text or texts else None

    def _content(self, group: list[Piece], role: str, words: frozenset[str]) -> Any:
        if not _EMPTY.isdisjoint(words):
            if len(group) == 1:
                return [] if "empty" in words else None
            # Something was added to a message without content.
            group, words = group[1:], words | {"list"}
        parts: list[Object] = []
        for piece in group:
            parts += self.parts(piece, role)
        if "list" not in words:
            if len(parts) == 1 and _is_plain(parts[0]):
                return parts[0]["text"]
            if not parts:
                return omission(group) or _NOTHING
        return parts

    def parts(self, piece: Piece, role: str) -> list[Object]:
        """The parts of one piece, with this dialect's residue."""
        canister = piece.canister
        if type(canister) is DocumentCanisterClass:
            written = self._document(canister, piece.place)
        elif role == "assistant":
            written = self.output_parts(canister.held, piece.place)
        else:
            written = self.content(canister.held, piece.place)
        residue = canister.residue
        if residue is None:
            return written
        if residue.dialect == NAME:
            return [recall(part, residue.part) for part in written]
        detail = image_detail(residue)
        if detail is not None and written and written[0]["type"] == "input_image":
            written[0]["detail"] = detail
            report_residue(canister, self.report, piece.place, detail_place(residue))
        else:
            report_residue(canister, self.report, piece.place)
        if residue.cache and (role == "assistant" or not _mark(written, residue.cache)):
            self.report.lose("CACHE_MARK_DROPPED", piece.place)
        return written

    def _report_foreign(self, piece: Piece) -> None:
        """Report the residue of another dialect as lost, and its cache mark."""
        residue = piece.canister.residue
        if residue is not None and residue.dialect != NAME:
            report_residue(piece.canister, self.report, piece.place)
            if residue.cache:
                self.report.lose("CACHE_MARK_DROPPED", piece.place)

    def _image_item(self, piece: Piece) -> Object | None:
        """The call that generated an image: this dialect's own unchanged."""
        residue = own_residue(piece.canister, NAME)
        if residue is not None:
            return recall(made_item(piece.canister.held), residue.part)  # type: ignore[no-any-return]
        self._report_foreign(piece)
        return self.foreign_image(piece.canister.held, piece.place)

    def foreign_image(self, content: ImageContentClass, place: Place) -> Object | None:
        """An image of another dialect, with the id that the types require; None if it cannot be shown."""
        mime_type = content.mime_type
        if is_broken(content):
            self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
        elif mime_type not in MADE_WORDS:
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, f"no call makes {mime_type}")
        else:
            identifier = item_id(self.identifier, "image_generation_call", len(self.written))
            return {
                "type": "image_generation_call",
                "id": identifier,
                "status": "completed",
                "output_format": MADE_WORDS[mime_type],
                "result": standard_base64(content.payload),
            }
        return None

    def call(self, piece: Piece) -> Object:
        """A call of a function or a custom tool."""
        canister: Any = piece.canister
        residue = own_residue(canister, NAME)
        arguments = canister.held
        if canister.is_freeform:
            self._freeform.add(canister.identifier)
        elif residue is None and not self.is_same and not arguments.strip():
            arguments = "{}"
        ours = call_item(canister.identifier, canister.name, arguments, canister.is_freeform)
        if residue is None:
            if canister.residue is not None:
                self._report_foreign(piece)
            return ours
        call: Object = recall(ours, residue.part)
        if self.is_detached(residue):
            call.pop("id", None)
        return call

    def result(self, piece: Piece) -> Object:
        """The output of a function or a custom tool."""
        canister: Any = piece.canister
        residue = own_residue(canister, NAME)
        words = form_words(residue)
        is_custom = "custom" in words or (
            residue is None and canister.invocation_id in self._freeform
        )
        ours: Object = {
            "type": "custom_tool_call_output" if is_custom else "function_call_output",
            "call_id": canister.invocation_id,
        }
        if "absent" not in words:
            ours["output"] = self._output(piece, words)
        if residue is None:
            return ours
        return recall(recall(ours, residue.envelope), residue.part)  # type: ignore[no-any-return]

    def _output(self, piece: Piece, words: frozenset[str]) -> Any:
        canister: Any = piece.canister
        if "empty" in words:
            return []
        held, residue = canister.held, canister.residue
        if type(held) is str and residue is None and not canister.is_error:
            return held
        parts = self.content(held, piece.place)
        if canister.is_error:
            self._flag(parts, canister, piece.place)
        if residue is not None and residue.dialect != NAME:
            report_residue(canister, self.report, piece.place)
            if residue.cache:
                _mark(parts, residue.cache)
        if not parts:
            return omitted(held) or ("" if isinstance(held, PartsContentClass) else _NOTHING)
        if "list" not in words and len(parts) == 1 and _is_plain(parts[0]):
            return parts[0]["text"]
        return parts

    def _flag(self, parts: list[Object], canister: ResultCanisterClass, place: Place) -> None:
        """Mark the text of a failed tool's result."""
        if not self.is_same:
            self.report.lose("ERROR_FLAG_TO_TEXT", place)
        texts = [part for part in parts if part.get("type") in ("input_text", "output_text")]
        if not texts:
            texts = [self.text_block("")]
            parts.insert(0, texts[0])
        has_words = any(part["text"] for part in texts)
        words = texts[0]["text"] if has_words else str(canister.stated_error or "")
        texts[0]["text"] = flag_error(words)

    def reasoning(self, piece: Piece, follower: Piece | None) -> Object | None:
        """A reasoning item, if it comes from this provider and its follower is still there."""
        canister = piece.canister
        residue = own_residue(canister, NAME)
        words = form_words(residue)
        if residue is None:
            report_residue(canister, self.report, piece.place)
        elif (self.is_stored or "answered" not in words) and self._may_return(canister.held):
            item: Object = recall(reasoning_item(canister.held), residue.part)
            identifier = item.get("id")
            if BARE in words:
                may_stand = self.is_same
            else:
                is_alone = self.is_same and "followed" not in words
                may_stand = is_alone or _belongs(follower, identifier)
            if may_stand:
                self._reasoning_id = identifier if type(identifier) is str else None
                return item
        self._drop_reasoning(canister.held, piece.place)
        return None

    def _may_return(self, content: ReasoningContentClass) -> bool:
        origin = content.origin
        if origin is None or origin.dialect != NAME:
            return False
        if origin.model is None or self.model is None:
            return True
        return _family(origin.model) == _family(self.model)

    def _drop_reasoning(self, content: ReasoningContentClass, place: Place) -> None:
        """Report reasoning that cannot be sent back, and its signature."""
        if content.texts or content.summaries or not (content.signature or content.encrypted):
            self.report.lose("REASONING_DROPPED", place)
        if content.signature or content.encrypted:
            self.report.lose("SIGNATURE_DROPPED", place)

    # --- contents of a user, a supervisor or a tool ----------------------------------------------

    def text_block(self, text: str) -> Object:
        """The part of a text."""
        return {"type": "input_text", "text": text}

    def _text(self, content: TextualContentClass, place: Place) -> list[Object]:
        if content.citations:
            if self.is_same and all(citation.dialect == NAME for citation in content.citations):
                return [_output_text(content.text, self._annotations(content, place))]
            self.report.lose("CITATION_DROPPED", place)
        return [self.text_block(content.text)]

    def _reasoning(self, content: ReasoningContentClass, place: Place) -> list[Object]:
        self._drop_reasoning(content, place)
        return []

    def _refusal(self, content: RefusalContentClass, place: Place) -> list[Object]:
        return [_refused(content)] if self.is_same else super()._refusal(content, place)

    def _media(self, content: Medium, place: Place) -> list[Object]:
        if not isinstance(content, ImageContentClass):
            self.report.lose("MEDIA_DROPPED", place, f"Responses takes no {content.kind}")
            return []
        mime_type = content.mime_type
        if self.is_same or isinstance(content.payload, Location):
            return self._located(content, place)
        if mime_type == "application/pdf":
            return [inline_file(content, None)]
        if mime_type in WEB_IMAGES:
            url = f"data:{mime_type};base64,{standard_base64(content.payload)}"
            return [{"type": "input_image", "detail": "auto", "image_url": url}]
        detail = f"Responses takes no {mime_type or 'image of unknown type'}"
        self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, detail)
        return []

    def _file(self, content: FileContentClass, place: Place) -> list[Object]:
        if not self.is_same:
            for path, said in (
                (context_path(content), content.context),
                (".citations", content.citable),
            ):
                if said:
                    detail = f"a file has no {path[1:]!r} here"
                    self.report.lose("FIELD_DROPPED", place, detail, path)
            if content.chunks:
                return self._chunks(content, place)
        if self.is_same or isinstance(content.payload, Location):
            return self._located(content, place)
        return [inline_file(content, content.name)]

    def _located(self, content: ImageContentClass | FileContentClass, place: Place) -> list[Object]:
        """The part of a medium of this dialect, or of one that its server can fetch."""
        payload = content.payload
        is_known = isinstance(payload, Location) and is_fetchable(payload)
        if self.is_same or is_known or knows_file(NAME, payload, self.report.request):
            return [own_media(content)]
        self.report.lose("REFERENCE_UNRESOLVABLE", place)
        return []

    def _chunks(self, content: FileContentClass, place: Place) -> list[Object]:
        """A document of several parts: its text as text, its media after it."""
        self.report.lose("DOCUMENT_TO_TEXT", place)
        parts = [part for chunk in content.chunks for part in self.content(chunk, place)]
        texts = [part["text"] for part in parts if part["type"] == "input_text"]
        media = [part for part in parts if part["type"] != "input_text"]
        return [self.text_block(supplement("\n\n".join(texts), content.name)), *media]

    def _document(self, canister: DocumentCanisterClass, place: Place) -> list[Object]:
        content = canister.content
        if not isinstance(content, TextualContentClass):
            return self.content(content, place)
        self.report.lose("DOCUMENT_TO_TEXT", place)
        title = canister.title if isinstance(canister.title, str) else None
        return [self.text_block(supplement(content.text, title))]

    # --- contents of the model -------------------------------------------------------------------

    def output_parts(self, content: AnyContent | str, place: Place) -> list[Object]:
        """The usual parts for a content of the model, in a message with an id."""
        if isinstance(content, str):
            return [_output_text(content, [])]
        match content:
            case TextualContentClass():
                return [_output_text(content.text, self._annotations(content, place))]
            case RefusalContentClass():
                return [_refused(content)]
            case DataContentClass():
                return [_output_text(content.json, [])]
            case PartsContentClass():
                return [part for inner in content.parts for part in self.output_parts(inner, place)]
            case BinaryContentStruct() if not self.is_same:
                detail = f"Responses takes no {content.kind} from the assistant"
                self.report.lose("MEDIA_DROPPED", place, detail)
                return []
            case _:
                return self.content(content, place)

    def _annotations(self, content: TextualContentClass, place: Place) -> list[Any]:
        said = [citation for citation in content.citations if is_sayable(citation, NAME)]
        if len(said) < len(content.citations):
            self.report.lose("CITATION_DROPPED", place)
        report_approximated(said, NAME, self.report, place)
        return [write_citation(citation, len(content.text)) for citation in said]

    def _spoken_texts(self, piece: Piece) -> Iterator[str]:
        """The texts of the model as the single string of an easy message."""
        self._report_foreign(piece)
        held = piece.canister.held
        if type(held) is str:
            yield held
        elif isinstance(held, TextualContentClass) and held.citations:
            self.report.lose("CITATION_DROPPED", piece.place)
            yield held.text
        else:
            for part in self.output_parts(held, piece.place):
                if part.get("type") == "refusal":
                    self.report.lose("REFUSAL_TO_TEXT", piece.place)
                    yield part["refusal"]
                elif type(part.get("text")) is str:
                    yield part["text"]


def _follower(pieces: list[Piece], index: int) -> Piece | None:
    """The next piece with content."""
    found = (pieces[later] for later in range(index + 1, len(pieces)))
    return next((piece for piece in found if piece.canister.held is not absent), None)


def _belongs(follower: Piece | None, identifier: Any) -> bool:
    """Whether the item after a reasoning item is its original follower."""
    if follower is None or side(follower) != MODEL:
        return False
    if type(follower.canister) is AssistantCanisterClass and _stands_apart(follower.canister):
        return True
    before = reasoning_before(own_residue(follower.canister, NAME))
    return bool(before == identifier)


def _family(model: str) -> str:
    """The models that can read each other's reasoning: ``gpt-5`` for ``gpt-5.5-2026-03-05``."""
    found = _FAMILY.match(model)
    return found.group() if found else model


def _mark(parts: list[Object], cache: str) -> bool:
    """Set a cache mark on the last part, if there is one."""
    if parts:
        parts[-1]["prompt_cache_breakpoint"] = {"mode": "explicit", "ttl": _CACHE_TTL[cache]}
    return bool(parts)


def _is_plain(part: Object) -> bool:
    """Whether a part is equivalent to a bare string."""
    return len(part) == 2 and part["type"] == "input_text" and "text" in part


def _refused(content: RefusalContentClass) -> Object:
    return {"type": "refusal", "refusal": content.text}


def _output_text(text: str, annotations: list[Any]) -> Object:
    return {"type": "output_text", "text": text, "annotations": annotations}
