"""The immutable classes of content.

Text, image, audio, video and file hold what the wires have; reasoning has the origin it is bound to; data is JSON; an
opaque block is an unknown block, kept exactly; parts are the several contents of one result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, Union

from msgspec import Struct

from cannery.errors import DamageError, MessageError
from cannery.messages.absence import Absential, absent
from cannery.messages.checked import (
    CheckedMeta,
    check_facts,
    check_flag,
    check_instance,
    check_items,
    check_name,
    check_text,
    maker,
    rebuild,
)
from cannery.messages.immutable import freeze
from cannery.messages.json_text import read_json, write_json
from cannery.messages.payload import (
    Base64,
    Deferred,
    Location,
    NotHydrated,
    Payload,
    check_content_id,
    check_match,
    check_payload,
    content_id_of,
    held_id,
    same_held,
)
from cannery.messages.payload import payload_bytes as payload_bytes  # noqa: PLC0414 - public here
from cannery.messages.protocols import (
    AudioContent,
    BinaryContent,
    Content,
    ImageContent,
    TextualContent,
    VideoContent,
    implement,
)

PLAIN = "text/plain"
_TEXTUAL_SUBTYPES = ("json", "xml", "yaml", "javascript", "sql", "csv", "markdown", "toml")
_MIME = re.compile(r"(?a:[\w!#$&^.+-]+)/(?a:[\w!#$&^.+-]+)[ \t]*(?:;[^\r\n]*)?")


class Origin(Struct, frozen=True, gc=False):
    """The producer of a signature or an encrypted payload; only the producer can read it."""

    dialect: str
    model: str | None = None


class Citation(Struct, frozen=True, gc=False):
    """The source of a text; ``raw`` is the citation as its dialect wrote it (JSON).

    ``cited_text`` is what the source says; ``start`` and ``end`` are the characters of the text that it supports.
    """

    dialect: str
    raw: str
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None


class ContentStruct(Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """The base of all contents; copying one returns itself."""

    kind: ClassVar[str]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __replace__(self, **changes: Any) -> Any:
        raise TypeError(
            f"make a new {type(self).__name__} instead; {sorted(changes)} stand for all"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), *(getattr(self, name) for name in self.__struct_fields__))


class TextualContentClass(ContentStruct, frozen=True, gc=False, eq=False):
    """Text; ``citations`` are its sources, ``content_id`` is set if a store keeps the text."""

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
        mime_type = _check_mime("TextualContent", mime_type, _is_textual, "text")
        cited = check_items("TextualContent.citations", citations)
        for index, citation in enumerate(cited):
            where = f"TextualContent.citations[{index}]"
            check_facts(where, check_instance(where, citation, Citation), numbers=("start", "end"))
        return maker(cls)(held, mime_type, cited)  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text, loaded if necessary; ContentNotFoundError if it cannot be."""
        held = self._text
        if isinstance(held, str):
            return held
        try:
            return held.load().decode()
        except UnicodeDecodeError as error:
            raise DamageError(f"content {held.content_id}", f"not UTF-8 text: {error}") from None

    @property
    def is_hydrated(self) -> bool:
        """Whether the text is loaded, and not only its id known."""
        return type(self._text) is str

    @property
    def content_id(self) -> Absential[str]:
        """The id of text that is not loaded; absent for loaded text."""
        return absent if isinstance(self._text, str) else self._text.content_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TextualContentClass):
            return NotImplemented
        return (
            same_held(self._text, other._text)
            and self.mime_type == other.mime_type
            and self.citations == other.citations
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.mime_type, held_id(self._text)))

    def __repr__(self) -> str:
        text = repr(self._text)
        more = "" if self.mime_type == PLAIN else f", mime_type={self.mime_type!r}"
        more += f", citations={self.citations!r}" if self.citations else ""
        return f"TextualContentClass(text={text}{more})"


class BinaryContentStruct(ContentStruct, frozen=True, gc=False, eq=False):
    """The base of image, audio, video and file: a payload and its MIME type."""

    family: ClassVar[str]

    payload: Payload
    mime_type: str

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
        payload = check_payload(name, data, content_id, location)
        # A location's type may be unknown; bytes must have a type.
        if mime_type or not isinstance(payload, Location):
            mime_type = _check_mime(name, mime_type, _belongs_to(cls.family), cls.family)
        return maker(cls)(payload, mime_type)

    @property
    def data(self) -> bytes:
        """The bytes, decoded or loaded if necessary."""
        return payload_bytes(self.payload)

    @property
    def location(self) -> Absential[Location]:
        """The location of the bytes, if they are elsewhere."""
        return self.payload if isinstance(self.payload, Location) else absent

    @property
    def is_hydrated(self) -> bool:
        """Whether the bytes are loaded, or need no loading."""
        return isinstance(self.payload, (bytes, Base64, Location))

    @property
    def content_id(self) -> Absential[str]:
        """The sha256 id of the bytes; absent for a location."""
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
        return self._facts() == other._facts() and same_held(self.payload, other.payload)

    def __hash__(self) -> int:
        return hash((self.kind, *self._facts(), held_id(self.payload)))

    def __repr__(self) -> str:
        payload = self.payload
        shown = f"<{len(payload)} bytes>" if isinstance(payload, bytes) else repr(payload)
        return f"{type(self).__name__}(data={shown}, mime_type={self.mime_type!r})"


