"""What a message says: the protocols of content and their immutable classes.

Text, image, audio, video and file come from the wires as they are; reasoning carries the origin it is bound to; data
is JSON; an opaque block is what no one here knows, kept to the letter; parts are the several contents of one result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, Union, runtime_checkable

from msgspec import Struct

from cannery.errors import MessageError
from cannery.messages.absence import Absential, absent
from cannery.messages.checked import CheckedMeta, check_name, check_text, maker
from cannery.messages.json_text import decode_json, read_json, write_json
from cannery.messages.payload import (
    Base64,
    Deferred,
    Location,
    NotHydrated,
    Payload,
    check_content_id,
    check_match,
    content_id_of,
)

PLAIN = "text/plain"
_TEXTUAL_SUBTYPES = ("json", "xml", "yaml", "javascript", "sql", "csv", "markdown", "toml")


@runtime_checkable
class Content(Protocol):
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
    """What image, audio, video and file have in common."""

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
    """A moving picture."""


class Origin(Struct, frozen=True, gc=False):
    """Who made a signature or an encrypted payload: nobody else can read it."""

    dialect: str
    model: str | None = None


class Citation(Struct, frozen=True, gc=False):
    """Where a text got its words from; ``raw`` is the citation as its dialect wrote it (JSON)."""

    dialect: str
    raw: str
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None


class TextualContentClass(Struct, frozen=True, gc=False, eq=False, metaclass=CheckedMeta):
    """Text; ``citations`` say where it comes from, ``content_id`` where a store keeps it."""

    kind: ClassVar[str] = "text"

    _text: str | Deferred
    mime_type: str = PLAIN
    citations: tuple[Citation, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            text: str,
            mime_type: str = PLAIN,
            content_id: Absential[str] = absent,
            citations: Iterable[Citation] = (),
        ) -> None: ...

    @classmethod
    def _make(
        cls,
        text: str,
        mime_type: str = PLAIN,
        content_id: Absential[str] = absent,
        citations: Iterable[Citation] = (),
    ) -> TextualContentClass:
        held: str | Deferred = check_text("TextualContent.text", text)
        if content_id is not absent:
            known = check_content_id("TextualContent.content_id", content_id)
            if text:
                if known is not None:
                    check_match("TextualContent.content_id", known, text.encode())
            elif known != content_id_of(b""):
                held = NotHydrated(known or str(content_id))
        _check_mime("TextualContent", mime_type, _is_textual, "text")
        return maker(cls)(held, mime_type, tuple(citations))  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text, loaded if it has to be; ContentNotFoundError if nobody can."""
        held = self._text
        return held if type(held) is str else held.load().decode()  # type: ignore[union-attr]

    @property
    def is_hydrated(self) -> bool:
        """Whether the text is here and not only its id."""
        return type(self._text) is str

    @property
    def content_id(self) -> Absential[str]:
        """The id of text that is not here; absent for text that is."""
        return absent if type(self._text) is str else self._text.content_id  # type: ignore[union-attr]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TextualContentClass):
            return NotImplemented
        return (
            _same_held(self._text, other._text)
            and self.mime_type == other.mime_type
            and self.citations == other.citations
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.mime_type))

    def __repr__(self) -> str:
        text = repr(self._text)
        more = "" if self.mime_type == PLAIN else f", mime_type={self.mime_type!r}"
        more += f", citations={self.citations!r}" if self.citations else ""
        return f"TextualContentClass(text={text}{more})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (TextualContentClass, self._text, self.mime_type, self.citations)


