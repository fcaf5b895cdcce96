"""The page of a conversation: its messages in chunks, its prompts as an outline, and its branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import htpy
import msgspec
from htpy import (
    Element,
    Node,
    a,
    aside,
    button,
    details,
    div,
    form,
    fragment,
    h1,
    h2,
    header,
    li,
    nav,
    noscript,
    ol,
    option,
    p,
    select,
    span,
    summary,
    time,
    ul,
)
from markupsafe import Markup
from msgspec import Struct

from cannery.dialects import dialect_names, find_dialect
from cannery.errors import CanneryError, ConversationNotFoundError, InputError
from cannery.messages import AnyCanister, Conversation
from cannery.storage import Damage, Instructions, Metadata, StoredConversation
from cannery.storage.exchanges import Costs, ExchangeRecord, records_of
from cannery.titles import title_of
from cannery.viewer.addresses import (
    below,
    compare_address,
    conversation_address,
    links_of,
    list_address,
)
from cannery.viewer.answers import Asked
from cannery.viewer.arrangement import arrange, placed
from cannery.viewer.branches import Parting, branch_count, partings
from cannery.viewer.copies import message_data
from cannery.viewer.exchange_facts import by_position, short_count
from cannery.viewer.marks import Asking
from cannery.viewer.messages import Surroundings, blocks_html
from cannery.viewer.outline import prompts
from cannery.viewer.pages.layout import crumbs, document, empty, part
from cannery.viewer.paging import MOST, Window, bounded, choose, pieces
from cannery.viewer.relations import (
    Child,
    child_html,
    children_of,
    count_text,
    origin_html,
    versions_html,
)
from cannery.viewer.visible import one_line, visible
from cannery.viewer.warnings import MOST as MOST_WARNED
from cannery.viewer.warnings import is_light, warnings_html
from cannery.wording import counted, dollars

_MOST_OUTLINED = 2_000
_BEGINNING = 12


class Shown(Struct):
    """The data of a conversation page."""

    conversation: StoredConversation
    metadata: Metadata
    title: str
    window: Window
    partings: Mapping[int, Parting]
    is_branched: bool
    children: list[Child]
    versions: list[Instructions]
    records: tuple[ExchangeRecord, ...]

    def asking(self, history: Conversation, model: str = "") -> Asking:
        """The request that would continue the conversation."""
        version = self.versions[-1] if self.versions else None
        source = next((one.dialect for one in reversed(self.records) if one.dialect), None)
        return Asking.of(history, model or self.metadata.model, version, source)

    @property
    def costs(self) -> Costs:
        """The usage of its own exchanges, without those that it shares with others."""
        name = self.metadata.id
        return Costs.of(record for record in self.records if record.conversation == name)


def load_shown(asked: Asked, identifier: str) -> Shown:
    """Load a conversation; ConversationNotFoundError if the caller cannot see it."""
    conversation = asked.store.get(identifier)
    metadata = conversation.metadata
    length = len(conversation)
    at = number(asked.query, "at")
    if "start" in asked.query:
        window = bounded(
            length, number(asked.query, "start") or 0, number(asked.query, "stop") or length
        )
    else:
        window = choose(length, at)
    tree = asked.store.tree(identifier)
    return Shown(
        conversation,
        metadata,
        metadata.title or title_of(conversation.read(0, _BEGINNING).canisters) or "Untitled",
        window,
        partings(asked.store, tree, identifier),
        branch_count(tree) > 1,
        children_of(asked.store, tree, identifier, length),
        asked.store.instructions(identifier) if length <= MOST else [],
        tuple(records_of(asked.store, metadata)),
    )


def number(query: Mapping[str, str], name: str) -> int | None:
    """A number in a query; InputError if it is not one."""
    text = query.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or len(text) > 12:
        raise InputError(f"{name} must be a number, not {text[:40]!r}")
    return int(text)


def conversation_page(asked: Asked, identifier: str, token: str) -> Iterator[bytes]:
    """Render the page, or more messages of it."""
    try:
        shown = load_shown(asked, identifier)
    except ConversationNotFoundError:
        said = asked.running.asked(identifier)
        if said is None:
            raise
        return _begun_page(identifier, said)
    if asked.query.get("part") == "messages":
        return part(_stream(shown, []))
    twin = f"{conversation_address(identifier)}.json"
    return document(
        one_line(shown.title, 80), _content(asked, shown, token), kind="conversation", twin=twin
    )


def _begun_page(identifier: str, said: Sequence[AnyCanister]) -> Iterator[bytes]:
    """A conversation whose first answer is still running; nothing of it is filed yet."""
    title = one_line(title_of(said), 80) or "A new conversation"
    live = {"data-live": "conversation", "data-id": identifier, "data-end": "0"}
    content = div(".page")[
        div(".page-head")[
            crumbs(span[title]),
            header(".title")[
                h1[title], p(".page-facts")[span(".badge.live")["running"], " not filed yet"]
            ],
        ],
        div("#messages.messages", {"data-length": "0"})[
            noscript[
                blocks_html(arrange(placed(said, 0)), Surroundings(links_of(identifier), {})),
                p(".quiet")["The answer is not complete. Reload the page to see it."],
            ],
            div("#tail", {**live, "data-at-end": "true", "data-unfiled": "true"}, aria_live="off"),
        ],
    ]
    return document(title, [content], kind="conversation")


def _content(asked: Asked, shown: Shown, token: str) -> Iterator[Node]:
    outline: list[tuple[int, str]] = []
    identifier, window = shown.metadata.id, shown.window
    yield Markup('<div class="page with-rail">')
    yield div(".page-head")[
        crumbs(span[one_line(shown.title, 60)]), _head(shown), tabs(shown, "conversation")
    ]
    live = {"data-live": "conversation", "data-id": identifier, "data-end": str(window.stop)}
    end = "true" if window.stop >= window.length else "false"
    yield Markup(f'<div class="messages" id="messages" data-length="{window.length}">')  # noqa: S704 - a number
    yield _earlier(shown)
    if not window.length:
        yield empty("No messages yet", p["Messages appear here as soon as they are recorded."])
    yield from _stream(shown, outline)
    yield _at_end(shown)
    yield _later(shown)
    yield div("#tail", {**live, "data-at-end": end}, aria_live="off")
    yield Markup("</div>")
    yield _rail(asked, shown, outline, token)
    yield Markup("</div>")


def _stream(shown: Shown, outline: list[tuple[int, str]]) -> Iterator[Node]:
    """Render the messages of the window in chunks, and collect the prompts."""
    around = _surroundings(shown)
    for found, damages in pieces(shown.conversation, shown.window):
        outline += prompts(found)
        yield fragment[_damaged(damages), *blocks_html(arrange(found), around)]


def _surroundings(shown: Shown) -> Surroundings:
    identifier = shown.metadata.id
    before: dict[int, list[Node]] = {}
    for position, parting in shown.partings.items():
        before.setdefault(position, []).append(parting_html(parting))
    for child in shown.children:
        before.setdefault(child.position, []).append(child_html(child))
    for position, version in versions_html(shown.versions):
        before.setdefault(position, []).append(version)
    kept = {
        position: fragment[nodes]
        for position, nodes in before.items()
        if position < shown.window.length
    }
    return Surroundings(
        links_of(identifier), by_position(shown.records), _warnings(shown), before=kept
    )


def _warnings(shown: Shown) -> Mapping[int, Node]:
    """The doctor's marks, if they can be computed while the page loads."""
    if not 0 < shown.window.length <= MOST_WARNED:
        return {}
    try:
        history = shown.conversation.load()
        return warnings_html(shown.metadata.id, shown.asking(history)) if is_light(history) else {}
    except CanneryError:
        # Damage and refusals are reported on the pages that show them.
        return {}


