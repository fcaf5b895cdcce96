"""Messages as HTML: one article for each, with its role, time, permalink, content and facts.

The functions are pure: the same messages and surroundings give the same HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from htpy import (
    Element,
    Node,
    a,
    article,
    details,
    div,
    fragment,
    h3,
    header,
    li,
    p,
    pre,
    section,
    span,
    summary,
    time,
)
from msgspec import Struct

from cannery.errors import CanneryError
from cannery.messages import (
    AnyCanister,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ReasoningContentClass,
    ResultCanisterClass,
    Role,
    SupervisorCanisterClass,
    absent,
)
from cannery.storage.exchanges import ExchangeRecord
from cannery.viewer.arrangement import Block, Call, Calls, Placed, Silent, Single
from cannery.viewer.contents import (
    Links,
    Place,
    content_html,
    fold,
    json_html,
    marked_text,
    plain_text,
)
from cannery.viewer.differences import line_changes, patch
from cannery.viewer.edits import Deed, deed_of, is_patch
from cannery.viewer.exchange_facts import facts_html
from cannery.viewer.highlighting import highlight, language_of_path
from cannery.viewer.markdown import code_block
from cannery.viewer.typed_text import is_setup
from cannery.viewer.visible import one_line, visible
from cannery.wording import counted

_NAMES = {
    Role.User: "User",
    Role.Assistant: "Assistant",
    Role.Supervisor: "System",
    Role.Document: "Document",
    Role.Invocation: "Call",
    Role.Result: "Result",
}
_SHORT_SUPERVISOR = 300


class Mark(Struct, frozen=True):
    """An annotation of a message: ``kind`` is loss, repair, info or broken."""

    kind: str
    label: str
    detail: str
    link: str = ""


class Surroundings(Struct, frozen=True):
    """The context of the messages of a page."""

    links: Links
    facts: Mapping[int, list[ExchangeRecord]] = {}
    # The doctor's marks of the message at a position.
    warnings: Mapping[int, Node] = {}
    # What precedes the message at a position: a choice of branches, children that began there.
    before: Mapping[int, Node] = {}
    is_whole: bool = False
    # The prefix of the anchors of messages, which differs between the conversations of a page.
    anchor: str = "m"

    def place(self, position: int) -> Place:
        """The context for rendering the message at a position."""
        return Place(self.links, position, self.is_whole)


def blocks_html(blocks: Iterable[Block], around: Surroundings) -> Iterator[Node]:
    """Render blocks in order, each with what precedes it."""
    for block in blocks:
        for position in block.positions:
            if position in around.before:
                yield around.before[position]
        yield block_html(block, around)


def block_html(block: Block, around: Surroundings) -> Node:
    """A block, with the facts of the exchanges that end in it."""
    facts = [facts_html(around.facts[at]) for at in block.positions if at in around.facts]
    match block:
        case Single(placed):
            return fragment[message_html(placed, around), facts]
        case Calls(calls):
            return fragment[calls_html(calls, around), facts]
        case Silent(placed):
            return fragment[span(f"#{around.anchor}{placed.position}.silent"), facts]


# --- messages ----------------------------------------------------------------------------------


def message_html(placed: Placed, around: Surroundings) -> Element:
    """Render one message."""
    canister, position = placed.canister, placed.position
    kind = _kind(canister)
    return article(
        f"#{around.anchor}{position}.message.{kind}",
        {"data-position": str(position), "data-role": canister.role.value},
    )[
        _head(placed, _title(canister), around),
        div(".said")[_said(canister, around.place(position))],
    ]


def _kind(canister: AnyCanister) -> str:
    if isinstance(getattr(canister, "held", None), ReasoningContentClass):
        return "reasoning"
    if isinstance(canister, ResultCanisterClass) and canister.is_error:
        return "result.failed"
    joined = ".joined" if canister.joined else ""
    if canister.role is Role.User and isinstance(canister.held, str) and is_setup(canister.held):
        return f"user.setup-only{joined}"
    return f"{canister.role.value}{joined}"


def _title(canister: AnyCanister) -> Node:
    if isinstance(canister.held, ReasoningContentClass):
        return "Thinking"
    name = _NAMES[canister.role]
    if isinstance(canister, SupervisorCanisterClass) and canister.rank == "developer":
        return "Developer"
    if isinstance(canister, DocumentCanisterClass) and canister.title is not absent:
        return fragment[name, span(".of")[one_line(str(canister.title), 120)]]
    if isinstance(canister, ResultCanisterClass):
        failed = span(".badge.error")["failed"] if canister.is_error else None
        return fragment[name, span(".of")["without its call"], failed]
    return name


def _head(placed: Placed, title: Node, around: Surroundings) -> Element:
    return header[
        h3[title],
        around.warnings.get(placed.position),
        _time(placed.canister.timestamp),
        _permalink(placed.position, around),
    ]


def _time(when: datetime) -> Node:
    return time(datetime=when.isoformat())[when.strftime("%H:%M")]


def _permalink(position: int, around: Surroundings) -> Node:
    address = around.links.message(position)
    return a(".permalink", href=address, aria_label=f"Link to message {position}")[f"#{position}"]


def mark_html(mark: Mark) -> Node:
    """Render a mark beside a message."""
    label: Node = span(".badge")[visible(mark.label)]
    if mark.link:
        label = a(".badge", href=mark.link)[visible(mark.label)]
    return li(f".mark.{mark.kind}")[label, " ", visible(mark.detail)]


def _said(canister: AnyCanister, place: Place) -> Node:
    try:
        return _spoken(canister, place)
    except CanneryError as error:
        return p(".bad")[f"This message cannot be read: {visible(str(error))}"]


def _spoken(canister: AnyCanister, place: Place) -> Node:
    held: Any = canister.held
    if isinstance(canister, ResultCanisterClass):
        return _result(canister, place)
    if isinstance(canister, InvocationCanisterClass):
        return _arguments(canister, place)
    content = canister.content
    if isinstance(held, ReasoningContentClass):
        return _folded_reasoning(held, content_html(content, place))
    shown = marked_text(held, place) if isinstance(held, str) else content_html(content, place)
    if canister.role in (Role.Supervisor, Role.Document) and not place.is_whole:
        return _folded_setup(canister.text, shown)
    return shown


def _folded_reasoning(content: ReasoningContentClass, shown: Node) -> Node:
    words = one_line(content.shown, 100) or "encrypted"
    return details(".thought")[summary[span(".first")[words]], shown]


def _folded_setup(text: str, shown: Node) -> Node:
    if len(text) <= _SHORT_SUPERVISOR:
        return shown
    told = counted(len(text), "character")
    return details(".long")[
        summary[span(".first")[one_line(text, 110)], span(".count")[told]], shown
    ]


# --- calls -------------------------------------------------------------------------------------


def calls_html(calls: Sequence[Call], around: Surroundings) -> Element:
    """Render the calls of one turn; parallel calls are grouped."""
    if len(calls) == 1:
        return _call(calls[0], around)
    told = f"{len(calls)} calls at once"
    return section(".parallel", aria_label=told)[
        p(".group")[told], (_call(call, around) for call in calls)
    ]


def _call(call: Call, around: Surroundings) -> Element:
    placed = call.placed
    canister: Any = placed.canister
    deed = (
        deed_of(canister.arguments)
        if canister.is_object
        else Deed(one_line(canister.arguments_text, 90))
    )
    is_failed = any(getattr(each.canister, "is_error", False) for each in call.results)
    failed = ".failed" if is_failed else ""
    return article(
        f"#{around.anchor}{placed.position}.message.invocation{failed}",
        {"data-position": str(placed.position), "data-role": "invocation"},
    )[
        header[
            h3[span(".tool")[visible(canister.name)], span(".of")[one_line(deed.subject, 110)]],
            span(".badge.error")["failed"] if is_failed else None,
            around.warnings.get(placed.position),
            _time(placed.canister.timestamp),
            _permalink(placed.position, around),
        ],
        div(".said")[_deed(canister, deed, around.place(placed.position))],
        (_answer(each, around) for each in call.results),
        None if call.results else p(".quiet.unanswered")["No result"],
    ]


def _answer(placed: Placed, around: Surroundings) -> Element:
    canister: Any = placed.canister
    kind = ".failed" if canister.is_error else ""
    return div(
        f"#{around.anchor}{placed.position}.answer{kind}",
        {"data-position": str(placed.position), "data-role": "result"},
    )[
        span(".answer-name")[
            "Result", around.warnings.get(placed.position), _permalink(placed.position, around)
        ],
        _said(canister, around.place(placed.position)),
    ]


def _result(canister: ResultCanisterClass, place: Place) -> Node:
    stated = canister.stated_error
    error = None if stated is absent else p(".bad")[visible(str(stated))]
    text = canister.text
    if text and is_patch(text):
        return fragment[error, fold(patch(text), text, place)]
    return fragment[error, content_html(canister.content, place, is_plain=True)]


def _arguments(canister: InvocationCanisterClass, place: Place) -> Node:
    text = canister.arguments_text
    return json_html(text) if canister.is_object else plain_text(text, place)


def _deed(canister: InvocationCanisterClass, deed: Deed, place: Place) -> Node:
    if not canister.is_object:
        text = canister.arguments_text
        if not text:
            return None
        shown: Node = patch(text) if is_patch(text) else plain_text(text, place)
        return fragment[
            span(".badge")["not an object"] if not canister.is_freeform else None, shown
        ]
    return fragment[_deed_parts(deed, place), _raw(canister)]


def _deed_parts(deed: Deed, place: Place) -> Iterator[Node]:
    if deed.command:
        yield fold(code_block(deed.command, "bash"), deed.command, place)
    for change in deed.changes:
        both = f"{change.old}\n{change.new}"
        yield fold(line_changes(change.old, change.new), both, place)
    if deed.patch:
        yield fold(patch(deed.patch), deed.patch, place)
    if deed.written is not None:
        shown = pre(".code", tabindex="0")[highlight(deed.written, language_of_path(deed.path))]
        yield fold(shown, deed.written, place)
    if deed.rest and not (len(deed.rest) == 1 and deed.subject in deed.rest.values()):
        text = json.dumps(_plain(deed.rest), ensure_ascii=False)
        yield fold(json_html(text), text, place)


def _plain(value: Any) -> Any:
    """Convert an immutable value to dicts and lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _raw(canister: InvocationCanisterClass) -> Node:
    text = canister.arguments_text
    if not text or text == "{}":
        return None
    return details(".raw")[
        summary["Arguments as written"], pre(".plain", tabindex="0")[visible(text)]
    ]
