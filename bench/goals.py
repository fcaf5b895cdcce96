"""All goals of speed and size, and the figures that they are compared with.

A goal has a bound and one or more cells: Cannery's figures that it applies to. It is met when every cell is within the
bound. A goal without a measurement stays in the table and is marked as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Row = dict[str, Any]
Figures = Mapping[str, list[Row]]  # program -> rows
Cells = dict[str, float]
PEERS = ("any_llm", "pydantic_ai", "langchain", "litellm", "llm_rosetta")

NAMES = {
    "openai_chat": "Chat",
    "openai_responses": "Responses",
    "anthropic_messages": "Anthropic",
    "gemini_generate": "Gemini",
}
WORKLOADS = ("short", "agentic", "images", "long")


def pair_of(row: Row) -> str:
    """The two dialects of a row, as text."""
    return f"{NAMES[row['source']]} → {NAMES[row['target']]}"


class Goal(NamedTuple):
    """One goal: its subject, its bound, and how to find its cells."""

    what: str
    bound: float
    unit: str
    cells: Callable[[Figures], Cells]
    at_least: bool = False

    @property
    def text(self) -> str:
        """The bound as text."""
        return f"{'at least' if self.at_least else 'at most'} {self.bound:g} {self.unit}".strip()

    def is_met(self, value: float) -> bool:
        """Whether one cell is within the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def verdict(self, cells: Cells) -> str:
        """Met, missed or not measured, with the number of cells within the bound."""
        if not cells:
            return "not measured"
        met = sum(map(self.is_met, cells.values()))
        if met == len(cells):
            return "met"
        share = f" ({met} of {len(cells)} met)" if len(cells) > 1 else ""
        return f"**missed**{share}"


def rows_of(figures: Figures, program: str, **facts: Any) -> list[Row]:
    """Cannery's rows with some facts."""
    facts.setdefault("contender", "cannery")
    return [
        row
        for row in figures.get(program, ())
        if all(row.get(name) == value for name, value in facts.items())
    ]


CAPTURED, AGENTS = "captured", "agents"


def body_rows(figures: Figures, kind: str, **facts: Any) -> list[Row]:
    """The figures over bodies of a kind, one row for each pair of a contender."""
    rows = rows_of(figures, "translate", **facts)
    return [row for row in rows if row.get(kind)]


def _bodies(figure: str, kind: str = CAPTURED) -> Callable[[Figures], Cells]:
    def cells(figures: Figures) -> Cells:
        return {pair_of(row): row[figure] for row in body_rows(figures, kind)}

    return cells


def _beside_peers(kind: str) -> Callable[[Figures], Cells]:
    """Our total divided by that of the fastest peer that translates everything and drops no text."""

    def cells(figures: Figures) -> Cells:
        found: Cells = {}
        for row in body_rows(figures, kind):
            pair = {"source": row["source"], "target": row["target"]}
            peers = [
                other["total"]
                for name in PEERS
                for other in body_rows(figures, kind, contender=name, **pair)
                if not other["missing"] and "partial" not in other
            ]
            if peers:
                found[pair_of(row)] = row["total"] / min(peers)
        return found

    return cells


def _spellings(figures: Figures) -> Cells:
    rows = rows_of(figures, "translate")
    return {
        f"{pair_of(row)}, {row['spelling']}": row["median"]
        for row in rows
        if row.get("spelling", "plain") != "plain" and "median" in row
    }


def _translation(workload: str) -> Callable[[Figures], Cells]:
    def cells(figures: Figures) -> Cells:
        rows = rows_of(figures, "translate", workload=workload)
        return {pair_of(row): row["median"] for row in rows}

    return cells


def _appends(figures: Figures) -> Cells:
    rows = rows_of(figures, "translate")
    return {row["append"]: row["median"] for row in rows if "append" in row}


def _bulk(figures: Figures) -> Cells:
    rows = rows_of(figures, "bulk")
    return {f"{row['workload']}, {row['way']}": row["median"] for row in rows if "way" in row}


def _footprint(name: str) -> Callable[[Figures], Cells]:
    def cells(figures: Figures) -> Cells:
        found: Cells = {}
        for row in rows_of(figures, "footprint"):
            value = row[name]
            found[""] = len(value) if isinstance(value, list) else value
        return found

    return cells


def _storage(what: str, value: str = "median", label: str = "") -> Callable[[Figures], Cells]:
    def cells(figures: Figures) -> Cells:
        found = rows_of(figures, "storage", what=what)
        return {_labelled(row, label): row[value] for row in found}

    return cells


