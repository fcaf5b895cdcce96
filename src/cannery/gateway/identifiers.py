"""Ids that sort by time: 48 bits of milliseconds and 80 random bits, 26 characters.

The alphabet is the store's, so that a conversation can be named before it is stored.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import time
from collections.abc import Iterator

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_NAME = re.compile(r"[0-9a-z][0-9a-z_-]{0,63}")
# Maps a random byte to a random letter: each letter stands for eight byte values.
_LETTERS = _ALPHABET.encode() * 8
_RANDOM_LETTERS = 16
_POOL_LETTERS = 400 * _RANDOM_LETTERS
_MOST_ALIKE = 8
_LONGEST_ALIKE, _DIGITS = 51, 12
_counter = itertools.count(int.from_bytes(os.urandom(4), "big"))


class _Source:
    """A pool of random bits, because a system call costs more than using them, and the letters of the time."""

    def __init__(self) -> None:
        self._process = 0
        self._pool = iter([""])
        self._moment = -1
        self._letters = ""

    def draw(self) -> str:
        """Sixteen unique random letters."""
        found = next(self._pool, None) if self._process == os.getpid() else None
        if found is None:
            self._process = os.getpid()
            drawn = os.urandom(_POOL_LETTERS).translate(_LETTERS).decode()
            places = range(0, _POOL_LETTERS, _RANDOM_LETTERS)
            self._pool = iter([drawn[at : at + _RANDOM_LETTERS] for at in places])
            found = next(self._pool)
        return found

    def time(self) -> str:
        """The milliseconds since 1970 in ten letters."""
        moment = time.time_ns() // 1_000_000
        if moment != self._moment:
            letters = "".join([_PAIRS[moment >> shift & 1023] for shift in range(40, -1, -10)])
            self._moment, self._letters = moment, letters
        return self._letters


_source = _Source()


def new_identifier() -> str:
    """A new id."""
    return _source.time() + _source.draw()


def is_name(text: str) -> bool:
    """Whether a conversation in the store can have this name."""
    return _NAME.fullmatch(text) is not None


def alike(name: str, scope: str) -> Iterator[str]:
    """A name, followed by derived names for when it is taken, unique to the scope; deterministic."""
    yield name
    for number in range(_MOST_ALIKE):
        told = hashlib.sha256(f"{scope}\0{name}\0{number}".encode()).hexdigest()
        yield f"{name[:_LONGEST_ALIKE]}-{told[:_DIGITS]}"


_RUN = os.urandom(6).hex()


def new_request_id() -> str:
    """A new id for a call: unique, cheap, and without meaning."""
    return f"req_{_RUN}{next(_counter):010x}"


def new_number() -> str:
    """A number for internal objects: random for the process, and counted within it."""
    return f"{_RUN}{next(_counter):012x}"
