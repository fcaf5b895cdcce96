"""Writes contents as message parts, for dialects whose messages are lists of parts.

Content from the same dialect is written unchecked. From another dialect, a part that the server would refuse is left
out with a loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, assert_never

from cannery.messages.canisters import InvocationCanisterClass
from cannery.messages.content import (
    AnyContent,
    AudioContentClass,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    VideoContentClass,
    new_text,
)
from cannery.messages.json_text import decode_json
from cannery.wire.arguments import FREEFORM_INPUT, object_input, object_text, wrapped_input
from cannery.wire.bodies import Object
from cannery.wire.losses import Place, Report
from cannery.wire.media import NOT_BASE64, is_broken

Medium = ImageContentClass | AudioContentClass | VideoContentClass


def as_content(held: Any) -> Any:
    """A content; text may be held bare."""
    return new_text(held) if type(held) is str else held


class CallWriter:
    """Writes call arguments as an object; ``is_same`` if they come from this dialect."""

    report: Report
    is_same: bool

    def arguments(self, canister: InvocationCanisterClass, place: Place) -> Any:
        """The object that holds the arguments of a call, ready to be encoded."""
        held = canister.held
        if canister.is_freeform:
            self.report.lose("FREEFORM_WRAPPED", place)
            return {FREEFORM_INPUT: held}
        found = object_text(held)
        if found is None:
            found = object_input(held)
        if found is not None:
            return found
        if not self.is_same:
            self.report.lose("ARGUMENTS_WRAPPED", place)
        return wrapped_input(held)


class ContentWriter(ABC):
    """Writes contents; ``is_same`` if they come from this dialect."""

    dialect: ClassVar[str]
    report: Report
    is_same: bool

    @abstractmethod
    def text_block(self, text: str) -> Object:
        """The part of a text."""

    @abstractmethod
    def _text(self, content: TextualContentClass, place: Place) -> list[Any]:
        """The parts of a text that may have citations."""

    @abstractmethod
    def _media(self, content: Medium, place: Place) -> list[Any]:
        """The part of an image, audio or video; none and a loss if the target cannot carry it."""

    @abstractmethod
    def _file(self, content: FileContentClass, place: Place) -> list[Any]:
        """The parts of a file; none and a loss if the target cannot carry it."""

    @abstractmethod
    def _reasoning(self, content: ReasoningContentClass, place: Place) -> list[Any]:
        """The parts of reasoning; none and a loss if the target cannot carry it."""

    def content(self, content: AnyContent | str, place: Place) -> list[Any]:
        """The parts of a content: one, several for several parts, or none and a loss."""
        if isinstance(content, str):
            return self.said(content, place)
        # A class that matches is found much faster than one that does not: the usual ones come first.
        match content:
            case ImageContentClass():
                return self._media(content, place) if self._is_sound(content, place) else []
            case TextualContentClass():
                return self._text(content, place)
            case ReasoningContentClass():
                return self._reasoning(content, place)
            case FileContentClass():
                return self._file(content, place) if self._is_sound(content, place) else []
            case AudioContentClass() | VideoContentClass():
                return self._media(content, place) if self._is_sound(content, place) else []
            case RefusalContentClass():
                return self._refusal(content, place)
            case DataContentClass():
                return self._data(content, place)
            case OpaqueContentClass():
                return self._opaque(content, place)
            case PartsContentClass():
                return [block for part in content.parts for block in self.content(part, place)]
            case _:
                assert_never(content)

    def _is_sound(self, content: Medium | FileContentClass, place: Place) -> bool:
        """Whether a server could read the data of a content; otherwise they are lost."""
        if self.is_same or not is_broken(content):
            return True
        self.report.lose("MEDIA_DROPPED", place, NOT_BASE64)
        return False

    def said(self, text: str, _place: Place) -> list[Any]:
        """The part of a text if the server accepts it."""
        return [self.text_block(text)]

    def _refusal(self, content: RefusalContentClass, place: Place) -> list[Any]:
        self.report.lose("REFUSAL_TO_TEXT", place)
        return self.said(content.text, place)

    def _data(self, content: DataContentClass, place: Place) -> list[Any]:
        return self.said(content.json, place)

    def _opaque(self, content: OpaqueContentClass, place: Place) -> list[Any]:
        if content.dialect == self.dialect:
            return [decode_json(content.json)]
        self.report.lose("OPAQUE_DROPPED", place, f"{content.tag!r} of {content.dialect}")
        return []
