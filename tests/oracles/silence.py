"""Says which requests say nothing: only those may be refused as empty for another dialect.

What a target is free to leave out (reasoning, signatures, hosted and unknown blocks, files that the model shows or
that instructions hold) counts as nothing, and so does blank text. A call, a result, a user's file or any other words
count as something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cannery
from cannery.messages.absence import absent

from .leaf import REPORTED, Leaf, steps
from .leaves import leaves

_LEFT_OUT = REPORTED | {"reasoning"}
_FILES = frozenset({"media", "document"})


def says_nothing(dialect: str, body: Any) -> bool:
    """Whether a request body holds nothing that has to reach another dialect."""
    return all(_may_go(leaf, body) for leaf in leaves(dialect, body))


def _may_go(leaf: Leaf, body: Any) -> bool:
    if leaf.kind in _FILES:
        return not _is_of_user(leaf, body)
    return leaf.kind in _LEFT_OUT or (isinstance(leaf.value, str) and not leaf.value.strip())


def _is_of_user(leaf: Leaf, body: Any) -> bool:
    field, index, *_ = steps(leaf.path)
    return body[field][int(index)].get("role") not in ("assistant", "model", "system", "developer")


def is_silent(request: cannery.Request) -> bool:
    """The same for a request that was read from a data set, whose records have no walker."""
    return all(canister.held is absent or canister.held == "" for canister in request.conversation)


def unless_empty(
    write: Callable[[], cannery.Rendered], dialect: str, body: Any
) -> cannery.Rendered | None:
    """What is written; None where a body that says nothing is refused for that."""
    try:
        return write()
    except cannery.EmptyConversationError:
        assert says_nothing(dialect, body), body
        return None