def _damaged(damages: tuple[Damage, ...]) -> Node:
    return [p(".notice.bad")[f"Damaged: {visible(str(damage))}"] for damage in damages]


def _at_end(shown: Shown) -> Node:
    end = shown.window.length
    if shown.window.stop < end:
        return None
    parting = shown.partings.get(end)
    at_end = [child_html(child) for child in shown.children if child.position >= end]
    return fragment[at_end, parting_html(parting) if parting is not None else None]


# --- the head ----------------------------------------------------------------------------------


def _head(shown: Shown) -> Element:
    metadata = shown.metadata
    sums = shown.costs
    facts = [fact for fact in _facts(shown, sums) if fact]
    return header(".title")[
        h1[one_line(shown.title, 160)],
        p(".page-facts")[
            (span(".fact")[fact] for fact in facts), (_tag(tag) for tag in metadata.tags)
        ],
    ]


def _facts(shown: Shown, sums: Costs) -> Iterator[Node]:
    metadata = shown.metadata
    yield counted(shown.window.length, "message")
    yield one_line(metadata.model, 60) if metadata.model else None
    yield f"{short_count(sums.tokens)} tokens" if sums.tokens else None
    yield dollars(sums.dollars) if sums.known_dollars is not None else None
    held_by = metadata.client or next((one.client for one in shown.records if one.client), "")
    client = " ".join(filter(None, (held_by, metadata.client_version)))
    yield one_line(client, 40) if client else None
    yield f"key {one_line(metadata.scope, 40)}" if metadata.scope else None
    yield time(datetime=metadata.created.isoformat())[metadata.created.strftime("%Y-%m-%d %H:%M")]
    yield count_text(shown.children)
    yield origin_html(metadata)


