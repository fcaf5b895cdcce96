"""The static files of pages: style sheet, script and icon, each addressed by the digest of its bytes."""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files

TYPES = {
    "viewer.css": "text/css; charset=utf-8",
    "viewer.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@functools.cache
def read_asset(name: str) -> bytes:
    """Read a file; raise KeyError if there is no such file."""
    if name not in TYPES:
        raise KeyError(name)
    return files(__name__).joinpath(name).read_bytes()


@functools.cache
def asset_address(name: str) -> str:
    """The address of a file, which contains its version."""
    version = hashlib.sha256(read_asset(name)).hexdigest()[:12]
    return f"/ui/assets/{name}?v={version}"
