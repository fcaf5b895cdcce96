"""Token counts of responses as tables that are read in both directions.

A table maps each count of our usage to its path in the server's usage object. In our usage, ``input`` is everything
that was read and ``output`` everything that was generated. Counts that a server reports outside these totals are
added on reading and subtracted on writing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.requests import Usage, new_usage
from cannery.wire.bodies import Object
from cannery.wire.residues import beyond

# The total that each detail belongs to. ``tools`` is input that some servers count separately; our usage has only the
# sum.
_WHOLES = {"tools": "input", "cache_read": "input", "cache_write": "input", "reasoning": "output"}


class Counts:
    """The paths of counts in their object, by name: the names of our usage, ``tools`` and ``total``.

    ``apart`` are details that ``input`` or ``output`` does not include. An object without all of ``needs`` counts
    nothing. ``older`` are further paths that are only read. ``says_all`` is true if unknown details are written as
    zero.
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
        """The usage in an object, or absent, and the patch of its other fields."""
        usage = self.read(value)
        return usage, None if usage is absent else beyond(value, self.write(usage))

    def read(self, value: Any) -> Any:
        """The usage in an object, or absent."""
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
        # Some servers count thoughts separately although others of their kind do not; the total shows which.
        thought = 0 if "reasoning" in self.apart else found.get("reasoning", 0)
        if thought and total == counted["input"] + counted["output"] + thought:
            counted["output"] += thought
        return new_usage(**counted, **found)

    def write(self, usage: Usage) -> Object:
        """The usage object as the server would write it.

        Some servers count cached tokens in two details that others count separately; the written details never exceed
        the total.
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
    """Names and keys of counts by the object that holds them; "" is the usage object itself."""
    held: dict[str, list[tuple[str, str]]] = {}
    for name, path in paths:
        holder, _, key = path.rpartition(".")
        held.setdefault(holder, []).append((name, key))
    return held
