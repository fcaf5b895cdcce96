"""What stands around an answer in the chunks of a stream, gathered to what the whole answer would say.

A chunk may say anything beside the words: tiers, fingerprints, probabilities, filters, counts of a vendor. Values of
the answer and of its choice are said once, so the last one holds; probabilities and fields of the message come in
pieces that go on from each other.
"""

from __future__ import annotations

from typing import Any

from cannery.families.chat.shape import Shape
from cannery.messages.absence import absent
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.residues import nested, set_again, take_usual

# What events say of an answer, of a choice and of its delta.
HEAD = frozenset({"id", "object", "created", "model", "choices", "usage", "obfuscation"})
CHOICE = frozenset({"index", "delta", "finish_reason"})
REASONING = ("reasoning_content", "reasoning")
DELTA = frozenset(
    {"role", "content", "refusal", "annotations", "tool_calls", "function_call", *REASONING}
)
_PIECES = frozenset({"logprobs"})
# Values that say nothing.
NOTHING: tuple[Any, ...] = (None, {}, [])


class Around:
    """The fields around one answer."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.answer: Object = {}
        self._choice: Object = {}
        self._message: Object = {}
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
                self._choice[key] = _more(before, item)
            else:
                _replace(self._choice, key, item)
        delta = choice.get("delta")
        for key, item in delta.items() if type(delta) is dict else ():
            if key not in DELTA or key == "annotations":
                self._message[key] = _more(self._message.get(key), item)
        return more

    def residue(self, head: Object, reason: FinishReason, word: str) -> Residue | None:
        """The residue that the whole answer would have."""
        choice, message = {**self._choice}, {**self._message}
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
        patches = {
            "choices": None if patch is None else {"i": {"0": patch}},
            "usage": self.usage_patch,
        }
        missing = [key for key in ("id", "created", "model") if not head.get(key)]
        found = nested(self.answer, patches, missing)
        return None if found is None else Residue(self._shape.name, None, write_json(found))


def _replace(holder: Object, key: str, item: Any) -> None:
    """Keep the last value that says something."""
    if item is not None or key not in holder:
        holder[key] = item


def _more(before: Any, item: Any) -> Any:
    """A value that goes on from what came before: texts and lists grow, objects field by field."""
    if before is None:
        return item
    if item is None:
        return before
    if type(before) is dict and type(item) is dict:
        return {**before, **{key: _more(before.get(key), held) for key, held in item.items()}}
    if type(before) is type(item) and type(item) in (str, list):
        return before + item
    return item
