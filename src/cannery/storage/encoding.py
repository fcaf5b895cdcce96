"""Canisters to lines: long or binary parts go to the content store, the rest into the line.

Pure: returns the line and the content it refers to, and writes nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, assert_never

from msgspec import UNSET, Raw, Struct

from cannery.backends import check_digest
from cannery.errors import MessageError
from cannery.messages import (
    AnyCanister,
    AnyContent,
    AudioContentClass,
    Base64,
    DataContentClass,
    Deferred,
    FileContentClass,
    ImageContentClass,
    Location,
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    Role,
    TextualContentClass,
    VideoContentClass,
    absent,
)
from cannery.messages.json_text import is_json_object
from cannery.storage.content import ContentCache, StoredContent
from cannery.storage.shapes import (
    AssistantShape,
    AudioShape,
    BinaryShape,
    ContentShape,
    DataShape,
    DocumentShape,
    FileShape,
    ImageShape,
    InvocationShape,
    LineShape,
    LongText,
    OpaqueShape,
    PartsShape,
    ReasoningShape,
    Reference,
    RefusalShape,
    ResultShape,
    SupervisorShape,
    TextShape,
    TurnShape,
    UserShape,
    VideoShape,
    encode_line,
    encode_residue,
)

THRESHOLD = 1024


class Turn(Struct, frozen=True):
    """The facts kept with the first message of an exchange.

    ``request`` is its id, ``why`` the reason for its recognition, ``model`` the requested model. ``setup`` are the
    instructions that began with it, ``tools`` and ``settings`` its tools and settings as JSON (``storage.settings``);
    None if they are unchanged.
    """

    request: str = ""
    why: str = ""
    model: str = ""
    setup: tuple[AnyCanister, ...] | None = None
    tools: bytes | None = None
    settings: bytes | None = None

    @property
    def is_version(self) -> bool:
        """Whether new instructions, tools or settings begin with it."""
        return not (self.setup is None and self.tools is None and self.settings is None)


_Binary = TypeVar("_Binary", bound=BinaryShape)


class Encoded(Struct, frozen=True):
    """A line, and the content that must be stored with it; None for content that is already stored."""

    line: bytes
    contents: Mapping[bytes, bytes | None]


class Encoder:
    """Encodes for one store: text of ``threshold`` or more UTF-8 bytes is stored as content."""

    def __init__(self, cache: ContentCache, threshold: int = THRESHOLD) -> None:
        self._cache = cache
        self._threshold = threshold

    def encode(self, canister: AnyCanister) -> Encoded:
        """One canister as a line."""
        writer = _Writer(self._cache, self._threshold)
        return Encoded(writer.encode(canister), writer.contents)

    def encode_all(
        self, canisters: Iterable[AnyCanister], turn: Turn | None = None
    ) -> tuple[list[bytes], dict[bytes, bytes | None]]:
        """Canisters as lines, and all the content that must be stored with them; a turn belongs to the first."""
        writer = _Writer(self._cache, self._threshold)
        if turn is None:
            return list(map(writer.encode, canisters)), writer.contents
        first, *rest = canisters
        lines = [writer.encode(first, writer.turn(turn)), *map(writer.encode, rest)]
        return lines, writer.contents


class _Writer:
    """The encoding of canisters, collecting contents on the way."""

    def __init__(self, cache: ContentCache, threshold: int) -> None:
        self._cache = cache
        self._usual_threshold = self._threshold = threshold
        self.contents: dict[bytes, bytes | None] = {}

    def turn(self, turn: Turn) -> TurnShape:
        """The facts of an exchange."""
        shape = TurnShape(turn.request, turn.why, turn.model)
        if turn.setup is not None:
            shape.setup = [Raw(self.encode(canister)) for canister in turn.setup]
        if turn.tools is not None:
            shape.tools = Reference(self._put(turn.tools), len(turn.tools))
        if turn.settings is not None:
            shape.settings = self._long(turn.settings.decode())
        return shape

    def encode(self, canister: AnyCanister, turn: TurnShape | None = None) -> bytes:
        """One canister as a line."""
        shape = self._shape(canister)
        if turn is not None:
            shape.turn = turn
        shape.timestamp = _whole_minutes(canister.timestamp)
        shape.joined = canister.joined
        if canister.residue is not None:
            self._add_residue(shape, canister.residue)
        self._threshold = self._usual_threshold
        return encode_line(shape)

    def _shape(self, canister: Any) -> LineShape:
        role: Role = canister.role
        match role:
            case Role.User:
                return UserShape(self._held(canister.held))
            case Role.Assistant:
                held = canister.held
                return AssistantShape() if held is absent else AssistantShape(self._held(held))
            case Role.Invocation:
                return self._call(canister)
            case Role.Result:
                error = canister._error  # noqa: SLF001 - a flag alone differs from its text
                content = self._held(canister.held)
                return ResultShape(content, canister.invocation_id, _or_unset(error))
            case Role.Document:
                return DocumentShape(self._held(canister.held), _or_unset(canister.title))
            case Role.Supervisor:
                self._threshold = 0
                return SupervisorShape(self._held(canister.held), _or_unset(canister.rank))
            case _:
                assert_never(role)

    def _held(self, held: Any) -> ContentShape:
        return self._text(held) if type(held) is str else self._content(held)

    def _add_residue(self, shape: LineShape, residue: Any) -> None:
        text = encode_residue(
            {
                name: value
                for name in residue.__struct_fields__
                if (value := getattr(residue, name)) is not None
            }
        )
        if len(text) < THRESHOLD:
            shape.residue = Raw(text)  # type: ignore[assignment]
        else:
            shape.residue_id = self._put(text)

    def _call(self, canister: Any) -> InvocationShape:
        shape = InvocationShape(canister.identifier, canister.name, freeform=canister.is_freeform)
        text: str = canister.held
        data = text.encode()
        if len(data) >= self._threshold:
            shape.arguments_id = self._put(data)
        elif not canister.is_freeform and _is_compact_object(text):
            shape.arguments = Raw(data)
        else:
            shape.arguments = Raw(encode_line(text))
        return shape

    def _content(self, content: AnyContent) -> ContentShape:
        match content:
            case TextualContentClass():
                return self._textual(content)
            case ImageContentClass():
                return self._binary(ImageShape(), content)
            case AudioContentClass():
                return self._binary(AudioShape(), content)
            case VideoContentClass():
                return self._binary(VideoShape(), content)
            case FileContentClass():
                return self._file(content)
            case ReasoningContentClass():
                return self._reasoning(content)
            case RefusalContentClass():
                words = self._text(content.text)
                return RefusalShape(words.text, words.content_id, words.size)
            case DataContentClass():
                return DataShape(self._long(content.json))
            case OpaqueContentClass():
                return OpaqueShape(content.dialect, content.tag, self._long(content.json))
            case PartsContentClass():
                return PartsShape([self._content(part) for part in content.parts])
            case _:
                assert_never(content)

    def _text(self, text: str) -> TextShape:
        # A character takes at most four bytes of UTF-8.
        if len(text) * 4 < self._threshold:
            return TextShape(text)
        data = text.encode()
        if len(data) < self._threshold:
            return TextShape(text)
        return TextShape(content_id=self._put(data), size=len(data))

    def _textual(self, content: TextualContentClass) -> TextShape:
        held = content._text  # noqa: SLF001 - looking at it must not load it
        shape = self._text(held) if isinstance(held, str) else self._kept(held)
        if content.mime_type != "text/plain":
            shape.mime_type = content.mime_type
        shape.citations = content.citations
        return shape

    def _kept(self, held: Deferred) -> TextShape:
        return TextShape(content_id=self._refer(held), size=held.size)

    def _binary(self, shape: _Binary, content: Any) -> _Binary:
        if content.mime_type:
            shape.mime_type = content.mime_type
        payload = content.payload
        if isinstance(payload, Location):
            shape.location = payload
        elif isinstance(payload, bytes):
            shape.content_id, shape.size = self._put(payload), len(payload)
        elif isinstance(payload, Base64):
            self._add_base64(shape, payload)
        else:
            shape.content_id, shape.size = self._refer(payload), payload.size
        return shape

    def _add_base64(self, shape: BinaryShape, payload: Base64) -> None:
        try:
            data = payload.data
        except MessageError:
            shape.base64 = self._long(payload.text)
            return
        shape.content_id, shape.size = self._put(data), len(data)
        if base64.b64encode(data) != payload.text.encode():
            shape.spelling = self._put(payload.text.encode())

    def _file(self, content: FileContentClass) -> FileShape:
        shape = self._binary(FileShape(), content)
        if content.name is not None:
            shape.name = content.name
        if content.context is not None:
            shape.context = self._long(content.context)
        if content.citable is not None:
            shape.citable = content.citable
        if content.chunks:
            shape.chunks = [self._content(chunk) for chunk in content.chunks]
        return shape

    def _reasoning(self, content: ReasoningContentClass) -> ReasoningShape:
        shape = ReasoningShape(
            tuple(map(self._long, content.texts)), tuple(map(self._long, content.summaries))
        )
        if content.signature is not None:
            shape.signature = self._long(content.signature)
        if content.encrypted is not None:
            shape.encrypted = self._long(content.encrypted)
        if content.origin is not None:
            shape.origin = content.origin
        return shape

    def _long(self, text: str) -> LongText:
        data = text.encode()
        return text if len(data) < self._threshold else Reference(self._put(data), len(data))

    def _put(self, data: bytes) -> str:
        digest = hashlib.sha256(data)
        self.contents[digest.digest()] = data
        return f"sha256:{digest.hexdigest()}"

    def _refer(self, held: Deferred) -> str:
        """The id of content that is not loaded; if it is another store's, its bytes are copied."""
        if isinstance(held, StoredContent) and held.cache is not self._cache:
            return self._put(held.load())
        self.contents.setdefault(check_digest(held.content_id), None)
        return held.content_id


def _or_unset(value: Any) -> Any:
    return UNSET if value is absent else value


def _whole_minutes(timestamp: datetime) -> datetime:
    """RFC 3339 has no offsets with seconds, which some places had before 1900."""
    if timestamp.tzinfo is UTC:
        return timestamp
    offset = timestamp.utcoffset()
    return (
        timestamp if not offset or offset.total_seconds() % 60 == 0 else timestamp.astimezone(UTC)
    )


def _is_compact_object(text: str) -> bool:
    """Whether argument text can be an object in the line and be read back exactly."""
    return (
        text.startswith("{")
        and text.endswith("}")
        and "\n" not in text
        and "\r" not in text
        and is_json_object(text)
    )
