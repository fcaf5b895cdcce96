"""The payload of binary content: bytes, base64 text, content in a store, or a location elsewhere.

A payload is one of ``bytes``, ``Base64`` (decoded only on access), ``Deferred`` (loaded from a store) and ``Location``
(a URL or a provider's file id, which is never fetched here).
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union, runtime_checkable

from msgspec import Struct
from msgspec.structs import force_setattr

from cannery.errors import ContentNotFoundError, MessageError
from cannery.messages import digests
from cannery.messages.absence import Absential, absent
from cannery.messages.checked import CheckedMeta, check_name, check_text, maker, rebuild

_CONTENT_ID = re.compile(r"sha256:[0-9a-f]{64}")
_ELIDED_ID = r"sha256:[0-9a-f]*(?:\.\.\.|…)"  # compiled on first use, which is rare
_NOTHING = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_URL_SAFE = str.maketrans("-_", "+/")
_NOT_BASE64 = r"[^A-Za-z0-9+/]"  # the same
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# How many characters distinguish base64 from other text; larger data is not scanned whole.
_CLOSELY = 4_000


class Base64(Struct, frozen=True, gc=False, eq=False):
    """Base64 text in its original form: either alphabet, with or without padding or line breaks."""

    text: str
    # The result of ``standard``.
    _standard: Absential[str | None] = absent

    @property
    def standard(self) -> str | None:
        """The text in the standard alphabet with padding, computed once; None if it is not base64."""
        if self._standard is absent:
            force_setattr(self, "_standard", self._found())
        return self._standard  # type: ignore[return-value]

    def _found(self) -> str | None:
        if _is_standard(self.text):
            return self.text
        data = self.read()
        return None if data is None else binascii.b2a_base64(data, newline=False).decode()

    def head(self, length: int) -> str:
        """The first characters of the text, without reading the rest."""
        return self.text[:length]

    def read(self) -> bytes | None:
        """The decoded bytes; None if the text is not base64."""
        text = self.text
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except (binascii.Error, ValueError):
            pass
        plain = "".join(text.split()).translate(_URL_SAFE).rstrip("=")
        if re.search(_NOT_BASE64, plain) or len(plain) % 4 == 1:
            return None
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4))

    @property
    def data(self) -> bytes:
        """The decoded bytes; MessageError if the text is not base64."""
        found = self.read()
        if found is None:
            raise MessageError("data", "not base64")
        return found

    @property
    def is_readable(self) -> bool:
        """Whether the text can be decoded."""
        return self.read() is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Base64):
            return NotImplemented
        if self.text == other.text:
            return True
        found = self.read()
        return found is not None and found == other.read()

    def __hash__(self) -> int:
        found = self.read()
        return hash(self.text if found is None else found)

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 64 else f"{self.text[:48]}…"
        return f"Base64({text!r}, {len(self.text)} characters)"


def _is_standard(text: str) -> bool:
    """Whether a text passes as base64 in the standard alphabet with padding.

    Of a long text only the beginning and the end are checked: scanning all of it costs more than sending it.
    """
    if len(text) % 4 or not text.isascii() or "-" in text or "_" in text or "\n" in text:
        return False
    end = text[-4:].rstrip("=")
    closely = text[: min(_CLOSELY, len(text) - 4)] + end
    return not text or (len(end) > 1 and not closely.encode().translate(None, _ALPHABET))


class Location(Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """Bytes elsewhere: a ``url`` that anyone may fetch, or one provider's ``file`` id."""

    kind: str
    value: str

    if TYPE_CHECKING:

        def __init__(self, kind: str, value: str) -> None: ...

    @classmethod
    def _make(cls, kind: str, value: str) -> Location:
        if kind not in ("url", "file"):
            raise MessageError("Location.kind", f"must be 'url' or 'file', got {kind!r}")
        return maker(cls)(kind, check_name("Location.value", value))  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (Location, self.kind, self.value)


new_location = maker(Location)


