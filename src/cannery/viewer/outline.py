"""The outline of a conversation: the user's prompts, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cannery.messages import UserCanisterClass
from cannery.titles import typed_text
from cannery.viewer.arrangement import Placed
from cannery.viewer.visible import one_line

_LONGEST = 90
_LOOKED_AT = 20_000


def prompts(messages: Iterable[Placed]) -> Iterator[tuple[int, str]]:
    """The position and the first words of each prompt."""
    for each in messages:
        canister = each.canister
        if isinstance(canister, UserCanisterClass):
            words = one_line(typed_text(canister.text[:_LOOKED_AT]), _LONGEST)
            if words:
                yield each.position, words
