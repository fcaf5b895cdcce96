"""Writes Messages bodies.

The writer walks the arranged pieces once: a turn becomes a message, a piece a block. For the same dialect nothing is
checked, and residue restores the original; for another one a block that the server would refuse is left out with a
loss. Leading supervisors are the top-level ``system``, unless they were messages of their own.
"""

from __future__ import annotations

from typing import Any

from orjson import Fragment

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import BARE, INLINE, STRING
from cannery.families.blocks.contents import PDF
from cannery.families.blocks.writing import TurnWriter
from cannery.families.claude.models import is_same_family
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
)
from cannery.messages.content import (
    PLAIN,
    BinaryContentStruct,
    Citation,
    FileContentClass,
    ImageContentClass,
    Origin,
    TextualContentClass,
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.messages.residue import PREAMBLE, Residue
from cannery.wire.bodies import Object
from cannery.wire.citations import report_approximated
from cannery.wire.contents import Medium
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Place
from cannery.wire.media import WEB_IMAGES, is_text_file
from cannery.wire.residues import own_residue, recall

_UNMARKED = frozenset({"thinking", "redacted_thinking"})
_SYSTEM = frozenset({SupervisorCanisterClass})
_MEDIA = frozenset({"image", "document", "search_result"})
# Canisters whose bare text is a message of its own. Messages and results without content, by the form that remembers
# it.
_SHAPES: dict[str | None, Object] = {
    "absent": {},
    "null": {"content": None},
    "empty": {"content": []},
}


class MessageWriter(TurnWriter):
    """Writes messages and the system field."""

    dialect = NAME
    takes = "Messages take"
    unsigned = ""
    # The form of the current canister.
    residue: Residue | None = None
    # Canisters from the system field that now stand after messages.
    displaced: tuple[Piece, ...] = ()
    _has_lead = False
    _has_short_mark = False

    # --- messages ------------------------------------------------------------------------------

    def split(self, pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
        """Split off the pieces of the system field."""
        count = 0
        for piece in pieces:
            canister = piece.canister
            if type(canister) is not SupervisorCanisterClass:
                break
            if self.is_same and _is_inline(canister):
                break
            count += 1
        if not count:
            return [], pieces
        self._has_lead = True
        return pieces[:count], pieces[count:]

    def system(self, pieces: list[Piece]) -> Any:
        """The system field, or absent."""
        if not pieces:
            return absent
        head: Any = pieces[0].canister
        if head.rank != "developer":
            alone = self._alone(pieces, _SYSTEM)
            if alone is not None:
                return alone
        blocks = self.blocks(pieces, "system")
        if not blocks:
            return absent
        residue = own_residue(head, NAME)
        return _content(blocks, None if residue is None else residue.form)

    def message(self, turn: list[Piece], role: str) -> Object | None:
        """The message of a turn; None if it is empty."""
        alone = self._alone(turn)
        if alone is not None:
            self._last_place = turn[0].place
            return {"role": role, "content": alone}
        head = turn[0].canister
        residue = head.residue
        if residue is not None and residue.dialect != NAME:
            residue = None
        shape = ""
        if residue is not None and residue.form and type(head) is not ResultCanisterClass:
            shape = residue.form.removeprefix(INLINE).removeprefix(":")
            if shape in _SHAPES and len(turn) > 1:
                # Something was added to a message without content.
                turn, shape = turn[1:], "list" if shape == "empty" else ""
        if role == "system" and self.is_same and self._is_displaced(residue):
            self.displaced = (*self.displaced, *turn)
            return None
        blocks = self.blocks(turn, role)
        message: Object = {"role": role}
        if residue is not None and residue.envelope is not None:
            message = recall(message, residue.envelope)
        if self.is_same and shape in _SHAPES:
            message.update(_SHAPES[shape])
            return message
        if not blocks and not self.is_same:
            return None
        message["content"] = _content(blocks, shape) if len(blocks) == 1 else blocks
        return message

    def _is_displaced(self, residue: Residue | None) -> bool:
        """Whether a supervisor was in the system field, and something was inserted before it."""
        form = None if residue is None else residue.form
        # Only the system field has this form without recording a message.
        return form == PREAMBLE or (form == "list" and not self._has_lead)

    def trim(self, messages: list[Object]) -> None:
        """Remove trailing white space, which a prefilled turn must not have."""
        if not messages or messages[-1]["role"] != "assistant":
            return
        message = messages[-1]
        content = message["content"]
        holder, key = (message, "content") if type(content) is str else (content[-1], "text")
        said = holder.get(key)
        if type(said) is str and said != said.rstrip():
            holder[key] = said.rstrip()
            detail = "a trailing assistant message must not end in white space"
            self.report.lose("TEXT_DROPPED", self._last_place, detail)

    # --- pieces --------------------------------------------------------------------------------

    def piece_blocks(self, piece: Piece) -> list[Any]:
        """The blocks of one piece, with this dialect's residue."""
        self.residue = residue = piece.canister.residue
        blocks = self._written(piece)
        if residue is None:
            return blocks
        if len(blocks) == 1:
            return [self._sealed(blocks[0], residue, piece)]
        if residue.dialect != NAME:
            report_residue(piece.canister, self.report, piece.place)
        return blocks

    def _sealed(self, ours: Any, residue: Residue, piece: Piece) -> Any:
        """A block with its residue applied."""
        if residue.dialect == NAME:
            ours = recall(ours, residue.part)
            if self.is_same:
                return ours
            ours.pop("cache_control", None)
        else:
            report_residue(piece.canister, self.report, piece.place)
        if residue.cache:
            self._mark(ours, residue, piece)
        return ours

    def _mark(self, block: Object, residue: Residue, piece: Piece) -> None:
        """Mark a block for the cache; a long mark must not follow a short one."""
        if block["type"] in _UNMARKED:
            self.report.lose("CACHE_MARK_DROPPED", piece.place, "thoughts take no cache mark")
            return
        is_long = residue.cache == "long" and not self._has_short_mark
        if residue.cache == "long" and not is_long:
            detail = "a mark for one hour behind one for five minutes became as short"
            self.report.lose("CACHE_MARK_DROPPED", piece.place, detail)
        self._has_short_mark = not is_long
        mark = {"type": "ephemeral"}
        block["cache_control"] = {**mark, "ttl": "1h"} if is_long else mark

    def _call(self, canister: InvocationCanisterClass, piece: Piece) -> Object:
        form = self.residue.form if self.is_same and self.residue is not None else None
        if form == STRING:
            given: Any = canister.held
        elif form == BARE:
            given = Fragment(canister.held)
        else:
            given = self.arguments(canister, piece.place)
        return {
            "type": "tool_use",
            "id": canister.identifier,
            "name": canister.name,
            "input": given,
        }

    def _is_medium(self, block: Object) -> bool:
        return block["type"] in _MEDIA

    def _result(self, canister: ResultCanisterClass, piece: Piece) -> Object:
        residue, held = canister.residue, canister.held
        is_error = canister.is_error
        if type(held) is str and residue is None and not is_error:
            content: Any = held
        else:
            is_own = residue is not None and residue.dialect == NAME
            content = self._result_content(canister, piece, residue.form if is_own else None)  # type: ignore[union-attr]
        ours: Object = {"type": "tool_result", "tool_use_id": canister.invocation_id}
        if content is not absent:
            ours["content"] = content
        if is_error:
            ours["is_error"] = True
        return ours

    def _result_content(self, canister: ResultCanisterClass, piece: Piece, form: str | None) -> Any:
        """The content of a result: text as a string, anything else as blocks."""
        is_error = canister.is_error
        if form in _SHAPES and (self.is_same or not is_error):
            return _SHAPES[form].get("content", absent)
        held = canister.held
        if type(held) is str and form != "list" and (self.is_same or not is_error):
            return held
        blocks = self.content(held, piece.place)
        if self.is_same:
            return blocks
        if is_error:
            blocks = self._explained(blocks, canister)
        return _content(blocks, form) if blocks else self._omitted([piece]) or ""

    # --- blocks ------------------------------------------------------------------------------------

    def text_block(self, text: str) -> Object:
        """The block of a text."""
        return {"type": "text", "text": text}

    def tagged(self, kind: str, fields: Object) -> Object:
        """A block of a given type."""
        return {"type": kind, **fields}

    def thought_block(self, text: str, signature: str | None) -> Object:
        """The block of a thought."""
        thought: Object = {"type": "thinking", "thinking": text}
        return thought if signature is None else {**thought, "signature": signature}

    def sealed_block(self, encrypted: str) -> Object:
        """The block of a thought that only the server can read."""
        return {"type": "redacted_thinking", "data": encrypted}

    def is_own(self, origin: Origin) -> bool:
        """Whether a thought is sent back to the models that produced it."""
        if origin.dialect != NAME:
            return False
        return self.for_answer or is_same_family(origin.model, self.model)

    def _text(self, content: TextualContentClass, place: Place) -> list[Any]:
        blocks = self.said(content.text, place)
        if not blocks:
            # Blank text is not written, nor are its citations.
            if content.citations:
                self.report.lose("CITATION_DROPPED", place)
            return blocks
        citations: list[Any] = []
        for citation in content.citations:
            if citation.dialect != NAME:
                shown = shown_citation(citation) if self.for_answer else None
                if shown is None:
                    self.report.lose("CITATION_DROPPED", place)
                else:
                    citations.append(shown)
                    self._report_shown(citation, place)
            elif self.is_same and not self.for_answer:
                citations.append(Fragment(citation.raw))
            else:
                cited = decode_json(citation.raw)
                if not self.for_answer and type(cited) is dict:
                    # Only responses name the file.
                    cited.pop("file_id", None)
                citations.append(cited)
        if citations:
            blocks[0]["citations"] = citations
        return blocks

    def _report_shown(self, citation: Citation, place: Place) -> None:
        if citation.start is not None:
            detail = "a citation is about its whole text here"
            self.report.lose("CITATION_APPROXIMATED", place, detail)
        report_approximated((citation,), NAME, self.report, place)

    def _media(self, content: Medium, place: Place) -> list[Any]:
        if not isinstance(content, ImageContentClass):
            self.report.lose("MEDIA_DROPPED", place, f"{self.takes} no {content.kind}")
            return []
        if isinstance(content.payload, Location):
            source = self._located(content.payload, place)
            return [] if source is None else [{"type": "image", "source": source}]
        mime_type = content.mime_type
        kind = "document" if mime_type == PDF and not self.is_same else "image"
        if not self.is_same and mime_type not in WEB_IMAGES and mime_type != PDF:
            self._refuse_type(content, place)
            return []
        return [{"type": kind, "source": self._inline(content)}]

    def _located(self, payload: Location, place: Place) -> Object | None:
        if payload.kind == "file":
            if self.is_foreign:
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return None
            return {"type": "file", "file_id": payload.value}
        if not self.is_same and not payload.value.lower().startswith(("http://", "https://")):
            scheme = payload.value.partition(":")[0]
            self.report.lose("REFERENCE_UNRESOLVABLE", place, f"no server fetches {scheme!r}")
            return None
        return {"type": "url", "url": payload.value}

    def _inline(self, content: BinaryContentStruct) -> Object:
        data = self._base64(content.payload)
        return {"type": "base64", "media_type": content.mime_type, "data": data}

    def _document(self, content: FileContentClass, place: Place) -> list[Any]:
        source = self._document_source(content, place)
        if source is None:
            return []
        titled: Object = {} if content.name is None else {"title": content.name}
        return self._document_block({"source": source, **titled}, content)

    def _document_source(self, content: FileContentClass, place: Place) -> Object | None:
        if content.chunks:
            return self._chunked(content, place)
        if isinstance(content.payload, Location):
            return self._located(content.payload, place)
        mime_type = content.mime_type
        if self.is_same:
            if mime_type.startswith("text/"):
                return self._text_source(content, mime_type, place)
            return self._inline(content)
        if is_text_file(content):
            return self._text_source(content, PLAIN, place)
        if mime_type == PDF:
            return self._inline(content)
        if self._is_plain(mime_type, place):
            return self._text_source(content, PLAIN, place)
        self._refuse_type(content, place)
        return None

    def _text_source(self, content: FileContentClass, media_type: str, place: Place) -> Object:
        try:
            text = content.data.decode()
        except UnicodeDecodeError:
            text = content.data.decode("utf-8", "replace")
            if not self._is_restored():
                detail = "bytes that are not UTF-8 became U+FFFD"
                self.report.lose("DOCUMENT_TO_TEXT", place, detail)
        return {"type": "text", "media_type": media_type, "data": text}

    def _is_restored(self) -> bool:
        """Whether residue restores the original, so that nothing is lost."""
        residue = self.residue
        return (
            self.is_same
            and residue is not None
            and residue.dialect == NAME
            and residue.part is not None
        )

    def _chunked(self, content: FileContentClass, place: Place) -> Object | None:
        chunks = self._chunks(content, place)
        if not self.is_same:
            chunks = [chunk for chunk in chunks if chunk["type"] in ("text", "image")]
        if content.mime_type == PLAIN and _is_bare_text(chunks):
            return {"type": "content", "content": chunks[0]["text"]}
        return {"type": "content", "content": chunks} if chunks else None


def _is_bare_text(blocks: list[Any]) -> bool:
    """Whether blocks are a single text, which a string can replace."""
    if len(blocks) != 1:
        return False
    block = blocks[0]
    if type(block) is not dict or len(block) != 2:
        return False
    return block.get("type") == "text" and "text" in block


def _content(blocks: list[Any], form: str | None) -> Any:
    """Blocks as the content of a message: a string for a single text, unless it was a list."""
    return blocks[0]["text"] if form != "list" and _is_bare_text(blocks) else blocks


def _is_inline(canister: AnyCanister) -> bool:
    """Whether a supervisor was a message of its own and not part of the system field."""
    residue = own_residue(canister, NAME)
    return residue is not None and (residue.form or "").startswith(INLINE)


def shown_citation(citation: Citation) -> Object | None:
    """A citation of another dialect as a response shows it; None unless it cites a page."""
    if citation.url is None:
        return None
    return {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title,
        "cited_text": citation.cited_text or "",
        # Only this provider can produce it.
        "encrypted_index": "",
    }
