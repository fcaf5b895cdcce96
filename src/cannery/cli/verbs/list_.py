"""``cannery list``: the conversations of a store, most recently changed first."""

from __future__ import annotations

import argparse
from typing import Any

from cannery.cli.complaints import DONE
from cannery.cli.files import note, write_json
from cannery.cli.filters import add_filters, nothing_found, select
from cannery.cli.parser import Parser, whole
from cannery.cli.stores import find_place, is_there, opened, report_locked_scopes, shortened
from cannery.cli.tables import table
from cannery.cli.terminal import harmless, is_terminal, one_line, page
from cannery.cli.times import ago
from cannery.messages import UserCanisterClass
from cannery.storage import Store, Summary
from cannery.storage.exchanges import Costs, records_by_conversation
from cannery.wording import dollars

DESCRIPTION = (
    "List the conversations of a store, most recently changed first. In a pipe: one a line with its full id, "
    "tab-separated, without a header."
)
EXAMPLES = """
cannery list
cannery list --tag work --since 7d
cannery list --client claude-code
cannery list --all
cannery list --cost
cannery list --json | jq -r '.[].id'
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add_filters(parser)
    add = parser.add_argument
    add("-n", "--limit", metavar="N", type=whole, help="at most N conversations")
    add(
        "--cost", action="store_true", help="show the cost of each, as far as a gateway recorded it"
    )


def run(options: argparse.Namespace) -> int:
    """List conversations."""
    place, origin = find_place(options.store)
    found: tuple[Summary, ...] = ()
    short: dict[str, str] = {}
    titles: dict[str, str] = {}
    costs: dict[str, float | None] = {}
    # A missing default store is an empty list; a store that was named must exist.
    if origin in ("--store", "CANNERY_STORE") or is_there(place):
        with opened(options) as store:
            found = select(store, options)
            if any((options.tag, options.model, options.client, options.session)):
                report_locked_scopes(store, options)
            names = [summary.identifier for summary in found]
            short = shortened(store, names if is_terminal() else ())
            if not options.json:
                titles = {each.identifier: each.title or _opening(store, each) for each in found}
            if options.cost:
                records = records_by_conversation(store, names)
                costs = {name: Costs.of(own).known_dollars for name, own in records.items()}
    if options.json:
        more = [{"cost": costs.get(each.identifier)} if options.cost else {} for each in found]
        write_json([{**_data(each), **cost} for each, cost in zip(found, more, strict=True)])
        return DONE
    if not found:
        note(nothing_found(options, place), quiet=options.quiet)
        return DONE
    rows = [
        [
            short.get(each.identifier, each.identifier),
            ago(each.updated) if is_terminal() else each.updated.isoformat(),
            str(each.count),
            harmless(each.model or "-"),
            harmless(" ".join(filter(None, (each.kind, *each.tags)))) or "-",
            *([dollars(costs.get(each.identifier))] if options.cost else []),
            one_line(titles[each.identifier], 100),
        ]
        for each in found
    ]
    cost = ["cost"] if options.cost else []
    header = ["id", "changed", "messages", "model", "tags", *cost, "title"]
    page(table(header, rows, numbers="messages"))
    return DONE


def _opening(store: Store, summary: Summary) -> str:
    """The first user text, for a conversation without a title."""
    for canister in store.handle(summary.identifier).read(0, 3).canisters:
        if isinstance(canister, UserCanisterClass):
            return canister.text
    return ""


def _data(summary: Summary) -> dict[str, Any]:
    return {
        "id": summary.identifier,
        "title": summary.title,
        "tags": summary.tags,
        "created": summary.created,
        "updated": summary.updated,
        "profile": summary.profile,
        "model": summary.model,
        "parent": summary.parent,
        "position": summary.position,
        "messages": summary.count,
        "kind": summary.kind,
        "client": summary.client,
        "session": summary.session,
        "key": summary.scope,
    }
