"""Finds where the canisters of an edited conversation stood before the edit.

Canisters are matched by object identity; stored and loaded ones, or copies, by equality. Equal canisters may stand at
several places (each message of calls opens with an empty canister), so neighbours decide.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from cannery.messages.protocols import Canister

# Of many equal canisters only this many are tried from either end.
_TRIED = 8
_NOWHERE: Iterator[int] = iter(())


def find_places(
    before: Sequence[Canister], after: Sequence[Canister], groups: Sequence[int]
) -> dict[int, int]:
    """The old place of each position of the edited conversation; ``groups`` numbers the wire message of each place."""
    known = {id(canister): place for place, canister in enumerate(before)}
    places = {
        index: known[id(canister)] for index, canister in enumerate(after) if id(canister) in known
    }
    return places or _Alignment(before, after, groups).places()


class _Alignment:
    """Two conversations of equal canisters, each identified by a number."""

    def __init__(
        self, before: Sequence[Canister], after: Sequence[Canister], groups: Sequence[int]
    ) -> None:
        numbers: dict[Canister, int] = {}
        self.groups = groups
        self.before = [numbers.setdefault(canister, len(numbers)) for canister in before]
        self.after = [numbers.get(canister, -1) for canister in after]
        self.stood: dict[int, list[int]] = {}
        for place, number in enumerate(self.before):
            self.stood.setdefault(number, []).append(place)

    def places(self) -> dict[int, int]:
        """Places in rising order, adjacent canisters taken from one wire message; then those out of order."""
        latest = self._latest()
        places: dict[int, int] = {}
        index = least = 0
        while index < len(self.after):
            run = self._run(index, least, latest)
            places.update(enumerate(run, index))
            index += len(run) or 1
            least = run[-1] + 1 if run else least
        taken = frozenset(places.values())
        free = {
            number: (place for place in stood if place not in taken)
            for number, stood in self.stood.items()
        }
        for index, number in enumerate(self.after):
            place = None if index in places else next(free.get(number, _NOWHERE), None)
            if place is not None:
                places[index] = place
        return places

    def _latest(self) -> list[int]:
        """For each canister, the last place that still leaves a place for all canisters after it; -1 for none."""
        latest = [-1] * len(self.after)
        bound = len(self.before)
        for index in range(len(self.after) - 1, -1, -1):
            stood = self.stood.get(self.after[index], ())
            at = bisect_left(stood, bound)
            if at:
                latest[index] = bound = stood[at - 1]
        return latest

    def _run(self, index: int, least: int, latest: list[int]) -> list[int]:
        """The places of a canister and those after it, in the wire message that has the most of them."""
        stood = self.stood.get(self.after[index], [])
        low, high = bisect_left(stood, least), bisect_right(stood, latest[index])
        first = stood[low : min(low + _TRIED, high)]
        last = stood[max(low + _TRIED, high - _TRIED) : high]
        runs = (self._run_from(index, place, latest) for place in first + last)
        return max(runs, key=len, default=[])

    def _run_from(self, index: int, place: int, latest: list[int]) -> list[int]:
        run = [place]
        for following in range(index + 1, len(self.after)):
            stood = self.stood.get(self.after[following], ())
            at = bisect_right(stood, run[-1])
            if at == len(stood) or stood[at] > latest[following]:
                break
            if self.groups[stood[at]] != self.groups[place]:
                break
            run.append(stood[at])
        return run
