"""``cannery search``: find messages by their words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

from cannery.cli.complaints import DONE, WRONG, choose
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser, whole
from cannery.cli.stores import opened, report_locked_scopes, shortened
from cannery.cli.terminal import ROLE_COLOURS, harmless, is_terminal, one_line, page, paint
from cannery.cli.times import parse_time
from cannery.messages.role import Role
from cannery.storage import Hit
from cannery.storage.metadata import PROFILES

DESCRIPTION = (
    "Search for messages that contain all of the words, best match first. Exits with 1 if there are none. In a "
    "pipe: id, position, role, title and text, tab-separated."
)
EXAMPLES = """
cannery search sourdough starter
cannery search --role user --limit 5 "rate limit"
cannery search --since 7d --model gpt-4o retry
cannery search error --json | jq -r '.[].id' | sort -u
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("words", metavar="WORDS", nargs="+", help="what to look for")
    add("--role", metavar="ROLE", help="only messages of this role")
    add("--tag", metavar="TAG", help="only in conversations with this tag")
    add("--model", metavar="NAME", help="only in conversations with this model")
    add("--client", metavar="NAME", help="only in conversations of this program")
    add("--profile", metavar="NAME", help="only in conversations of this profile: archive or chat")
    add("--since", metavar="TIME", help="not older than: a date, or 90m, 12h, 7d, 2w")
    add("--until", metavar="TIME", help="older than")
    add("-n", "--limit", metavar="N", type=whole, default=50, help="at most N messages (50)")


def run(options: argparse.Namespace) -> int:
    """Search messages."""
    if options.role is not None:
        choose(options.role, [role.value for role in Role], "role")
    if options.profile is not None:
        choose(options.profile, PROFILES, "profile")
    words = " ".join(options.words)
    with opened(options) as store:
        hits = store.search(
            words,
            role=options.role,
            tag=options.tag,
            model=options.model,
            client=options.client,
            profile=options.profile,
            since=parse_time(options.since) if options.since else None,
            until=parse_time(options.until) if options.until else None,
            limit=options.limit,
        )
        report_locked_scopes(store, options)
        short = shortened(store, {hit.identifier for hit in hits} if is_terminal() else ())
    if options.json:
        write_json(
            [
                {
                    "id": hit.identifier,
                    "title": hit.title,
                    "position": hit.position,
                    "role": hit.role,
                    "snippet": hit.snippet,
                    "timestamp": hit.timestamp.isoformat(),
                }
                for hit in hits
            ]
        )
    elif hits:
        page(_on_terminal(hits, words, short) if is_terminal() else _in_pipe(hits))
    else:
        note(f"no message contains {words!r}", quiet=options.quiet)
    return DONE if hits else WRONG


def _in_pipe(hits: tuple[Hit, ...]) -> str:
    rows = ((hit.identifier, str(hit.position), hit.role, hit.title, hit.snippet) for hit in hits)
    return "\n".join("\t".join(" ".join(harmless(cell).split()) for cell in row) for row in rows)


def _on_terminal(hits: tuple[Hit, ...], words: str, short: Mapping[str, str]) -> str:
    marked = re.compile("|".join(map(re.escape, words.split())), re.IGNORECASE)
    lines = []
    for hit in hits:
        role = paint(hit.role, ROLE_COLOURS.get(hit.role, "bold"))
        title = one_line(hit.title, 60)
        lines.append(f"{paint(short[hit.identifier], 'bold')} [{hit.position}] {role}  {title}")
        text = harmless(" ".join(hit.snippet.split()))
        lines.append("    " + marked.sub(lambda found: paint(found[0], "bold", "red"), text))
    return "\n".join(lines)
