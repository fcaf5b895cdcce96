"""Ids that a reader makes for calls without one: no call or result of the same body may give the same id."""

from __future__ import annotations

from collections.abc import Collection

from cannery.messages.canisters import AnyCanister, InvocationCanisterClass, ResultCanisterClass
from cannery.wire.turns import changed

_FIELDS = {InvocationCanisterClass: "identifier", ResultCanisterClass: "invocation_id"}


def set_apart(canisters: list[AnyCanister], made: Collection[int]) -> None:
    """Respell the ids of calls and results at some positions where the body itself gives such an id.

    A made id is respelled the same way wherever it stands, so that a call keeps its result.
    """
    given = {
        getattr(canister, _FIELDS[type(canister)])
        for position, canister in enumerate(canisters)
        if position not in made and type(canister) in _FIELDS
    }
    for position in made:
        canister = canisters[position]
        field = _FIELDS[type(canister)]
        identifier = getattr(canister, field)
        while identifier in given:
            identifier += "_"
        canisters[position] = changed(canister, **{field: identifier})
