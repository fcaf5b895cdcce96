"""A line as the inner backend stores it: clear fields that it needs, then the encrypted line.

    {"encrypted":1,"role":…,"said":…,"own"?:…,"call"?:…,"answers"?:…,"setup"?:true,"contents"?:[…],"sealed":"…"}

``own`` is the keyed digest of the line's meaning, ``call`` and ``answers`` are tokens, ``contents`` are keyed ids: with
them a catalogue is rebuilt and garbage is found without a key. All of these are authenticated with the line.
"""

from __future__ import annotations

import os
from binascii import b2a_base64
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from cannery.backends._contract import Entry, referred
from cannery.backends._encryption.ciphers import CHANGED, NONCE, Changed, ScopeKeys
from cannery.backends._encryption.outside import BEGIN, Clear, no_words

_SEALED = b',"sealed":"'
_BEHIND = len(_SEALED)
_REFERENCE = b'"sha256:'
_encode = msgspec.json.Encoder().encode
# Base64 in half the time that binascii takes.
_decode = msgspec.json.Decoder(bytes).decode


class Place(NamedTuple):
    """The place of a line: its conversation and position."""

    identifier: str
    position: int


def outside_of(keys: ScopeKeys, entry: Entry) -> Entry:
    """An entry for the inner backend: ids as tokens, and no words."""
    call, answers = entry.call, entry.answers
    return Entry(
        entry.role,
        entry.said,
        entry.own,
        call and keys.token("call", call),
        answers and keys.token("call", answers),
        no_words,
        entry.is_setup,
    )


def seal(
    keys: ScopeKeys, lines: Sequence[bytes], outside: Sequence[Entry], place: Place
) -> list[bytes]:
    """Lines from a place on, in stored form."""
    identifier, start = place
    encrypt = keys.line_cipher(identifier).encrypt
    random = os.urandom(NONCE * len(lines))
    sealed = []
    for index, (line, entry) in enumerate(zip(lines, outside, strict=True)):
        head = _head(keys, entry, sorted(referred(line)) if _REFERENCE in line else ())
        nonce = random[index * NONCE : (index + 1) * NONCE]
        hidden = nonce + encrypt(nonce, line, b"%d\0%b" % (start + index, head))
        sealed.append(b'%b%b%b"}' % (head, _SEALED, b2a_base64(hidden, newline=False)))
    return sealed


def _head(keys: ScopeKeys, outside: Entry, contents: Collection[bytes]) -> bytes:
    """The clear fields of a line that refers to contents, given by their digests."""
    clear = Clear(1, outside.role, outside.said)
    if outside.own is not None:
        clear.own = b2a_base64(outside.own, newline=False).decode()
    if outside.call is not None:
        clear.call = outside.call
    if outside.answers is not None:
        clear.answers = outside.answers
    if outside.is_setup:
        clear.setup = True
    if contents:
        clear.contents = [f"sha256:{keys.content_id(digest).hex()}" for digest in contents]
    return _encode(clear)[:-1]


def unseal(
    keys: ScopeKeys, stored: Sequence[bytes | None], place: Place
) -> tuple[list[bytes | None], dict[int, str]]:
    """The decrypted lines from a place on, and the problems of those that are not authentic.

    Each line is followed by the seal of the stored one.
    """
    identifier, start = place
    decrypt = keys.line_cipher(identifier).decrypt
    found: list[bytes | None] = []
    wrong: dict[int, str] = {}
    for position, line in enumerate(stored, start):
        opened = None
        if line is not None:
            at = line.find(_SEALED)
            end = line.find(b'"', at + _BEHIND)
            try:
                sealed = _decode(line[at + _BEHIND - 1 : end + 1])
                opened = decrypt(sealed[:NONCE], sealed[NONCE:], b"%d\0%b" % (position, line[:at]))
                opened = opened[:-1] + line[end + 1 :]
            except (Changed, ValueError, msgspec.MsgspecError):
                is_ours = line.startswith(BEGIN)
                wrong[position] = CHANGED if is_ours else "it is not encrypted"
        found.append(opened)
    return found, wrong
