"""Opening and leaving a store: a process that is alone in it sets it up, recovers it and cleans up.

Every process holds a shared flock on ``locks/live`` as long as the store is open. A process that can get it exclusively
knows that no other one uses the store.
"""

from __future__ import annotations

import contextlib

import msgspec
from msgspec import Struct

from cannery.backends._contract import Damage
from cannery.backends._seals import seal, unseal
from cannery.backends.directory import feed
from cannery.backends.directory.commits import Commits
from cannery.backends.directory.files import Files, medium, not_followed, read_whole, write_whole
from cannery.backends.directory.journal import has_header
from cannery.backends.directory.layout import (
    CONTENT,
    DIRECTORIES,
    IN_CONVERSATION,
    INDEX_FILES,
    LOCK_FILES,
    LOCKS,
    MARKER,
    TRASH,
    is_grave,
    is_staged,
    number_of,
)
from cannery.errors import DamageError, StorageError

_FORMAT = "cannery"
_VERSION = 2
_OLDEST = 1
_SHOWN = 5


class _Marker(Struct):
    """The content of ``cannery.json``."""

    format: str
    version: int


class Presence:
    """This process's presence in a store."""

    def __init__(self, files: Files) -> None:
        self._files = files
        files.make_root()
        check_place(files)
        check_no_links(files)
        files.make_directory(LOCKS)
        self._live = files.open(f"{LOCKS}/live", create=True)
        self._is_alone = False
        self._mended: tuple[Damage, ...] = ()
        try:
            self._is_alone = files.lock(self._live, wait=False)
            if self._is_alone:
                self._set_up()
            else:
                files.lock(self._live, shared=True)
                check_marker(files)
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        data = read_whole(self._files, MARKER)
        version = None if data is None else version_of(data)
        if data is not None and version is None:
            self._mended = (Damage(MARKER, "damaged; it was written anew", is_lost=False),)
        if version != _VERSION:
            # Before anything else with a name of the layout, so that such names without a marker are the user's.
            marker = seal(msgspec.json.encode({"format": _FORMAT, "version": _VERSION}), 0)
            write_whole(self._files, MARKER, marker, durable=True)
            self._files.sync_directory("")
        made = [self._files.make_directory(name) for name in DIRECTORIES]
        if any(made):
            self._files.sync_directory("")

    def close(self) -> None:
        """Release the lock."""
        self._files.close(self._live)

    def enter(self, commits: Commits) -> list[Damage]:
        """Recover the store if no other process uses it; returns the problems found."""
        if not self._is_alone:
            return []
        damages = [*self._mended, *commits.recover(is_first=True)]
        with medium(self._files.root):
            newest = max(feed.generations(self._files), default=0)
            if feed.end_of(self._files, newest) is None:
                feed.begin(self._files)
            empty_trash(self._files)
            for name in self._files.names(CONTENT):
                if is_staged(name) or (
                    name.endswith(".pack.new") and number_of(name.removesuffix(".new"))
                ):
                    self._files.remove(f"{CONTENT}/{name}")
            self._files.lock(self._live, shared=True)
        return damages

    def leave(self, commits: Commits) -> None:
        """Leave; the last process leaves an empty journal."""
        try:
            with contextlib.suppress(OSError):
                if self._files.lock(self._live, wait=False):
                    commits.retire()
        finally:
            self.close()


def check_place(files: Files) -> None:
    """Refuse a folder that is neither a store nor empty, and a store that this version cannot read."""
    # In this order, because another process may be creating the store at this moment.
    names = files.names("")
    if check_marker(files):
        return
    strange = sorted(name for name in names if not _is_blank(files, name))
    if not strange or has_header(files):
        return
    found = ", ".join(map(repr, strange[:_SHOWN]))
    more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
    raise StorageError(
        f"{files.root} is not a Cannery store ({MARKER} is missing) and not empty: it holds {found}{more}."
        " Name the folder of a store, an empty folder or a new one"
    )


def _is_blank(files: Files, name: str) -> bool:
    """Whether an entry in a folder without a marker is left by an interrupted creation of a store or a new disk."""
    if name in {f"{MARKER}.new", "lost+found"}:
        return True
    if name not in DIRECTORIES or name not in files.folders(""):
        return False
    inside = {f"{name}/{below}" for below in files.names(name)}
    return all(file in LOCK_FILES and not _size(files, file) for file in inside)


def _size(files: Files, name: str) -> int:
    facts = files.facts(name)
    return 0 if facts is None else facts.size


def check_marker(files: Files) -> bool:
    """Whether there is a marker; refuses a store that this version cannot read."""
    data = read_whole(files, MARKER)
    if data is None:
        return False
    version = version_of(data)
    if version is None and not has_header(files):
        raise DamageError(MARKER, "not the marker of a Cannery store, and there is no journal")
    if version is not None and not _OLDEST <= version <= _VERSION:
        raise StorageError(
            f"{MARKER}: format version {version}; this program reads versions {_OLDEST} to {_VERSION}"
        )
    return True


def version_of(data: bytes) -> int | None:
    """The version in a marker; None if it is damaged. Only version 1 had markers without a seal."""
    sealed = unseal(data)
    try:
        marker = msgspec.json.decode(sealed or data, type=_Marker)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    is_ours = marker.format == _FORMAT and (sealed is not None or marker.version == _OLDEST)
    return marker.version if is_ours else None


def empty_trash(files: Files) -> None:
    """Permanently delete what gc has removed, and nothing else in the trash."""
    for grave in filter(is_grave, files.folders(TRASH)):
        buried = f"{TRASH}/{grave}"
        names = files.names(buried)
        for name in IN_CONVERSATION:
            if name in names:
                files.remove(f"{buried}/{name}")
        if not set(names) - set(IN_CONVERSATION):
            files.remove_directory(buried)


def check_no_links(files: Files) -> None:
    """Refuse links, and anything but files, in place of what the store or its index opens by name."""
    names = set(files.names(""))
    for name in names & set(DIRECTORIES):
        # Looking up an entry opens the folder, whatever it holds; listing it would take time proportional to its size.
        files.facts(f"{name}/{name}")
    for name in names & set(INDEX_FILES):
        facts = files.facts(name)
        if facts is not None and not facts.is_file:
            raise not_followed(name)
