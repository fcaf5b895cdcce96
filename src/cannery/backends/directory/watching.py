"""Tracks new references to content, and new forks, while gc looks for unreferenced and unforked data.

gc learns from the index what is unused. Between that look and the change that frees it, others may refer to it, by a
change of this process or of another one, which this process learns of before it writes itself. While gc watches, all of
these are recorded; when an epoch ends, some of its changes may not have been learned, and the watch is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cannery.backends._contract import Change, Metadata, referred
from cannery.backends._seals import unseal_copies
from cannery.backends.directory.commits import Commits
from cannery.backends.directory.journal import REPLACE, WRITE, Operation
from cannery.backends.directory.layout import CONVERSATIONS, REGISTRY
from cannery.backends.directory.packs import key_of


class Watch:
    """The references since it began; used under the write lock."""

    def __init__(self, scope_of: Callable[[str], str | None]) -> None:
        self._scope_of = scope_of
        self._keys: set[bytes] = set()
        self.parents: set[str] = set()
        """The conversations that were forked; one that is not deleted when it is forked may be afterwards."""
        self._logs: list[tuple[str, set[bytes]]] = []
        self.is_lost = False

    def add(self, keys: Iterable[bytes]) -> None:
        """Record the references of a change of this process."""
        self._keys.update(keys)

    def learn(self, operation: Operation) -> None:
        """Record the references of a change of another process."""
        folder, _, rest = operation.name.partition("/")
        if operation.kind == REPLACE and folder == CONVERSATIONS:
            self._learn_parent(operation.data)
        if operation.kind != WRITE:
            return
        if folder == CONVERSATIONS:
            self._logs.append((rest.partition("/")[0], referred(operation.data)))
        elif folder == REGISTRY:
            for line in operation.data.decode("ascii", "replace").splitlines():
                kind, _, rest = line.partition(" ")
                if kind == "stage":
                    self._keys.add(bytes.fromhex(rest.partition(" ")[0]))

    def _learn_parent(self, data: bytes) -> None:
        try:
            parent = msgspec.json.decode(unseal_copies(data) or b"", type=Metadata).parent
        except msgspec.MsgspecError:
            self.is_lost = True
            return
        if parent is not None:
            self.parents.add(parent)

    def keys(self) -> set[bytes]:
        """The keys of all content referred to."""
        for identifier, digests in self._logs:
            scope = self._scope_of(identifier) if digests else ""
            if scope is None:
                self.is_lost = True
                continue
            self._keys.update(key_of(scope, digest) for digest in digests)
        self._logs.clear()
        return self._keys


class Watching:
    """The watch of this process, if gc runs in it."""

    def __init__(self, scope_of: Callable[[str], str | None]) -> None:
        self._scope_of = scope_of
        self._watch: Watch | None = None

    def begin(self, commits: Commits) -> Watch:
        """Watch from now on; all earlier journaled changes are placed when this returns."""
        watch = Watch(self._scope_of)

        def install(_: object) -> None:
            self._watch = watch

        (outcome,) = commits.submit((install,), "sync")
        outcome.result()
        commits.place()
        return watch

    def end(self) -> None:
        """Stop watching."""
        self._watch = None

    def note(self, change: Change) -> None:
        """Record a change of this process."""
        if self._watch is None:
            return
        if change.contents:
            self._watch.add(key_of(change.scope, digest) for digest in change.contents)
        if change.metadata is not None and change.metadata.parent is not None:
            self._watch.parents.add(change.metadata.parent)

    def note_staged(self, key: bytes) -> None:
        """Record content that this process stages."""
        if self._watch is not None:
            self._watch.add([key])

    def learn(self, operation: Operation) -> None:
        """Record a change of another process."""
        if self._watch is not None:
            self._watch.learn(operation)

    def lose(self) -> None:
        """Mark the watch as incomplete."""
        if self._watch is not None:
            self._watch.is_lost = True
