"""Servers for measurements: those of the tests, with files on a disk and every sync made."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_started: list[Any] = []
# What ended processes have spent counts as well.
_spent: dict[int, int] = {}


def postgres(place: str | None = None) -> Any:
    """A PostgreSQL server as it comes, with its files in a folder, or in that of all measurements."""
    sys.path.append(str(ROOT))
    module: Any = importlib.import_module("tests.servers")
    place = place or os.environ.get("BENCH_DIR") or tempfile.gettempdir()
    server = module.Postgres(place, settings=())
    _started.append(server)
    return server


def cpu_nanoseconds() -> int:
    """The CPU time of the processes of running servers that answer a connection; not of those that tidy up."""
    for server in _started:
        for process in server.processes():
            with contextlib.suppress(OSError):
                if b"[local]" not in Path(f"/proc/{process}/cmdline").read_bytes():
                    continue
                # What clock_getcpuclockid(3) gives on Linux.
                _spent[process] = time.clock_gettime_ns((~process << 3) | 2)
    return sum(_spent.values())
