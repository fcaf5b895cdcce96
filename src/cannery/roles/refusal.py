"""The text of a refused role: the accepted names, the received one, and the probable intention.

The wording is a contract with clients that show it to people, so it is built in one place. The received value is shown
short and escaped: a hostile role string can neither flood a log nor forge a line in it. A suggestion starts from the
accepted spelling that is nearest to the received one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cannery.errors import RoleError

MISSING: Final = object()
"""A role that is missing, unlike ``None``, which a client may send."""

LONGEST_SHOWN = 64
LONGEST_COMPARED = 32
LARGEST_NUMBER_BITS = 64
NEAR_ENOUGH = 0.5
MOST_SUGGESTIONS = 3
MOST_VARIATIONS = 10
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def show(value: object) -> str:
    """Write any value as JSON would, in one short line."""
    if isinstance(value, str):
        return _quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) or (
        # Python refuses to write an integer of thousands of digits.
        isinstance(value, int) and value.bit_length() <= LARGEST_NUMBER_BITS
    ):
        return str(value)
    return _name_kind(value)


def suggest(received: object, groups: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the spellings that were probably meant, the role's own name first.

    A group holds one role's accepted spellings, its own name first. The nearest spelling of all (``difflib`` ratio of
    at least one half, the first among equals) chooses the group; that group's own name, the nearest spelling and then
    its other spellings follow, three at most.
    """
    if not isinstance(received, str) or len(received) > LONGEST_COMPARED:
        return ()
    import difflib  # imported here, because most roles are right and start-up stays cheap

    word = received.strip().lower()
    ranked = [
        (difflib.SequenceMatcher(None, spelling, word).ratio(), spelling, group)
        for group in groups
        for spelling in group
    ]
    ratio, nearest, group = max(ranked, key=lambda rank: rank[0])
    if ratio < NEAR_ENOUGH:
        return ()
    return tuple(dict.fromkeys((group[0], nearest, *group)))[:MOST_SUGGESTIONS]


def refuse_role(
    received: object,
    groups: Sequence[Sequence[str]],
    *,
    path: str | None = None,
    is_exact: bool = False,
    reason: str = "",
) -> RoleError:
    """Build the error for a role that no group accepts."""
    suggestions = () if reason else suggest(received, groups)
    names = ", ".join(group[0] for group in groups)
    sentences = [
        f"Role must be one of: {names} (received: {show(received)}).",
        reason,
        f"Did you mean {_list_choices(suggestions)}?" if suggestions else "",
        "" if is_exact else f"Supported variations include: {_list_variations(groups)}...",
    ]
    text = " ".join(filter(None, sentences))
    return RoleError(
        f"{path}: {text}" if path else text,
        received=None if received is MISSING else received,
        path=path,
        suggestions=suggestions,
    )


def _quote(text: str) -> str:
    shown = "".join(map(_escape, text[:LONGEST_SHOWN]))
    return f'"{shown}…"' if len(text) > LONGEST_SHOWN else f'"{shown}"'


def _escape(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    return character if character.isprintable() else f"\\u{ord(character):04x}"


def _name_kind(value: object) -> str:
    if value is MISSING:
        return "nothing"
    if isinstance(value, int):
        return "a very large number"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "an object" if isinstance(value, Mapping) else f"a value of type {type(value).__name__}"


def _list_choices(choices: Sequence[str]) -> str:
    *others, last = (f'"{choice}"' for choice in choices)
    if len(others) > 1:
        return f"{', '.join(others)}, or {last}"
    return " or ".join([*others, last])


def _list_variations(groups: Sequence[Sequence[str]]) -> str:
    variations = [
        variation
        for group in groups
        for spelling in group
        for variation in (spelling, spelling.capitalize(), spelling.upper())
    ]
    return ", ".join(variations[:MOST_VARIATIONS])