def _labelled(row: Row, label: str) -> str:
    value = row.get(label, "")
    return f"{value:,}" if isinstance(value, int) else value


def _asked(row: Row) -> str:
    over = ", TLS upstream" if row["upstream"] == "tls" else ""
    if row["kind"] == "chunk":
        return f"a chunk{over}"
    fresh = "fresh " if row["kind"] == "fresh" else ""
    return f"{fresh}{row['size'] // 1024} KB, {row['concurrency']} at once{over}"


def _gateway(kinds: tuple[str, ...], way: str) -> Callable[[Figures], Cells]:
    def cells(figures: Figures) -> Cells:
        found = rows_of(figures, "gateway", contender=f"cannery, {way}")
        return {_asked(row): row["median"] for row in found if row["kind"] in kinds}

    return cells


def _memory(figures: Figures) -> Cells:
    rows = [row for row in figures.get("gateway", ()) if row["kind"] == "memory"]
    ours = [row for row in rows if row["contender"].startswith("cannery, ")]
    return {
        f"{row['contender'].removeprefix('cannery, ')}, {row['upstream']} upstream": row[
            "megabytes"
        ]
        for row in ours
    }


GOALS = (
    Goal("bodies of agents, total", 2.5, "× the floor", _bodies("total", AGENTS)),
    Goal("bodies of agents, total beside peers", 1, "× the fastest peer", _beside_peers(AGENTS)),
    Goal("captured bodies, total", 2.5, "× the floor", _bodies("total")),
    Goal("captured bodies, total beside peers", 1, "× the fastest peer", _beside_peers(CAPTURED)),
    Goal("captured bodies, median", 5.5, "× the floor", _bodies("median")),
    Goal("captured bodies, 90th percentile", 9, "× the floor", _bodies("p90")),
    Goal("captured bodies, worst", 25, "× the floor", _bodies("worst")),
    Goal("one chat in many spellings", 2, "× the plain one", _spellings),
    Goal("translate, short chat", 8, "× the floor", _translation("short")),
    Goal("translate, agentic", 3, "× the floor", _translation("agentic")),
    Goal("translate, images", 1.3, "× the floor", _translation("images")),
    Goal("translate, long", 3.5, "× the floor", _translation("long")),
    Goal("append one message to 400 and write again", 0.15, "× the floor", _appends),
    Goal("bulk ShareGPT → OpenAI, per line", 5, "× the floor", _bulk),
    Goal("`import cannery`, CPU over bare Python", 60, "ms", _footprint("import_ms")),
    Goal("`cannery --version`, CPU of the process", 150, "ms", _footprint("version_ms")),
    Goal("`cannery translate` of a small body", 150, "ms", _footprint("translate_ms")),
    Goal("SDKs and web frameworks that it loads", 0, "", _footprint("heavy_modules")),
    Goal("a million small messages in memory", 240, "MB", _footprint("bytes_per_message")),
    Goal("durable append, mixed sizes", 1.3, "× JSONL + fdatasync", _storage("append")),
    Goal(
        "append to a long conversation",
        1.1,
        "× that to 1,000 messages",
        _storage("growth", label="messages"),
    ),
    Goal("16 writers, per message", 0.3, "× of one", _storage("writers", label="kind")),
    Goal("load 10,000, hydrated and verified", 0.5, "× plain JSONL", _storage("load")),
    Goal("last 50 of 100,000 without reading the rest", 1.5, "× of 1,000", _storage("tail")),
    Goal("fork, syncs", 3, "", _storage("fork", "syncs", "messages")),
    Goal("fork, bytes", 1024, "", _storage("fork", "bytes", "messages")),
    Goal("disk, corpus with duplicates", 0.30, "× plain JSONL", _storage("disk")),
    Goal(
        "verify, logical bytes",
        300,
        "MB/s",
        _storage("verify", "megabytes_said"),
        at_least=True,
    ),
    Goal(
        "gateway, a streamed chunk, translating and recording",
        5,
        "× nginx",
        _gateway(("chunk",), "translating, recording"),
    ),
    Goal("gateway, a request, passing", 6, "× nginx", _gateway(("request", "fresh"), "passing")),
    Goal(
        "gateway, a request, translating and recording",
        14,
        "× nginx",
        _gateway(("request", "fresh"), "translating, recording"),
    ),
    Goal("gateway, resident memory after all of it", 120, "MB", _memory),
)
