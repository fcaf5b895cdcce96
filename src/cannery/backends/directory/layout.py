"""The names of the files in a store (``docs/storage-format.md``, section 1), and which of them may be written.

A name from the journal or a listing is used only if it is one of these.
"""

from __future__ import annotations

import functools
import os
import re

from cannery.errors import DamageError

MARKER = "cannery.json"
JOURNAL = "journal"
STATE = "journal.state"
CONVERSATIONS = "conversations"
CONTENT = "content"
CHANGES = "changes"
LOCKS = "locks"
TRASH = "trash"
REGISTRY = "registry"
EXCHANGES = "gateway/exchanges.jsonl"
# Where an earlier version moved the file at some size.
OLD_EXCHANGES = "gateway/exchanges.old.jsonl"
INDEX = "index.sqlite"
# Nothing writes one that ends in "-journal", but SQLite opens it if it exists.
INDEX_FILES = tuple(INDEX + suffix for suffix in ("", "-wal", "-shm", "-journal", ".seal", ".lock"))
LOCK_FILES = tuple(f"{LOCKS}/{name}" for name in ("live", "write", "commit", "collect"))
DIRECTORIES = (CONVERSATIONS, CONTENT, CHANGES, LOCKS, TRASH, REGISTRY)

LOG = "messages.jsonl"
_METADATA = "conversation.json"
# The last was written by version 1 only.
IN_CONVERSATION = (LOG, _METADATA, f"{_METADATA}.new", "messages.torn")
_ID = "[0-9a-z][0-9a-z_-]{0,63}"
_WRITTEN = re.compile(
    rf"conversations/{_ID}/(?:messages\.jsonl|conversation\.json)"
    r"|content/[0-9]{8}\.pack|(?:changes|registry)/[0-9]{8}\.log"
)
_GRAVE = re.compile(rf"{_ID}-[0-9a-f]{{8}}")
_STAGED = re.compile(r"[0-9a-f]{16}\.stage")
_NUMBERED = re.compile(r"([0-9]{8})\.(?:pack|log)")


@functools.lru_cache(1024)
def log_name(identifier: str) -> str:
    """The file of a conversation's lines."""
    return f"{CONVERSATIONS}/{identifier}/{LOG}"


@functools.lru_cache(1024)
def metadata_name(identifier: str) -> str:
    """The file of a conversation's metadata."""
    return f"{CONVERSATIONS}/{identifier}/{_METADATA}"


def pack_name(number: int) -> str:
    """The file of a content pack."""
    return f"{CONTENT}/{number:08}.pack"


def stage_name() -> str:
    """A new name for content that will become a pack of its own."""
    return f"{CONTENT}/{os.urandom(8).hex()}.stage"


def is_staged(name: str) -> bool:
    """Whether a file among the packs is content that never became one."""
    return _STAGED.fullmatch(name) is not None


def pack_index_name(number: int) -> str:
    """The file with the places of a pack's content."""
    return f"{CONTENT}/{number:08}.idx"


@functools.lru_cache(4)
def changes_name(generation: int) -> str:
    """A file of the change log."""
    return f"{CHANGES}/{generation:08}.log"


@functools.lru_cache(4)
def registry_name(number: int) -> str:
    """A file of keys and claims."""
    return f"{REGISTRY}/{number:08}.log"


def number_of(name: str) -> int | None:
    """The number in the name of a pack or change log; None for any other file."""
    found = _NUMBERED.fullmatch(name)
    return int(found[1]) if found else None


def is_numbered(name: str) -> bool:
    """Whether a file is a pack, or a log beside the conversations."""
    return number_of(name) is not None


def grave_name(identifier: str) -> str:
    """A new name for a conversation that gc removes."""
    return f"{TRASH}/{identifier}-{os.urandom(4).hex()}"


def is_grave(name: str) -> bool:
    """Whether gc gave a directory in the trash its name."""
    return _GRAVE.fullmatch(name) is not None


def check_written(name: str) -> str:
    """Refuse a name that the journal may not write."""
    if _WRITTEN.fullmatch(name) is None:
        raise DamageError(JOURNAL, f"names a file that it may not write: {name[:100]!r}")
    return name


def parent(name: str) -> str:
    """The directory of a name."""
    return name.rpartition("/")[0]
