"""Writing generateContent bodies on the shortest way.

Short requests are texts by turns: they are encoded all at once, and put between frames that are the same for all
requests with as many texts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from orjson import dumps

from cannery.dialects.gemini_generate.fast import usual_config
from cannery.dialects.gemini_generate.frames import write_long
from cannery.wire.contract import Notes
from cannery.wire.slices import Around, Sliced, encode_structs, is_spoken

# What stands between texts that are encoded as one list, and in none of them: there a quote has a backslash before it.
_BETWEEN = b'","'


def write_slices(sliced: Sliced, around: Around | None, _notes: Notes) -> bytes | None:
    """The body; None for requests that need a repair."""
    if not sliced.is_short:
        return write_long(sliced, around)
    messages = sliced.messages
    if not is_spoken(messages):
        return None
    body: Any = around
    if around is None:
        config = usual_config(sliced.limit, sliced.temperature, sliced.top_p)
        if config is None:
            return None
        body = {"generationConfig": config} if config else None
    texts = [message.content for message in messages]
    has_system = sliced.system is not None
    if has_system:
        texts.insert(0, sliced.system)
    pieces = _frames(len(messages), has_system=has_system).copy()
    pieces[2::2] = dumps(texts)[2:-2].split(_BETWEEN)
    pieces[0] = encode_structs(body)[:-1] + b"," if body else b"{"
    return b"".join(pieces)


@lru_cache(maxsize=256)
def _frames(count: int, *, has_system: bool) -> list[bytes]:
    """What stands around texts by turns; the places of the texts, and of the settings before them, are empty."""
    frames = [b'"systemInstruction":{"parts":[{"text":"'] if has_system else []
    opening = b'"}]},"contents":[' if has_system else b'"contents":['
    for number in range(count):
        role = b"model" if number % 2 else b"user"
        frames.append(opening + b'{"role":"%b","parts":[{"text":"' % role)
        opening = b'"}]},'
    frames.append(b'"}]}]}')
    pieces = [b""] * (2 * len(frames))
    pieces[1::2] = frames
    return pieces
