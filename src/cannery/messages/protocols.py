"""The protocols of canisters and contents, which code should accept.

``isinstance`` with one of them answers without reading any content: our own classes by their kind, any other class by
its attributes and its role or MIME type.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cannery.messages.absence import Absential
from cannery.messages.immutable import Dictionary
from cannery.messages.role import Role

if TYPE_CHECKING:
    from abc import ABCMeta as _ProtocolMeta
else:
    _ProtocolMeta = type(Protocol)

# Protocol -> our classes of that kind; filled by ``implement`` in the modules of the classes.
_OURS: dict[type, tuple[type, ...]] = {}
_ALL_OURS: set[type] = set()


class RecognisingMeta(_ProtocolMeta):
    """The type of our protocols: Python's own check would read properties, and so load content."""

    def __instancecheck__(cls, instance: Any) -> bool:  # noqa: N805 - a metaclass
        """Whether the instance is of this kind."""
        kind = type(instance)
        if kind in _ALL_OURS:
            return issubclass(kind, _OURS.get(cls, ()))
        wanted = _DISTINCTIONS.get(cls.__name__)
        if not super().__instancecheck__(instance):
            return False
        return wanted is None or wanted(instance)


def implement(protocol: Any, *classes: type) -> None:
    """Register our classes that are of a protocol's kind."""
    _OURS[protocol] = classes
    _ALL_OURS.update(classes)


@runtime_checkable
class Content(Protocol, metaclass=RecognisingMeta):
    """The payload of a message."""

    @property
    def mime_type(self) -> str:
        """MIME type identifying the format."""


@runtime_checkable
class TextualContent(Content, Protocol):
    """Text, with optional formatting."""

    @property
    def text(self) -> str:
        """The text."""


class BinaryContent(Content, Protocol):
    """The common part of image, audio, video and file."""

    @property
    def data(self) -> bytes:
        """The bytes."""

    @property
    def content_id(self) -> Absential[str]:
        """Hash of the bytes, for storage."""


@runtime_checkable
class ImageContent(BinaryContent, Protocol):
    """An image."""


@runtime_checkable
class AudioContent(BinaryContent, Protocol):
    """A sound recording."""


@runtime_checkable
class VideoContent(BinaryContent, Protocol):
    """A video."""


@runtime_checkable
class Canister(Protocol, metaclass=RecognisingMeta):
    """One message of a conversation."""

    @property
    def role(self) -> Role:
        """Which of the six kinds it is."""

    @property
    def timestamp(self) -> datetime:
        """The time of the message, or of its receipt."""


@runtime_checkable
class UserCanister(Canister, Protocol):
    """A user message."""

    @property
    def content(self) -> Content:
        """The content."""


@runtime_checkable
class AssistantCanister(Canister, Protocol):
    """A message of the model."""

    @property
    def content(self) -> Absential[Content]:
        """The content; absent if the model only calls tools."""


@runtime_checkable
class SupervisorCanister(Canister, Protocol):
    """Instructions that rank above the conversation."""

    @property
    def content(self) -> Content:
        """The instructions."""


@runtime_checkable
class DocumentCanister(Canister, Protocol):
    """A reference document given for context."""

    @property
    def content(self) -> Content:
        """The document."""

    @property
    def title(self) -> Absential[str]:
        """Its title, if it has one."""


@runtime_checkable
class InvocationCanister(Canister, Protocol):
    """A tool call of the model."""

    @property
    def identifier(self) -> str:
        """The identifier that a result refers to."""

    @property
    def name(self) -> str:
        """The tool."""

    @property
    def arguments(self) -> Dictionary:
        """The arguments of the call."""


@runtime_checkable
class ResultCanister(Canister, Protocol):
    """A tool result."""

    @property
    def invocation_id(self) -> str:
        """The identifier of the invocation that this answers."""

    @property
    def content(self) -> Content:
        """The content of the result."""

    @property
    def error(self) -> Absential[str]:
        """The error, if the tool failed."""


# The distinguishing value of kinds that have the same attributes.
_DISTINCTIONS: dict[str, Any] = {
    "ImageContent": lambda content: content.mime_type.startswith("image/"),
    "AudioContent": lambda content: content.mime_type.startswith("audio/"),
    "VideoContent": lambda content: content.mime_type.startswith("video/"),
    **{f"{role.name}Canister": lambda canister, role=role: canister.role is role for role in Role},
}