class BinaryContentStruct(Struct, frozen=True, gc=False, eq=False, metaclass=CheckedMeta):
    """What image, audio, video and file share: a payload and its MIME type."""

    kind: ClassVar[str]
    family: ClassVar[str]

    payload: Payload
    mime_type: str

    if TYPE_CHECKING:

        def __init__(
            self,
            data: bytes | Base64 | Location | Deferred | None = None,
            mime_type: str = "",
            content_id: Absential[str] = absent,
            *,
            location: Absential[Location | str] = absent,
        ) -> None: ...

    @classmethod
    def _make(
        cls,
        data: Any = None,
        mime_type: str = "",
        content_id: Absential[str] = absent,
        *,
        location: Absential[Location | str] = absent,
    ) -> Any:
        name = cls.__name__.removesuffix("Class")
        payload = _check_payload(name, data, content_id, location)
        # A location's type may be unknown; bytes must say what they are.
        if mime_type or not isinstance(payload, Location):
            _check_mime(name, mime_type, lambda mime: mime.startswith(f"{cls.family}/"), cls.family)
        return maker(cls)(payload, mime_type)

    @property
    def data(self) -> bytes:
        """The bytes, decoded or loaded if they have to be."""
        return payload_bytes(self.payload)

    @property
    def location(self) -> Absential[Location]:
        """Where the bytes lie, when they are not here."""
        return self.payload if isinstance(self.payload, Location) else absent

    @property
    def is_hydrated(self) -> bool:
        """Whether the bytes are here, or need no loading."""
        return isinstance(self.payload, (bytes, Base64, Location))

    @property
    def content_id(self) -> Absential[str]:
        """The sha256 id of the bytes; absent for what lies elsewhere."""
        if isinstance(self.payload, Location):
            return absent
        if isinstance(self.payload, (bytes, Base64)):
            return content_id_of(self.data)
        return self.payload.content_id

    def _facts(self) -> tuple[Any, ...]:
        return (self.mime_type,)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._facts() == other._facts() and _same_held(self.payload, other.payload)

    def __hash__(self) -> int:
        return hash((self.kind, *self._facts()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), *(getattr(self, name) for name in self.__struct_fields__))


class ImageContentClass(BinaryContentStruct, frozen=True, gc=False, eq=False):
    """An image."""

    kind = "image"
    family = "image"


class AudioContentClass(BinaryContentStruct, frozen=True, gc=False, eq=False):
    """A sound recording."""

    kind = "audio"
    family = "audio"


class VideoContentClass(BinaryContentStruct, frozen=True, gc=False, eq=False):
    """A moving picture."""

    kind = "video"
    family = "video"


class FileContentClass(BinaryContentStruct, frozen=True, gc=False, eq=False):
    """A file such as a PDF: bytes, a location, plain text (``text/plain``) or a list of chunks.

    ``name`` is its file name or title, ``context`` a note for the model, ``citable`` whether the model may cite it.
    """

    kind = "file"
    family = ""

    name: str | None = None
    context: str | None = None
    citable: bool | None = None
    chunks: tuple[Any, ...] = ()

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - a document has this many facts
            self,
            data: bytes | Base64 | Location | Deferred | None = None,
            mime_type: str = "",
            content_id: Absential[str] = absent,
            *,
            location: Absential[Location | str] = absent,
            name: str | None = None,
            context: str | None = None,
            citable: bool | None = None,
            chunks: Iterable[Content] = (),
        ) -> None: ...

    @classmethod
    def _make(  # noqa: PLR0913 - a document has this many facts
        cls,
        data: Any = None,
        mime_type: str = "",
        content_id: Absential[str] = absent,
        *,
        location: Absential[Location | str] = absent,
        name: str | None = None,
        context: str | None = None,
        citable: bool | None = None,
        chunks: Iterable[Content] = (),
    ) -> FileContentClass:
        parts = tuple(chunks)
        if parts and data is None and location is absent:
            data = b""
        payload = _check_payload("FileContent", data, content_id, location)
        if mime_type or not (isinstance(payload, Location) or parts):
            _check_mime("FileContent", mime_type, lambda mime: True, "file")
        for where, text in (("name", name), ("context", context)):
            if text is not None:
                check_text(f"FileContent.{where}", text)
        return maker(cls)(payload, mime_type, name, context, citable, parts)  # type: ignore[no-any-return]

    def _facts(self) -> tuple[Any, ...]:
        return (self.mime_type, self.name, self.context, self.citable, self.chunks)


