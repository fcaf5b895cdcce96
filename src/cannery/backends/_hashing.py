"""How the digest of content is derived from what is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol


class Hash(Protocol):
    """What is known of content that comes in pieces; as in ``hashlib``."""

    def update(self, data: bytes, /) -> None:
        """Go on with more of it."""

    def digest(self) -> bytes:
        """The 32 bytes by which it is found."""


class Hashing:
    """How the digest of content is derived from what is stored: sha256, unless ``kind`` is set to another.

    Content that is encrypted is not found by its own hash (``_encryption``).
    """

    def __init__(self) -> None:
        self.kind: Callable[[bytes], Hash] = hashlib.sha256

    def __call__(self, data: bytes = b"") -> Hash:
        return self.kind(data)