@runtime_checkable
class Deferred(Protocol):
    """Content in a store that is loaded on access."""

    @property
    def content_id(self) -> str:
        """``sha256:`` and 64 hex digits."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def load(self) -> bytes:
        """The bytes; raises a StorageError or ContentNotFoundError if they cannot be loaded."""


class NotHydrated(Struct, frozen=True, gc=False):
    """Content of which only the id is known and which cannot be loaded."""

    content_id: str
    size: int = -1

    def load(self) -> bytes:
        """Always refused: a store has to hydrate it first."""
        raise ContentNotFoundError(self.content_id, "is not loaded; hydrate it from a store first")


Payload: TypeAlias = Union[bytes, Base64, Location, Deferred]  # noqa: UP007 - a protocol takes part


def content_id_of(data: bytes) -> str:
    """The id of content: sha256 of its bytes."""
    return "sha256:" + digests.sha256(data).hexdigest()


def check_content_id(where: str, value: object) -> str | None:
    """A well-formed content id, or None for an elided one, as printed (``sha256:ab12...``)."""
    text = check_text(where, value)
    if _CONTENT_ID.fullmatch(text):
        return text
    if re.fullmatch(_ELIDED_ID, text):
        return None
    raise MessageError(where, f"not 'sha256:' and 64 lower-case hex digits: {text[:80]!r}")


def check_match(where: str, content_id: str, data: bytes) -> None:
    """Refuse an id that is not the hash of the data."""
    actual = content_id_of(data)
    if actual != content_id:
        raise MessageError(where, f"{content_id} does not match the data, which is {actual}")


def payload_bytes(payload: Payload) -> bytes:
    """The bytes of a payload; MessageError for a location."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, Base64):
        return payload.data
    if isinstance(payload, Location):
        raise MessageError("data", f"the bytes lie at {payload.kind} {payload.value!r}, not here")
    return payload.load()


def held_id(held: Any) -> object:
    """The identity of held text or a payload, in whatever form it is held; loads nothing."""
    if isinstance(held, str):
        return content_id_of(_encoded(held))
    if isinstance(held, bytes):
        return content_id_of(held)
    if isinstance(held, Location):
        return held
    if isinstance(held, Base64):
        found = held.read()
        return ("not base64", held.text) if found is None else content_id_of(found)
    return held.content_id


def same_held(one: Any, other: Any) -> bool:
    """Whether two held texts or payloads are the same content."""
    if type(one) is type(other) and isinstance(one, (str, bytes, Base64, Location)):
        return bool(one == other)
    return held_id(one) == held_id(other)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def check_payload(
    name: str, data: Any, content_id: Absential[str], location: Absential[Location | str]
) -> Payload:
    """The payload for a constructor's arguments; refuses contradictory ones."""
    known = None if content_id is absent else check_content_id(f"{name}.content_id", content_id)
    if location is not absent:
        if data is not None:
            raise MessageError(f"{name}.location", "give data or a location, not both")
        data = location if isinstance(location, Location) else Location("url", location)
    if data is None or (data == b"" and content_id is not absent and known != _NOTHING):
        if content_id is absent:
            raise MessageError(f"{name}.data", "nothing given: data, a location or a content_id")
        return NotHydrated(known or str(content_id))
    if isinstance(data, (bytearray, memoryview)):
        data = bytes(data)
    if not isinstance(data, (bytes, Base64, Location, Deferred)):
        raise MessageError(f"{name}.data", f"expected bytes, got {type(data).__name__}")
    _check_payload_id(name, data, content_id, known)
    return data


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _check_payload_id(
    name: str, data: Payload, content_id: Absential[str], known: str | None
) -> None:
    where = f"{name}.content_id"
    if isinstance(data, Base64) and not (_is_text(data.text) and data.is_readable):
        raise MessageError(f"{name}.data", "not base64")
    if isinstance(data, (bytes, Base64)):
        if known is not None:
            check_match(where, known, payload_bytes(data))
    elif isinstance(data, Location):
        if content_id is not absent:
            raise MessageError(where, "cannot be checked for content with a location")
    else:
        own = check_content_id(f"{name}.data.content_id", data.content_id)
        if known is not None and known != own:
            raise MessageError(where, f"{known} is not that of the data, {own}")
