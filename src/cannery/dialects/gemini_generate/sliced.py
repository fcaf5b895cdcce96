"""Writing generateContent bodies on the shortest way.

Short requests are texts by turns, which are put between frames that are the same for all requests with as many texts.
Where no text needs an escape, text is JSON already; all others are encoded at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from orjson import dumps

from cannery.dialects.gemini_generate.fast import usual_config
from cannery.dialects.gemini_generate.frames import write_long
from cannery.messages.absence import absent
from cannery.wire.losses import Notes
from cannery.wire.slices import MODEL, USER, Around, Sliced, encode_structs

# What stands between texts that are encoded as one list, and in none of them: there a quote has a backslash before it.
_BETWEEN = '","'
_BACKSLASH = ord("\\")


def write_slices(sliced: Sliced, around: Around | None, notes: Notes) -> bytes | None:
    """The body; None for requests that need a repair."""
    if sliced.short is None:
        return write_long(sliced, around, notes)
    system = sliced.system
    texts: list[str] = [] if system is None else [system]
    rest = iter(sliced.messages)
    for user in rest:
        said = user.content
        if user.speaker is not USER or not said.strip():
            return None
        model = next(rest, None)
        if model is None:
            texts.append(said)
            break
        answer = model.content
        if model.speaker is not MODEL or not answer.strip():
            return None
        texts += said, answer
    else:
        return None
    limit = sliced.limit
    if around is None and sliced.temperature is sliced.top_p is absent and limit is not absent:
        start: str | None = f'{{"generationConfig":{{"maxOutputTokens":{limit}}},'
    else:
        start = _opening(sliced) if around is None else _joined(around)
    if start is None:
        return None
    pieces = _frames(len(texts), system is not None).copy()
    pieces[0] = start
    pieces[2::2] = (
        texts if _BACKSLASH not in sliced.short else dumps(texts)[2:-2].decode().split(_BETWEEN)
    )
    return "".join(pieces).encode()


def _opening(sliced: Sliced) -> str | None:
    """What a body with these settings begins with, or None where one of them would have to change."""
    config = usual_config(sliced.limit, sliced.temperature, sliced.top_p)
    return None if config is None else _joined({"generationConfig": config} if config else {})


def _joined(fields: Mapping[str, Any]) -> str:
    return encode_structs(fields)[:-1].decode() + "," if fields else "{"


@lru_cache(maxsize=256)
def _frames(texts: int, has_system: bool) -> list[str]:  # noqa: FBT001 - part of a key
    """What stands around texts by turns; the places of the texts are empty."""
    frames = ['"systemInstruction":{"parts":[{"text":"'] if has_system else []
    opening = '"}]},"contents":[' if has_system else '"contents":['
    for number in range(texts - has_system):
        role = "model" if number % 2 else "user"
        frames.append(f'{opening}{{"role":"{role}","parts":[{{"text":"')
        opening = '"}]},'
    pieces = [""] * (2 * len(frames) + 2)
    pieces[1::2] = (*frames, '"}]}]}')
    return pieces
