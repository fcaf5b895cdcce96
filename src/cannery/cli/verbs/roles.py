"""``cannery roles``: compare, explain, normalize and count role names."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from cannery.cli.complaints import DONE, Complaint, Misuse, choose
from cannery.cli.files import note, read_json, shown, write_json
from cannery.cli.parser import Parser
from cannery.cli.vocabularies import explain, list_vocabularies
from cannery.roles import VOCABULARIES, normalize_roles

DESCRIPTION = (
    "Role names. Without arguments: all vocabularies side by side. `explain ROLE…`, or just a role, shows what it "
    "is in each vocabulary; `normalize FILE` writes messages with normalized roles; `statistics FILE` counts the "
    "roles of a file."
)
EXAMPLES = """
cannery roles
cannery roles Human
cannery roles explain Human " AI " admin
cannery roles normalize request.json --to openai
cannery roles statistics request.json
"""
ACTIONS = ("list", "explain", "normalize", "statistics")


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("action", metavar="ACTION", nargs="?", default="list", help="one of " + ", ".join(ACTIONS))
    add("names", metavar="ROLE|FILE", nargs="*", help="role strings, or a file (- is stdin)")
    add("--to", metavar="VOCABULARY", default="client", help="the vocabulary to normalize to")


def run(options: argparse.Namespace) -> int:
    """Run one of the actions."""
    if options.action not in ACTIONS:
        _take_as_role(options)
    choose(options.to, VOCABULARIES, "vocabulary")
    if options.action == "list":
        return list_vocabularies(options)
    if options.action == "explain":
        return explain(options)
    return _normalize(options)


def _take_as_role(options: argparse.Namespace) -> None:
    """Take an unknown action as a role to explain, unless it is similar to a known action."""
    import difflib

    word = options.action
    if meant := difflib.get_close_matches(word.lower(), ACTIONS, n=1, cutoff=0.8):
        problem = f"there is no action {word!r}. Did you mean {meant[0]!r}?"
        raise Misuse(problem, f"For a role: cannery roles explain {word!r}")
    options.names = [word, *options.names]
    options.action = "explain"


def _normalize(options: argparse.Namespace) -> int:
    name = options.names[0] if options.names else "-"
    value = read_json(name)
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list) or not _are_messages(messages):
        raise Complaint(f"{shown(name)} has no list of messages", "Give a chat request, or a list")
    report = normalize_roles(messages, vocabulary=options.to)
    if options.action == "statistics":
        return _statistics(options, report.statistics)
    is_body = isinstance(value, dict)
    write_json({**value, "messages": report.messages} if is_body else report.messages)
    for change in report.transformations:
        note(f"{change.path}: {change.before!r} → {change.after!r}", quiet=options.quiet)
    return DONE


def _are_messages(items: list[Any]) -> bool:
    """Whether all items are objects, and at least one has a role."""
    is_any = not items or any("role" in each for each in items if isinstance(each, Mapping))
    return is_any and all(isinstance(each, Mapping) for each in items)


def _statistics(options: argparse.Namespace, statistics: Any) -> int:
    if not options.json:
        print(statistics)
        return DONE
    write_json(
        {
            "total": statistics.total,
            "transformed": statistics.transformed,
            "by_role": dict(statistics.by_role),
            "transformation_rate": statistics.transformation_rate,
        }
    )
    return DONE
