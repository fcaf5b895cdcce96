"""Settings and file ids that OpenAI's two dialects share: settings beyond the model come from the other's residue.

A setting with one meaning in both is no loss between them. Each row gives its path in Chat Completions, its path in
Responses, and the values that both accept (openai 3.49.0, 2026-11-15); a value of another type stays a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.payload import Location
from cannery.messages.requests import Request
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.controls import flag, integer, text
from cannery.wire.foreign import holders
from cannery.wire.losses import NOTHING_TAKEN, TakenOver
from cannery.wire.places import key_text
from cannery.wire.residues import Left, dropped_keys

_CHAT, _RESPONSES = "openai_chat", "openai_responses"
_LOGPROBS = "message.output_text.logprobs"
_DETAILS = frozenset({"auto", "low", "high", "original"})
# The path of an image's detail in its part, in Chat's relatives and in Responses.
_DETAIL_PLACES = (".image_url.detail", ".detail")
# How the ids of OpenAI's Files API begin; a client may send an id of another provider as well.
_FILE = "file-"
# The lifetime of a cache mark in both dialects.
_CACHE = {"30m": "short", "12h": "long"}


def _among(*words: str) -> Callable[[Any], Any]:
    """One of the words that both accept."""
    return lambda value: value if type(value) is str and value in words else absent


_ROWS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    (
        "service_tier",
        "service_tier",
        _among("auto", "default", "flex", "scale", "priority", "fast"),
    ),
    ("store", "store", flag),
    ("prompt_cache_key", "prompt_cache_key", text),
    ("prompt_cache_retention", "prompt_cache_retention", _among("in_memory", "24h")),
    ("prompt_cache_options.mode", "prompt_cache_options.mode", _among("implicit", "explicit")),
    ("prompt_cache_options.ttl", "prompt_cache_options.ttl", _among("30m")),
    ("safety_identifier", "safety_identifier", text),
    ("moderation.model", "moderation.model", text),
    ("moderation.policy.input.mode", "moderation.policy.input.mode", _among("score", "block")),
    ("moderation.policy.output.mode", "moderation.policy.output.mode", _among("score", "block")),
    ("verbosity", "text.verbosity", _among("low", "medium", "high")),
    ("top_logprobs", "top_logprobs", integer),
    ("stream_options.include_obfuscation", "stream_options.include_obfuscation", flag),
)
_Places = dict[str, tuple[str, Callable[[Any], Any]]]
_PLACES: dict[tuple[str, str], _Places] = {
    (_CHAT, _RESPONSES): {chat: (responses, read) for chat, responses, read in _ROWS},
    (_RESPONSES, _CHAT): {responses: (chat, read) for chat, responses, read in _ROWS},
}
# The objects that hold some of them.
_HOLDERS = holders(frozenset(place for row in _ROWS for place in row[:2]))
# The path of the log probability setting in each dialect.
_WISHES = {_CHAT: "logprobs", _RESPONSES: "include"}


def shared_settings(dialect: str, request: Request, left: Left) -> TakenOver:
    """The settings that a dialect takes from its sibling's residue."""
    source = request.residue.dialect if request.residue is not None else ""
    places = _PLACES.get((source, dialect))
    if places is None:
        return NOTHING_TAKEN
    wish = _WISHES[source]
    given = dict(_leaves(left, places, wish))
    if not given:
        return NOTHING_TAKEN
    fields = {}
    said = set()
    for place, held in given.items():
        if place == wish or (request.stream is not True and place.startswith("stream_options.")):
            # Chat refuses stream options without a stream.
            continue
        here, read = places[place]
        value = read(held)
        if value is not absent:
            fields[here] = value
            said.add(place)
    wanted = given.get(wish)
    if wanted is False or wanted == [_LOGPROBS]:
        said.add(wish)
    if wanted is True or (type(wanted) is list and _LOGPROBS in wanted):
        said.update(() if type(wanted) is list else (wish,))
        fields[_WISHES[dialect]] = [_LOGPROBS] if dialect == _RESPONSES else True
    elif fields.pop("top_logprobs", None) is not None:
        # The number of log probabilities means nothing if none are requested.
        said.discard("top_logprobs")
    return TakenOver(fields, frozenset(said))


def _leaves(left: Left, places: _Places, wish: str) -> Iterator[tuple[str, Any]]:
    """The fields at shared paths, or at the path of the log probability setting."""
    waiting = [(path.removeprefix("."), held) for path, held in left]
    for place, held in waiting:
        if place in places or place == wish:
            yield place, held
        elif type(held) is dict and place in _HOLDERS:
            waiting += [(place + key_text(key), inner) for key, inner in held.items()]


def put_shared(taken: TakenOver, body: Object) -> None:
    """Write the settings of a sibling into a body."""
    for path, value in taken.fields.items():
        *fields, key = path.split(".")
        place = body
        for field in fields:
            place = place.setdefault(field, {})
        place[key] = value


def knows_file(dialect: str, payload: object, request: Request | None) -> bool:
    """Whether a dialect accepts the id of a file: both of OpenAI's take those of its Files API from the other."""
    return (
        dialect in _WISHES
        and isinstance(payload, Location)
        and payload.kind == "file"
        and payload.value.startswith(_FILE)
        and request is not None
        and request.source in _WISHES
    )


def image_detail(residue: Residue | None) -> str | None:
    """The detail of an image, if its residue has it."""
    if residue is None or residue.part is None or '"detail"' not in residue.part:
        return None
    for path, held in dropped_keys(residue.part):
        if path in _DETAIL_PLACES and type(held) is str and held in _DETAILS:
            return held
    return None


def detail_place(residue: Residue) -> str:
    """The path of the detail in the residue of an image."""
    return next(path for path, _ in dropped_keys(residue.part) if path in _DETAIL_PLACES)


def cache_mark(part: Any) -> str | None:
    """The cache mark of a part in terms that every dialect understands."""
    mark = part.get("prompt_cache_breakpoint") if type(part) is dict else None
    return _CACHE.get(str(mark.get("ttl")), "short") if type(mark) is dict else None
