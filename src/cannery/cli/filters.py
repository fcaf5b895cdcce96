"""The options that select conversations."""

from __future__ import annotations

import argparse

from cannery.backends import VISIBLE, shown
from cannery.cli.complaints import choose
from cannery.cli.parser import Parser
from cannery.cli.times import parse_time
from cannery.messages.role import Role
from cannery.storage import Store, Summary
from cannery.storage.metadata import PROFILES

FILTERS = (
    "tag",
    "profile",
    "model",
    "role",
    "since",
    "until",
    "client",
    "session",
    "kind",
    "key",
    "limit",
)


def add_filters(parser: Parser) -> None:
    """Add the filter options to a verb."""
    add = parser.add_argument
    add("--tag", metavar="TAG", help="only those with this tag")
    add("--profile", metavar="NAME", help="only those of this profile: archive or chat")
    add("--model", metavar="NAME", help="only those with this model")
    add("--role", metavar="ROLE", help="only those with a message of this role")
    add("--since", metavar="TIME", help="changed since: a date, or 90m, 12h, 7d, 2w")
    add("--until", metavar="TIME", help="changed before")
    add("--client", metavar="NAME", help="only those of this program, as the gateway recorded it")
    add(
        "--session",
        metavar="ID",
        help="only those of this session of a program; sub-agents and side requests have their own",
    )
    add("--key", metavar="NAME", help="only those of this key of the gateway (its scope)")
    add("--kind", metavar="KIND", help="only this kind: compaction, subagent, title, summary, ...")
    add("--all", action="store_true", help="also side requests of programs, such as for titles")


def select(store: Store, options: argparse.Namespace) -> tuple[Summary, ...]:
    """The conversations that the options select."""
    if options.profile is not None:
        choose(options.profile, PROFILES, "profile")
    if options.role is not None:
        choose(options.role, [role.value for role in Role], "role")
    seen = store if options.key is None else store.within(options.key)
    return seen.list(
        tag=options.tag,
        profile=options.profile,
        model=options.model,
        role=options.role,
        since=parse_time(options.since) if options.since else None,
        until=parse_time(options.until) if options.until else None,
        client=options.client,
        session=options.session,
        kinds=_kinds(options),
        limit=options.limit,
    )


def _kinds(options: argparse.Namespace) -> tuple[str, ...] | None:
    """The kinds to show; None for all of them."""
    if options.kind is not None:
        return (options.kind,)
    # A session was requested by its id: show all its kinds.
    return None if options.all or options.session is not None else VISIBLE


def nothing_found(options: argparse.Namespace, place: str) -> str:
    """Explain an empty list: by the filters that were given, or because the store is empty."""
    filters = [
        f"--{name} {value}"
        for name in FILTERS
        if (value := getattr(options, name, None)) is not None
    ]
    if not filters:
        return f"no conversations in {shown(place)}"
    if filters == [f"--tag {options.tag}"]:
        return f"no conversation in {shown(place)} has the tag {options.tag!r}"
    return f"no conversation in {shown(place)} matches {' '.join(filters)}"
