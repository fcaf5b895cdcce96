"""Ids that sort by time: 48 bits of milliseconds and 80 random ones, 26 characters.

The alphabet is the store's, so that a conversation can be named before it is stored.
"""

from __future__ import annotations

import itertools
import os
import re
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_NAME = re.compile(r"[0-9a-z][0-9a-z_-]{0,63}")
_counter = itertools.count(int.from_bytes(os.urandom(4), "big"))


def new_identifier() -> str:
    """A new id."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def is_name(text: str) -> bool:
    """Whether the store can have a conversation of this name."""
    return _NAME.fullmatch(text) is not None


_RUN = os.urandom(6).hex()


def new_request_id() -> str:
    """A new id for a call: unique, cheap, and without meaning."""
    return f"req_{_RUN}{next(_counter):010x}"