def _tag(tag: str) -> Node:
    return a(".tag", href=list_address({"tag": tag}))[one_line(tag, 32)]


def tabs(shown: Shown, current: str) -> Element:
    """The tabs of a conversation."""
    identifier = shown.metadata.id

    def tab(name: str, told: Node, address: str) -> Node:
        here = {"aria-current": "page"} if name == current else {}
        return li[a(here, href=address)[told]]

    return nav(".tabs", aria_label="Views of this conversation")[
        ul[
            tab("conversation", "Conversation", conversation_address(identifier)),
            tab("branches", "Branches", below(identifier, "tree")),
            tab("as", "As a provider gets it", below(identifier, "as")),
            tab("doctor", "Doctor", below(identifier, "doctor")),
        ]
    ]


# --- branches ----------------------------------------------------------------------------------


def parting_html(parting: Parting) -> Element:
    """The choice of branches at a position where they diverge."""
    position, options, current = parting.position, parting.options, parting.current
    count = len(options)

    def step(by: int, sign: str, told: str) -> Node:
        target = options[(current + by) % count]
        return a(".step", href=conversation_address(target.identifier, position), aria_label=told)[
            sign
        ]

    others = [option for option in options if not option.is_current]
    return nav(
        f"#b{position}.parting",
        {"data-position": str(position)},
        aria_label=f"Branches at message {position}",
    )[
        span(".parting-line", aria_hidden="true"),
        span(".picker")[
            step(-1, "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", "Previous branch"),
            details[
                summary[f"branch {current + 1} / {count}"],
                ol[
                    (
                        li[
                            a(
                                {"aria-current": "true"} if option.is_current else {},
                                href=conversation_address(option.identifier, position),
                            )[f"{at}. {one_line(option.title, 60) or option.identifier}"]
                        ]
                        for at, option in enumerate(options, 1)
                    )
                ],
            ],
            step(1, "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", "Next branch"),
        ],
        a(".compare", href=compare_address(options[current].identifier, others[0].identifier))[
            "Compare"
        ],
        span(".parting-line", aria_hidden="true"),
    ]


# --- windows and the rail ----------------------------------------------------------------------


def _earlier(shown: Shown) -> Node:
    window = shown.window
    if window.start == 0:
        return None
    start = max(0, window.start - 200)
    address = f"{conversation_address(shown.metadata.id)}?start={start}&stop={window.start}"
    told = f"{counted(window.start, 'earlier message')}"
    return p(".more", {"data-more": "earlier"})[a(href=address)[told]]


