"""One walk over a conversation that finds which repairs it may need.

Most conversations need none, and this walk is cheaper than one per pass. In doubt a pass runs: it decides itself what
it changes. The facts of a conversation are the bits of one number.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
)
from cannery.messages.content import (
    AudioContentClass,
    FileContentClass,
    ImageContentClass,
    OpaqueContentClass,
    PartsContentClass,
    TextualContentClass,
    VideoContentClass,
)
from cannery.repairs.aliases import matcher
from cannery.wire.contract import Piece, Rules
from cannery.wire.turns import MODEL, SIDES, SUPERVISOR, USER

# Several supervisors come before any other canister.
LEADING = 1
# A supervisor message follows a message of another role.
LATE = 2
# Calls and results that are not answered right after their turn, in call order.
UNPAIRED = 4
# Call ids and function names that occur twice or that the provider may forbid.
ODD_IDS, ODD_NAMES = 8, 8192
# A text without a visible character, or an empty turn.
BLANK = 16
# The first turn is not the user's; the last turn is the model's, for a provider that does not continue it.
OPENER, TRAILING = 32, 64
# Two of one side follow each other in separate messages.
NEIGHBOURS = 128
# Cache marks.
MARKS = 256
# Media, or several parts in one content, which may be media.
MEDIA = 512
# Blocks that only one dialect understands.
OPAQUE = 1024
# A supervisor with the rank of a developer.
DEVELOPER = 2048
# Any content at all.
SAID = 4096
# Calls with residue beyond the model.
PATCHED = 16384

_TOOLS = frozenset({InvocationCanisterClass, ResultCanisterClass})
_SPOKEN = frozenset({UserCanisterClass, AssistantCanisterClass, SupervisorCanisterClass})
# The fact of each content kind that is not bare text; most kinds have none.
_KINDS: dict[type, int] = {
    TextualContentClass: BLANK,
    OpaqueContentClass: OPAQUE,
    PartsContentClass: MEDIA,
    ImageContentClass: MEDIA,
    AudioContentClass: MEDIA,
    VideoContentClass: MEDIA,
    FileContentClass: MEDIA,
}


def survey(pieces: list[Piece], rules: Rules) -> int:  # noqa: C901, PLR0912, PLR0915 - one walk instead of one for each fact
    """The facts of a conversation that a provider may not accept; for ids, names and the last turn, this provider."""
    facts = silent = 0
    before = first = ""
    # Whether the piece before is empty and not a call.
    is_silent = False
    calls: list[Any] = []
    answers: list[str] = []
    # The number of waiting calls; whether one of the same turn was answered.
    waiting = 0
    is_answered = False
    for piece in pieces:
        canister: Any = piece.canister
        kind = type(canister)
        held = canister.held
        if is_silent:
            is_silent = False
            if kind is not InvocationCanisterClass:
                facts |= BLANK
        if type(held) is str:
            if (not held or held.isspace()) and kind in _SPOKEN:
                facts |= BLANK
        elif held is absent:
            is_silent = True
            silent += 1
        else:
            facts |= _KINDS.get(type(held), 0)
        residue = canister.residue
        if residue is not None:
            if residue.cache:
                facts |= MARKS
            if residue.part and kind is InvocationCanisterClass:
                facts |= PATCHED
        whose = SIDES[kind]
        if kind in _TOOLS:
            if kind is InvocationCanisterClass:
                if is_answered:
                    if waiting:
                        facts |= UNPAIRED
                    is_answered = False
                waiting += 1
                calls.append(canister)
            else:
                if waiting:
                    waiting -= 1
                else:
                    facts |= UNPAIRED
                is_answered = True
                answers.append(canister.invocation_id)
        else:
            if waiting and (is_answered or whose is not MODEL or not canister.joined):
                facts |= UNPAIRED
            if whose is SUPERVISOR:
                if canister.rank == "developer":
                    facts |= DEVELOPER
                if first:
                    facts |= LATE
                elif before:
                    facts |= LEADING
                before = whose
                continue
        if whose is not before:
            before = whose
            if not first:
                first = whose
        elif not canister.joined:
            facts |= NEIGHBOURS
    if silent < len(pieces):
        facts |= SAID
    if first is not USER:
        facts |= OPENER
    if before is MODEL and rules.ends_with_user:
        facts |= TRAILING
    if is_silent:
        facts |= BLANK
    if calls or answers:
        facts |= _call_facts(calls, answers, rules)
    return facts


def _call_facts(calls: list[Any], answers: list[str], rules: Rules) -> int:
    """The facts of ids and names: whether results come in the order of their calls, matched by distinct ids."""
    called = [canister.identifier for canister in calls]
    facts = 0 if called == answers else UNPAIRED
    if len({*called}) < len(called):
        facts |= UNPAIRED | ODD_IDS
    if not _are_legal(called, rules.call_id_pattern, rules.call_id_length):
        facts |= ODD_IDS
    if not _are_legal({canister.name for canister in calls}, rules.name_pattern, rules.name_length):
        facts |= ODD_NAMES
    return facts


def _are_legal(words: Collection[str], pattern: str, length: int) -> bool:
    return not words or (max(map(len, words)) <= length and all(map(matcher(pattern), words)))
