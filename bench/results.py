"""Results of a measurement: one small JSON file per program, with the conditions of the run.

``rows`` are the program's results; ``taken`` is the machine, the date, the mode and the load before and after, so that
a reader can judge the conditions; ``versions`` are those of all contenders. Nothing is computed here.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import environments

RESULTS = environments.BENCH / "results"
Row = dict[str, Any]


def machine() -> dict[str, Any]:
    """The processor, memory, kernel and interpreter."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    """The processor model according to the kernel."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def versions(contenders: list[str]) -> dict[str, str]:
    """The version of each contender's package, as installed in its environment."""
    found: dict[str, str] = {}
    program = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    for contender in contenders:
        python = environments.python_of(contender)
        package = PACKAGES.get(contender)
        if python is None or package is None:
            continue
        finished = subprocess.run(
            [str(python), "-c", program, package], check=False, capture_output=True, text=True
        )
        if finished.returncode == 0:
            found[package] = finished.stdout.strip()
    if "portkey" in contenders and (server := environments.portkey()):
        described = json.loads((server.parent.parent / "package.json").read_text("utf-8"))
        found[described["name"]] = described["version"]
    return found


# Contender -> the distribution that a user installs.
PACKAGES = {
    "cannery": "cannery",
    "any_llm": "any-llm-sdk",
    "langchain": "langchain-core",
    "litellm": "litellm",
    "llm": "llm",
    "llm_rosetta": "llm-rosetta",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
}


class Recording:
    """Collects the rows of one run of a program."""

    def __init__(self, program: str, *, quick: bool, contenders: list[str]) -> None:
        self.program, self.quick, self.contenders = program, quick, contenders
        self.rows: list[Row] = []
        self._started = time.time()
        self._load = os.getloadavg()[0]

    def add(self, **row: Any) -> Row:
        """Add a row."""
        self.rows.append(row)
        return row

    def write(self, path: Path) -> None:
        """Write the file with sorted keys, which keeps differences between versions small."""
        taken = {
            **machine(),
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "mode": "quick" if self.quick else "full",
            "seconds": round(time.time() - self._started),
            "load_before": round(self._load, 2),
            "load_after": round(os.getloadavg()[0], 2),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in self.rows)
        path.write_text(
            "{\n"
            f' "program": {json.dumps(self.program)},\n'
            f' "taken": {json.dumps(taken, ensure_ascii=False)},\n'
            f' "versions": {json.dumps(versions(self.contenders))},\n'
            f' "rows": [\n  {rows}\n ]\n'
            "}\n",
            "utf-8",
        )


def read(program: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """Read the file of a program; None if it was never measured."""
    path = folder / f"{program}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found
