"""The store that a verb works on, and conversations by the beginning of their id.

``--store`` beats ``CANNERY_STORE``, which beats the user's data directory. Looking at a store never makes one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from cannery.cli.complaints import Complaint, Misuse
from cannery.cli.files import note
from cannery.cli.terminal import harmless, one_line
from cannery.errors import CanneryError
from cannery.storage import Store, StoredConversation, open_store

_MOST = 5


def find_place(chosen: str | None) -> tuple[str, str]:
    """Where the store is, and who says so."""
    if chosen:
        return chosen, "--store"
    if place := os.environ.get("CANNERY_STORE"):
        return place, "CANNERY_STORE"
    if base := os.environ.get("XDG_DATA_HOME"):
        return str(Path(base) / "cannery"), "XDG_DATA_HOME"
    return str(Path.home() / ".local" / "share" / "cannery"), "default"


def is_there(place: str) -> bool:
    """Whether there is a store, as far as one can tell without opening it."""
    scheme, colon, path = place.partition(":")
    if colon and len(scheme) > 1 and scheme.isalpha() and scheme != "file":
        return True
    folder = Path(path.removeprefix("//") if colon and scheme == "file" else place)
    return folder.is_dir() and any(folder.iterdir())


@contextlib.contextmanager
def opened(options: argparse.Namespace, *, make: bool = False) -> Iterator[Store]:
    """The store that was chosen; ``make`` lets it be a new one."""
    place, origin = find_place(options.store)
    if not make and not is_there(place):
        raise Complaint(
            f"there is no store at {place} ({origin})",
            "`cannery import FILE` or `cannery serve` makes one; --store names another",
        )
    with open_store(place) as store:
        for damage in store.recovered:
            note(f"recovered: {damage}", quiet=options.quiet)
        yield store


def find(store: Store, word: str) -> StoredConversation:
    """The conversation whose id begins so; ``@`` is the one that changed last, ``@2`` the one before."""
    if word.startswith("@"):
        return _recent(store, word[1:])
    begun = [name for name in store.backend.identifiers() if name.startswith(word.lower())]
    living = [name for name in begun if _is_alive(store, name)]
    if word in living or len(living) == 1:
        return store.get(word if word in living else living[0])
    if not living:
        raise Complaint(
            f"no conversation begins with {word[:80]!r}",
            "`cannery list` shows them; `cannery search WORDS` finds them",
        )
    shown = [f"{name} {one_line(store.get(name).title, 30)}".rstrip() for name in living[:_MOST]]
    more = f", and {len(living) - _MOST} more" if len(living) > _MOST else ""
    raise Misuse(
        f"{len(living)} conversations begin with {word!r}",
        harmless(f"Give more of the id: {', '.join(shown)}{more}"),
    )


def _recent(store: Store, number: str) -> StoredConversation:
    if number and not number.isdecimal():
        raise Misuse(f"no conversation @{number}", "@ is the newest one, @2 the one before")
    rank = int(number or 1)
    found = store.list(limit=rank)
    if rank < 1 or len(found) < rank:
        raise Complaint(f"no conversation @{number}: there are {len(found)}")
    return store.get(found[rank - 1].identifier)


def _is_alive(store: Store, identifier: str) -> bool:
    try:
        store.metadata_of(identifier)
    except CanneryError:
        return False
    return True


def shortened(identifiers: list[str], known: list[str]) -> dict[str, str]:
    """The shortest beginning of each id, of at least eight letters, that no other known one has."""
    ordered = sorted(set(known) | set(identifiers))
    short: dict[str, str] = {}
    wanted = set(identifiers)
    for index, name in enumerate(ordered):
        if name in wanted:
            beside = ordered[max(index - 1, 0) : index] + ordered[index + 1 : index + 2]
            shared = max((_shared(name, each) for each in beside), default=0)
            short[name] = name[: max(shared + 1, 8)]
    return short


def _shared(one: str, other: str) -> int:
    """How many letters two ids have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))
