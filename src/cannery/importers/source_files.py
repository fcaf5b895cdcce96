"""Opens a file, an archive or a folder as sources.

Every file is checked by its first bytes, not only by its name; files without conversations are named.
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

from cannery.errors import InputError
from cannery.importers.archives import DAMAGE, Member, unpacked
from cannery.importers.databases import SQLITE
from cannery.importers.sources import Source
from cannery.importers.values import encoding_of

_ENDINGS = (".json", ".jsonl", ".har", ".ndjson")
_TEXTS = (".aider.chat.history.md",)
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00")
# The beginning of a JSON object or array; a log line may also begin with a bracket.
_JSON = re.compile(r"""\{\s*(?:["}]|$)|\[\s*(?:[\[{"\]\d-]|$|true|false|null)""")
# Generated folders that contain no chats.
_PASSED_BY = frozenset({"__MACOSX", ".git", "node_modules"})
# The file that marks a folder as a Cannery store. Its files are not imported: they may be changing, and without the
# rest of the store they have no titles and no forks.
_STORE = "cannery.json"


def open_sources(path: str | os.PathLike[str], left_alone: list[str] | None = None) -> list[Source]:
    """The sources in a file, an archive or a folder; the names of files without chats are added to ``left_alone``."""
    place = Path(path)
    others: list[str] = [] if left_alone is None else left_alone
    if (place / _STORE).is_file():
        problem = f"{str(path)!r} is a Cannery store"
        raise InputError(f"{problem}: `cannery export --all -o FILE --store` writes it as a file")
    if place.is_dir():
        found = _files(place, others)
        return [source for each in found for source in _of_folder(each, place, others)]
    if not place.is_file():
        raise InputError(f"no file at {str(path)!r}")
    try:
        return _of_file(place, others)
    except DAMAGE as error:
        raise InputError(f"{place.name}: {error}") from None


def _files(folder: Path, others: list[str]) -> list[Path]:
    """Every file below a folder, sorted by path; stores are skipped."""
    found = []
    for root, folders, names in os.walk(folder):
        if _STORE in names:
            others.append(f"{Path(root).relative_to(folder).as_posix()} (a Cannery store)")
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name not in _PASSED_BY)
        found += [Path(root, name) for name in names]
    return sorted((each for each in found if each.is_file()), key=lambda each: each.as_posix())


def _of_folder(path: Path, folder: Path, others: list[str]) -> list[Source]:
    name = path.relative_to(folder).as_posix()
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
        if not may_hold_chats(name, head) and not head.startswith(_ARCHIVES):
            others.append(name)
            return []
        sources = _of_file(path, others)
    except DAMAGE as error:
        source = Source(name, partial(path.open, "rb"), 0, path)
        source.problems.append(f"cannot be read: {error}")
        return [source]
    for source in sources:
        source.name = name if source.path is not None else f"{name}/{source.name}"
    return sources


def _of_file(path: Path, others: list[str]) -> list[Source]:
    opened, members = unpacked(path)
    size = path.stat().st_size
    if members is not None:
        return [source for member in members for source in _of_member(member, others)]
    if opened is not None:
        return [Source(path.name, opened, size, path)]
    return [Source(path.name, partial(path.open, "rb"), size, path)]


def _of_member(member: Member, others: list[str]) -> list[Source]:
    source = Source(member.name, member.opened, member.size)
    if member.problem:
        source.problems.append(member.problem)
    if not member.size and member.problem:
        return [source]
    parts = member.name.split("/")
    head = source.head()
    # A member that cannot be opened is kept, so that reading it reports the problem.
    is_closed = bool(member.size) and not head
    if _PASSED_BY.intersection(parts) or not (is_closed or may_hold_chats(parts[-1], head)):
        others.append(member.name)
        return []
    return [source]


def holds_chats(path: Path) -> bool:
    """Whether a path is a file that may contain a conversation."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return may_hold_chats(path.name, stream.read(4096))
    except OSError:
        return False


def may_hold_chats(name: str, head: bytes) -> bool:
    """Whether a file may contain a conversation: JSON by its first characters, a database, or a known ending."""
    if head.startswith(SQLITE) or name.endswith((*_ENDINGS, *_TEXTS)):
        return bool(head)
    text = head.decode(encoding_of(head), "replace").lstrip("\ufeff \t\r\n")
    return _JSON.match(text) is not None
