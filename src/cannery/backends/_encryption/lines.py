"""A line as the backend below keeps it: what it must know in the clear, then the line itself, encrypted.

    {"encrypted":1,"role":…,"said":…,"own"?:…,"call"?:…,"answers"?:…,"setup"?:true,"contents"?:[…],"sealed":"…"}

``own`` is the keyed digest of what the line means, ``call`` and ``answers`` are tokens, ``contents`` are keyed ids: by
them a catalogue is rebuilt and garbage is found without any key. All of that is authenticated with the line.
"""

from __future__ import annotations

import base64
from collections.abc import Collection

import msgspec

from cannery.backends._contract import Entry
from cannery.backends._encryption.ciphers import ScopeKeys
from cannery.backends._encryption.outside import BEGIN, Clear

_SEALED = b',"sealed":"'
_encode = msgspec.json.Encoder().encode


def clear_of(keys: ScopeKeys, entry: Entry, contents: Collection[bytes]) -> bytes:
    """What stands in the clear of a line that refers to contents, given by their digests."""
    clear = Clear(1, entry.role, entry.said)
    if entry.own is not None:
        clear.own = base64.b64encode(entry.own).decode()
    if entry.call is not None:
        clear.call = keys.token("call", entry.call)
    if entry.answers is not None:
        clear.answers = keys.token("call", entry.answers)
    if entry.is_setup:
        clear.setup = True
    if contents:
        clear.contents = [f"sha256:{keys.content_id(digest).hex()}" for digest in contents]
    return _encode(clear)[:-1]


def seal(keys: ScopeKeys, line: bytes, clear: bytes, identifier: str, position: int) -> bytes:
    """A line as the backend below keeps it."""
    sealed = keys.seal_line(line, clear, identifier, position)
    return b'%b%b%b"}' % (clear, _SEALED, sealed)


def unseal(keys: ScopeKeys, stored: bytes, identifier: str, position: int) -> bytes:
    """The line that was encrypted, behind it the seal of the stored one; ValueError if it is not what was written."""
    if not stored.startswith(BEGIN):
        raise ValueError("it is not encrypted: another program wrote it")
    at = stored.find(_SEALED)
    end = stored.find(b'"', at + len(_SEALED))
    if at < 0 or end < 0:
        raise ValueError("it is cut short")
    line = keys.open_line(stored[at + len(_SEALED) : end], stored[:at], identifier, position)
    return line[:-1] + stored[end + 1 :]
