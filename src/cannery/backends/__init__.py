"""The storage backends: every module here is one, found by the scheme of its URL.

``sqlite:`` is the module ``sqlite``, ``postgresql:`` the module ``postgresql``; a path without a scheme, and ``file:``,
is ``directory``. To add a backend, add a module with a function ``open_backend(location, describe, read_only)``;
``tests/backends`` defines its required behaviour.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from pathlib import Path
from urllib.parse import unquote

from cannery.backends._contract import (
    GRACE,
    VISIBLE,
    Backend,
    Backup,
    Branch,
    Catalogue,
    Change,
    Collection,
    ContentTable,
    Cursor,
    Damage,
    Describe,
    Durability,
    Entry,
    Expected,
    Found,
    Growth,
    Holder,
    Inspection,
    Match,
    Metadata,
    Noted,
    Profile,
    Progress,
    Reading,
    Receipt,
    Selection,
    Span,
    Staged,
    Summary,
    Term,
    check_digest,
    check_identifier,
    check_name,
    is_identifier,
    referred,
    sortable,
)
from cannery.backends._encryption.outside import (
    HOW_TO_SAY,
    MARKER,
    describing,
    is_marker,
    is_reserved,
)
from cannery.backends._encryption.sources import KeySource, parse_source
from cannery.backends._exchanges import ExchangeLog, Note, NotePage
from cannery.backends._hashing import Hashing, keyed
from cannery.backends._keys import Encryption, ScopeKey
from cannery.errors import ConfigurationError

__all__ = [
    "GRACE",
    "VISIBLE",
    "Backend",
    "Backup",
    "Branch",
    "Catalogue",
    "Change",
    "Collection",
    "ContentTable",
    "Cursor",
    "Damage",
    "Describe",
    "Durability",
    "Encryption",
    "Entry",
    "ExchangeLog",
    "Expected",
    "Found",
    "Growth",
    "Holder",
    "Inspection",
    "KeySource",
    "Match",
    "Metadata",
    "Note",
    "NotePage",
    "Noted",
    "Profile",
    "Progress",
    "Reading",
    "Receipt",
    "ScopeKey",
    "Selection",
    "Span",
    "Staged",
    "Summary",
    "Term",
    "backend_names",
    "check_digest",
    "check_identifier",
    "check_name",
    "is_identifier",
    "is_reserved",
    "keyed",
    "locate",
    "open_backend",
    "parse_source",
    "referred",
    "shown",
    "sortable",
]

_ALIASES = {"file": "directory", "postgres": "postgresql"}
# A store on a server is identified by the whole URL.
_ON_SERVERS = {"postgresql"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_TAIL = re.compile("[?#]")
_PASSWORD = re.compile(r"(^\w+://[^:@/]*):[^@/]*(?=@)|([?&]password=)[^&]*")


def backend_names() -> tuple[str, ...]:
    """The schemes that can be opened."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name for name in names if not name.startswith("_")))


def locate(location: str | os.PathLike[str]) -> tuple[str, str]:
    """The backend and the path of a store."""
    try:
        text = os.fsdecode(location)
    except TypeError:
        raise ConfigurationError(repr(location), "a store has a path or a URL") from None
    if "\0" in text:
        raise ConfigurationError(repr(location), "a path or URL holds no NUL character")
    # Only text can be a URL; a path may hold a colon.
    scheme, path = _split(text) if isinstance(location, str) else ("directory", text)
    name = _ALIASES.get(scheme, scheme)
    if name not in backend_names():
        known = ", ".join(backend_names())
        raise ConfigurationError(shown(text), f"no backend {scheme!r}; known: {known}")
    return name, text if name in _ON_SERVERS else path


def shown(location: str) -> str:
    """A path or URL without its password."""
    return _PASSWORD.sub(r"\1\2", location)


def open_backend(
    location: str | os.PathLike[str],
    describe: Describe,
    *,
    read_only: bool = False,
    encryption_key: str | None = None,
) -> Backend:
    """Open the store at a path or URL; ``describe`` derives catalogue entries from lines.

    ``encryption_key`` says where the keys of an encrypted store are: ``file:PATH`` or ``command:WORDS``.
    """
    name, path = locate(location)
    module = importlib.import_module(f"cannery.backends.{name}")
    hashing = Hashing()
    backend: Backend = module.open_backend(path, describing(describe), hashing, read_only=read_only)
    try:
        if encryption_key is None:
            _refuse_encrypted(backend, path)
            return backend
        from cannery.backends._encryption.backend import EncryptedBackend

        encrypted = EncryptedBackend(backend, describe, hashing, encryption_key, shown(path))
    except BaseException:
        backend.close()
        raise
    return encrypted


def _refuse_encrypted(backend: Backend, path: str) -> None:
    if is_marker(backend.metadata(MARKER)):
        problem = "this store is encrypted: say where its key is"
        raise ConfigurationError(shown(path), f"{problem} ({HOW_TO_SAY})")


def _split(text: str) -> tuple[str, str]:
    scheme, colon, rest = text.partition(":")
    is_url = rest.startswith("//") and _SCHEME.fullmatch(scheme) is not None
    if not colon or not (scheme.isalpha() or is_url) or len(scheme) == 1:
        return "directory", text
    if not is_url:
        return scheme.lower(), unquote(rest)
    return scheme.lower(), unquote(_TAIL.split(rest[2:], maxsplit=1)[0])
