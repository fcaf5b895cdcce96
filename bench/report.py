"""Generates the tables and plots of bench/README.md from the figures in bench/results, without measuring anything.

    python bench/report.py [--results FOLDER] [--check]

The text between the two marks in the README is generated, and the rest is not changed. The same figures give the same
text, so that a test can detect figures edited by hand.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import results
from goals import AGENTS, CAPTURED, GOALS, WORKLOADS, Figures, Row, pair_of, rows_of
from plots import Bar, bars, shown

README = Path(__file__).resolve().parent / "README.md"
PLOTS = README.parent / "plots"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PROGRAMS = (
    "translate",
    "bulk",
    "storage",
    "growth",
    "stalls",
    "encryption",
    "gateway",
    "footprint",
)
NAMES = {
    "cannery": "**cannery**",
    "floor": "a loop by hand",
    "memcpy": "memcpy",
    "any_llm": "any-llm",
    "pydantic_ai": "pydantic-ai",
    "langchain": "langchain",
    "litellm": "litellm",
    "llm_rosetta": "llm-rosetta",
    "openai_agents": "openai-agents",
    "llm": "llm",
    "sqlite": "SQLite WAL FULL",
    "postgresql": "**cannery** in PostgreSQL",
}
STORES = {**NAMES, "langchain": "LangChain SQL"}


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table, figures aligned to the right."""
    marks = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (head, marks, *rows)] + [""]


def contenders(rows: list[Row]) -> list[str]:
    """The contenders of some rows, in the order of ``NAMES``."""
    there = {row["contender"] for row in rows}
    return [name for name in NAMES if name in there]


def ratio(rows: list[Row]) -> str:
    """The figure of a single row, "fails", or "–" without a row."""
    if not rows:
        return "–"
    return "fails" if "failed" in rows[0] else shown(rows[0]["median"])


