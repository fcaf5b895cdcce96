"""Where the bytes of binary content are: here, here as base64 text, in a store, or somewhere else.

A payload is one of ``bytes``, ``Base64`` (decoded only when somebody looks), ``Deferred`` (a store loads it) and
``Location`` (a URL or a provider's file id, which nobody here fetches).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Protocol, TypeAlias, Union, runtime_checkable

from msgspec import Struct

from cannery.errors import ContentNotFoundError, MessageError
from cannery.messages.checked import CheckedMeta, check_name, check_text, maker

_CONTENT_ID = re.compile(r"sha256:[0-9a-f]{64}")
_ELIDED_ID = re.compile(r"sha256:[0-9a-f]*(?:\.\.\.|…)")
_URL_SAFE = str.maketrans("-_", "+/")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


class Base64(Struct, frozen=True, gc=False, eq=False):
    """Base64 text as it came, either alphabet, with or without padding or line breaks."""

    text: str

    @property
    def data(self) -> bytes:
        """The decoded bytes; MessageError if the text is not base64."""
        text = self.text
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            pass
        plain = "".join(text.split()).translate(_URL_SAFE).rstrip("=")
        if _NOT_BASE64.search(plain) or len(plain) % 4 == 1:
            raise MessageError("data", "not base64")
        return base64.b64decode(plain + "=" * (-len(plain) % 4))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Base64):
            return NotImplemented
        return self.text == other.text or (self.is_readable and self.data == other.data)

    def __hash__(self) -> int:
        return hash(Base64)

    @property
    def is_readable(self) -> bool:
        """Whether the text decodes."""
        try:
            self.data  # noqa: B018 - decoding is the test
        except MessageError:
            return False
        return True


class Location(Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """Bytes that lie elsewhere: a ``url`` anyone may fetch, or a ``file`` id in one provider's account."""

    kind: str
    value: str

    if TYPE_CHECKING:

        def __init__(self, kind: str, value: str) -> None: ...

    @classmethod
    def _make(cls, kind: str, value: str) -> Location:
        if kind not in {"url", "file"}:
            raise MessageError("Location.kind", f"must be 'url' or 'file', got {kind!r}")
        return maker(cls)(kind, check_name("Location.value", value))  # type: ignore[no-any-return]


@runtime_checkable
class Deferred(Protocol):
    """Content in a store that is loaded when it is looked at."""

    @property
    def content_id(self) -> str:
        """``sha256:`` and 64 hex digits."""

    @property
    def size(self) -> int:
        """How many bytes it has."""

    def load(self) -> bytes:
        """The bytes; raises a StorageError or ContentNotFoundError when they cannot be had."""


class NotHydrated(Struct, frozen=True, gc=False):
    """Content known only by its id: nobody here can load it."""

    content_id: str
    size: int = -1

    def load(self) -> bytes:
        """Always refused: a store has to hydrate it first."""
        raise ContentNotFoundError(self.content_id, "is not loaded; hydrate it from a store first")


Payload: TypeAlias = Union[bytes, Base64, Location, Deferred]  # noqa: UP007 - a protocol takes part


def content_id_of(data: bytes) -> str:
    """The id of content: sha256 of its bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def check_content_id(where: str, value: object) -> str | None:
    """A well-formed content id, or None for an elided one as documentation prints it (``sha256:ab12...``)."""
    text = check_text(where, value)
    if _CONTENT_ID.fullmatch(text):
        return text
    if _ELIDED_ID.fullmatch(text):
        return None
    raise MessageError(where, f"not 'sha256:' and 64 lower-case hex digits: {text[:80]!r}")


def check_match(where: str, content_id: str, data: bytes) -> None:
    """Refuse an id that is not the hash of the data."""
    actual = content_id_of(data)
    if actual != content_id:
        raise MessageError(where, f"{content_id} does not match the data, which is {actual}")
