"""Makes and applies residue: what a dialect expresses beyond the model, as patches (``wire.patches``).

A reader takes the keys that it understands out of an object, and the rest becomes a patch. A writer applies the patch
with ``recall`` if the residue is of its own dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cannery.messages.json_text import decode_json
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.patches import digest_of, restore, still_true
from cannery.wire.places import key_text

# The fields that a reader did not take, by path.
Left = list[tuple[str, Any]]
NO_WORDS: frozenset[str] = frozenset()


def set_again(left: Object) -> Object | None:
    """The patch that sets the fields left in an object after a reader took all that it understands."""
    return {"s": left} if left else None


def nested(
    left: Object,
    inner: Mapping[str, Object | None],
    dropped: Sequence[str] = (),
    renamed: Mapping[str, str] | None = None,
    notes: Mapping[str, str | None] | None = None,
) -> Object | None:
    """The same, with patches of inner objects by key, and with keys that writing adds and the object lacked.

    ``renamed`` are keys that the object spells differently from writing; for ``notes`` see ``wire.patches``.
    """
    patch: Object = {}
    if inner:
        patched = {key: each for key, each in inner.items() if each is not None}
        if patched:
            patch["d"] = patched
    if renamed:
        patch["r"] = renamed
    if left:
        patch["s"] = left
    if dropped:
        patch["x"] = dropped
    if notes:
        patch["w"] = notes
    return patch or None


def respelled(patch: Object | None, spellings: Object) -> Object | None:
    """The patch with values that only spell what is said, by their keys."""
    return {**(patch or {}), "m": spellings} if spellings else patch


def setting(left: Object, inner: Mapping[str, Object | None], written: Object) -> Object | None:
    """The patch of a setting; ``written`` has the keys that writing gives in another spelling or adds."""
    dropped = [key for key in written if key not in left]
    return nested(left, inner, dropped, None, noted(written))


def noted(written: Object) -> dict[str, str | None]:
    """The notes of what writing gives, by key."""
    return {key: digest_of(value) for key, value in written.items()}


def keep_unusual(left: Object, key: str, usual: Any, written: Object) -> None:
    """Take a setting's field if its value is the one that writing gives; otherwise record that value as written."""
    if key in left and type(left[key]) is type(usual) and left[key] == usual:
        del left[key]
    else:
        written[key] = usual


def take_usual(left: Object, key: str, usual: Any, dropped: list[str]) -> None:
    """Take a field if its value is the one that writing gives; record it as dropped if the object lacks it."""
    if key not in left:
        dropped.append(key)
    elif type(left[key]) is type(usual) and left[key] == usual:
        del left[key]


def beyond(value: Object, written: Object) -> Object | None:
    """The patch of what an object has beyond what writing gives: objects by field, other values whole."""
    left: Object = {}
    inner: dict[str, Object | None] = {}
    for key, held in value.items():
        usual = written.get(key)
        if type(held) is dict and type(usual) is dict:
            inner[key] = beyond(held, usual)
        elif key not in written or type(held) is not type(usual) or held != usual:
            left[key] = held
    return nested(left, inner, [key for key in written if key not in value])


def recall(ours: Any, patch: str | None) -> Any:
    """Apply a remembered patch to our value."""
    return ours if patch is None else restore(ours, decode_json(patch))


def recall_settings(
    ours: Object, residue: Residue | None, spell: Callable[[str], str] = str
) -> Object:
    """The current settings of a request with their residue; ``spell`` gives the usual spelling of a key."""
    if residue is None or residue.envelope is None:
        return ours
    patch = decode_json(residue.envelope)
    if patch.keys() == {"s"} and spell is str and ours.keys().isdisjoint(patch["s"]):
        # Most residue is fields beside the written ones.
        return {**ours, **patch["s"]}
    return restore(ours, still_true(ours, patch, spell))  # type: ignore[no-any-return]


def own_residue(value: Any, dialect: str) -> Residue | None:
    """The residue of a value if it is of this dialect."""
    residue: Residue | None = value.residue
    return residue if residue is not None and residue.dialect == dialect else None


def form_words(residue: Residue | None) -> frozenset[str]:
    """The words of a form, if a dialect records several spellings as words."""
    if residue is None or residue.form is None:
        return NO_WORDS
    return frozenset(residue.form.split())


def dropped_keys(patch: str | None) -> Left:
    """The fields that a residue of another dialect sets, with their values: what the writer leaves out."""
    # Only these parts of a patch set anything, at any level.
    if patch is None or not ('"s"' in patch or '"a"' in patch or '"v"' in patch):
        return []
    found = decode_json(patch)
    # Records of a stored chat keep their content parts unchanged, and their fields without a patch around them.
    if type(found) is not dict:
        return []
    if len(found) == 1 and "s" in found:
        return [(key_text(key), value) for key, value in found["s"].items() if value is not None]
    fields: Left = []
    _add_keys(found, "", fields)
    return fields


def _add_keys(patch: Object, path: str, fields: Left) -> None:
    if "s" in patch:
        for key, value in patch["s"].items():
            if value is not None:
                fields.append((path + key_text(key), value))
    if "d" in patch:
        spelled = patch.get("r", {})
        for key, inner in patch["d"].items():
            _add_keys(inner, path + key_text(spelled.get(key, key)), fields)
    if "i" in patch:
        for index, inner in patch["i"].items():
            _add_keys(inner, f"{path}[{index}]", fields)
    if "a" in patch:
        fields += [(f"{path}[{index}]", item) for index, item in patch["a"].items()]
    if path and patch.get("v") is not None:
        fields.append((path, patch["v"]))
