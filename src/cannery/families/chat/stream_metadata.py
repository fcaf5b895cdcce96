"""Metadata in the chunks of a stream, collected to the fields that the whole response would have.

A chunk may have other fields than text: tiers, fingerprints, probabilities, filters, vendor counts. A field of the
response or of its choice has one value, so the last one is used; probabilities and fields of the message are pieces
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

# The fields of a response, of a choice and of its delta that events carry.
HEAD = frozenset({"id", "object", "created", "model", "choices", "usage", "obfuscation"})
_NAMED = {"id": str, "created": int, "model": str}
CHOICE = frozenset({"index", "delta", "finish_reason"})
REASONING = ("reasoning_content", "reasoning")
DELTA = frozenset(
    {"role", "content", "refusal", "annotations", "tool_calls", "function_call", *REASONING}
)
_PIECES = frozenset({"logprobs"})
# Delta fields that events carry; annotations are also passed to this dialect with their exact spelling.
_SAID = DELTA - {"annotations"}
# Fields that each piece may repeat, without any piece extending them.
_NAMES = frozenset({"id", "type", "role", "name"})
# Values without meaning.
NOTHING: tuple[Any, ...] = (None, {}, [])


class Around:
    """The fields around one response."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.answer: Object = {}
        self._choice: Object = {}
        # What arrives in pieces: fields of the choice, fields of the message beside its text, and the other choices.
        self._pieces: list[Object] = []
        self._message: list[Object] = []
        self._others: dict[int, list[Object]] = {}
        # The rest of a usage object beyond the usage that was read from it.
        self.usage_patch: Object | None = None

    def take_chunk(self, chunk: Object) -> Object:
        """Take a chunk's fields of the whole response; returns the new ones."""
        more: Object = {}
        for key, item in chunk.items():
            if key not in HEAD:
                if item not in NOTHING and self.answer.get(key) != item:
                    more[key] = item
                _replace(self.answer, key, item)
        return more

    def take_usage(self, usage: Any) -> Any:
        """Take a usage object; returns its usage, or absent."""
        if type(usage) is not dict:
            return absent
        found, self.usage_patch = self._shape.counts.take(usage)
        return found

    def take_choice(self, choice: Object) -> Object:
        """Take a chunk's fields of the first choice and of its message; returns the new ones of the choice."""
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
        """Take a chunk's other choices: only this dialect has several."""
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
        # Fields that the start could not carry as they came.
        odd = {
            key: head[key]
            for key, kind in _NAMED.items()
            if key in head and type(head[key]) is not kind
        }
        found = nested({**odd, **self.answer}, patches, missing)
        return None if found is None else Residue(self._shape.name, None, write_json(found))


def _replace(holder: Object, key: str, item: Any) -> None:
    """Keep the last non-empty value."""
    if item is not None or key not in holder:
        holder[key] = item


def _whole_choice(pieces: list[Object]) -> Object:
    """The choice that all its pieces form."""
    choice: Object = {}
    for piece in pieces:
        for key, item in piece.items():
            if key != "delta":
                _replace(choice, key, item)
    deltas = [piece["delta"] for piece in pieces if type(piece.get("delta")) is dict]
    grown = _merged([{key: piece[key] for key in _PIECES & piece.keys()} for piece in pieces])
    return {**choice, "message": _merged(deltas), **grown}


def _merged(pieces: list[Object]) -> Object:
    """The object that arrives in pieces."""
    keys = dict.fromkeys(key for piece in pieces for key in piece)
    return {key: _grown(key, [piece.get(key) for piece in pieces]) for key in keys}


def _grown(key: str, pieces: list[Any]) -> Any:
    """A value that arrives in pieces: texts and lists grow, objects grow field by field; names come once."""
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
    """The calls that arrive in pieces, by index."""
    calls: dict[Any, list[Object]] = {}
    for piece in pieces:
        if type(piece) is dict:
            index = piece.pop("index", None)
            # A call without an index arrives whole.
            calls.setdefault(index if type(index) is int else (len(calls),), []).append(piece)
    return [_merged(call) for call in calls.values()]
