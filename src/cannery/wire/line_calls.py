"""Calls of requests that come one a line: the arguments of all of them are put into Chat's spelling together.

A turn holds a call as JSON text in a JSON text, and so does Chat the arguments. In the usual spelling they are taken
over as they stand, with all escapes; one look at all of them makes sure that each is an object. A turn that spells its
call otherwise, or several, is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import le
from typing import Any

import msgspec
from msgspec import Raw, Struct
from orjson import dumps

from cannery.wire.line_states import OPENINGS, Calling, name_in, next_call
from cannery.wire.markers import read_error_flag
from cannery.wire.slices import UnusualError

EMPTY = Raw(b'""')
# So many are sooner read one by one.
_FEW = 3
# Stands before each of many arguments, and nowhere in them.
_MARK, _ESCAPED_MARK = "\x7f", "\\u007"
# An answer that says that its call failed begins with a bracket, or with an escape that stands for one.
_FROM_BRACKET, _BEHIND_BRACKETS = bytearray(b'"['), bytearray(b'"]')
_ALL_BEHIND_BRACKETS = repeat(_BEHIND_BRACKETS)


class LineCall(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A call as a turn spells it."""

    name: str
    arguments: Raw


class _Marked(Struct, frozen=True, gc=False, forbid_unknown_fields=True, rename={"held": _MARK}):
    held: Raw


_decode_text = msgspec.json.Decoder(str).decode
_decode_marked = msgspec.json.Decoder(list[_Marked]).decode


def write_calls(
    leads: list[Any],
    held: list[Any],
    read_calls: Callable[[Raw], Any],
    answered: list[int],
) -> None:
    """Put arguments where turns hold calls; of each line so many are ``answered``, and at least one of each turn."""
    places = [place for place, lead in enumerate(leads) if type(lead) is Calling]
    found = None
    if sum(answered) == len(places) > _FEW:
        found = _taken_over([held[place] for place in places])
    if found is None:
        answers = _write_each(leads, held, places, read_calls, answered)
    else:
        for place, head, argument in zip(places, *found, strict=True):
            lead = leads[place]
            if lead.is_said and held[place - 1] == EMPTY:
                raise UnusualError
            leads[place] = lead[head]
            held[place] = argument
        answers = [held[place + 1] for place in places]
    if not all(map(le, _ALL_BEHIND_BRACKETS, answers)) and any(map(_is_marked, answers)):
        raise UnusualError


def _taken_over(spelled: list[Raw]) -> tuple[Sequence[bytes], Sequence[bytes]] | None:
    """What stands before the arguments of turns that each hold one call, and those; None for an unusual spelling."""
    joined = b",".join(spelled)
    # Nobody ends a text like this but who writes the next one.
    pieces = joined[1:-2].split(b'}","')
    if len(pieces) != len(spelled) or not joined.endswith(b'}"'):
        return None
    opening = OPENINGS[not joined.startswith(b'{\\"name\\": ', 1)]
    heads, _, arguments = zip(*[piece.partition(opening) for piece in pieces], strict=True)
    if None in map(name_in, set(heads)) or not _are_objects(arguments):
        return None
    return heads, arguments


def _are_objects(arguments: Sequence[bytes]) -> bool:
    """Whether each of these is, in a text and behind a brace, the rest of one object; one of ``ODD`` if it is no JSON.

    No argument has the mark, so there are as many marked objects as arguments only if each of those is one.
    """
    text = _decode_text(b'"[{\\"\x7f\\":{%b}]"' % b'},{\\"\x7f\\":{'.join(arguments))
    if text.count(_MARK) != len(arguments) or _ESCAPED_MARK in text:
        return False
    return len(_decode_marked(text)) == len(arguments)


def _write_each(
    leads: list[Any],
    held: list[Any],
    places: list[int],
    read_calls: Callable[[Raw], Any],
    answered: list[int],
) -> list[Raw]:
    """Put arguments where turns hold any number of calls, each with its answer; the answers."""
    answers: list[Raw] = []
    counts: list[int] = []
    for place in places:
        lead = leads[place]
        found = read_calls(held[place])
        if not found or (lead.is_said and held[place - 1] == EMPTY):
            raise UnusualError
        first, *others = found if type(found) is list else (found,)
        number = lead.number
        if not number:
            counts.append(0)
        if number != counts[-1]:
            raise UnusualError
        written, argument = lead[first.name], _spelled(first)
        for call in others:
            number += 1
            written += argument + next_call(number)[call.name]
            argument = _spelled(call)
        counts[-1] = number + 1
        leads[place] = written
        held[place] = argument
        answers += held[place + 1 : place + 2 + len(others)]
    if counts != [count for count in answered if count]:
        raise UnusualError
    return answers


def _spelled(call: LineCall) -> bytes:
    """The arguments of a call, spelled in JSON, without quotes and the first brace."""
    text = dumps(str(call.arguments, "utf-8"))
    if not text.startswith(b'"{'):
        raise UnusualError
    return text[2:-1]


def _is_marked(text: Raw) -> bool:
    """Whether the text of an answer says that a call failed."""
    spelled = bytes(text)
    may_be = _FROM_BRACKET <= spelled < _BEHIND_BRACKETS
    return may_be and read_error_flag(_decode_text(spelled)) is not None