class ReasoningContentClass(Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """What the model thought: raw text, a summary, or only a payload that its origin can read.

    ``signature`` and ``encrypted`` are bound to ``origin``; they go back there to the letter and nowhere else.
    """

    kind: ClassVar[str] = "reasoning"
    mime_type: ClassVar[str] = PLAIN

    texts: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()
    signature: str | None = None
    encrypted: str | None = None
    origin: Origin | None = None

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - one for each fact a wire may give
            self,
            text: str | Iterable[str] = (),
            summary: str | Iterable[str] = (),
            signature: str | None = None,
            encrypted: str | None = None,
            origin: Origin | None = None,
        ) -> None: ...

    @classmethod
    def _make(  # noqa: PLR0913 - one for each fact a wire may give
        cls,
        text: str | Iterable[str] = (),
        summary: str | Iterable[str] = (),
        signature: str | None = None,
        encrypted: str | None = None,
        origin: Origin | None = None,
    ) -> ReasoningContentClass:
        texts = (text,) if isinstance(text, str) else tuple(text)
        summaries = (summary,) if isinstance(summary, str) else tuple(summary)
        for item in (*texts, *summaries):
            check_text("ReasoningContent.text", item)
        if (signature is not None or encrypted is not None) and origin is None:
            raise MessageError(
                "ReasoningContent.origin", "a signature needs the origin that made it"
            )
        return maker(cls)(texts, summaries, signature, encrypted, origin)  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The raw thought, or its summary where only that is known."""
        return "".join(self.texts) or "\n\n".join(self.summaries)


class RefusalContentClass(Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """The model declined, in these words."""

    kind: ClassVar[str] = "refusal"
    mime_type: ClassVar[str] = PLAIN

    text: str

    if TYPE_CHECKING:

        def __init__(self, text: str) -> None: ...

    @classmethod
    def _make(cls, text: str) -> RefusalContentClass:
        return maker(cls)(check_text("RefusalContent.text", text))  # type: ignore[no-any-return]


class DataContentClass(Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """A JSON value; ``json`` is its exact text."""

    kind: ClassVar[str] = "data"
    mime_type: ClassVar[str] = "application/json"

    json: str

    if TYPE_CHECKING:

        def __init__(self, value: Any = None, *, json: str | None = None) -> None: ...

    @classmethod
    def _make(cls, value: Any = None, *, json: str | None = None) -> DataContentClass:
        if json is None:
            json = write_json(value, "DataContent.value")
        else:
            _check_json("DataContent.json", json)
        return maker(cls)(json)  # type: ignore[no-any-return]

    @property
    def value(self) -> Any:
        """The value, deeply immutable."""
        return read_json(self.json)


class OpaqueContentClass(Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """A block that only its own dialect understands, kept to the letter (``json``)."""

    kind: ClassVar[str] = "opaque"
    mime_type: ClassVar[str] = "application/json"

    dialect: str
    tag: str
    json: str

    if TYPE_CHECKING:

        def __init__(self, dialect: str, tag: str, json: str) -> None: ...

    @classmethod
    def _make(cls, dialect: str, tag: str, json: str) -> OpaqueContentClass:
        check_name("OpaqueContent.dialect", dialect)
        _check_json("OpaqueContent.json", json)
        return maker(cls)(dialect, check_text("OpaqueContent.tag", tag), json)  # type: ignore[no-any-return]

    @property
    def value(self) -> Any:
        """The block, deeply immutable."""
        return read_json(self.json)


class PartsContentClass(Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """Several contents that are one payload: a tool result of text and images."""

    kind: ClassVar[str] = "parts"
    mime_type: ClassVar[str] = "multipart/mixed"

    parts: tuple[Any, ...]

    if TYPE_CHECKING:

        def __init__(self, parts: Iterable[Content]) -> None: ...

    @classmethod
    def _make(cls, parts: Iterable[Content]) -> PartsContentClass:
        held = tuple(parts)
        for index, part in enumerate(held):
            if not is_content(part) or isinstance(part, PartsContentClass):
                raise MessageError(
                    f"PartsContent.parts[{index}]", f"{type(part).__name__} is not a single content"
                )
        return maker(cls)(held)  # type: ignore[no-any-return]


AnyContent: TypeAlias = Union[  # noqa: UP007 - the closed set that every dialect must match
    TextualContentClass,
    ImageContentClass,
    AudioContentClass,
    VideoContentClass,
    FileContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    DataContentClass,
    OpaqueContentClass,
    PartsContentClass,
]
CONTENT_CLASSES: tuple[type[Any], ...] = AnyContent.__args__  # type: ignore[attr-defined]

new_text = maker(TextualContentClass)
new_image = maker(ImageContentClass)
new_audio = maker(AudioContentClass)
new_video = maker(VideoContentClass)
new_file = maker(FileContentClass)
new_reasoning = maker(ReasoningContentClass)
new_refusal = maker(RefusalContentClass)
new_data = maker(DataContentClass)
new_opaque = maker(OpaqueContentClass)
new_parts = maker(PartsContentClass)


def is_content(value: object) -> bool:
    """Whether a value is one of our contents."""
    return isinstance(value, CONTENT_CLASSES)


def payload_bytes(payload: Payload) -> bytes:
    """The bytes of a payload; MessageError for what lies elsewhere."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, Base64):
        return payload.data
    if isinstance(payload, Location):
        raise MessageError("data", f"the bytes lie at {payload.kind} {payload.value!r}, not here")
    return payload.load()


