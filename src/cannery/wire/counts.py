"""Token counts of answers as tables that are read in both directions.

A table says where each count of our usage stands in the object that a server counts in. In our usage ``input`` is all
that was read and ``output`` all that was said; what a server counts apart from these is added and taken off here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.requests import Usage, new_usage
from cannery.wire.bodies import Object
from cannery.wire.residues import beyond

# What each detail is a part of. ``tools`` is input that some servers count apart, of which our usage has only the sum.
_WHOLES = {"tools": "input", "cache_read": "input", "cache_write": "input", "reasoning": "output"}


class Counts:
    """The paths of counts in their object, by their names: those of our usage, ``tools`` and ``total``.

    ``apart`` are details that ``input`` or ``output`` does not contain. An object without all that it ``needs`` counts
    nothing. ``older`` are further paths that are only read. ``says_all`` where details that are not known are zero.
    """

    def __init__(
        self,
        paths: Mapping[str, str],
        *,
        apart: Collection[str] = (),
        needs: Collection[str] = ("input",),
        older: Mapping[str, str] | None = None,
        says_all: bool = False,
    ) -> None:
        self.paths = paths
        self.apart = frozenset(apart)
        self.says_all = says_all
        self._needs = frozenset(needs)
        self._written = _by_holder(paths.items())
        self._read = _by_holder((*(older or {}).items(), *paths.items()))

    def take(self, value: Any) -> tuple[Any, Object | None]:
        """The usage that an object tells, or absent, and the patch of what else it says."""
        usage = self.read(value)
        return usage, None if usage is absent else beyond(value, self.write(usage))

    def read(self, value: Any) -> Any:
        """The usage that an object tells, or absent."""
        if type(value) is not dict:
            return absent
        found: dict[str, int] = {}
        for holder, names in self._read.items():
            held = value.get(holder) if holder else value
            if type(held) is dict:
                for name, key in names:
                    count = held.get(key)
                    if type(count) is int:
                        found[name] = count
        total = found.pop("total", None)
        if not found or min(found.values()) < 0 or not found.keys() >= self._needs:
            return absent
        counted = {"input": found.pop("input", 0), "output": found.pop("output", 0)}
        for name in self.apart & found.keys():
            counted[_WHOLES[name]] += found[name]
        found.pop("tools", None)
        # Some servers count thoughts apart although others of their kind do not; the total tells.
        thought = 0 if "reasoning" in self.apart else found.get("reasoning", 0)
        if thought and total == counted["input"] + counted["output"] + thought:
            counted["output"] += thought
        return new_usage(**counted, **found)

    def write(self, usage: Usage) -> Object:
        """The object that a server would count in.

        Some servers count cached tokens twice that others count apart: no more are said to be apart than there are.
        """
        said = {"input": usage.input, "output": usage.output, "total": usage.total}
        for name in ("cache_read", "cache_write", "reasoning"):
            count = getattr(usage, name)
            if isinstance(count, int):
                whole = _WHOLES[name]
                if name in self.apart:
                    if whole == "input":
                        count = min(count, said[whole])
                    said[whole] = max(said[whole] - count, 0)
                said[name] = count
            elif self.says_all:
                said[name] = 0
        body: Object = {}
        for holder, names in self._written.items():
            counts = {key: said[name] for name, key in names if name in said}
            if not holder:
                body |= counts
            elif counts:
                body[holder] = counts
        return body


def _by_holder(paths: Iterable[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Names and keys of counts by the object in which they stand, "" for that of all."""
    held: dict[str, list[tuple[str, str]]] = {}
    for name, path in paths:
        holder, _, key = path.rpartition(".")
        held.setdefault(holder, []).append((name, key))
    return held
