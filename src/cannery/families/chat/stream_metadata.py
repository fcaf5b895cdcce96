"""Metadata in the chunks of a stream, collected to the fields that the whole answer would have.

A chunk may have other fields than text: tiers, fingerprints, probabilities, filters, counts of a vendor. A field of
the answer or of its choice has one value, so the last one is used; probabilities and fields of the message are pieces
that are concatenated.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from cannery.families.chat.answers import listed_choices
from cannery.families.chat.shape import Shape
from cannery.messages.absence import absent
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.residues import nested, set_again, take_usual

# What events say of an answer, of a choice and of its delta.
HEAD = frozenset({"id", "object", "created", "model", "choices", "usage", "obfuscation"})
_NAMED = {"id": str, "created": int, "model": str}
CHOICE = frozenset({"index", "delta", "finish_reason"})
REASONING = ("reasoning_content", "reasoning")
DELTA = frozenset(
    {"role", "content", "refusal", "annotations", "tool_calls", "function_call", *REASONING}
)
_PIECES = frozenset({"logprobs"})
# What events say of a delta themselves; annotations are told to this dialect once more, with their exact spelling.
_SAID = DELTA - {"annotations"}
# What each piece may say, and no piece says more of.
_NAMES = frozenset({"id", "type", "role", "name"})
# Values that say nothing.
NOTHING: tuple[Any, ...] = (None, {}, [])


class Around:
    """The fields around one answer."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.answer: Object = {}
        self._choice: Object = {}
        # What comes in pieces: fields of the choice, those of the message beside its words, and the other choices.
        self._pieces: list[Object] = []
        self._message: list[Object] = []
        self._others: dict[int, list[Object]] = {}
        # What a count of tokens says beyond the usage that was read from it.
        self.usage_patch: Object | None = None

    def take_chunk(self, chunk: Object) -> Object:
        """Take what a chunk says of the whole answer; gives what no chunk before it said."""
        more: Object = {}
        for key, item in chunk.items():
            if key not in HEAD:
                if item not in NOTHING and self.answer.get(key) != item:
                    more[key] = item
                _replace(self.answer, key, item)
        return more

    def take_usage(self, usage: Any) -> Any:
        """Take a count of tokens; gives the usage that it tells, or absent."""
        if type(usage) is not dict:
            return absent
        found, self.usage_patch = self._shape.counts.take(usage)
        return found

    def take_choice(self, choice: Object) -> Object:
        """Take what a chunk says of the first choice and of its message; gives what is new of the choice."""
        more: Object = {}
        for key, item in choice.items():
            if key in CHOICE:
                continue
            before = self._choice.get(key)
            if item is not None and (key in _PIECES or before != item):
                more[key] = item
            if key in _PIECES:
                self._pieces.append({key: item})
            else:
                _replace(self._choice, key, item)
        delta = choice.get("delta")
        if type(delta) is dict:
            beside = {key: item for key, item in delta.items() if key not in _SAID}
            if beside:
                self._message.append(beside)
        return more

    def take_other(self, choice: Any) -> None:
        """Take what a chunk says of a choice that is not the first: only this dialect has several."""
        index = choice.get("index") if type(choice) is dict else None
        if type(index) is int:
            self._others.setdefault(index, []).append(choice)

    def residue(self, head: Object, reason: FinishReason, word: str) -> Residue | None:
        """The residue that the whole answer would have."""
        choice, message = {**self._choice, **_merged(self._pieces)}, _merged(self._message)
        inner: Object = {}
        audio = message.get("audio")
        if type(audio) is dict and audio.get("id"):
            del message["audio"]
            inner["audio"] = set_again({key: audio[key] for key in audio if key != "id"})
        dropped: list[str] = []
        for key, usual in self._shape.beside.items():
            take_usual(choice, key, usual, dropped)
        if self._shape.finishes.word(reason) != word:
            choice["finish_reason"] = word
        patch = nested(choice, {"message": nested(message, inner)}, dropped)
        others = [_whole_choice(self._others[index]) for index in sorted(self._others)]
        patches = {"choices": listed_choices(patch, others), "usage": self.usage_patch}
        missing = [key for key in _NAMED if key not in head]
        # What the start could not tell as it came.
        odd = {
            key: head[key]
            for key, kind in _NAMED.items()
            if key in head and type(head[key]) is not kind
        }
        found = nested({**odd, **self.answer}, patches, missing)
        return None if found is None else Residue(self._shape.name, None, write_json(found))


def _replace(holder: Object, key: str, item: Any) -> None:
    """Keep the last value that says something."""
    if item is not None or key not in holder:
        holder[key] = item


def _whole_choice(pieces: list[Object]) -> Object:
    """The choice that all its pieces amount to."""
    choice: Object = {}
    for piece in pieces:
        for key, item in piece.items():
            if key != "delta":
                _replace(choice, key, item)
    deltas = [piece["delta"] for piece in pieces if type(piece.get("delta")) is dict]
    grown = _merged([{key: piece[key] for key in _PIECES & piece.keys()} for piece in pieces])
    return {**choice, "message": _merged(deltas), **grown}


def _merged(pieces: list[Object]) -> Object:
    """The object that comes in pieces."""
    keys = dict.fromkeys(key for piece in pieces for key in piece)
    return {key: _grown(key, [piece.get(key) for piece in pieces]) for key in keys}


def _grown(key: str, pieces: list[Any]) -> Any:
    """A value that comes in pieces: texts and lists grow, objects field by field; names are said once."""
    said = [piece for piece in pieces if piece is not None]
    if not said:
        return None
    if key in _NAMES:
        return said[0]
    kinds = {*map(type, said)}
    if kinds == {dict}:
        return _merged(said)
    if kinds == {str}:
        return "".join(said)
    if kinds == {list}:
        listed = [*chain.from_iterable(said)]
        return _whole_calls(listed) if key == "tool_calls" else listed
    return said[-1]


def _whole_calls(pieces: list[Any]) -> list[Object]:
    """The calls that come in pieces, by their index."""
    calls: dict[Any, list[Object]] = {}
    for piece in pieces:
        if type(piece) is dict:
            index = piece.pop("index", None)
            # One without an index comes whole.
            calls.setdefault(index if type(index) is int else (len(calls),), []).append(piece)
    return [_merged(call) for call in calls.values()]
