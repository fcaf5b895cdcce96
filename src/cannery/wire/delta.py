"""The difference between what we would write and what was written, small enough to keep as residue.

``delta(ours, theirs)`` is None when both are the same JSON value, else a patch that ``restore`` applies to ours to
give theirs again. Long strings that share an end are patched in place, so that a big payload is never kept twice.
The comparison tells true from 1 and 1 from 1.0, because somebody chose that spelling.

A patch is a JSON object: ``v`` (the whole value), or ``s`` (keys set), ``x`` (keys dropped), ``d`` (keys patched),
``r`` (keys spelled otherwise), ``h`` (objects of which only one member stands there), or ``i`` (items patched) and
``a`` (items added, by position), or ``p`` (characters kept at the front, characters kept at the back, what stands
between), or ``q`` (the whole number, in quotes: the JSON of protobuf writes them so), or ``j`` (the value of which our
text is the JSON: arguments that came as an object).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannery.messages.json_text import decode_json, is_json, write_json

_LONG = 64
_KINDS = ("r", "d", "s", "x")
_SHORT = 4
# Beyond 64 bits, which is all that protobuf has.
_VAST = 2**64
Spell = Callable[[str], str]


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same to the letter of their types."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return (
            len(one) == len(other)
            and one.keys() == other.keys()
            and all(same(value, other[key]) for key, value in one.items())
        )
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def delta(ours: Any, theirs: Any, spell: Spell | None = None) -> dict[str, Any] | None:
    """The patch that turns ours into theirs; None when there is nothing to do.

    ``spell`` gives the usual spelling of a key, where a dialect knows several: a key spelled otherwise is renamed,
    and its value is not kept twice.
    """
    if type(ours) is not type(theirs):
        is_quoted = type(ours) is int and abs(ours) < _VAST and theirs == str(ours)
        if is_quoted:
            return {"q": True}
        is_spelled = type(ours) is str and theirs is not None and _spells(ours, theirs)
        return {"j": True} if is_spelled else {"v": theirs}
    if type(ours) is dict:
        # The commonest case by far, and comparing in C is quick; only numbers need a closer look.
        if ours == theirs and (_is_all_text(ours) or same(ours, theirs)):
            return None
        return _object_delta(ours, theirs, spell)
    if type(ours) is list:
        return _list_delta(ours, theirs, spell)
    if ours == theirs:
        return None
    if type(ours) is str:
        if len(ours) > _LONG and len(theirs) > _LONG:
            return _text_delta(ours, theirs)
        if len(theirs) >= _SHORT and ours.endswith(theirs):
            # A payload without the wrapper that it usually has.
            return {"p": [0, len(theirs), ""]}
    return {"v": theirs}


def _spells(text: str, value: Any) -> bool:
    """Whether a text is the JSON of a value."""
    return write_json(value) == text and same(decode_json(text), value)


def _is_all_text(value: dict[str, Any]) -> bool:
    """Whether nothing in an object could be equal and yet spelled differently."""
    for item in value.values():
        kind = type(item)
        if kind is not str and not (kind is dict and _is_all_text(item)):
            return False
    return True


def restore(ours: Any, patch: dict[str, Any] | None) -> Any:
    """Ours with a patch applied; what the patch expects and does not find is left alone."""
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
    if type(ours) is list:
        return _restored_list(ours, patch)
    if type(ours) is not dict:
        return ours
    return _restored_object(ours, patch)


def _restored_object(ours: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in ours.items() if key not in patch.get("x", ())}
    for key, inner in patch.get("d", {}).items():
        if key in result:
            result[key] = restore(result[key], inner)
    for key, member in patch.get("h", {}).items():
        if type(result.get(key)) is dict and member in result[key]:
            result[key] = result[key][member]
    renamed = patch.get("r")
    if renamed is not None:
        result = {renamed.get(key, key): value for key, value in result.items()}
    result.update(patch.get("s", {}))
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


def _object_delta(
    ours: dict[str, Any], theirs: dict[str, Any], spell: Spell | None
) -> dict[str, Any] | None:
    patch: dict[str, Any] = {}
    usual = {} if spell is None else _usual_keys(ours, theirs, spell)
    kept: set[str] = set()
    for key, value in theirs.items():
        if key in ours and _is_same_scalar(ours[key], value):
            kept.add(key)
            continue
        own = usual.get(key, key)
        if own != key and own in kept:  # spelled in two ways at once
            own = key
        inner = delta(ours[own], value, spell) if own in ours else {"v": value}
        if inner is not None and "v" in inner:
            patch.setdefault("s", {})[key] = inner["v"]
            kept.add(key)
            continue
        kept.add(own)
        if own != key:
            patch.setdefault("r", {})[own] = key
        if inner is not None:
            patch.setdefault("d", {})[own] = inner
    dropped = [key for key in ours if key not in kept]
    if dropped:
        patch["x"] = dropped
    return ordered(patch) or None


def ordered(patch: dict[str, Any]) -> dict[str, Any]:
    """A patch whose text does not depend on the order of the fields that it was made from."""
    return patch if len(patch) < 2 else {kind: patch[kind] for kind in _KINDS if kind in patch}


def _is_same_scalar(one: Any, other: Any) -> bool:
    """Whether two values are the same and hold no others: what most fields are, and quickly seen."""
    kind = type(one)
    return kind is type(other) and kind is not dict and kind is not list and one == other


def _usual_keys(ours: dict[str, Any], theirs: dict[str, Any], spell: Spell) -> dict[str, str]:
    """The usual spelling of those keys of theirs that ours has under it."""
    return {
        key: usual
        for key in theirs
        if key not in ours and (usual := spell(key)) in ours and usual not in theirs
    }


def _list_delta(ours: list[Any], theirs: list[Any], spell: Spell | None) -> dict[str, Any] | None:
    if len(ours) != len(theirs):
        return {"v": theirs}
    inner = {
        str(index): patch
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if (patch := delta(one, other, spell)) is not None
    }
    return {"i": inner} if inner else None


def _text_delta(ours: str, theirs: str) -> dict[str, Any]:
    limit = min(len(ours), len(theirs))
    front = _shared(limit, lambda count: ours[:count] == theirs[:count])
    back = _shared(
        limit - front, lambda count: ours[len(ours) - count :] == theirs[len(theirs) - count :]
    )
    if front + back < len(theirs) // 2:
        return {"v": theirs}
    return {"p": [front, back, theirs[front : len(theirs) - back]]}


def _shared(limit: int, holds: Any) -> int:
    """The largest count up to a limit for which a monotone property holds."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
