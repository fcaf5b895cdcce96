"""Requests whose conversation needs no repair, written by the plan of their dialect.

What stands before the turns is the plan's where its settings are usual, and the general writer's where they are not. A
conversation that is written again takes both from what is kept beside it (``wire.fragments``).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from orjson import Fragment

from cannery.messages.requests import Request
from cannery.messages.role import Role
from cannery.rendering import locate_in, note, noted, write_request
from cannery.wire.bodies import encode
from cannery.wire.contract import Dialect
from cannery.wire.fragments import Kept, Opening, Said, find, item, keep, mark, settings_of
from cannery.wire.losses import (
    NO_ALIASES,
    TOLD_ONCE,
    Note,
    Notes,
    Rendered,
    Report,
    enforce,
    told,
)
from cannery.wire.walks import NOTHING_KNOWN, SPOKEN_BY_MODEL, TurnPlan

_ASSISTANT = Role.Assistant
_INVOCATION = Role.Invocation


def write_planned(
    request: Request,
    target: Dialect,
    plan: TurnPlan,
    policy: str,
    body: bytes | None,
    restored: tuple[int, int],
) -> Rendered | None:
    """The body of a request; None if its conversation needs the general way.

    One that was read from a ``body`` is not written again, so nothing is kept of it.
    """
    conversation = request.conversation
    if body is None:
        kept, written = find(conversation, plan.key)
        if kept is not None:
            return _write_again(request, target, plan, policy, kept, written)
    rendered = _write_once(request, target, plan, policy, body, restored)
    if rendered is not None and body is None:
        mark(conversation, plan.key)
    return rendered


def _write_once(
    request: Request,
    target: Dialect,
    plan: TurnPlan,
    policy: str,
    body: bytes | None,
    restored: tuple[int, int],
) -> Rendered | None:
    conversation = request.conversation
    start = plan.lead(conversation)
    if start is None:
        return None
    notes: Notes = []
    opened = plan.open(request, start, notes)
    if opened is None:
        notes.clear()  # the general writer says them
    walked = plan.walk(tuple(conversation), start, notes, NOTHING_KNOWN)
    if walked is None:
        return None
    turns = walked.turns
    if item(conversation, -1).role is _ASSISTANT:
        closing = plan.close(request, len(conversation) - 1, notes)
        if closing is None:
            return None
        if closing:
            turns.append(Fragment(closing[1:]))
    if opened is None:
        report = Report()
        note(notes, report)
        locate = partial(locate_in, request.source, body, "request", restored)
        more = (start, turns)
        return write_request(request, target, policy, (), None, report, locate, turns=more)
    opened[plan.field] = turns
    written = encode(opened)
    if not notes:
        return Rendered(written)
    rendered = noted(written, notes, request.source, body, restored)
    enforce(policy, request.source, target.name, rendered.losses)
    return rendered


def _write_again(
    request: Request, target: Dialect, plan: TurnPlan, policy: str, kept: Kept, written: int
) -> Rendered | None:
    """The same, all but the last turns taken from what was kept, and kept again."""
    conversation = request.conversation
    opening = _opening(request, target, plan, kept)
    if opening is None:
        return None
    if written > max(kept.length, opening.start, 1):
        first = _walk_on(request, plan, kept, opening, written)
        if first is None:
            return None
        kept = first
    start = kept.length or opening.start
    tail = item(conversation, slice(start, None))
    notes: Notes = []
    walked = plan.walk(tail, 0, notes, kept.known)
    if walked is None:
        return None
    closing = plan.close(request, len(tail) - 1, notes) if tail[-1].role is _ASSISTANT else b""
    if closing is None:
        return None
    turns, last, before = walked.turns, walked.last, walked.before
    said = kept.said
    if before and start + last > 1 and tail[last - 1].role not in SPOKEN_BY_MODEL:
        early = [each for each in notes if _place(each) < last] if notes else notes
        if early:
            said = _more(said, early, start)
            notes = [each for each in notes if _place(each) >= last]
        kept = keep(kept, conversation, start + last, turns[:before], said, opening, plan.key)
        del turns[:before]
    pieces = [opening.text, *kept.pieces]
    if turns:
        if kept.pieces:
            pieces.append(b",")
        pieces.append(encode(turns)[1:-1])
    pieces += closing, b"]}"
    text = b"".join(pieces)
    if notes:
        said = _more(said, notes, start)
    losses = opening.said.losses + said.losses
    enforce(policy, request.source, target.name, losses)
    return Rendered(text, losses, opening.said.repairs + said.repairs, opening.aliases.copied())


def _walk_on(
    request: Request, plan: TurnPlan, kept: Kept, opening: Opening, length: int
) -> Kept | None:
    """What is kept, up to where a conversation ended when it was written before."""
    start = kept.length or opening.start
    notes: Notes = []
    walked = plan.walk(item(request.conversation, slice(start, length)), 0, notes, kept.known)
    if walked is None or not walked.turns:
        return None
    said = _more(kept.said, notes, start) if notes else kept.said
    return keep(kept, request.conversation, length, walked.turns, said, opening, plan.key)


def _opening(request: Request, target: Dialect, plan: TurnPlan, kept: Kept) -> Opening | None:
    """What stands before the turns, as it was kept if it still holds."""
    opening = kept.opening
    if opening is None or not opening.opens(request):
        return _open(request, target, plan)
    aliases = opening.aliases.names
    if aliases:
        # A call that has the name which a tool was given needs the general way to part the two.
        behind = item(request.conversation, slice(kept.length, None))
        if any(each.role is _INVOCATION and each.name in aliases for each in behind):
            return None
    return opening


def _place(note: Note) -> Any:
    return note[1]


def _more(said: Said, notes: Collection[Note], start: int) -> Said:
    """What was said, and what is noted of canisters behind it."""
    known = TOLD_ONCE.intersection(loss.code for loss in said.losses)
    if known:
        notes = [each for each in notes if each[0] not in known]
    losses, repairs = told(notes, lambda place: f"conversation[{start + place}]")  # type: ignore[operator]
    return Said(said.losses + losses, said.repairs + repairs)


def _open(request: Request, target: Dialect, plan: TurnPlan) -> Opening | None:
    """What stands before the turns of a request, as text."""
    start = plan.lead(request.conversation)
    if start is None:
        return None
    notes: Notes = []
    locate = partial(locate_in, request.source, None, "request")
    opened = plan.open(request, start, notes)
    aliases = NO_ALIASES
    if opened is not None:
        text = encode({**opened, plan.field: ()})
        said = Said(*told(notes, *locate()))
    else:
        turns: tuple[int, Any] = (start, ())
        report = Report()
        rendered = write_request(request, target, "allow", (), None, report, locate, turns=turns)
        if report.names_met:
            return None
        text, aliases = rendered.body, rendered.aliases
        said = Said(rendered.losses, rendered.repairs)
    # Where the turns go must be the end.
    if not text.endswith(b'"%b":[]}' % plan.field.encode()):
        return None
    return Opening(text[:-2], start, said, aliases, request.controls, settings_of(request))
