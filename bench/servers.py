"""Servers for measurements: those of the tests, with files on a disk and all syncs enabled."""

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
# The CPU time of processes includes that of ended ones.
_spent: dict[int, int] = {}


def postgres(place: str | None = None) -> Any:
    """A PostgreSQL server with default settings, with its files in a given folder or the common one."""
    sys.path.append(str(ROOT))
    module: Any = importlib.import_module("tests.servers")
    place = place or os.environ.get("BENCH_DIR") or tempfile.gettempdir()
    server = module.Postgres(place, settings=())
    _started.append(server)
    return server


def cpu_nanoseconds() -> int:
    """The CPU time of those server processes that serve a connection, without background processes."""
    for server in _started:
        for process in server.processes():
            with contextlib.suppress(OSError):
                if b"[local]" not in Path(f"/proc/{process}/cmdline").read_bytes():
                    continue
                # As clock_getcpuclockid(3) on Linux.
                _spent[process] = time.clock_gettime_ns((~process << 3) | 2)
    return sum(_spent.values())
