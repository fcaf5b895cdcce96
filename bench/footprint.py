"""The weight of each library: import time, memory per message, installed size.

    python bench/footprint.py [--quick] [--only CONTENDER] [--json FILE]

Import time is the CPU time that the import adds to a bare interpreter of the same environment, the median over fresh
interpreters in turns; resident memory is measured the same way. Messages are short and created in each library's own
types; their memory is the growth of the resident set of a fresh interpreter. Installed size is that of the distribution
and all its requirements, resolved from the metadata of its environment, as an installer would.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import environments
import programs
import results

CONTENDERS = ["cannery", "floor", *environments.names()[1:]]
IMPORT_GOAL = 80  # milliseconds of CPU over bare Python
MEMORY_GOAL = 240  # megabytes for a million messages
# Modules that `import cannery` must not load: the SDKs of providers and web frameworks.
HEAVY = frozenset(
    {
        "aiohttp",
        "anthropic",
        "boto3",
        "botocore",
        "cohere",
        "django",
        "fastapi",
        "flask",
        "google.genai",
        "granian",
        "httpx",
        "httpx2",
        "mistralai",
        "ollama",
        "openai",
        "pydantic",
        "requests",
        "starlette",
        "uvicorn",
    }
)
STATE = "import time; print(time.process_time(), open('/proc/self/statm').read().split()[1])"
# Cannery's modules are loaded on first use, so the cost of a first translation is reported as well.
FIRST_USE = (
    "import cannery; cannery.translate("
    '\'{"model":"m","messages":[{"role":"user","content":"Hi"}]}\','
    ' source="openai_chat", target="anthropic_messages")'
)


def interpret(python: Path, program: str) -> str:
    """The output of a fresh, isolated interpreter."""
    finished = subprocess.run(
        [str(python), "-I", "-W", "ignore", "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=environments.quiet(),
    )
    return finished.stdout


def import_costs(contender: str, statement: str, runs: int) -> results.Row:
    """The CPU milliseconds and megabytes that a statement adds to a bare interpreter."""
    python = environments.python_of(contender)
    assert python is not None
    times, sizes = [], []
    for _ in range(runs):
        bare = interpret(python, STATE).split()
        full = interpret(python, f"{statement}; {STATE}").split()[-2:]
        times.append((float(full[0]) - float(bare[0])) * 1000)
        sizes.append((int(full[1]) - int(bare[1])) * os.sysconf("SC_PAGE_SIZE") / 2**20)
        if times[-1] > 500 and len(times) >= runs // 4:
            break  # so slow that a millisecond does not matter
    return {
        "import_ms": round(statistics.median(times), 1),
        "resident_mb": round(statistics.median(sizes), 1),
    }


# The waiting time of a user at the terminal: the whole process.
COMMANDS = {
    "version_ms": ["--version"],
    "translate_ms": ["translate", "--from", "openai_chat", "--to", "anthropic_messages"],
}
SMALL_BODY = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'


def command_costs(python: Path, runs: int) -> results.Row:
    """The CPU milliseconds of whole commands, in turns."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, arguments in COMMANDS.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [str(python), "-I", "-m", "cannery", *arguments],
                check=True,
                input=SMALL_BODY,
                capture_output=True,
                env=environments.quiet(),
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            times[name].append(taken * 1000)
    return {name: round(statistics.median(taken), 1) for name, taken in times.items()}


# Defined here and not read from the peers' modules, which import their requirements.
IMPORTS = {
    "cannery": "import cannery",
    "any_llm": "import any_llm",
    "langchain": "import langchain_core.messages",
    "litellm": "import litellm",
    "llm": "import llm",
    "llm_rosetta": "import llm_rosetta",
    "openai_agents": "import agents",
    "pydantic_ai": "import pydantic_ai",
}


def heavy_modules(python: Path) -> list[str]:
    """The heavy modules that ``import cannery`` loads."""
    program = f"import cannery, sys; print(*(set({sorted(HEAVY)!r}) & set(sys.modules)))"
    return sorted(interpret(python, program).split())


def installed(package: str, extras: tuple[str, ...]) -> results.Row:
    """The megabytes of a distribution with all its requirements, and the number of these."""
    found = dict(_closure(package, extras, {}))
    total = sum(_size(distribution) for distribution in found.values())
    return {"installed_mb": round(total / 1e6, 1), "dependencies": len(found) - 1}


