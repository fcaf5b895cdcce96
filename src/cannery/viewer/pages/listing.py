"""The list of conversations: newest first, filtered, one page at a time; or the results of a search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import htpy
import msgspec
from htpy import (
    Element,
    Node,
    a,
    button,
    code,
    div,
    form,
    fragment,
    h1,
    h2,
    label,
    li,
    mark,
    nav,
    ol,
    option,
    p,
    pre,
    select,
    span,
    strong,
    time,
)
from msgspec import Struct

from cannery.backends import VISIBLE
from cannery.errors import CanneryError, InputError
from cannery.storage import Hit, Store, Summary
from cannery.storage.exchanges import Costs, ExchangeRecord, records_by_conversation
from cannery.titles import title_of
from cannery.viewer.addresses import ROOT, below, conversation_address, list_address
from cannery.viewer.answers import Asked
from cannery.viewer.branches import branch_count
from cannery.viewer.exchange_facts import short_count
from cannery.viewer.live import Begun, newest_of
from cannery.viewer.pages.layout import document, empty, part
from cannery.viewer.visible import one_line, visible
from cannery.wording import counted, dollars

_PAGE = 50
_HITS = 60
_BEGINNING = 12
ROLES = ("user", "assistant", "supervisor", "document", "invocation", "result")
FILTERS = ("tag", "model", "client", "role", "since", "until", "scope")
_WORD = re.compile(r"\w+")


class Row(Struct, frozen=True):
    """A conversation in the list, with the facts read separately."""

    summary: Summary
    title: str
    branches: int
    costs: Costs
    client: str
    is_running: bool
    # The title of a fork's own messages.
    own: str = ""


def list_page(asked: Asked) -> Iterator[bytes]:
    """Render the list, or the part of it that is updated."""
    chosen = _chosen(asked.query)
    words = asked.query.get("q", "").strip()
    twin = list_address({**asked.query}).replace(ROOT, f"{ROOT}.json", 1)
    if asked.query.get("part") == "rows":
        return part([_results(asked, chosen, words)])
    # Before the rows are read, so that later changes are reported as updates.
    seen = "" if words else newest_of(asked.store, asked.running)
    content = [
        div(".page")[
            div(".page-head")[
                h1["Search" if words else "Conversations"],
                _filters(asked, chosen, words) if words or chosen or seen else None,
            ],
            div("#rows", {"data-live": "" if words else "list", "data-seen": seen})[
                _results(asked, chosen, words)
            ],
        ]
    ]
    name = f"{words} · Search" if words else "Conversations"
    return document(visible(name), content, kind="listing", query=words, filters=chosen, twin=twin)


def list_data(asked: Asked) -> dict[str, Any]:
    """The page as JSON values."""
    chosen = _chosen(asked.query)
    words = asked.query.get("q", "").strip()
    if words:
        return {"hits": [_hit_data(hit) for hit in _search(asked, chosen, words)]}
    begun = _begun(asked, chosen)
    found, following = _rows(asked, chosen)
    return {
        "conversations": [_row_data(row) for row in found],
        "running": [msgspec.structs.asdict(each) for each in begun],
        "after": following,
    }


def _results(asked: Asked, chosen: Mapping[str, str], words: str) -> Node:
    if words:
        return _hits(_search(asked, chosen, words), words, asked)
    # Before the rows are read, so that an exchange filed meanwhile is in one of them.
    begun = _begun(asked, chosen)
    found, following = _rows(asked, chosen)
    if not found and not begun:
        return _nothing(asked, chosen)
    more = {**chosen, "after": following or ""}
    known = {row.summary.identifier for row in found}
    new = [each for each in begun if each.identifier not in known]
    return fragment[
        ol(".rows")[(_begun_row(each) for each in new), (_row(row, asked) for row in found)],
        nav(".pager", aria_label="Pages")[
            a(href=list_address(chosen))["Newest"] if asked.query.get("after") else None,
            a(href=list_address(more), rel="next")["Older conversations"] if following else None,
        ],
    ]


# --- choosing ----------------------------------------------------------------------------------


def _chosen(query: Mapping[str, str]) -> dict[str, str]:
    """The filters of a query."""
    return {name: query[name].strip() for name in FILTERS if query.get(name, "").strip()}


def _selection(chosen: Mapping[str, str]) -> dict[str, Any]:
    selection: dict[str, Any] = {
        name: chosen[name] for name in ("tag", "model", "client", "role") if name in chosen
    }
    for name in ("since", "until"):
        if name in chosen:
            selection[name] = _moment(name, chosen[name])
    return selection


def _moment(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{name}: not a date: {text[:40]!r}; write it as 2026-11-18") from None
    if name == "until" and len(text) <= 10:
        moment = moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _within(asked: Asked, chosen: Mapping[str, str]) -> Store:
    scope = chosen.get("scope")
    if scope is None:
        return asked.store
    if not asked.sees_all:
        return asked.store
    return asked.store.within("" if scope == "-" else scope)


def _rows(asked: Asked, chosen: Mapping[str, str]) -> tuple[list[Row], str | None]:
    store, selection = _within(asked, chosen), _selection(chosen)
    found = store.list(limit=_PAGE + 1, after=asked.query.get("after") or None, **selection)
    shown = list(found[:_PAGE])
    following = shown[-1].cursor if len(found) > _PAGE else None
    if not chosen and not asked.query.get("after"):
        shown = _running_first(asked, shown)
    records = records_by_conversation(store, [summary.identifier for summary in shown])
    rows = [_full(asked, one, records.get(one.identifier, ())) for one in shown]
    return rows, following


def _begun(asked: Asked, chosen: Mapping[str, str]) -> list[Begun]:
    """The exchanges in progress that are not yet filed, for the first page without filters."""
    if chosen or asked.query.get("after"):
        return []
    return [
        each
        for each in asked.running.begun()[:_PAGE]
        if not each.identifier or _summary(asked.store, each.identifier) is None
    ]


def _running_first(asked: Asked, shown: list[Summary]) -> list[Summary]:
    """The first page, with running conversations first."""
    known = {summary.identifier: summary for summary in shown}
    running = [
        summary
        for name in asked.running.identifiers()[:_PAGE]
        if (summary := known.pop(name, None) or _summary(asked.store, name)) is not None
    ]
    return [*running, *known.values()]


def _summary(store: Store, name: str) -> Summary | None:
    """A conversation that is not on the page; None if it is not filed yet, or of a kind that lists omit."""
    try:
        metadata = store.metadata_of(name)
        count = len(store.handle(name))
    except CanneryError:
        return None
    if metadata.kind not in VISIBLE:
        return None
    fields: dict[str, Any] = {
        field: getattr(metadata, field, None) for field in Summary.__struct_fields__
    }
    return Summary(**{**fields, "identifier": name, "count": count})


def _full(asked: Asked, summary: Summary, records: Sequence[ExchangeRecord]) -> Row:
    store, name = asked.store, summary.identifier
    branches, own = 1, ""
    title = summary.title
    try:
        branches = branch_count(store.tree(name))
        if not title:
            title = title_of(store.handle(name).read(0, _BEGINNING).canisters)
        if summary.parent is not None:
            start = summary.position
            own = title_of(store.handle(name).read(start, start + _BEGINNING).canisters)
    except CanneryError:
        # It was deleted meanwhile, or is damaged, which its own page reports.
        pass
    is_running = asked.running.asked(name) is not None
    # Earlier versions recorded the program only with the exchange.
    client = summary.client or next((one.client for one in records if one.client), "")
    return Row(summary, title, branches, Costs.of(records), client, is_running, own)


def _search(asked: Asked, chosen: Mapping[str, str], words: str) -> Sequence[Hit]:
    return _within(asked, chosen).search(words, limit=_HITS, **_selection(chosen))


# --- drawing -----------------------------------------------------------------------------------


def _filters(asked: Asked, chosen: Mapping[str, str], words: str) -> Element:
    def field(name: str, told: str, kind: str = "text", hint: str = "") -> Node:
        return label[
            span[told],
            htpy.input(name=name, type=kind, value=chosen.get(name, ""), placeholder=hint),
        ]

    roles = [
        option(value="")["any"],
        *(option(value=role, selected=chosen.get("role") == role)[role] for role in ROLES),
    ]
    return form(".filters", action=ROOT, method="get")[
        htpy.input(type="hidden", name="q", value=words) if words else None,
        field("model", "Model"),
        field("client", "Client"),
        field("tag", "Tag"),
        label[span["Role"], select(name="role")[roles]],
        field("since", "From", "date"),
        field("until", "To", "date"),
        field("scope", "Key") if asked.sees_all else None,
        button(type="submit")["Filter"],
        a(".reset", href=list_address({"q": words}))["Reset"] if chosen else None,
    ]


def _row(row: Row, asked: Asked) -> Element:
    summary = row.summary
    title = one_line(row.title, 120) or "Untitled"
    facts: list[Node] = [counted(summary.count, "message")]
    if row.branches > 1:
        tree = below(summary.identifier, "tree")
        facts.append(a(".branches", href=tree)[f"{row.branches} branches"])
    if row.costs.tokens:
        facts.append(f"{short_count(row.costs.tokens)} tokens")
    if row.costs.known_dollars is not None:
        facts.append(dollars(row.costs.dollars))
    if summary.model:
        facts.append(a(href=list_address({"model": summary.model}))[one_line(summary.model, 40)])
    if row.client:
        facts.append(a(href=list_address({"client": row.client}))[one_line(row.client, 30)])
    if summary.kind:
        facts.append(span(".badge")[one_line(summary.kind, 20)])
    if summary.scope and asked.sees_all:
        facts.append(
            a(href=list_address({"scope": summary.scope}))[f"key {one_line(summary.scope, 24)}"]
        )
    return li(".row")[
        div(".row-title")[
            a(href=conversation_address(summary.identifier))[title],
            span(".badge.live")["running"] if row.is_running else None,
        ],
        time(".when", datetime=summary.updated.isoformat())[
            summary.updated.strftime("%Y-%m-%d %H:%M")
        ],
        div(".row-facts")[
            span(".fork")[one_line(row.own, 120)] if row.own else None,
            (span(".fact")[fact] for fact in facts),
            (
                a(".tag", href=list_address({"tag": tag}))[one_line(tag, 24)]
                for tag in summary.tags[:6]
            ),
        ],
    ]


def _begun_row(begun: Begun) -> Element:
    """A running request that is not filed yet; it links to its page once its conversation is known."""
    title = one_line(begun.title, 120) or "A request"
    named = (
        a(href=conversation_address(begun.identifier))[title] if begun.identifier else strong[title]
    )
    state = "the answer is being given" if begun.identifier else "waiting for the first word"
    facts = [state, *(one_line(word, 40) for word in (begun.model, begun.client) if word)]
    return li(".row.begun")[
        div(".row-title")[named, span(".badge.live")["running"]],
        span(".when")["now"],
        div(".row-facts")[(span(".fact")[fact] for fact in facts)],
    ]


def _nothing(asked: Asked, chosen: Mapping[str, str]) -> Node:
    if chosen:
        return empty(
            "No conversation fits these filters",
            p[a(href=list_address())["Show all conversations"]],
        )
    base = asked.base or "http://127.0.0.1:8484"
    served = f"""curl {base}/v1/chat/completions -H 'content-type: application/json' \\
  -d '{{"model": "echo", "messages": [{{"role": "user", "content": "Hello"}}]}}'"""
    return empty(
        "No conversations yet",
        p["Send something through the gateway, and it appears here while it is answered:"],
        pre(".code", tabindex="0")[served],
        p["Or bring in chats of other programs: ", code["cannery import conversations.json"]],
    )


def _hits(hits: Sequence[Hit], words: str, asked: Asked) -> Node:
    if not hits:
        return empty(
            f"No message contains “{one_line(words, 60)}”",
            p[
                "All words must occur in one message. ",
                code["word*"],
                " matches a prefix, ",
                code['"two words"'],
                " a phrase.",
            ],
            p[a(href=list_address({"q": words}))["Search without these filters"]]
            if _chosen(asked.query)
            else None,
        )
    grouped: dict[str, list[Hit]] = {}
    for hit in hits:
        grouped.setdefault(hit.identifier, []).append(hit)
    more = (
        p(".quiet")[f"The best {_HITS} messages. More words find fewer."]
        if len(hits) >= _HITS
        else None
    )
    told = f"{counted(len(hits), 'message')} in {counted(len(grouped), 'conversation')}"
    return fragment[
        p(".quiet")[told],
        ol(".rows.hits")[(_found(name, found, words) for name, found in grouped.items())],
        more,
    ]


def _found(identifier: str, hits: Sequence[Hit], words: str) -> Element:
    title = one_line(hits[0].title, 120) or "Untitled"
    return li(".row")[
        h2(".row-title")[a(href=conversation_address(identifier))[title]],
        ol(".snippets")[
            (
                li[
                    a(".snippet", href=conversation_address(identifier, hit.position))[
                        strong(f".who.{hit.role}")[hit.role], span[marked(hit.snippet, words)]
                    ]
                ]
                for hit in hits
            )
        ],
    ]


def marked(text: str, words: str) -> Node:
    """A text with the words of a search marked."""
    wanted = [re.escape(word) for word in _WORD.findall(words)]
    if not wanted:
        return visible(text)
    pieces = re.split(f"({'|'.join(wanted)})", visible(text), flags=re.IGNORECASE)
    return fragment[(mark[piece] if at % 2 else piece for at, piece in enumerate(pieces))]


# --- values ------------------------------------------------------------------------------------


def _row_data(row: Row) -> dict[str, Any]:
    summary = row.summary
    return {
        "id": summary.identifier,
        "title": row.title,
        "tags": list(summary.tags),
        "model": summary.model,
        "key": summary.scope or None,
        "client": row.client or None,
        "kind": summary.kind or None,
        "messages": summary.count,
        "branches": row.branches,
        "parent": summary.parent,
        "goes_on": row.own or None,
        "created": summary.created.isoformat(),
        "updated": summary.updated.isoformat(),
        "tokens": row.costs.tokens,
        "cost": row.costs.known_dollars,
        "is_running": row.is_running,
        "address": conversation_address(summary.identifier),
    }


def _hit_data(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.identifier,
        "title": hit.title,
        "position": hit.position,
        "role": hit.role,
        "snippet": hit.snippet,
        "time": hit.timestamp.isoformat(),
        "address": conversation_address(hit.identifier, hit.position),
    }
