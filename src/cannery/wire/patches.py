"""Patches: the difference between the value that a dialect writes and the value that it read, as kept in residue.

Stores hold patches, so this format does not change. A patch is a JSON object. It holds one of these:

======  ==================================================================================================
``v``   the whole value
``p``   for a string: ``[front, back, middle]``; keep so many characters at the front and at the back, and put
        ``middle`` between them
``q``   for a whole number: ``true``; write it in quotes, as the JSON of protobuf does
``j``   for a string: ``true``; write the value of which the string is the JSON text
``b``   for a string: ``true``; write it as base64; ``false``: write the text that it spells in base64
======  ==================================================================================================

or, for an object, any of these, applied in this order:

======  ==================================================================================================
``x``   a list of keys to remove
``d``   patches of values, by key
``h``   keys whose object is replaced by one of its members: ``{"image_url": "url"}``
``r``   keys to rename: ``{"our key": "their key"}``
``s``   keys to set, with their values
``m``   keys to set to another spelling of a value that other dialects carry
``w``   notes, by key: a digest of the value that writing gives a key that ``s`` overrides or ``x`` removes; null for
        a key that ``s`` adds. Only settings of requests have notes (``still_true``)
======  ==================================================================================================

or, for a list, ``i`` (patches of items, by position) and ``a`` (items to append, by position).

A patch never fails: if the value is not what the patch expects, that part of the patch is skipped.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from cannery.messages.json_text import decode_json, is_json
from cannery.wire.bodies import encode

_DIGITS = 16
# The usual spelling of a key.
Spell = Callable[[str], str]


def restore(ours: Any, patch: dict[str, Any] | None) -> Any:
    """Apply a patch to a value."""
    if patch is None:
        return ours
    if "v" in patch:
        return patch["v"]
    if "p" in patch and type(ours) is str:
        front, back, middle = patch["p"]
        return ours[:front] + middle + (ours[len(ours) - back :] if back else "")
    if "q" in patch and type(ours) is int:
        return str(ours)
    if "j" in patch and type(ours) is str:
        return decode_json(ours) if is_json(ours) else ours
    if "b" in patch and type(ours) is str:
        return base64_of(ours.encode()) if patch["b"] else text_of(ours)
    if type(ours) is list:
        return _restored_list(ours, patch)
    if type(ours) is not dict:
        return ours
    return _restored_object(ours, patch)


def base64_of(data: bytes) -> str:
    """Bytes in standard base64."""
    return b2a_base64(data, newline=False).decode()


def text_of(spelled: str) -> str:
    """The text that standard base64 spells; the same characters where it spells none."""
    try:
        return a2b_base64(spelled, strict_mode=True).decode()
    except ValueError:
        return spelled


def _restored_object(ours: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = {**ours}
    for key in patch.get("x", ()):
        result.pop(key, None)
    if "d" in patch:
        for key, inner in patch["d"].items():
            if key in result:
                result[key] = restore(result[key], inner)
    if "h" in patch:
        for key, member in patch["h"].items():
            if type(result.get(key)) is dict and member in result[key]:
                result[key] = result[key][member]
    if "r" in patch:
        renamed = patch["r"]
        result = {renamed.get(key, key): value for key, value in result.items()}
    if "s" in patch:
        result.update(patch["s"])
    if "m" in patch:
        result.update(patch["m"])
    return result


def _restored_list(ours: list[Any], patch: dict[str, Any]) -> list[Any]:
    items = list(ours)
    for key, inner in patch.get("i", {}).items():
        if int(key) < len(items):
            items[int(key)] = restore(items[int(key)], inner)
    for key, item in patch.get("a", {}).items():
        if int(key) == len(items):
            items.append(item)
    return items


# --- settings ------------------------------------------------------------------------------------


def digest_of(written: Any) -> str:
    """The note for a value that writing gives."""
    return sha256(encode(written)).hexdigest()[:_DIGITS]


def still_true(ours: Any, patch: dict[str, Any], spell: Spell) -> dict[str, Any]:
    """A patch of settings without the keys whose written value has changed since the patch was made.

    A key with a note is patched while the written value matches the note; a key without one while writing does not give
    it. Older OpenTelemetry records hold patches without notes: a key that writing also gives then takes the written
    value.
    """
    if type(ours) is list and "i" in patch:
        items = {
            key: still_true(ours[int(key)], item, spell)
            for key, item in patch["i"].items()
            if int(key) < len(ours)
        }
        return {**patch, "i": items}
    if type(ours) is not dict:
        return patch
    notes = patch.get("w", {})
    inner = {
        key: still_true(ours.get(key), item, spell) for key, item in patch.get("d", {}).items()
    }
    renamed, given = dict(patch.get("r", {})), {}
    for key, value in patch.get("s", {}).items():
        own = key if key in ours or key in notes else spell(key)
        if _stands(own, ours, notes):
            given[key] = value
            continue
        if type(value) is dict and type(ours.get(own)) is dict:
            inner[own] = still_true(ours[own], {"s": value}, spell)
        if own != key:
            renamed[own] = key
    dropped = [
        key
        for key in patch.get("x", ())
        if (_stands(key, ours, notes) if key in notes else key not in renamed)
    ]
    return {"x": dropped, "d": inner, "r": renamed, "s": given}


def _stands(key: str, ours: dict[str, Any], notes: dict[str, Any]) -> bool:
    """Whether writing still gives a key the value it had when the patch was made."""
    if key not in notes:
        return key not in ours
    note = notes[key]
    return note is None or (key in ours and note == digest_of(ours[key]))