def _closure(
    package: str, extras: tuple[str, ...], seen: dict[str, metadata.Distribution]
) -> dict[str, metadata.Distribution]:
    """Every required distribution, by its normalized name."""
    name = re.sub(r"[-_.]+", "-", package).lower()
    try:
        distribution = seen.get(name) or metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return seen  # required on other platforms only
    is_known = name in seen
    seen[name] = distribution
    for requirement in distribution.requires or ():
        wanted, needs, applies = _requirement(requirement, extras)
        is_new = re.sub(r"[-_.]+", "-", wanted).lower() not in seen or bool(needs)
        if applies and is_new and (not is_known or extras):
            _closure(wanted, needs, seen)
    return seen


def _requirement(text: str, extras: tuple[str, ...]) -> tuple[str, tuple[str, ...], bool]:
    """The name and extras of a line of metadata, and whether it applies to this platform."""
    from pip._vendor.packaging.requirements import Requirement

    requirement = Requirement(text)
    marker = requirement.marker
    applies = marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))
    return requirement.name, tuple(sorted(requirement.extras)), applies


def _size(distribution: metadata.Distribution) -> int:
    """The size of a distribution's own files; for Cannery, of the package in the checkout."""
    if distribution.metadata["Name"] == "cannery":
        return sum(
            path.stat().st_size for path in (environments.ROOT / "src" / "cannery").rglob("*.py")
        )
    files = [Path(str(file.locate())) for file in distribution.files or ()]
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc" and path.is_file())


def resident_bytes() -> int:
    """The resident set of this process."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def message_bytes(make: Any, count: int) -> float:
    """The memory per message, when many are held at once."""
    make(10)
    gc.collect()
    before = resident_bytes()
    messages = make(count)
    gc.collect()
    taken = resident_bytes() - before
    assert len(messages) == count
    return round(taken / count, 1)


def inside(contender: str, count: int) -> Iterator[results.Row]:
    """Measure what needs a contender's own environment."""
    peer: Any = importlib.import_module(f"peers.{contender}")
    row: results.Row = {
        "contender": contender,
        "bytes_per_message": message_bytes(peer.held, count),
    }
    if hasattr(peer, "PACKAGE"):
        row |= installed(peer.PACKAGE, peer.EXTRAS)
    yield row


COSTS = (("import", "ms"), ("resident", "mb"))


def measure(contender: str, *, quick: bool) -> results.Row:
    """Measure the row of one contender."""
    count = 1_000_000 if contender in {"cannery", "floor"} else 40_000 if quick else 400_000
    # This also compiles the modules, before any import is timed.
    (row,) = programs.child(contender, Path(__file__), "--messages", str(count))
    runs = 21 if not quick else 5 if contender == "cannery" else 3
    if contender in IMPORTS:
        row |= import_costs(contender, IMPORTS[contender], runs)
    if contender == "cannery":
        used = import_costs(contender, FIRST_USE, runs)
        row |= {f"first_use_{unit}": used[f"{what}_{unit}"] for what, unit in COSTS}
        python = environments.python_of(contender) or Path(sys.executable)
        row["heavy_modules"] = heavy_modules(python)
        row |= command_costs(python, runs)
    return row


def main() -> None:
    """Measure every contender, or in this process the part that needs its environment."""
    parser = programs.parser_of(__doc__, CONTENDERS)
    parser.add_argument("--messages", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        for row in inside(options.contender, options.messages):
            print(json.dumps(row), flush=True)
        return
    contenders = programs.available([options.only] if options.only else CONTENDERS)
    recording = results.Recording("footprint", quick=options.quick, contenders=contenders)
    for contender in contenders:
        row = recording.add(**measure(contender, quick=options.quick))
        shown = ", ".join(f"{key} {value}" for key, value in row.items() if key != "contender")
        print(f"{contender:14} {shown}", flush=True)
    print(f"goals: import {IMPORT_GOAL} ms, a million messages {MEMORY_GOAL} MB", flush=True)
    if options.json:
        recording.write(options.json)


if __name__ == "__main__":
    main()