class ImageContentClass(BinaryContentStruct, frozen=True, gc=False, eq=False):
    """An image."""

    kind = "image"
    family = "image"

    if TYPE_CHECKING:  # otherwise the type checker takes the fields for the arguments

        def __init__(
            self,
            data: bytes | Payload | None = None,
            mime_type: str = "",
            content_id: Absential[str] = absent,
            *,
            location: Absential[Location | str] = absent,
        ) -> None: ...


class AudioContentClass(BinaryContentStruct, frozen=True, gc=False, eq=False):
    """A sound recording."""

    kind = "audio"
    family = "audio"

    if TYPE_CHECKING:  # otherwise the type checker takes the fields for the arguments

        def __init__(
            self,
            data: bytes | Payload | None = None,
            mime_type: str = "",
            content_id: Absential[str] = absent,
            *,
            location: Absential[Location | str] = absent,
        ) -> None: ...


class VideoContentClass(BinaryContentStruct, frozen=True, gc=False, eq=False):
    """A video."""

    kind = "video"
    family = "video"

    if TYPE_CHECKING:  # otherwise the type checker takes the fields for the arguments

        def __init__(
            self,
            data: bytes | Payload | None = None,
            mime_type: str = "",
            content_id: Absential[str] = absent,
            *,
            location: Absential[Location | str] = absent,
        ) -> None: ...


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

        def __init__(
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
    def _make(
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
        parts = _check_parts("FileContent.chunks", chunks)
        if parts and data is None and location is absent:
            data = b""
        payload = check_payload("FileContent", data, content_id, location)
        if mime_type or not (isinstance(payload, Location) or parts):
            mime_type = _check_mime("FileContent", mime_type, lambda _: True, "file")
        name = None if name is None else check_text("FileContent.name", name)
        context = None if context is None else check_text("FileContent.context", context)
        citable = None if citable is None else check_flag("FileContent.citable", citable)
        return maker(cls)(payload, mime_type, name, context, citable, parts)  # type: ignore[no-any-return]

    def _facts(self) -> tuple[Any, ...]:
        return (self.mime_type, self.name, self.context, self.citable, self.chunks)


class ReasoningContentClass(ContentStruct, frozen=True, gc=False):
    """The model's reasoning: raw text, a summary, or only a payload that its origin can read.

    ``signature`` and ``encrypted`` are bound to ``origin``; they are sent back there unchanged, and to no other
    provider.
    """

    kind: ClassVar[str] = "reasoning"
    mime_type: ClassVar[str] = PLAIN

    texts: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()
    signature: str | None = None
    encrypted: str | None = None
    origin: Origin | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            text: str | Iterable[str] = (),
            summary: str | Iterable[str] = (),
            signature: str | None = None,
            encrypted: str | None = None,
            origin: Origin | None = None,
        ) -> None: ...

    @classmethod
    def _make(
        cls,
        text: str | Iterable[str] = (),
        summary: str | Iterable[str] = (),
        signature: str | None = None,
        encrypted: str | None = None,
        origin: Origin | None = None,
    ) -> ReasoningContentClass:
        texts = _check_texts("ReasoningContent.text", text)
        summaries = _check_texts("ReasoningContent.summary", summary)
        if signature is not None:
            signature = check_text("ReasoningContent.signature", signature)
        if encrypted is not None:
            encrypted = check_text("ReasoningContent.encrypted", encrypted)
        if origin is not None:
            where = "ReasoningContent.origin"
            check_facts(where, check_instance(where, origin, Origin))
        if (signature is not None or encrypted is not None) and origin is None:
            raise MessageError(
                "ReasoningContent.origin", "a signature needs the origin that made it"
            )
        return maker(cls)(texts, summaries, signature, encrypted, origin)  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The raw reasoning, or its summary if only that is known."""
        return "".join(self.texts) or "\n\n".join(self.summaries)

    @property
    def shown(self) -> str:
        """All text that a reader may see: the raw reasoning, then each summary after a blank line."""
        return "\n\n".join(words for words in ("".join(self.texts), *self.summaries) if words)


class RefusalContentClass(ContentStruct, frozen=True, gc=False):
    """A refusal of the model, with its text."""

    kind: ClassVar[str] = "refusal"
    mime_type: ClassVar[str] = PLAIN

    text: str

    if TYPE_CHECKING:

        def __init__(self, text: str) -> None: ...

    @classmethod
    def _make(cls, text: str) -> RefusalContentClass:
        return maker(cls)(check_text("RefusalContent.text", text))  # type: ignore[no-any-return]


class DataContentClass(ContentStruct, frozen=True, gc=False):
    """A JSON value; ``json`` is its exact text."""

    kind: ClassVar[str] = "data"
    mime_type: ClassVar[str] = "application/json"

    json: str

    if TYPE_CHECKING:

        def __init__(self, value: Any = None, *, json: str | None = None) -> None: ...

    @classmethod
    def _make(cls, value: Any = None, *, json: str | None = None) -> DataContentClass:
        if json is None:
            json = write_json(freeze(value, "DataContent.value"), "DataContent.value")
        else:
            json = _check_json("DataContent.json", json)
        return maker(cls)(json)  # type: ignore[no-any-return]

    @property
    def value(self) -> Any:
        """The value, deeply immutable."""
        return read_json(self.json)


class OpaqueContentClass(ContentStruct, frozen=True, gc=False):
    """A block that only its own dialect understands, kept exactly (``json``)."""

    kind: ClassVar[str] = "opaque"
    mime_type: ClassVar[str] = "application/json"

    dialect: str
    tag: str
    json: str

    if TYPE_CHECKING:

        def __init__(self, dialect: str, tag: str, json: str) -> None: ...

    @classmethod
    def _make(cls, dialect: str, tag: str, json: str) -> OpaqueContentClass:
        dialect = check_name("OpaqueContent.dialect", dialect)
        json = _check_json("OpaqueContent.json", json)
        return maker(cls)(dialect, check_text("OpaqueContent.tag", tag), json)  # type: ignore[no-any-return]

    @property
    def value(self) -> Any:
        """The block, deeply immutable."""
        return read_json(self.json)


class PartsContentClass(ContentStruct, frozen=True, gc=False):
    """Several contents that are one payload: a tool result of text and images."""

    kind: ClassVar[str] = "parts"
    mime_type: ClassVar[str] = "multipart/mixed"

    parts: tuple[Any, ...]

    if TYPE_CHECKING:

        def __init__(self, parts: Iterable[Content]) -> None: ...

    @classmethod
    def _make(cls, parts: Iterable[Content]) -> PartsContentClass:
        return maker(cls)(_check_parts("PartsContent.parts", parts))  # type: ignore[no-any-return]


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
_BINARY = (ImageContentClass, AudioContentClass, VideoContentClass, FileContentClass)

implement(Content, *CONTENT_CLASSES)
implement(TextualContent, TextualContentClass)
implement(BinaryContent, *_BINARY)
implement(ImageContent, ImageContentClass)
implement(AudioContent, AudioContentClass)
implement(VideoContent, VideoContentClass)

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
    """Whether a value is a content of our classes."""
    return isinstance(value, CONTENT_CLASSES)


def _check_mime(name: str, mime_type: object, fits: Callable[[str], bool], family: str) -> str:
    text = check_text(f"{name}.mime_type", mime_type)
    if not _MIME.fullmatch(text):
        raise MessageError(f"{name}.mime_type", f"not a MIME type: {text!r}")
    if not fits(text.partition(";")[0].strip().lower()):
        raise MessageError(
            f"{name}.mime_type", f"{text!r} contradicts the class: expected {family}"
        )
    return text


def _belongs_to(family: str) -> Callable[[str], bool]:
    return lambda mime: mime.startswith(f"{family}/")


def _is_textual(mime: str) -> bool:
    kind, _, subtype = mime.partition("/")
    return kind == "text" or (kind == "application" and subtype.split("+")[-1] in _TEXTUAL_SUBTYPES)


def _check_json(where: str, text: object) -> str:
    plain = check_text(where, text)
    try:
        read_json(plain)
    except ValueError as error:
        raise MessageError(where, f"not JSON: {error}") from None
    return plain


def _check_texts(where: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (check_text(where, value),) if value else ()
    texts = check_items(where, value)
    return tuple(check_text(f"{where}[{index}]", text) for index, text in enumerate(texts))


def _check_parts(where: str, value: object) -> tuple[Any, ...]:
    parts = check_items(where, value)
    for index, part in enumerate(parts):
        if not is_content(part) or isinstance(part, PartsContentClass):
            raise MessageError(
                f"{where}[{index}]", f"{type(part).__name__} is not a single content"
            )
    return parts
