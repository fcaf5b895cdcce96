"""Writing Responses items.

Every function gives the usual form of a value and then lets this dialect's own residue restore
what was really said. What came from elsewhere becomes easy messages and bare calls: ids of items
are made by the server alone, and the types want one on an assistant's message with parts. A
reasoning item and what followed it stay together, or what followed it loses its id and no more.

The residue's ``form`` is a list of words: ``list`` (the content was a list), ``empty``, ``null``,
``absent`` (no content at all), ``part`` (a part of a message that could be an item), ``made`` (an
image that is an item), ``custom``
(the output of a custom tool), ``bare`` (reasoning without an id), ``followed`` (reasoning with
something behind it), ``answered`` (reasoning of an answer that only the server's store has whole),
``instructions``, ``input`` (the whole input was a string), and ``after:<id>``, the reasoning item
before this one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from cannery.dialects.openai_responses.parts import PartWriter, is_plain, kind_of_held
from cannery.dialects.openai_responses.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    text_of,
)
from cannery.messages.content import (
    ImageContentClass,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.markers import flag_error
from cannery.wire.media import NOT_BASE64, base64_text, is_broken, standard_base64
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import MODEL, side

_FAMILY = re.compile(r"[a-z]+-?\d+|.+", re.IGNORECASE | re.DOTALL)
_AFTER = "after:"
PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "function_call_output": "fco",
    "custom_tool_call_output": "ctco",
    "image_generation_call": "ig",
}
MADE = "made"
BARE = "bare"
MADE_FORMATS = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "svg": "image/svg+xml",
}
_MADE_WORDS = {mime_type: word for word, mime_type in MADE_FORMATS.items()}
_EMPTY = frozenset({"empty", "null", "absent"})
_SHAPES = _EMPTY | {"list", "part"}


def form_words(residue: Residue | None) -> frozenset[str]:
    """The words of a form."""
    if residue is None or residue.form is None:
        return frozenset()
    return frozenset(residue.form.partition(_AFTER)[0].split())


def reasoning_before(residue: Residue | None) -> str | None:
    """The id of the reasoning item that stood before this one."""
    if residue is None or residue.form is None:
        return None
    return residue.form.partition(_AFTER)[2] or None


def after(identifier: str | None) -> str:
    """The word that says which reasoning item stands before; always the last of a form."""
    return f"{_AFTER}{identifier}" if identifier else ""


def is_spoken(piece: Piece) -> bool:
    """Whether a piece is a part of a message, and not an item of its own."""
    canister = piece.canister
    if isinstance(canister, (InvocationCanisterClass, ResultCanisterClass)):
        return False
    is_apart = isinstance(canister.held, ReasoningContentClass) or is_item(piece)
    return not (is_apart or is_made(piece))


def is_item(piece: Piece) -> bool:
    """Whether a piece is a whole item that only this dialect understands."""
    held = piece.canister.held
    if not isinstance(held, OpaqueContentClass) or held.dialect != NAME:
        return False
    return "part" not in form_words(own_residue(piece.canister, NAME))


def is_made(piece: Piece) -> bool:
    """Whether a piece is an image that the model made, which is an item of its own."""
    held = piece.canister.held
    if not isinstance(held, ImageContentClass) or side(piece) != MODEL:
        return False
    residue = own_residue(piece.canister, NAME)
    if residue is not None:
        return MADE in form_words(residue)
    return not isinstance(held.payload, Location)


def item_id(answer: str, kind: str, position: int) -> str:
    """The id of an item that came from elsewhere and needs one: the same on every run."""
    code = hashlib.sha256(f"{answer}/{position}".encode("utf-8", "replace")).hexdigest()
    return f"{PREFIXES[kind]}_{code[:32]}"


def item_groups(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """The pieces of each item; only messages have several."""
    group: list[Piece] = []
    for piece in pieces:
        if piece.canister.held is absent:
            continue
        residue = own_residue(piece.canister, NAME)
        follows = bool(group) and piece.canister.joined and side(piece) == side(group[-1])
        follows = follows and is_spoken(piece) and is_spoken(group[-1])
        if group and (not follows or (residue is not None and residue.envelope)):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


class ItemWriter(PartWriter):
    """Writes items; ``at_home`` when they were read from this same dialect."""

    def __init__(
        self, report: Report, *, at_home: bool, model: Any = None, is_stored: bool = True
    ) -> None:
        super().__init__(report, at_home=at_home)
        self.is_stored = is_stored
        self.model = model if isinstance(model, str) else None
        self.reasoning_id: str | None = None
        # The instructions, if something was put before them; no others are looked for where some lead.
        self.displaced: str | None = None
        self.has_lead = True
        # What the ids of items are made from that need one and have none.
        self.identifier = "request"
        self.position = 0
        self._freeform: set[str] = set()

    def items(self, pieces: list[Piece]) -> list[Object]:
        """The items of all pieces."""
        self.report_silent(pieces)
        groups = list(item_groups(pieces))
        written: list[Object] = []
        for index, group in enumerate(groups):
            follower = groups[index + 1][0] if index + 1 < len(groups) else None
            self.position = len(written)
            item = self.item(group, follower)
            if item is not None:
                written.append(item)
            if side(group[0]) != MODEL:
                self.reasoning_id = None
        return written

    def report_silent(self, pieces: list[Piece]) -> None:
        """Name what is lost with canisters that say nothing."""
        for piece in pieces:
            if piece.canister.held is absent and own_residue(piece.canister, NAME) is None:
                report_residue(piece.canister, self.report, piece.place)

    def item(self, group: list[Piece], follower: Piece | None) -> Object | None:
        """One item; None if nothing of it can be said."""
        head = group[0]
        canister = head.canister
        if isinstance(canister, InvocationCanisterClass):
            return self.call(head)
        if isinstance(canister, ResultCanisterClass):
            return self.result(head)
        if type(canister.held) is str:
            return self.message(group)
        if isinstance(canister.held, ReasoningContentClass):
            return self.reasoning(head, follower)
        if is_item(head):
            return decode_json(canister.held.json)  # type: ignore[no-any-return]
        return self.image(head) if is_made(head) else self.message(group)

    def is_detached(self, canister: AnyCanister) -> bool:
        """Whether the reasoning item that belongs to an item is gone: its id must go too."""
        before = reasoning_before(own_residue(canister, NAME))
        return before is not None and before != self.reasoning_id

    # --- messages ------------------------------------------------------------------------------

    def message(self, group: list[Piece]) -> Object | None:
        """One message; None if nothing of it can be said."""
        head = group[0]
        residue = own_residue(head.canister, NAME)
        words = form_words(residue)
        if not self.has_lead and self.displaced is None and "instructions" in words:
            self.displaced = text_of(head.canister.held)
            return None
        role = role_of(head)
        is_easy = role == "assistant" and not words & _SHAPES
        message = self._easy(group) if is_easy else self._listed(group, role, words)
        if residue is None:
            return message
        restored: Object = recall(message or {"role": role, "content": ""}, residue.envelope)
        if self.is_detached(head.canister):
            restored.pop("id", None)
        return restored

    def _easy(self, group: list[Piece]) -> Object | None:
        """A message of the model without an id, which takes only text."""
        texts = [text for piece in group for text in self.spoken_texts(piece)]
        return {"role": "assistant", "content": "".join(texts)} if texts else None

    def _listed(self, group: list[Piece], role: str, words: frozenset[str]) -> Object:
        if len(group) > 1 and words & _EMPTY:
            # Something was added to a message without content.
            group, words = group[1:], words - _EMPTY | {"list"}
        parts = [part for piece in group for part in self.parts(piece, role)]
        message: Object = {"role": role}
        if "absent" in words:
            return message
        if "null" in words:
            message["content"] = None
        elif "empty" in words:
            message["content"] = []
        elif "list" not in words and len(parts) == 1 and is_plain(parts[0]):
            message["content"] = parts[0]["text"]
        elif parts or "list" in words:
            message["content"] = parts
        else:
            message["content"] = f"[{kind_of_held(group[0].canister.held)} omitted]"
        return message

    # --- images that the model made ------------------------------------------------------------

    def image(self, piece: Piece) -> Object | None:
        """The call that made an image: this dialect's own as it was."""
        canister: Any = piece.canister
        residue = own_residue(canister, NAME)
        if residue is not None:
            return recall(made_item(canister.held), residue.part)  # type: ignore[no-any-return]
        report_residue(canister, self.report, piece.place)
        if canister.residue is not None and canister.residue.cache:
            self.report.lose("CACHE_MARK_DROPPED", piece.place)
        return self.foreign_image(canister.held, piece.place)

    def foreign_image(self, content: ImageContentClass, place: int | None) -> Object | None:
        """An image from elsewhere, with the id that the types ask for; None if it cannot be shown."""
        if is_broken(content):
            self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
            return None
        mime_type = content.mime_type
        if mime_type not in _MADE_WORDS:
            self.report.lose("MEDIA_TYPE_UNSUPPORTED", place, f"no call makes {mime_type}")
            return None
        identifier = item_id(self.identifier, "image_generation_call", self.position)
        return {
            "type": "image_generation_call",
            "id": identifier,
            "status": "completed",
            "output_format": _MADE_WORDS[mime_type],
            "result": standard_base64(content.payload),
        }

    # --- tools ---------------------------------------------------------------------------------

    def call(self, piece: Piece) -> Object:
        """A call of a function or a custom tool."""
        canister: Any = piece.canister
        residue = own_residue(canister, NAME)
        ours: Object = {"call_id": canister.identifier, "name": canister.name}
        if canister.is_freeform:
            self._freeform.add(canister.identifier)
            ours = {"type": "custom_tool_call", **ours, "input": canister.held}
        else:
            is_foreign = residue is None and not self.at_home
            is_blank = is_foreign and not canister.held.strip()
            arguments = "{}" if is_blank else canister.held
            ours = {"type": "function_call", **ours, "arguments": arguments}
        if residue is None:
            report_residue(canister, self.report, piece.place)
            if canister.residue is not None and canister.residue.cache:
                self.report.lose("CACHE_MARK_DROPPED", piece.place)
            return ours
        call: Object = recall(ours, residue.part)
        if self.is_detached(canister):
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
        parts = self.input_parts(canister.held, piece.place)
        if canister.is_error:
            self._flag(parts, canister, piece.place)
        residue = canister.residue
        if residue is not None and residue.dialect != NAME:
            report_residue(canister, self.report, piece.place)
            if residue.cache:
                self.mark(parts, residue.cache, "tool")
        if not parts:
            held = canister.held
            contents = held.parts if isinstance(held, PartsContentClass) else (held,)
            return f"[{kind_of_held(contents[0])} omitted]" if contents else ""
        if "list" not in words and len(parts) == 1 and is_plain(parts[0]):
            return parts[0]["text"]
        return parts

    def _flag(self, parts: list[Object], canister: ResultCanisterClass, place: Any) -> None:
        """Say in the text that the tool failed."""
        if not self.at_home:
            self.report.lose("ERROR_FLAG_TO_TEXT", place)
        texts = [part for part in parts if part.get("type") in ("input_text", "output_text")]
        if any(part["text"] for part in texts):
            texts[0]["text"] = flag_error(texts[0]["text"])
        elif texts:
            texts[0]["text"] = flag_error(str(canister.stated_error or ""))
        else:
            parts.insert(
                0, {"type": "input_text", "text": flag_error(str(canister.stated_error or ""))}
            )

    # --- reasoning -----------------------------------------------------------------------------

    def reasoning(self, piece: Piece, follower: Piece | None) -> Object | None:
        """A reasoning item, if it was made here and still has what it belongs to."""
        canister = piece.canister
        residue = own_residue(canister, NAME)
        is_gone = not self.is_stored and "answered" in form_words(residue)
        if residue is not None and not is_gone and self._may_return(canister.held):
            item: Object = recall(reasoning_item(canister.held), residue.part)
            identifier = item.get("id")
            words = form_words(residue)
            if "bare" in words:
                may_stand = self.at_home
            else:
                is_alone = self.at_home and "followed" not in words
                may_stand = is_alone or _belongs(follower, identifier)
            if may_stand:
                self.reasoning_id = identifier if type(identifier) is str else None
                return item
        elif residue is None:
            report_residue(canister, self.report, piece.place)
        self.drop_reasoning(canister.held, piece.place)
        return None

    def _may_return(self, content: ReasoningContentClass) -> bool:
        origin = content.origin
        if origin is None or origin.dialect != NAME:
            return False
        if origin.model is None or self.model is None:
            return True
        return family(origin.model) == family(self.model)