def _check_payload(
    name: str, data: Any, content_id: Absential[str], location: Absential[Location | str]
) -> Any:
    if location is not absent:
        if data is not None:
            raise MessageError(f"{name}.location", "give data or a location, not both")
        return location if isinstance(location, Location) else Location("url", str(location))
    known = None if content_id is absent else check_content_id(f"{name}.content_id", content_id)
    if data is None or (data == b"" and known is not None and known != content_id_of(b"")):
        if known is None:
            raise MessageError(f"{name}.data", "nothing given: data, a location or a content_id")
        return NotHydrated(known)
    if isinstance(data, (bytearray, memoryview)):
        data = bytes(data)
    if not isinstance(data, (bytes, Base64, Location, Deferred)):
        raise MessageError(f"{name}.data", f"expected bytes, got {type(data).__name__}")
    if known is not None and isinstance(data, (bytes, Base64)):
        check_match(f"{name}.content_id", known, payload_bytes(data))
    return data


def _check_mime(name: str, mime_type: object, fits: Any, family: str) -> None:
    text = check_text(f"{name}.mime_type", mime_type)
    main = text.partition(";")[0].strip().lower()
    kind, slash, subtype = main.partition("/")
    if not (kind and slash and subtype):
        raise MessageError(f"{name}.mime_type", f"not a MIME type: {text!r}")
    if not fits(main):
        raise MessageError(
            f"{name}.mime_type", f"{text!r} contradicts the class: expected {family}"
        )


def _is_textual(mime: str) -> bool:
    kind, _, subtype = mime.partition("/")
    return kind == "text" or (kind == "application" and subtype.split("+")[-1] in _TEXTUAL_SUBTYPES)


def _check_json(where: str, text: str) -> None:
    try:
        decode_json(check_text(where, text))
    except ValueError as error:
        raise MessageError(where, f"not JSON: {error}") from None


def _same_held(one: Any, other: Any) -> bool:
    """Whether two held payloads are the same content, wherever and however it is kept."""
    if type(one) is type(other) and one == other:
        return True
    if isinstance(one, Location) or isinstance(other, Location):
        return False
    return _held_id(one) == _held_id(other)


def _held_id(held: Any) -> object:
    if isinstance(held, str):
        return content_id_of(held.encode())
    if isinstance(held, bytes):
        return content_id_of(held)
    if isinstance(held, Base64):
        return content_id_of(held.data) if held.is_readable else held.text
    return held.content_id


def _rebuild(cls: Any, *fields: Any) -> Any:
    return maker(cls)(*fields)
