"""Finds the store that a verb uses, and conversations by a prefix of their id.

``--store`` takes precedence over ``CANNERY_STORE``, which takes precedence over the user's data directory. Reading
verbs never create a store.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cannery.backends import locate, shown
from cannery.cli.complaints import Complaint, Misuse
from cannery.cli.files import note
from cannery.cli.terminal import harmless, one_line
from cannery.errors import CanneryError, DamageError
from cannery.storage import Store, StoredConversation, open_store
from cannery.wording import counted

_MOST = 5
_COUNTED = 100
_SHORTEST = 8


def find_place(chosen: str | None) -> tuple[str, str]:
    """The location of the store, and which setting it comes from."""
    if chosen:
        return chosen, "--store"
    if place := os.environ.get("CANNERY_STORE"):
        return place, "CANNERY_STORE"
    if base := os.environ.get("XDG_DATA_HOME"):
        return str(Path(base) / "cannery"), "XDG_DATA_HOME"
    return str(Path.home() / ".local" / "share" / "cannery"), "default"


def find_key(chosen: str | None) -> tuple[str | None, str]:
    """The source of the keys of an encrypted store, and which setting it comes from; None if there is none."""
    if chosen:
        return chosen, "--encryption-key"
    return os.environ.get("CANNERY_ENCRYPTION_KEY") or None, "CANNERY_ENCRYPTION_KEY"


def is_there(place: str) -> bool:
    """Whether a store exists, as far as can be determined without opening it."""
    kind, path = locate(place)
    if kind == "sqlite":
        return path in ("", ":memory:") or Path(path).exists()
    if kind != "directory":
        return True
    folder = Path(path)
    return folder.is_dir() and any(folder.iterdir())


@contextlib.contextmanager
def opened(options: argparse.Namespace, *, make: bool = False) -> Iterator[Store]:
    """Open the chosen store; with ``make`` a new one may be created."""
    place, origin = find_place(options.store)
    if not is_there(place):
        if locate(place)[0] == "directory" and Path(place).is_file():
            problem = f"there is no store at {place} ({origin}): it is a file"
            raise Complaint(problem, f"For a store in one SQLite file give sqlite:{place}")
        if not make:
            problem = f"there is no store at {shown(place)} ({origin})"
            fix = "`cannery import FILE` or `cannery serve` makes one; --store names another"
            raise Complaint(problem, fix)
    with open_store(place, encryption_key=find_key(options.encryption_key)[0]) as store:
        for damage in store.recovered:
            note(f"recovered: {damage}", quiet=options.quiet)
        yield store


def report_locked_scopes(store: Store, options: argparse.Namespace) -> None:
    """Print the scopes of an encrypted store that could not be searched."""
    for one in () if store.encryption is None else store.encryption.states():
        if one.problem:
            note(f"scope {one.scope!r} was left out: {one.problem}", quiet=options.quiet)


def confirmed(conversations: Sequence[StoredConversation], what: str) -> bool:
    """Ask for confirmation on the terminal; without a terminal raise a Misuse."""
    if not sys.stdin.isatty():
        raise Misuse("deleting needs confirmation", "Add --yes")
    names = [f"{each.identifier} {_title(each)}".rstrip() for each in conversations]
    sys.stderr.write("\n".join([*names, f"{what} {counted(len(names), 'conversation')}? [y/N] "]))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _title(conversation: StoredConversation) -> str:
    try:
        return one_line(conversation.title, 40)
    except DamageError:
        return "(damaged)"


def _is_damaged(store: Store, word: str) -> bool:
    """Whether a word is the id of a conversation whose metadata cannot be read, so that it may not be listed."""
    try:
        store.get(word)
    except DamageError:
        return True
    except CanneryError:
        pass
    return False


def find(store: Store, word: str) -> StoredConversation:
    """The conversation with an id prefix; ``@`` is the most recently changed one, ``@2`` the one before."""
    if word.startswith("@"):
        return _recent(store, word[1:])
    living = store.begin_with(word.lower(), _COUNTED + 1)
    if word in living or len(living) == 1:
        return store.handle(word if word in living else living[0])
    if not living and _is_damaged(store, word):
        return store.handle(word)
    if not living:
        raise Complaint(
            f"no conversation begins with {word[:80]!r}",
            "`cannery list` shows them; `cannery search WORDS` finds them",
        )
    shown = [f"{name} {one_line(store.get(name).title, 30)}".rstrip() for name in living[:_MOST]]
    more = f", and {len(living) - _MOST} more" if len(living) > _MOST else ""
    count = len(living) if len(living) <= _COUNTED else f"more than {_COUNTED}"
    if len(living) > _COUNTED:
        more = ", and more"
    raise Misuse(
        f"{count} conversations begin with {word!r}",
        harmless(f"Give more of the id: {', '.join(shown)}{more}"),
    )


def _recent(store: Store, number: str) -> StoredConversation:
    if number and (not number.isdecimal() or not int(number)):
        raise Misuse(f"no conversation @{number}", "@ is the newest one, @2 the one before")
    rank = int(number or 1)
    found = store.list(limit=rank)
    if len(found) < rank:
        raise Complaint(f"no conversation @{number}: there are {len(found)}")
    return store.get(found[rank - 1].identifier)


def shortened(store: Store, identifiers: Iterable[str]) -> dict[str, str]:
    """The shortest unique prefix of each id, at least eight characters long."""
    short: dict[str, str] = {}
    for name in identifiers:
        length = _SHORTEST
        while length < len(name) and len(store.begin_with(name[:length], 2)) > 1:
            length += 1
        short[name] = name[:length]
    return short