def _later(shown: Shown) -> Node:
    window = shown.window
    if window.stop >= window.length:
        return None
    address = (
        f"{conversation_address(shown.metadata.id)}?start={window.stop}&stop={window.stop + 200}"
    )
    told = f"{counted(window.length - window.stop, 'later message')}"
    return p(".more", {"data-more": "later"})[a(href=address)[told]]


def _rail(asked: Asked, shown: Shown, outline: list[tuple[int, str]], token: str) -> Element:
    identifier, window = shown.metadata.id, shown.window
    listed = outline[:_MOST_OUTLINED]
    return aside(".rail", aria_label="Outline")[
        nav(aria_label="Jumps")[
            ul(".jumps")[
                li[
                    a(
                        href=_jump(
                            identifier, window, listed[0][0] if listed and window.start == 0 else 0
                        )
                    )["First prompt"]
                ],
                li[a(href=_jump(identifier, window, max(window.length - 1, 0)))["Last answer"]],
                li[a(href=below(identifier, "tree"))["Branches"]] if shown.is_branched else None,
            ]
        ],
        h2["Prompts"],
        ol(".outline")[(li[a(href=f"#m{position}")[words]] for position, words in listed)]
        if listed
        else p(".quiet")["No prompt in these messages."],
        p(".quiet")["Prompts of the messages on this page."] if not window.is_all else None,
        _as_form(identifier),
        h2["Copy"],
        ul(".jumps")[
            (
                li[a(".copy", href=below(identifier, f"all.{form_}"))[told]]
                for form_, told in _COPIES
            )
        ],
        None if asked.is_read_only else _delete(identifier, token),
    ]


_COPIES = (("txt", "as text"), ("md", "as Markdown"), ("json", "as JSON"))


def _jump(identifier: str, window: Window, position: int) -> str:
    if window.start <= position < window.stop:
        return f"#m{position}"
    return conversation_address(identifier, position)


def _as_form(identifier: str) -> Element:
    names = [name for name in dialect_names() if find_dialect(name).routes]
    return form(".as-form", action=below(identifier, "as"), method="get")[
        h2["As a provider gets it"],
        select(name="to", aria_label="Dialect")[(option(value=name)[name] for name in names)],
        button(type="submit")["Show"],
    ]


def _delete(identifier: str, token: str) -> Element:
    return details(".danger")[
        summary["Delete"],
        form(action=below(identifier, "delete"), method="post")[
            htpy.input(type="hidden", name="token", value=token),
            p(".quiet")["Its forks stay readable."],
            button(type="submit")["Delete this conversation"],
        ],
    ]


# --- values ------------------------------------------------------------------------------------


def conversation_data(asked: Asked, identifier: str) -> dict[str, Any]:
    """The conversation as JSON values: of a long one, the requested window."""
    try:
        shown = load_shown(asked, identifier)
    except ConversationNotFoundError:
        said = asked.running.asked(identifier)
        if said is None:
            raise
        messages = [message_data(each) for each in placed(said, 0)]
        return {"id": identifier, "is_running": True, "length": 0, "messages": messages}
    metadata, window = shown.metadata, shown.window
    sums = shown.costs
    messages = [
        message_data(each) for found, _ in pieces(shown.conversation, window) for each in found
    ]
    return {
        "id": metadata.id,
        "title": shown.title,
        "tags": list(metadata.tags),
        "model": metadata.model,
        "key": metadata.scope or None,
        "created": metadata.created.isoformat(),
        "updated": metadata.updated.isoformat(),
        "parent": metadata.parent,
        "position": metadata.position,
        "length": window.length,
        "start": window.start,
        "stop": window.stop,
        "tokens": sums.tokens,
        "cost": sums.known_dollars,
        "branches": {
            str(position): [option.identifier for option in parting.options]
            for position, parting in shown.partings.items()
        },
        "children": [
            {
                "id": child.identifier,
                "kind": child.kind,
                "title": child.title,
                "position": child.position,
            }
            for child in shown.children
        ],
        "instructions": [version.position for version in shown.versions],
        "exchanges": [msgspec.structs.asdict(record) for record in shown.records],
        "messages": messages,
    }
