"""The facts of exchanges on a page: tokens, cost, time, upstream, losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from htpy import Node, div, span

from cannery.storage.exchanges import ExchangeRecord
from cannery.viewer.visible import visible
from cannery.wording import counted, dollars


def by_position(records: Iterable[ExchangeRecord]) -> Mapping[int, list[ExchangeRecord]]:
    """Exchanges by the position of the last message of their answer; repeated requests share a position."""
    found: dict[int, list[ExchangeRecord]] = {}
    for record in records:
        found.setdefault(record.position - 1, []).append(record)
    return found


def short_count(count: int) -> str:
    """A number of tokens in short form: 950, 12.3k, 1.2M."""
    if count < 1000:
        return str(count)
    if count < 1_000_000:
        return f"{count / 1000:.1f}".removesuffix(".0") + "k"
    return f"{count / 1_000_000:.1f}".removesuffix(".0") + "M"


def duration(seconds: float) -> str:
    """A duration in short form."""
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def facts_html(records: list[ExchangeRecord]) -> Node:
    """A line with the facts of an exchange, and the number of repetitions."""
    record = records[0]
    told: list[Node] = [
        _tokens(record),
        None if record.cost is None else span(title="cost")[dollars(record.cost)],
        _latency(record),
    ]
    words = dict.fromkeys(word for word in (record.model, record.upstream) if word)
    via = " via ".join(map(visible, words))
    told.append(span[via] if via else None)
    if record.failed_upstreams:
        told.append(
            span(".warn")[f"after {', '.join(map(visible, record.failed_upstreams))} failed"]
        )
    if record.losses:
        title = visible(", ".join(record.losses))
        told.append(span(".warn", title=title)[counted(len(record.losses), "loss", "losses")])
    if record.outcome != "complete":
        told.append(span(".bad")[f"answer {visible(record.outcome)}"])
    if len(records) > 1:
        told.append(span[f"asked {len(records)} times"])
    return div(".facts")[told] if any(told) else None


def _tokens(record: ExchangeRecord) -> Node:
    if not (record.input_tokens or record.output_tokens):
        return None
    read, written = record.cache_read_tokens, record.cache_write_tokens
    cached = f", {read:,} of them from a cache" if read else ""
    cached += f", {written:,} written to a cache" if written else ""
    told = f"{short_count(record.input_tokens)} tokens in"
    told += f" ({short_count(read)} cached)" if read else ""
    title = f"{record.input_tokens:,} tokens in{cached}; {record.output_tokens:,} out"
    return span(title=title)[f"{told} · {short_count(record.output_tokens)} out"]


def _latency(record: ExchangeRecord) -> Node:
    if record.seconds is None:
        return None
    first = record.first_byte
    title = "time to the whole answer" if first is None else f"first byte after {duration(first)}"
    return span(title=title)[duration(record.seconds)]
