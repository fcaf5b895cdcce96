"""Finds the call that a streamed fragment belongs to.

A fragment names its call by ``index``, and has id and function name once, at the call's beginning. Servers that imitate
OpenAI's omit the index, give every call index 0, invent a new id for each fragment, or send the name late: a call is
identified by all three, and starts when its name is known.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from cannery.messages.json_text import write_json
from cannery.messages.residue import Residue
from cannery.wire.residues import nested, set_again

Object = dict[str, Any]
# The field of a call that is not in ``tool_calls``.
LEGACY = "function_call"


class StreamedCall(Struct, gc=False):
    """An open call; it has a part once its start was emitted."""

    identifier: str
    name: str = ""
    is_freeform: bool = False
    is_legacy: bool = False
    part: int | None = None
    waiting: list[str] = field(default_factory=list)
    has_arguments: bool = False
    # Fields of the call and of its function that events do not carry, and how many of them were passed on.
    beside: Object = field(default_factory=dict)
    within: Object = field(default_factory=dict)
    told: int = 0

    def residue(self, dialect: str) -> Residue | None:
        """The residue of the call so far."""
        within = set_again(self.within)
        kind = "custom" if self.is_freeform else "function"
        patch = within if self.is_legacy else nested(self.beside, {kind: within})
        form = LEGACY if self.is_legacy else None
        self.told = len(self.beside) + len(self.within)
        if patch is None and form is None:
            return None
        return Residue(dialect, None if patch is None else write_json(patch), form=form)


class StreamedCalls:
    """The open calls of a response."""

    def __init__(self) -> None:
        self.open: list[StreamedCall] = []
        self._by_index: dict[Any, StreamedCall] = {}
        self._by_identifier: dict[Any, StreamedCall] = {}

    def find(self, call: Object, name: Any, position: int) -> StreamedCall | None:
        """The call that a fragment continues; None if it begins one."""
        identifier, is_indexed = call.get("id"), type(call.get("index")) is int
        known = self._by_index.get(call["index"] if is_indexed else position)
        if identifier and (known is None or identifier != known.identifier):
            is_new = known is None and is_indexed
            other = None if is_new else self._by_identifier.get(str(identifier))
            if other is not None:
                return other
            return None if name and known is not None and known.name else known
        if known is not None and not is_indexed and not identifier and name:
            return None if known.has_arguments else known
        return known

    def begin(self, call: Object, position: int, identifier: str) -> StreamedCall:
        """A new call; later fragments with its index continue it."""
        begun = StreamedCall(identifier)
        index = call.get("index")
        self._by_index[position if type(index) is not int else index] = begun
        self._by_identifier.setdefault(identifier, begun)
        self.open.append(begun)
        return begun

    def clear(self) -> None:
        """Forget all open calls."""
        self.open.clear()
        self._by_index.clear()
        self._by_identifier.clear()
