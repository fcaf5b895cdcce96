"""The settings of a request in the same dialect: the residue of each, unless the request was changed.

Residue knows how a setting was spelled (``stop`` as one string, ``tools`` as an empty list, ``stream`` as null).
When a setting is changed in the model, its new value replaces the old spelling; all other spellings stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cannery.errors import DialectError
from cannery.messages.json_text import decode_json
from cannery.messages.requests import OutputFormat, Request
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, encode
from cannery.wire.patches import restore
from cannery.wire.places import Places

# The usual spelling of a key.
Spell = Callable[[str], str]

# What a patch sets or drops in one object: the keys that lead there, and the keys themselves.
Change = tuple[tuple[str, ...], frozenset[str]]


def settle(
    ours: Object,
    request: Request,
    residue: Residue | None,
    messages: str,
    read: Callable[[bytes, Places], Request],
    spell: Spell = str,
) -> Object:
    """The settings with their residue.

    ``read`` reads a body whose messages stand under a key; ``spell`` gives the usual spelling of a key.
    """
    if residue is None or residue.envelope is None:
        return ours
    patch = decode_json(residue.envelope)
    if not _may_contradict(ours, patch, spell):
        return restore(ours, patch)  # type: ignore[no-any-return]
    patch = _refined(ours, patch, spell)
    restored: Object = restore(ours, patch)
    facts = _facts(request)

    def agreement(body: Object) -> int:
        try:
            found = _facts(read(encode({**body, messages: []}), Places()))
        except DialectError:
            return -1
        return sum(map(_is_equal, facts, found))

    best = agreement(restored)
    for change in _changes(ours, patch, spell) if best < len(facts) else ():
        less = _without(patch, *change, spell)
        without = restore(ours, less)
        found = agreement(without)
        if found > best:
            best, patch, restored = found, less, without
    return restored


def _facts(request: Request) -> list[Any]:
    """What the settings of a request say, one by one; first what a dialect may say only in part."""
    controls, output = request.controls, request.controls.output
    shape = (output.kind, output.schema) if isinstance(output, OutputFormat) else None
    names = sorted(tool.name for tool in request.tools)
    said = [getattr(controls, name) for name in controls.__struct_fields__]
    chosen = (request.tool_choice, request.model, request.stream)
    return [shape, names, *said, request.tools, *chosen]


def _is_equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _may_contradict(ours: Any, patch: Object, spell: Spell) -> bool:
    """Whether a patch sets or drops something that the request says too."""
    if type(ours) is not dict:
        return False
    if any(key in ours or spell(key) in ours for key in _touched(patch)):
        return True
    inner = patch.get("d", {}).items()
    return any(_may_contradict(ours.get(key), item, spell) for key, item in inner)


def _refined(ours: Object, patch: Object, spell: Spell) -> Object:
    """The same patch, objects that the request says too changed key by key instead of as a whole."""
    given, inner, renamed = {}, dict(patch.get("d", {})), dict(patch.get("r", {}))
    for key, item in inner.items():
        if type(ours.get(key)) is dict:
            inner[key] = _refined(ours[key], item, spell)
    dropped = list(patch.get("x", ()))
    for key, value in patch.get("s", {}).items():
        own = key if key in ours else spell(key)
        if type(value) is not dict or type(ours.get(own)) is not dict:
            given[key] = value
            continue
        more = [name for name in ours[own] if name not in value]
        inner[own] = _refined(ours[own], {"s": value, "x": more}, spell)
        dropped = [name for name in dropped if name != own]
        if own != key:
            renamed[own] = key
    return {**patch, "s": given, "x": dropped, "d": inner, "r": renamed}


def _touched(patch: Object) -> list[str]:
    return [*patch.get("s", ()), *patch.get("x", ())]


def _changes(
    ours: Object, patch: Object, spell: Spell, path: tuple[str, ...] = ()
) -> Iterator[Change]:
    """One key after the other, then those together that the request says too."""
    keys = _touched(patch)
    for key in keys:
        yield path, frozenset({key})
    contradicted = frozenset(key for key in keys if key in ours or spell(key) in ours)
    if len(contradicted) > 1:
        yield path, contradicted
    for key, inner in patch.get("d", {}).items():
        if type(ours.get(key)) is dict:
            yield from _changes(ours[key], inner, spell, (*path, key))


def _without(patch: Object, path: tuple[str, ...], keys: frozenset[str], spell: Spell) -> Object:
    """A patch that leaves some keys alone, but for their spelling."""
    if path:
        inner = _without(patch["d"][path[0]], path[1:], keys, spell)
        return {**patch, "d": {**patch["d"], path[0]: inner}}
    given = {key: item for key, item in patch.get("s", {}).items() if key not in keys}
    left = {*keys, *map(spell, keys)}
    dropped = [key for key in patch.get("x", ()) if key not in left]
    renamed = {spell(key): key for key in keys if spell(key) != key}
    return {**patch, "s": given, "x": dropped, "r": {**patch.get("r", {}), **renamed}}
