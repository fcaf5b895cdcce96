"""Generates ids for calls without one: never an id that a call or result of the same body has."""

from __future__ import annotations

from collections.abc import Collection

from cannery.messages.canisters import AnyCanister, InvocationCanisterClass, ResultCanisterClass
from cannery.wire.turns import changed

_FIELDS = {InvocationCanisterClass: "identifier", ResultCanisterClass: "invocation_id"}


def set_apart(canisters: list[AnyCanister], made: Collection[int]) -> None:
    """Change the generated ids at some positions if the body itself uses such an id.

    A generated id is changed in the same way everywhere, so that a call keeps its result.
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
