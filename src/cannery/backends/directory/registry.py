"""Keys and claims of recent changes: they make a retried commit harmless and filing atomic between processes.

Section 10 of ``docs/storage-format.md``. Each change with a key or claims records them in the same journal record as
its lines, so all processes agree on their order. A key is found here for as long as its file is kept. A claim is needed
only until the catalogue knows the change that made it; it holds until its conversation is deleted.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from cannery.backends._contract import Change, Damage, Receipt
from cannery.backends.directory.files import Files, read_whole
from cannery.backends.directory.journal import Draft, Operation
from cannery.backends.directory.layout import REGISTRY, number_of, registry_name

_FULL = 4 << 20
_KEPT = 2
_LOOKS = 3
_LINE = re.compile(
    "key [0-9a-f]{32} [0-9]{1,18} [0-9]{1,18} [^ ]+|claim [0-9a-f]{32} [^ ]+"
    "|stage [0-9a-f]{64} [0-9]{1,18}|check [0-9]{1,9} [0-9a-f]{8}"
)


class _Notes:
    """Keys, claims and staged content."""

    __slots__ = ("claims", "keys", "staged")

    def __init__(self) -> None:
        self.keys: dict[str, Receipt] = {}
        self.claims: dict[str, str] = {}
        self.staged: dict[bytes, float] = {}

    def take(self, data: bytes) -> None:
        """Apply lines."""
        for line in data.decode("ascii", "replace").split("\n"):
            # A line that does not match is damaged, which verify reports.
            if _LINE.fullmatch(line) is None:
                continue
            match line.split(" "):
                case ["claim", hashed, identifier]:
                    self.claims[hashed] = identifier
                case ["stage", key, when]:
                    self.staged[bytes.fromhex(key)] = float(when)
                case ["key", hashed, start, stop, place]:
                    self.keys[hashed] = Receipt(int(start), int(stop), place)
                case _:
                    continue


class Registry:
    """Files of lines; the one with the highest number is active. ``tail`` gives the future end of a file.

    Data read from the files stays cached, unless journaled changes were abandoned since, which ``abandoned`` counts;
    entries recorded on top of that are learned anew with each epoch.
    """

    def __init__(
        self, files: Files, tail: Callable[[str], int | None], abandoned: Callable[[], int]
    ) -> None:
        self._files = files
        self._tail = tail
        self._abandoned = abandoned
        self._lock = threading.Lock()
        self._number = 0
        self._given_up = 0
        # How far each file was read, and its entries.
        self._ends: dict[int, int] = {}
        self._read = _Notes()
        self._noted = _Notes()

    def forget(self) -> None:
        """Discard the recorded entries: their changes may not have been made."""
        with self._lock:
            self._number = 0
            self._noted = _Notes()

    def learn(self, operation: Operation) -> None:
        """Apply another process's journaled entries."""
        if operation.name.startswith(f"{REGISTRY}/"):
            with self._lock:
                self._noted.take(operation.data)

    def receipt(self, change: Change) -> Receipt | None:
        """The receipt of the first commit with the same key; the write lock is held."""
        if change.key is None:
            return None
        self._load()
        hashed = _hash(change.scope, change.key)
        return self._noted.keys.get(hashed) or self._read.keys.get(hashed)

    def claimants(self, claims: Sequence[str]) -> Iterator[str]:
        """The conversations that claimed the same (``claims_of``), deleted or not; the write lock is held."""
        if claims:
            self._load()
        for claim in claims:
            found = self._noted.claims.get(claim) or self._read.claims.get(claim)
            if found is not None:
                yield found

    def note(
        self, change: Change, claims: Sequence[str], receipt: Receipt, draft: Draft
    ) -> tuple[str, int] | None:
        """Record the key and the claims of a change; returns the file and its new end if there are any."""
        lines = [f"claim {claim} {change.identifier}" for claim in claims]
        if change.key is not None:
            hashed = _hash(change.scope, change.key)
            start, stop, place = receipt
            lines.append(f"key {hashed} {start} {stop} {place}")
        return self._write(lines, draft) if lines else None

    def note_staged(self, key: bytes, draft: Draft) -> tuple[str, int]:
        """Record that content was stored before the change that refers to it."""
        # A clock may be before 1970.
        return self._write([f"stage {key.hex()} {max(int(time.time()), 0)}"], draft)

    def staged(self, grace: float) -> tuple[list[bytes], list[bytes]]:
        """The content stored less than a number of seconds ago, and that stored earlier; the write lock is held.

        Content that was stored earlier is returned once.
        """
        self._load()
        since = time.time() - grace
        staged = {**self._read.staged, **self._noted.staged}
        late = [key for key, when in staged.items() if when <= since]
        for key in late:
            self._read.staged.pop(key, None)
        return [key for key, when in staged.items() if when > since], late

    def _write(self, lines: Iterable[str], draft: Draft) -> tuple[str, int]:
        self._load()
        data = "".join(f"{line}\n" for line in lines).encode()
        data += _check_of(data)
        name = registry_name(self._number)
        offset = self._end(name)
        if offset >= _FULL:
            self._number += 1
            name = registry_name(self._number)
            offset = self._end(name)
        draft.write(name, offset, data)
        self._noted.take(data)
        return name, offset + len(data)

    def _end(self, name: str) -> int:
        known = self._tail(name)
        if known is not None:
            return known
        facts = self._files.facts(name)
        return 0 if facts is None else facts.size

    def _load(self) -> None:
        """Read the additions to the newest files, unless that was done in this epoch."""
        with self._lock:
            if self._number:
                return
            numbers = self._numbers()
            kept = numbers[-_KEPT:]
            given_up = self._abandoned()
            if given_up != self._given_up or not self._ends.keys() <= set(kept):
                self._start_over()
            self._given_up = given_up
            if not all(map(self._read_on, kept)):
                # The file was replaced by another.
                self._start_over()
                for number in kept:
                    self._read_on(number)
            self._number = max(numbers, default=1)

    def _start_over(self) -> None:
        self._ends.clear()
        self._read = _Notes()

    def _read_on(self, number: int) -> bool:
        """Read the additions to a file; False if it has become shorter."""
        start = self._ends.get(number, 0)
        try:
            fd = self._files.open(registry_name(number))
        except FileNotFoundError:
            return not start
        try:
            size = self._files.size(fd)
            data = self._files.read(fd, max(size - start, 0), start)
        finally:
            self._files.close(fd)
        end = data.rfind(b"\n") + 1
        self._read.take(data[:end])
        self._ends[number] = start + end
        return size >= start

    def _numbers(self) -> list[int]:
        found = (number_of(name) for name in self._files.names(REGISTRY))
        return sorted(number for number in found if number is not None)

    def damages(self) -> Iterator[Damage]:
        """The damaged files."""
        for number in self._numbers()[-_KEPT:]:
            name = registry_name(number)
            for _ in range(_LOOKS):
                # Concurrent writes may be read in part.
                wrong = _damaged_lines(read_whole(self._files, name) or b"")
                if not wrong:
                    break
            for line in wrong:
                problem = "not what was written: what is retried with a key may be made twice"
                yield Damage(name, problem, line)

    def prune(self) -> None:
        """Remove all but the newest files; the journal is empty."""
        for number in self._numbers()[:-_KEPT]:
            self._files.remove(registry_name(number))


def _hash(*names: str) -> str:
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]


def claims_of(change: Change) -> list[str]:
    """The claims of a change in recorded form."""
    return [_hash(change.scope, change.session, digest.hex()) for digest in change.claims]


def _check_of(data: bytes) -> bytes:
    """The line that ends a run of lines with their number and checksum."""
    return f"check {data.count(10)} {zlib.crc32(data):08x}\n".encode()


def _damaged_lines(data: bytes) -> list[int]:
    """The numbers of invalid lines, and of those whose closing checksum does not match."""
    lines = data.splitlines(keepends=True)
    wrong = []
    for number, line in enumerate(lines, 1):
        text = line.decode("ascii", "replace").removesuffix("\n")
        if _LINE.fullmatch(text) is None or not line.endswith(b"\n"):
            wrong.append(number)
        elif text.startswith("check "):
            count = int(text.split(" ")[1])
            if line != _check_of(b"".join(lines[max(number - 1 - count, 0) : number - 1])):
                wrong.append(number)
    return wrong
