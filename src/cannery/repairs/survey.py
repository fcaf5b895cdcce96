"""One walk over a conversation that finds which repairs it may need.

Most conversations need none, and this walk costs less than one for each pass. In doubt a pass runs: it decides itself
what it changes. The facts of a conversation are the bits of one number.
"""

from __future__ import annotations

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
from cannery.repairs.pairing import is_paired
from cannery.wire.contract import Piece, Rules
from cannery.wire.turns import MODEL, SIDES, SUPERVISOR, USER

# Several supervisors stand before anybody speaks.
LEADING = 1
# A supervisor message follows a message of another role.
LATE = 2
# Calls and results that are not answered right behind their turn, in call order.
UNPAIRED = 4
# Call ids and function names that come twice or that the provider may forbid.
ODD_IDS, ODD_NAMES = 8, 8192
# A text without a visible character, or a turn that says nothing.
BLANK = 16
# The user does not speak first; the model speaks last.
OPENER, TRAILING = 32, 64
# Two of one side follow each other in messages of their own.
NEIGHBOURS = 128
# Cache marks.
MARKS = 256
# Media, or several parts in one content, which may be media.
MEDIA = 512
# Blocks that only one dialect understands.
OPAQUE = 1024
# A supervisor with the rank of a developer.
DEVELOPER = 2048
# Anything at all is said.
SAID = 4096

_SPOKEN = frozenset({UserCanisterClass, AssistantCanisterClass, SupervisorCanisterClass})
_CALLING = frozenset({InvocationCanisterClass, ResultCanisterClass})
# What a content is that is not bare text; of most kinds there is nothing to say.
_KINDS: dict[type, int] = {
    type(absent): 0,
    TextualContentClass: BLANK | SAID,
    OpaqueContentClass: OPAQUE | SAID,
    PartsContentClass: MEDIA | SAID,
    ImageContentClass: MEDIA | SAID,
    AudioContentClass: MEDIA | SAID,
    VideoContentClass: MEDIA | SAID,
    FileContentClass: MEDIA | SAID,
}


def survey(pieces: list[Piece], rules: Rules) -> int:  # noqa: C901, PLR0912 - one walk instead of one for each fact
    """What there is in a conversation that some provider may not take as it is; of ids and names, this provider."""
    facts = leading = 0
    has_calls = False
    before = first = ""
    # Whether the piece before says nothing, unless it calls for something.
    is_silent = False
    for piece in pieces:
        canister: Any = piece.canister
        kind = type(canister)
        whose = SIDES[kind]
        if whose is SUPERVISOR:
            if canister.rank == "developer":
                facts |= DEVELOPER
            if first:
                facts |= LATE
            else:
                leading += 1
        elif whose is not before:
            first = first or whose
        elif not canister.joined:
            facts |= NEIGHBOURS
        before = whose
        held = canister.held
        if is_silent and kind is not InvocationCanisterClass:
            facts |= BLANK
        is_silent = held is absent
        if type(held) is not str:
            facts |= _KINDS.get(type(held), SAID)
        elif kind not in _SPOKEN:
            facts |= SAID
        else:
            facts |= BLANK | SAID if not held or held.isspace() else SAID
        if kind in _CALLING:
            has_calls = True
        residue = canister.residue
        if residue is not None and residue.cache:
            facts |= MARKS
    if first is not USER:
        facts |= OPENER
    if before is MODEL:
        facts |= TRAILING
    if leading > 1:
        facts |= LEADING
    if is_silent:
        facts |= BLANK
    if has_calls:
        facts |= _call_facts(pieces, rules)
    return facts


def _call_facts(pieces: list[Piece], rules: Rules) -> int:
    facts = 0 if is_paired(pieces) else UNPAIRED
    is_id, is_name = matcher(rules.call_id_pattern), matcher(rules.name_pattern)
    known: set[str] = set()
    for piece in pieces:
        canister = piece.canister
        if type(canister) is InvocationCanisterClass:
            identifier, name = canister.identifier, canister.name
            if (
                identifier in known
                or len(identifier) > rules.call_id_length
                or not is_id(identifier)
            ):
                facts |= ODD_IDS
            if len(name) > rules.name_length or not is_name(name):
                facts |= ODD_NAMES
            known.add(identifier)
    return facts
