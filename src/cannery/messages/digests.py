"""SHA-256, imported on first use: translation alone does not need OpenSSL, which is slow to load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hashlib import sha256

__all__ = ["sha256"]


def __getattr__(name: str) -> Any:
    if name != "sha256":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hashlib import sha256

    globals()[name] = sha256
    return sha256
