"""What exchanges cost, as the gateway's journal beside a store tells: dollars and tokens, added up.

The journal is read as lines of JSON, without the gateway: the command line works where only the core is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, field

_FILES = ("exchanges.old.jsonl", "exchanges.jsonl")


class _Line(Struct):
    conversation: str = ""
    model: str | None = None
    key: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None


_decode = msgspec.json.Decoder(_Line).decode


class Costs(Struct):
    """Dollars in all, and by conversation, model and key; exchanges of models without a price are counted apart."""

    dollars: float = 0.0
    exchanges: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    by_conversation: dict[str, float] = field(default_factory=dict)
    by_model: dict[str, float] = field(default_factory=dict)
    by_key: dict[str, float] = field(default_factory=dict)

    def add(self, line: _Line) -> None:
        """Take one exchange."""
        self.exchanges += 1
        self.input_tokens += line.input_tokens
        self.output_tokens += line.output_tokens
        self.cache_read_tokens += line.cache_read_tokens
        self.cache_write_tokens += line.cache_write_tokens
        if line.cost is None:
            self.unpriced += 1
            return
        self.dollars += line.cost
        for table, name in (
            (self.by_conversation, line.conversation),
            (self.by_model, line.model or "-"),
            (self.by_key, line.key or "-"),
        ):
            table[name] = table.get(name, 0.0) + line.cost


def read_costs(place: str) -> Costs:
    """What the journal of the store at a place tells; nothing if it has none."""
    costs = Costs()
    for line in _lines(place):
        costs.add(line)
    return costs


def _lines(place: str) -> Iterator[_Line]:
    for name in _FILES:
        path = Path(place).expanduser() / "gateway" / name
        if not path.is_file():
            continue
        with path.open("rb") as file:
            for raw in file:
                try:
                    yield _decode(raw)
                except msgspec.MsgspecError:
                    # A line that a crash has torn.
                    continue


def dollars(amount: float | None) -> str:
    """An amount for a person; small ones keep their digits."""
    if amount is None:
        return "-"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.6f}".rstrip("0").rstrip(".")
