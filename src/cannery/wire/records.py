"""Data sets: dialects with one conversation per record, without responses, streams or endpoints.

They share the refusal of everything that only an API has, losses for settings that a record cannot hold, and text as
the only content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, assert_never

from cannery.errors import DialectError
from cannery.messages.absence import absent
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
from cannery.messages.requests import Request
from cannery.messages.role import Role
from cannery.wire.contract import Dialect, Piece, Rules
from cannery.wire.controls import drop_controls
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Place, Report
from cannery.wire.markers import flag_error, supplement
from cannery.wire.media import NOT_BASE64, context_path, is_broken, is_text_file


def data_set(
    name: str, rules: Rules, read_request: Any, write_request: Any, **more: Any
) -> Dialect:
    """The dialect of a data set: requests only, unless ``more`` adds readers and writers of responses."""

    def refuse(what: str) -> Callable[..., NoReturn]:
        def refused(*_: Any) -> NoReturn:
            raise DialectError(name, "$", f"a data set has no {what}; it only holds conversations")

        return refused

    usual: dict[str, Any] = {
        "read_response": refuse("responses"),
        "write_response": refuse("responses"),
        "stream_reader": refuse("streams"),
        "stream_writer": refuse("streams"),
        "read_error": refuse("errors"),
        "write_error": refuse("errors"),
        "control_paths": {"parallel_calls": "parallel_tool_calls"},
        "names_model": False,
    }
    return Dialect(
        name=name,
        rules=rules,
        read_request=read_request,
        write_request=write_request,
        routes=(),
        **{**usual, **more},
    )


def drop_settings(request: Request, report: Report, known: frozenset[str] = frozenset()) -> None:
    """Report the model and settings that a record cannot hold."""
    if request.model is not absent:
        report.lose("MODEL_DROPPED", "model")
    if request.tool_choice is not absent:
        report.lose("CONTROL_DROPPED", "@tool_choice")
    drop_controls(request.controls, known, report)


class TextWriter:
    """Writes contents as text; ``dialect`` is the one whose residue and blocks are known."""

    def __init__(self, dialect: str, report: Report, *, is_same: bool) -> None:
        self.dialect = dialect
        self.report = report
        self.is_same = is_same

    def spoken(self, piece: Piece) -> str:
        """The text of a user, assistant, supervisor or document canister; "" and a loss if it is not text."""
        canister: Any = piece.canister
        residue = canister.residue
        if residue is not None and residue.dialect != self.dialect:
            report_residue(canister, self.report, piece.place)
            if residue.cache:
                self.report.lose("CACHE_MARK_DROPPED", piece.place)
        if canister.held is absent:
            return ""
        if canister.role is Role.Document:
            return self._document(piece)
        return self.text(canister.held, piece.place)

    def result(self, piece: Piece) -> str:
        """The text of a tool result."""
        canister: Any = piece.canister
        text = self.spoken(piece)
        if not canister.is_error:
            return text
        if not self.is_same:
            self.report.lose("ERROR_FLAG_TO_TEXT", piece.place)
        stated = canister.stated_error
        return flag_error(text if text or stated is absent else stated)

    def text(self, content: AnyContent | str, place: Place) -> str:  # noqa: C901 - one case a kind
        """The text of a content; "" and a loss if it has none."""
        if isinstance(content, str):
            return content
        match content:
            case TextualContentClass():
                if content.citations:
                    self.report.lose("CITATION_DROPPED", place)
                return content.text
            case RefusalContentClass():
                self.report.lose("REFUSAL_TO_TEXT", place)
                return content.text
            case DataContentClass():
                return content.json
            case PartsContentClass():
                return "".join(self._parts(content, place))
            case BinaryContentStruct() if not self.is_same and is_broken(content):
                self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
            case FileContentClass():
                return self._file(content, place)
            case ImageContentClass():
                return self.image(content, place)
            case AudioContentClass() | VideoContentClass():
                self.report.lose("MEDIA_DROPPED", place)
            case ReasoningContentClass():
                if content.signature is not None or content.encrypted is not None:
                    self.report.lose("SIGNATURE_DROPPED", place)
                self.report.lose("REASONING_DROPPED", place)
            case OpaqueContentClass():
                detail = f"{content.tag!r} of {content.dialect}"
                self.report.lose("OPAQUE_DROPPED", place, detail)
            case _:
                assert_never(content)
        return ""

    def image(self, content: ImageContentClass, place: Place) -> str:  # noqa: ARG002 - for data sets with images
        """The placeholder for an image."""
        self.report.lose("MEDIA_DROPPED", place)
        return ""

    def _parts(self, content: PartsContentClass, place: Place) -> Iterator[str]:
        if not self.is_same and len(content.parts) > 1:
            self.report.lose("STRUCTURE_FLATTENED", place)
        for part in content.parts:
            yield self.text(part, place)

    def _file(self, content: FileContentClass, place: Place) -> str:
        if content.chunks:
            text = "\n\n".join(self.text(chunk, place) for chunk in content.chunks)
        elif is_text_file(content):
            text = content.data.decode("utf-8", "replace")
        else:
            self.report.lose("MEDIA_DROPPED", place)
            return ""
        self.report.lose("DOCUMENT_TO_TEXT", place)
        for within, lost in (
            (context_path(content), content.context),
            (".citations", content.citable),
        ):
            if lost:
                self.report.lose("FIELD_DROPPED", place, "", within)
        return supplement(text, content.name)

    def _document(self, piece: Piece) -> str:
        canister: Any = piece.canister
        self.report.lose("DOCUMENT_TO_TEXT", piece.place)
        title = None if canister.title is absent else canister.title
        return supplement(self.text(canister.held, piece.place), title)
