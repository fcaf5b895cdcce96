"""``cannery stats``: the counts of a store, and its size before and after deduplication."""

from __future__ import annotations

import argparse

import msgspec

from cannery.cli import plots
from cannery.cli.complaints import DONE
from cannery.cli.files import note, write_json, writing
from cannery.cli.parser import Parser, whole
from cannery.cli.progress import Progress
from cannery.cli.store_counts import Census, count_store, disk_size
from cannery.cli.stores import find_place, opened
from cannery.cli.terminal import ROLE_COLOURS, harmless, paint
from cannery.storage.exchanges import Costs, records_since
from cannery.wording import counted, dollars, size_text

DESCRIPTION = (
    "Count what a store holds: conversations, messages by role, model and day, and their size before and after "
    "deduplication."
)
EXAMPLES = """
cannery stats
cannery stats --json | jq .by_model
cannery stats --svg activity.svg
"""
USES_STORE = True
_MOST = 10


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("--svg", metavar="FILE", help="write a plot of messages by day and role")
    add("--days", metavar="N", type=whole, default=60, help="how many days to plot (60)")


def run(options: argparse.Namespace) -> int:
    """Count and print."""
    place, _ = find_place(options.store)
    with (
        opened(options) as store,
        Progress("counting", unit="conversations", quiet=options.quiet) as progress,
    ):
        census = count_store(store, progress)
        costs = Costs.of(records_since(store))
    census.disk_bytes = disk_size(place)
    days = plots.recent_days(census.by_day, max(options.days, 1))
    if options.svg:
        title = f"{counted(census.messages, 'message')} in {counted(census.conversations, 'conversation')}"
        with writing(options.svg) as file:
            file.write(plots.svg(title, days, census.by_role).encode())
        if options.svg != "-":
            note(f"wrote {options.svg}", quiet=options.quiet)
    if options.json:
        told = {**msgspec.to_builtins(census), "ratio": round(census.ratio, 3)}
        write_json({**told, "cost": msgspec.to_builtins(costs)} if costs.exchanges else told)
    elif options.svg != "-":
        print(_text(census, days) + _cost_text(costs))
    return DONE


def _cost_text(costs: Costs) -> str:
    """The cost of the gateway's exchanges, if there are any."""
    if not costs.exchanges:
        return ""
    unpriced = f", {costs.unpriced} without a price" if costs.unpriced else ""
    cached = f" ({costs.cache_read_tokens} from caches)" if costs.cache_read_tokens else ""
    lines = [
        "",
        "",
        paint("Cost", "bold"),
        f"  {dollars(costs.dollars)} for {counted(costs.exchanges, 'exchange')}{unpriced}",
        f"  {costs.input_tokens} tokens in{cached}, {costs.output_tokens} out",
    ]
    for word, table in (("model", costs.by_model), ("key", costs.by_key)):
        largest = sorted(table.items(), key=lambda pair: -pair[1])[:_MOST]
        lines += [f"  {word} {harmless(name)}: {dollars(amount)}" for name, amount in largest]
    return "\n".join(lines)


def _text(census: Census, days: dict[str, int]) -> str:
    conversations = counted(census.conversations, "conversation")
    forks = f" ({counted(census.forks, 'fork')})" if census.forks else ""
    kept = f"{size_text(census.kept_bytes)} kept ({census.ratio:.2f} × shared)"
    # The disk usage of a server is unknown here.
    on_disk = f", {size_text(census.disk_bytes)} on disk" if census.disk_bytes else ""
    lines = [
        f"{conversations}{forks}, {counted(census.messages, 'message')}",
        f"{size_text(census.said_bytes)} said, {kept}{on_disk}",
    ]
    lines += ["", paint("Roles", "bold"), *plots.bars(census.by_role, ROLE_COLOURS)]
    models = dict(list(census.by_model.items())[:_MOST])
    lines += ["", paint("Models", "bold"), *plots.bars(models, {})]
    if days:
        first, last = next(iter(days)), list(days)[-1]
        lines += [
            "",
            paint("Messages a day", "bold"),
            f"  {plots.sparkline(days)}  {first} – {last}",
        ]
    return "\n".join(lines)
