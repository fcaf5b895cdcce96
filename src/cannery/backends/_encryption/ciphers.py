"""What the data key of one scope gives: ciphers for lines, metadata, content and notes, and tokens for names.

AES-256-GCM throughout. Every purpose has a key of its own, derived by HKDF-SHA256 from the data key and the identity of
the store. What stands in the clear beside a ciphertext, and where that stands, is authenticated with it.
"""

from __future__ import annotations

import base64
import binascii
import functools
import os
from typing import TypeAlias

from cannery.backends._hashing import keyed
from cannery.errors import ConfigurationError, DamageError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise ConfigurationError(
        "encryption_key", "encryption is not installed: pip install 'cannery[encryption]'"
    ) from None

Cipher: TypeAlias = AESGCM
Changed: TypeAlias = InvalidTag
NONCE = 12
TAG = 16
_TOKEN = 16
_CONVERSATIONS = 4096
CHANGED = "it was changed, or stood in another place"


class ScopeKeys:
    """The keys of one scope."""

    def __init__(self, data_key: bytes, store: bytes) -> None:
        def derived(purpose: str) -> bytes:
            return HKDF(SHA256(), 32, store, f"cannery {purpose}".encode()).derive(data_key)

        self._lines = derived("lines")
        self._metadata = AESGCM(derived("metadata"))
        self._metadata_nonce = derived("metadata nonce")
        self._names = derived("names")
        self._content_ids = derived("content ids")
        self._contents = derived("contents")
        self._notes = AESGCM(derived("notes"))
        self.digests = derived("digests")
        self.line_cipher = functools.lru_cache(_CONVERSATIONS)(self._derive)

    def _derive(self, identifier: str) -> AESGCM:
        """The cipher of a conversation's lines: a key each, so that random nonces suffice for any number of them."""
        return AESGCM(keyed(self._lines, identifier.encode()))

    # Names

    def token(self, kind: str, name: str) -> str:
        """What stands for a name: the same for the same name of a scope; "" for none."""
        if not name:
            return ""
        said = f"{kind}\0{name}".encode(errors="surrogatepass")
        return keyed(self._names, said)[:_TOKEN].hex()

    def content_id(self, digest: bytes) -> bytes:
        """By what the backend below knows content."""
        return keyed(self._content_ids, digest)

    def content_cipher(self, salt: bytes) -> AESGCM:
        """The cipher of one content."""
        return AESGCM(keyed(self._contents, salt))

    # Metadata

    def seal_metadata(self, raw: bytes, identifier: str) -> str:
        """Metadata as text; the same for the same metadata, so that what was read can be required unchanged."""
        place = identifier.encode()
        nonce = keyed(self._metadata_nonce, place + b"\0" + raw)[:NONCE]
        return base64.b64encode(nonce + self._metadata.encrypt(nonce, raw, place)).decode()

    def open_metadata(self, text: str, identifier: str) -> bytes:
        """The metadata; DamageError if it is not what was written there."""
        try:
            return _opened(self._metadata, text, identifier.encode())
        except ValueError as error:
            where = f"conversations/{identifier}/conversation.json"
            raise DamageError(where, f"the metadata cannot be decrypted: {error}") from None

    # Notes

    def seal_note(self, data: bytes, kind: bytes) -> str:
        """Something that is kept beside the store, as text."""
        nonce = os.urandom(NONCE)
        return base64.b64encode(nonce + self._notes.encrypt(nonce, data, kind)).decode()

    def open_note(self, text: str, kind: bytes) -> bytes:
        """What was noted; ValueError if this is not what was written."""
        return _opened(self._notes, text, kind)


def decrypted(cipher: Cipher, nonce: bytes, sealed: bytes, place: bytes) -> bytes:
    """What was encrypted; ValueError if it is not what was written there."""
    try:
        return cipher.decrypt(nonce, sealed, place)
    except (InvalidTag, ValueError):
        raise ValueError(CHANGED) from None


def _opened(cipher: Cipher, text: str, place: bytes) -> bytes:
    sealed = binascii.a2b_base64(text.encode(), strict_mode=True)
    return decrypted(cipher, sealed[:NONCE], sealed[NONCE:], place)


def wrap(data_key: bytes, key: bytes, place: bytes) -> str:
    """A data key under the key of a scope, as text."""
    nonce = os.urandom(NONCE)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, data_key, place)).decode()


def unwrap(text: str, key: bytes, place: bytes) -> bytes | None:
    """The data key, or None if this is not what was written with the key."""
    try:
        return _opened(AESGCM(key), text, place)
    except ValueError:
        return None


def name_of(key: bytes) -> str:
    """A short name of a key that tells nothing of it."""
    return keyed(key, b"cannery key name")[:4].hex()