def taken(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The conditions of the measurement: machine, load, versions."""
    machines = {
        "{processor}, {cores} cores, {memory_gb} GB, {kernel}, Python {python}".format(
            **one["taken"]
        )
        for one in found.values()
    }
    yield "## Where and when"
    yield ""
    yield from (f"- {machine}" for machine in sorted(machines))
    versions: dict[str, str] = {}
    for one in found.values():
        versions |= one["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    yield textwrap.fill(f"- {listed}", 116, subsequent_indent="  ", break_on_hyphens=False)
    yield ""
    rows = []
    for program, one in found.items():
        facts = one["taken"]
        load = f"{facts['load_before']} → {facts['load_after']}"
        rows.append([program, facts["date"], facts["mode"], f"{facts['seconds']} s", load])
    yield from table(["program", "date", "mode", "took", "load before → after"], rows)
    if any(
        max(one["taken"]["load_before"], one["taken"]["load_after"]) > 1.5 for one in found.values()
    ):
        yield "A load well above one means that other programs ran beside the measurement: ratios then scatter,"
        yield "and those of storage and latency most."
        yield ""


def goals(figures: Figures) -> Iterator[str]:
    """Every goal beside the result."""
    yield "## Goals"
    yield ""
    rows = []
    for goal in GOALS:
        cells = goal.cells(figures)
        rows.append([goal.what, goal.text, reached(cells), goal.verdict(cells)])
    yield "| what | goal | reached | |"
    yield "|---|---|---|---|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def reached(cells: dict[str, float]) -> str:
    """The cells of a goal; only the range if there are many."""
    if len(cells) > 8:
        return f"{shown(min(cells.values()))} to {shown(max(cells.values()))}"
    return "; ".join(
        f"{label}: {_number(value)}" if label else _number(value) for label, value in cells.items()
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else shown(value)


def translation(figures: Figures) -> Iterator[str]:
    """Captured bodies, spellings, workloads, losses, and appending."""
    rows = figures["translate"]
    yield "## Translation"
    yield ""
    yield "Multiples of `orjson.loads` + `orjson.dumps` of the same bytes, thread CPU time."
    yield ""
    yield "![Captured bodies beside the peers](plots/translate.svg)"
    yield ""
    yield "### Bodies of agents"
    yield ""
    yield "Every request of recorded sessions of Claude Code, Codex, Gemini CLI, opencode and llm, with a new last turn"
    yield "in every call. `total` is all time over all bodies beside the floor's, `mixed pass` the same with every body"
    yield "once in any order; the others are ratios of single bodies. `refused` are bodies that a contender does not"
    yield "take, `missing` are texts that its output does not hold. Thoughts of Codex's model are such texts for Chat"
    yield "and Messages, whose models take none of another provider; Cannery names each as lost (`REASONING_DROPPED`)."
    yield ""
    yield from bodies(rows, AGENTS)
    yield "### Captured bodies"
    yield ""
    yield "What clients and SDKs sent, most of it small, with a new last turn in every call."
    yield ""
    yield from bodies(rows, CAPTURED)
    yield from mixed([row for row in rows if row.get("source") == "all"])
    yield from spellings([row for row in rows if "spelling" in row])
    yield from workloads([row for row in rows if "workload" in row])
    yield from dropped(rows)
    yield "### One message more"
    yield ""
    yield "Append one message to the agentic conversation and write all of it again, as a multiple of the whole"
    yield "body's floor. Every peer writes everything again: its figure is that of the tables above."
    yield ""
    appends = [[row["append"], shown(row["median"])] for row in rows if "append" in row]
    yield from table(["target", "cannery"], appends)


FIGURES = {
    "total": "total",
    "mixed": "mixed pass",
    "median": "median",
    "p90": "90th percentile",
    "worst": "worst",
}


def by_pair(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each pair of dialects."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(pair_of(row), []).append(row)
    return found


def bodies(rows: list[Row], kind: str) -> Iterator[str]:
    """The bodies of a kind, one table per pair."""
    for pair, of_pair in by_pair([row for row in rows if row.get(kind)]).items():
        count = max(row[kind] + len(row["failed_bodies"]) for row in of_pair)
        lines = []
        for row in sorted(of_pair, key=lambda row: list(NAMES).index(row["contender"])):
            note = f" ({row['partial']})" if "partial" in row else ""
            counts = [str(len(row["failed_bodies"]) or "–"), str(row["missing"] or "–")]
            figures = [shown(row[name]) for name in FIGURES]
            lines.append([f"{NAMES[row['contender']]}{note}", *figures, *counts])
        yield from table(
            [f"{pair}, {count} bodies", *FIGURES.values(), "refused", "missing"], lines
        )


def mixed(rows: list[Row]) -> Iterator[str]:
    """All bodies in all pairs."""
    if not rows:
        return
    yield "All captured bodies to all other dialects in one mixed pass:"
    yield ""
    yield from table(["", "mixed pass"], [[NAMES[r["contender"]], shown(r["mixed"])] for r in rows])


def spellings(rows: list[Row]) -> Iterator[str]:
    """One chat in many spellings."""
    yield "### Spellings"
    yield ""
    yield "One chat of ten messages and a tool in spellings that clients use, as a multiple of the plain one, which"
    yield "stands as a multiple of the floor."
    yield ""
    names = list(dict.fromkeys(row["spelling"] for row in rows))
    lines = []
    for pair, of_pair in by_pair(rows).items():
        for contender in contenders(of_pair):
            own = {row["spelling"]: row for row in of_pair if row["contender"] == contender}
            cells = [ratio([own[name]]) if name in own else "" for name in names]
            lines.append([f"{NAMES[contender]}, {pair}", *cells])
    yield from table(["", *names], lines)


def workloads(rows: list[Row]) -> Iterator[str]:
    """The four workloads, all pairs in one table."""
    yield "### Workloads"
    yield ""
    yield "Ten short messages; four hundred of an agent; twenty with four images of 300 KB; two thousand of 1 KB. The"
    yield "same bytes in every call."
    yield ""
    lines = []
    for pair, of_pair in by_pair([row for row in rows if "source" in row]).items():
        for contender in contenders(of_pair):
            own = {row["workload"]: row for row in of_pair if row["contender"] == contender}
            lines.append(
                [f"{NAMES[contender]}, {pair}", *(ratio([own[name]]) for name in WORKLOADS)]
            )
    copies = {row["workload"]: row for row in rows if row["contender"] == "memcpy"}
    if copies:
        lines.append(["memcpy", *(ratio([copies[name]]) for name in WORKLOADS)])
    yield from table(["", *WORKLOADS], lines)


def dropped(rows: list[Row]) -> Iterator[str]:
    """The parts of the source that a contender's output does not contain, as text."""
    yield "### What was not said"
    yield ""
    yield "Every output of a workload is compared with its source. Missing from it, and bodies of clients refused:"
    yield ""
    said: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for what in _not_said(row):
            where = said.setdefault(NAMES[row["contender"]], {}).setdefault(what, [])
            where.append(pair_of(row))
    for name, found in said.items():
        for what, pairs in found.items():
            line = f"- {name}, {what} ({', '.join(pairs)})"
            yield textwrap.fill(line, 116, subsequent_indent="  ", break_on_hyphens=False)
    if not said:
        yield "- nothing"
    yield ""


def _not_said(row: Row) -> Iterator[str]:
    refused: dict[str, list[str]] = {}
    for failed in row.get("failed_bodies", ()):
        body, _, error = failed.partition(": ")
        refused.setdefault(error, []).append(body)
    for error, names in refused.items():
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"refused {names[0]}{others}: {error}"
    if "failed" in row:
        yield f"{row.get('workload') or row.get('spelling')}: fails with {row['failed']}"
    elif row.get("dropped"):
        reported = row.get("reported")
        note = f" (reported: {', '.join(reported)})" if reported else ""
        yield f"{row['workload']}: {', '.join(row['dropped'])}{note}"


def bulk(figures: Figures) -> Iterator[str]:
    """ShareGPT per line."""
    rows = [row for row in figures["bulk"] if "way" in row]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    yield "## Bulk"
    yield ""
    yield "ShareGPT records to Chat, per line, as a multiple of `orjson.loads` + `orjson.dumps` of the line."
    yield "Nobody else reads records with calls."
    yield ""
    lines = []
    for contender, way in dict.fromkeys((row["contender"], row["way"]) for row in rows):
        own = [row for row in rows if (row["contender"], row["way"]) == (contender, way)]
        cells = [ratio([row for row in own if row["workload"] == name]) for name in workloads]
        lines.append([f"{NAMES[contender]}, {way}", *cells])
    yield from table(["", *workloads], lines)
    yield from _jobs([row for row in figures["bulk"] if "jobs" in row])


def _jobs(rows: list[Row]) -> Iterator[str]:
    """The gain of more processes, if it was measured."""
    if not rows:
        return
    yield "`cannery translate --jobs` of 200,000 lines beside one process, in turns: how many times as fast it is by"
    yield "the clock, with what it takes to start and without, and the CPU time of all its processes."
    yield ""
    lines = [
        [
            f"{row['workload']}, {row['jobs']} processes",
            *(shown(row[name]) for name in ("median", "started", "cpu")),
        ]
        for row in rows
    ]
    yield from table(["", "times as fast", "once started", "CPU"], lines)


def storage(figures: Figures) -> Iterator[str]:
    """The stores, side by side."""
    rows = figures["storage"]
    yield "## Storage"
    yield ""
    yield "Multiples of a bare JSONL file: append with an fdatasync each, load with the standard library, bytes on"
    yield "disk. Growth is an append to so many messages beside one to 1,000. Peers load the same corpus, a shorter"
    yield "one in quick mode."
    yield ""
    yield "![Durable append](plots/storage.svg)"
    yield ""
    columns = [
        ("append", "append", {}),
        ("growth 10,000", "growth", {"messages": 10_000}),
        ("growth 100,000", "growth", {"messages": 100_000}),
        ("load", "load", {}),
        ("disk", "disk", {}),
    ]
    lines = []
    for contender in contenders(rows):
        cells = [
            ratio(rows_of(figures, "storage", contender=contender, what=what, **facts))
            for _, what, facts in columns
        ]
        lines.append([STORES[contender], *cells])
    yield from table(["", *(name for name, _, _ in columns)], lines)
    forks = []
    for row in rows:
        if row["what"] == "fork":
            cost = [f"{row['messages']:,}", str(row.get("syncs", "")), f"{row['bytes']:,}"]
            forks.append([STORES[row["contender"]], *cost, f"{row['microseconds']:,} µs"])
    yield from table(["fork", "messages", "syncs", "bytes", "takes"], forks)
    filed = [
        [row["kind"], f"{row['median']:.2f} ×", f"{row['microseconds']:,} µs"]
        for row in rows
        if row["what"] == "filing"
    ]
    if filed:
        yield "Filing new histories of three messages (ours only), beside a durable line of JSONL for each:"
        yield ""
        yield from table(["filing", "takes", "CPU of one"], filed)
    verified = [
        [
            STORES[row["contender"]],
            f"{row['megabytes_said']:,} MB/s",
            f"{row['megabytes_stored']:,} MB/s",
            f"{row['messages']:,}",
        ]
        for row in rows
        if row["what"] == "verify"
    ]
    yield from table(["verify", "of what was said", "of what is distinct", "messages/s"], verified)


def growth(figures: Figures) -> Iterator[str]:
    """The cost of operations in stores of different sizes."""
    rows = figures["growth"]
    sizes = sorted({row["size"] for row in rows})
    yield "## Growth"
    yield ""
    yield "Microseconds of CPU in a store of so many small conversations, and multiples of that in larger ones. A"
    yield "rebuild of the catalogue, which comes before the first search or filing after it was lost, is counted for"
    yield "each conversation. Search of a common word looks at all that hold it."
    yield ""
    for backend in dict.fromkeys(row["backend"] for row in rows):
        found = {
            (row["what"], row["size"]): row["median"] for row in rows if row["backend"] == backend
        }
        lines = []
        for what in dict.fromkeys(row["what"] for row in rows if row["backend"] == backend):
            first = found[what, sizes[0]]
            cells = [
                f"{found[what, size] / first:.2f} ×" if (what, size) in found else "–"
                for size in sizes[1:]
            ]
            lines.append([what, f"{first:,.0f} µs", *cells])
        yield from table([backend, *(f"{size:,}" for size in sizes)], lines)


def stalls(figures: Figures) -> Iterator[str]:
    """How long appends wait for gc and rebuilds."""
    yield "## Stalls"
    yield ""
    yield "Durable appends, one after the other, while another process does something; milliseconds of wall-clock time."
    yield "The goal is that gc and a rebuild make none wait for more than 100 ms. How often machine and disk do so by"
    yield "themselves, the rows of a bare JSONL file with an fdatasync each show, and those beside which nothing runs."
    yield ""
    lines = [
        [
            row["place"],
            row["backend"],
            row["beside"],
            f"{row['appends']:,}",
            *(f"{row[name]:,.2f}" for name in ("median", "p99", "longest")),
            f"{row['late']}",
        ]
        for row in figures["stalls"]
    ]
    yield from table(["in", "", "beside", "appends", "p50", "p99", "longest", "over 100 ms"], lines)


def encryption(figures: Figures) -> Iterator[str]:
    """The cost of an encrypted store beside a plain one."""
    rows = figures["encryption"]
    yield "## Encryption"
    yield ""
    yield "CPU of operations of an encrypted store as a multiple of the same in a plain store, and what they take in"
    yield "that. A line is encrypted and authenticated for its place, and its entry for the catalogue is derived at"
    yield "once, which a plain directory puts off. Search has no index of words: it decrypts a long conversation and a"
    yield "thousand small ones here to find nothing, and its time grows with the scope. SQLite and PostgreSQL save the"
    yield "index of words at each append."
    yield ""
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    found = {(row["backend"], row["what"]): row for row in rows}
    lines = []
    for what in dict.fromkeys(row["what"] for row in rows):
        cells = []
        for backend in backends:
            row = found.get((backend, what))
            unit, factor = ("MB", 1e6) if what == "disk" else ("ms", 1e3)
            cells.append(
                "–" if row is None else f"{row['median']:.2f} × {row['plain'] / factor:,.2f} {unit}"
            )
        lines.append([what, *cells])
    yield from table(["", *backends], lines)


def gateway(figures: Figures) -> Iterator[str]:
    """The proxies, side by side."""
    yield "## Gateway"
    yield ""
    yield "CPU of all its processes per request, and per streamed chunk, as a multiple of nginx's on the same upstream;"
    yield "then requests (or chunks) per CPU second, and the latency added to the upstream's own, p50 / p99 in ms."
    yield "litellm and Portkey's gateway pass in their own dialect; llm-rosetta translates. One body is sent again and"
    yield "again, which the store recognises and does not write twice, except where it is fresh: there every request"
    yield "says something new. Over TLS nginx verifies the upstream's certificate and keeps its connections, as we do."
    yield "Portkey's gateway 1.15.2 answers every stream with 500 under Node 20: it has no figure there."
    yield ""
    yield "![CPU per request](plots/gateway.svg)"
    yield ""
    for upstream, title in (("plain", "Plain upstream"), ("tls", "Upstream over TLS")):
        rows = [row for row in figures["gateway"] if row["upstream"] == upstream]
        if rows:
            yield f"### {title}"
            yield ""
            yield from _proxies(rows)


def _proxies(found: list[Row]) -> Iterator[str]:
    """The tables of one upstream."""
    rows = [row for row in found if row["kind"] != "memory"]
    memory = {row["contender"]: row["megabytes"] for row in found if row["kind"] == "memory"}
    names = list(dict.fromkeys(row["contender"] for row in rows))
    settings = list(dict.fromkeys(map(_setting, rows)))
    heads = [
        f"{GATEWAY_KINDS.get(kind, f'{size // 1024} KB')}, {concurrency}"
        for kind, size, concurrency in settings
    ]
    for title, cell in GATEWAY_CELLS.items():
        lines = []
        for name in names:
            cells = [
                "".join(cell(r) for r in rows if r["contender"] == name and _setting(r) == setting)
                or "–"
                for setting in settings
            ]
            extra = [str(memory.get(name, ""))] if title == "× nginx" else []
            lines.append([f"**{name}**" if "cannery" in name else name, *cells, *extra])
        yield from table([title, *heads, *(["resident MB"] if title == "× nginx" else [])], lines)


def _setting(row: Row) -> tuple[str, int, int]:
    return row["kind"], row["size"], row["concurrency"]


GATEWAY_KINDS = {"fresh": "fresh 1 KB", "chunk": "chunk"}
GATEWAY_CELLS: dict[str, Callable[[Row], str]] = {
    "× nginx": lambda row: shown(row["median"]),
    "per CPU second": lambda row: f"{row['per_cpu_second']:,}",
    "added ms": lambda row: f"{row['added_p50_ms']:.1f} / {row['added_p99_ms']:.1f}",
}


def footprint(figures: Figures) -> Iterator[str]:
    """The weight of each library."""
    rows = figures["footprint"]
    yield "## Footprint"
    yield ""
    yield "![Bytes per message](plots/footprint.svg)"
    yield ""
    columns = {
        "import, CPU ms": "import_ms",
        "resident, MB": "resident_mb",
        "bytes per message": "bytes_per_message",
        "installed, MB": "installed_mb",
        "dependencies": "dependencies",
    }
    lines = [
        [
            NAMES[row["contender"]] if row["contender"] != "floor" else "the texts alone",
            *(f"{row[key]:,}" if key in row else "–" for key in columns.values()),
        ]
        for row in sorted(rows, key=lambda row: list(NAMES).index(row["contender"]))
    ]
    yield from table(["", *columns], lines)
    for row in rows_of(figures, "footprint"):
        yield (
            f"Our modules are loaded when they are first needed: import and a first translation take"
            f" {row['first_use_ms']} ms and {row['first_use_mb']} MB."
        )
        yield ""


SECTIONS = {
    "translate": translation,
    "bulk": bulk,
    "storage": storage,
    "growth": growth,
    "stalls": stalls,
    "encryption": encryption,
    "gateway": gateway,
    "footprint": footprint,
}


def pictures(figures: Figures) -> dict[str, str]:
    """The plots, by file name."""
    drawn = {}
    if "translate" in figures:
        drawn["translate.svg"] = _translate_plot(figures["translate"])
    if "storage" in figures:
        rows = [row for row in figures["storage"] if row["what"] == "append"]
        group = [Bar(STORES[r["contender"]].strip("*"), r["median"], **_ours(r, 1.3)) for r in rows]
        drawn["storage.svg"] = bars(
            "Durable append, mixed sizes", "× JSONL + fdatasync", {"": group}
        )
    if "gateway" in figures:
        drawn["gateway.svg"] = _gateway_plot(figures["gateway"])
    if "footprint" in figures:
        group = [
            Bar(
                NAMES[r["contender"]].strip("*"),
                r["bytes_per_message"],
                r["contender"] == "cannery",
            )
            for r in figures["footprint"]
            if r["contender"] != "floor"
        ]
        drawn["footprint.svg"] = bars("A short message in memory", "bytes", {"": group})
    return drawn


def _ours(row: Row, goal: float) -> dict[str, Any]:
    """The colour and the goal of Cannery's bars."""
    return {"is_ours": True, "goal": goal} if row["contender"] == "cannery" else {}


def _translate_plot(rows: list[Row]) -> str:
    limit = next(goal.bound for goal in GOALS if goal.what == "captured bodies, total")
    groups = {
        pair: [
            Bar(NAMES[r["contender"]].strip("*"), r["total"], **_ours(r, limit)) for r in of_pair
        ]
        for pair, of_pair in by_pair([row for row in rows if row.get(CAPTURED)]).items()
    }
    return bars("Captured bodies, bytes to bytes, total", "× orjson.loads + orjson.dumps", groups)


def _gateway_plot(rows: list[Row]) -> str:
    groups = {}
    for title, kind in (
        ("a request of 1 KB, 32 at once", "request"),
        ("a streamed chunk", "chunk"),
    ):
        found = [
            row
            for row in rows
            if row["kind"] == kind
            and row["upstream"] == "plain"
            and row["size"] == 1024
            and (kind == "chunk" or row["concurrency"] == 32)
        ]
        limits = {
            f"cannery, {goal.what.rpartition(', ')[2].replace(' and', ',')}": goal.bound
            for goal in GOALS
            if goal.what.startswith(f"gateway, {title.partition(' of')[0]}")
        }
        groups[title] = [
            Bar(
                r["contender"], r["median"], "cannery" in r["contender"], limits.get(r["contender"])
            )
            for r in found
        ]
    return bars("CPU of a gateway", "× nginx on the same upstream", groups)


def measured(folder: Path) -> tuple[str, dict[str, str]]:
    """The text between the marks and the plots, from the figures in a folder."""
    found = {name: one for name in PROGRAMS if (one := results.read(name, folder))}
    figures = {name: one["rows"] for name, one in found.items()}
    lines = [*taken(found), *goals(figures)]
    for name, section in SECTIONS.items():
        if name in figures:
            lines.extend(section(figures))
    return "\n".join(lines).rstrip() + "\n", pictures(figures)


def with_measured(readme: str, text: str) -> str:
    """The README with a new text between its marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin
    assert end
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def main() -> int:
    """Write the README and the plots, or check that they match the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--results", type=Path, default=results.RESULTS, help="where the figures are"
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; 1 if something would change"
    )
    options = parser.parse_args()
    text, drawn = measured(options.results)
    wanted = {README: with_measured(README.read_text("utf-8"), text)}
    wanted |= {PLOTS / name: svg for name, svg in drawn.items()}
    stale = [
        path
        for path, said in wanted.items()
        if not path.exists() or path.read_text("utf-8") != said
    ]
    if options.check:
        for path in stale:
            print(f"{path.relative_to(README.parent.parent)} is not what the figures say")
        return 1 if stale else 0
    PLOTS.mkdir(exist_ok=True)
    for path in stale:
        path.write_text(wanted[path], "utf-8")
        print(f"wrote {path.relative_to(README.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
