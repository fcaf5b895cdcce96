"""Answers of blocks: token counts, of which those of the cache stand apart, and stop reasons that clients rely on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, InvocationCanisterClass
from cannery.messages.content import RefusalContentClass
from cannery.messages.requests import Usage, new_usage
from cannery.wire.bodies import Object
from cannery.wire.residues import nested


class Counts(Struct, frozen=True):
    """The names of token counts. ``input`` counts only what the cache neither gave nor took; our usage counts all."""

    input: str
    output: str
    cache_read: str
    cache_write: str

    def read(self, value: Any, **more: Any) -> Any:
        """Token counts, or absent for what are none; ``more`` is what else a usage counts."""
        if type(value) is not dict or type(value.get(self.input)) is not int:
            return absent
        names = {"cache_read": self.cache_read, "cache_write": self.cache_write}
        cached = {name: value[key] for name, key in names.items() if type(value.get(key)) is int}
        if min(value[self.input], *cached.values(), 0) < 0:
            return absent
        output = value.get(self.output)
        given = output if type(output) is int else 0
        return new_usage(value[self.input] + sum(cached.values()), given, **cached, **more)

    def write(self, usage: Usage) -> Object:
        """Token counts in the usual form.

        These servers count each token of the input once: as new, read from the cache or written to it. Others count
        some of them twice, so that no more is said to be written than is left of the input.
        """
        body: Object = {self.input: usage.input, self.output: usage.output}
        for key, count in (
            (self.cache_read, usage.cache_read),
            (self.cache_write, usage.cache_write),
        ):
            if isinstance(count, int):
                body[key] = min(count, max(body[self.input], 0))
                body[self.input] -= body[key]
        return body


def left_of_counts(
    counts: Object, written: Object, inner: dict[str, Object | None]
) -> Object | None:
    """The patch for what counts say beyond those that writing gives again."""
    left = {
        key: value
        for key, value in counts.items()
        if key not in written or type(value) is not type(written[key]) or value != written[key]
    }
    return nested(left, inner, [key for key in written if key not in counts])


def endings(canisters: Iterable[AnyCanister]) -> dict[str, bool]:
    """What an answer holds that shows in its stop reason."""
    return {
        "has_calls": any(isinstance(each, InvocationCanisterClass) for each in canisters),
        "is_refused": any(isinstance(each.held, RefusalContentClass) for each in canisters),
    }


def ending_word(refused: str, word: str | None, *, has_calls: bool, is_refused: bool) -> str:
    """The stop reason that clients rely on: calls and refusals show in it."""
    if word is None or word == "end_turn":
        return "tool_use" if has_calls else refused if is_refused else "end_turn"
    return word
