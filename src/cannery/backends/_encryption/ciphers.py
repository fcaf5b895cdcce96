"""The ciphers and tokens derived from a scope's data key: for lines, metadata, content, notes and names.

AES-256-GCM throughout. Every purpose has a key of its own, derived by HKDF-SHA256 from the data key and the identity of
the store. The clear fields beside a ciphertext, and its place, are authenticated with it.
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
        """The cipher of a conversation's lines: one key each, so that random nonces suffice for any number of lines."""
        return AESGCM(keyed(self._lines, identifier.encode()))

    # Names

    def token(self, kind: str, name: str) -> str:
        """The token of a name: deterministic within a scope; "" for an empty name."""
        if not name:
            return ""
        said = f"{kind}\0{name}".encode(errors="surrogatepass")
        return keyed(self._names, said)[:_TOKEN].hex()

    def content_id(self, digest: bytes) -> bytes:
        """The id under which the inner backend stores content."""
        return keyed(self._content_ids, digest)

    def content_cipher(self, salt: bytes) -> AESGCM:
        """The cipher of one content."""
        return AESGCM(keyed(self._contents, salt))

    # Metadata

    def seal_metadata(self, raw: bytes, identifier: str) -> str:
        """Metadata as ciphertext; deterministic, so that unchanged metadata can be required."""
        place = identifier.encode()
        nonce = keyed(self._metadata_nonce, place + b"\0" + raw)[:NONCE]
        return base64.b64encode(nonce + self._metadata.encrypt(nonce, raw, place)).decode()

    def open_metadata(self, text: str, identifier: str) -> bytes:
        """The metadata; DamageError if the ciphertext is not authentic."""
        try:
            return _opened(self._metadata, text, identifier.encode())
        except ValueError as error:
            where = f"conversations/{identifier}/conversation.json"
            raise DamageError(where, f"the metadata cannot be decrypted: {error}") from None

    # Notes

    def seal_note(self, data: bytes, kind: bytes) -> str:
        """A note, as ciphertext."""
        nonce = os.urandom(NONCE)
        return base64.b64encode(nonce + self._notes.encrypt(nonce, data, kind)).decode()

    def open_note(self, text: str, kind: bytes) -> bytes:
        """The text of a note; ValueError if the ciphertext is not authentic."""
        return _opened(self._notes, text, kind)


def decrypted(cipher: Cipher, nonce: bytes, sealed: bytes, place: bytes) -> bytes:
    """The plaintext; ValueError if the ciphertext is not authentic."""
    try:
        return cipher.decrypt(nonce, sealed, place)
    except (InvalidTag, ValueError):
        raise ValueError(CHANGED) from None


def _opened(cipher: Cipher, text: str, place: bytes) -> bytes:
    sealed = binascii.a2b_base64(text.encode(), strict_mode=True)
    return decrypted(cipher, sealed[:NONCE], sealed[NONCE:], place)


def wrap(data_key: bytes, key: bytes, place: bytes) -> str:
    """A data key, wrapped with the key of a scope, as text."""
    nonce = os.urandom(NONCE)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, data_key, place)).decode()


def unwrap(text: str, key: bytes, place: bytes) -> bytes | None:
    """The data key, or None if it was not wrapped with this key."""
    try:
        return _opened(AESGCM(key), text, place)
    except ValueError:
        return None


def name_of(key: bytes) -> str:
    """A short name of a key that reveals nothing about it."""
    return keyed(key, b"cannery key name")[:4].hex()
