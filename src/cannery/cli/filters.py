"""The options that choose among conversations."""

from __future__ import annotations

import argparse

from cannery.backends import shown
from cannery.cli.parser import Parser

FILTERS = ("tag", "profile", "model", "role", "since", "until", "client", "session", "kind")


def add_filters(parser: Parser) -> None:
    """What a verb takes to choose among conversations."""
    add = parser.add_argument
    add("--tag", metavar="TAG", help="only those with this tag")
    add("--profile", metavar="NAME", help="only those of this profile: archive or chat")
    add("--model", metavar="NAME", help="only those with this model")
    add("--role", metavar="ROLE", help="only those in which this role speaks")
    add("--since", metavar="TIME", help="changed since: a date, or 90m, 12h, 7d, 2w")
    add("--until", metavar="TIME", help="changed before")


def nothing_found(options: argparse.Namespace, place: str) -> str:
    """Why a list is empty: because of the filters that were given, or because the store is."""
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
