"""Long base64 cut out of a body before it is read, and put back when the rest is written again.

Reading a string takes a look at each of its bytes, and so does writing it. Of an inline image nobody needs more than
the beginning, so nearly all of it is taken out and a short mark left in its place: two DEL characters with a number
between them, which pass every encoder as they are and which no such body has elsewhere. What is left has the same
length modulo four, the same beginning and the same end, and says the same to everybody who looks at those.
"""

from __future__ import annotations

from collections.abc import Sequence

from orjson import dumps

# How long a body must be to be looked at, and at which distances; where one image is, more may follow.
LONG = 32_768
_STEP, _NEXT = 65_536, 16_384
_LEAST = 16_384
# No limit of any provider on something short is above that.
_KEPT = 4_096
_MARK = b"\x7f"
_MARKED = 4
_MOST = 100
# How the string begins, or what stands before it.
_URL, _FIELDS = b"data:", (b'"data":', b'"data": ')

Runs = Sequence[memoryview]


def cut(body: bytes) -> tuple[bytes, Runs]:
    """A body with marks in place of long base64, and what they stand for."""
    runs: list[memoryview] = []
    view = memoryview(body)
    pieces: list[memoryview | bytes] = []
    place, after = min(_STEP, len(body) // 2), 0
    while place < len(body) and len(runs) < _MOST:
        end = body.find(b'"', place)
        # Whoever does not stand in a long string mostly sees its end from here.
        if end - place > _KEPT:
            start = body.rfind(b'"', after, place)
            if start >= 0 and end - start > _LEAST and _is_base64(body, view, start, end):
                first = start + _KEPT
                last = first + (end - first) // 4 * 4 - 4
                pieces += (view[after:first], b"\x7f%02d\x7f" % len(runs))
                runs.append(view[first:last])
                after = last
        place = max(end, place) + (_NEXT if runs else _STEP)
    if not runs or _MARK in body:
        return body, ()
    return b"".join((*pieces, view[after:])), runs


def _is_base64(body: bytes, view: memoryview, start: int, end: int) -> bool:
    """Whether what stands between two quotes is a string of base64 that needs no second look."""
    if not body.startswith(_URL, start + 1) and not body[start - 8 : start].endswith(_FIELDS):
        return False
    try:
        text = str(view[start + 1 : end], "ascii")
    except UnicodeDecodeError:
        return False
    # What needs an escape, or has one, would be longer; dashes are of the other alphabet of base64.
    return len(dumps(text)) == len(text) + 2 and "-" not in text and "_" not in text


def mend(written: bytes, runs: Runs) -> bytes:
    """What was written, with everything in its place again."""
    view = memoryview(written)
    pieces: list[memoryview] = []
    after = 0
    while (place := written.find(_MARK, after)) >= 0:
        pieces += (view[after:place], runs[int(written[place + 1 : place + 3])])
        after = place + _MARKED
    return b"".join((*pieces, view[after:]))