def _belongs(follower: Piece | None, identifier: Any) -> bool:
    """Whether what stands behind a reasoning item is what stood behind it."""
    if follower is None or side(follower) != MODEL:
        return False
    if (
        is_item(follower)
        or is_made(follower)
        or isinstance(follower.canister.held, ReasoningContentClass)
    ):
        return True
    before = reasoning_before(own_residue(follower.canister, NAME))
    return bool(before == identifier)


def made_item(content: ImageContentClass) -> Object:
    """The call that made an image in the usual form, without the id that only a server gives."""
    item: Object = {
        "type": "image_generation_call",
        "status": "completed",
        "result": base64_text(content.payload),
    }
    if content.mime_type in _MADE_WORDS:
        item["output_format"] = _MADE_WORDS[content.mime_type]
    return item


def reasoning_item(content: ReasoningContentClass) -> Object:
    """A reasoning item in the usual form, without the id that only a server gives."""
    item: Object = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in content.summaries],
    }
    if content.texts:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in content.texts]
    if content.encrypted is not None:
        item["encrypted_content"] = content.encrypted
    return item


def family(model: str) -> str:
    """The models that read each other's reasoning: ``gpt-5`` of ``gpt-5.5-2026-03-05``."""
    found = _FAMILY.match(model)
    return found.group() if found else model


def role_of(piece: Piece) -> str:
    """The role of the message that a piece opens."""
    canister = piece.canister
    if isinstance(canister, SupervisorCanisterClass):
        return "developer" if canister.rank == "developer" else "system"
    return "assistant" if side(piece) == MODEL else "user"
