"""Run a gateway whose store refuses to be written while a file says with which error; for tests of what then happens.

Unlike permissions and mounts this works for every user, also for one that nothing is forbidden.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cannery.backends.directory.files import OperatingSystem
from cannery.gateway.__main__ import main

SWITCH = Path(os.environ["REFUSING_DISK"])
WRITING = (
    "write",
    "truncate",
    "sync",
    "sync_all",
    "rename",
    "remove",
    "make_directory",
    "make_filled",
    "sync_directory",
)


def refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*arguments: Any, **named: Any) -> Any:
        if SWITCH.exists():
            code = int(SWITCH.read_text())
            raise OSError(code, os.strerror(code))
        return method(*arguments, **named)

    return refuse


for name in WRITING:
    setattr(OperatingSystem, name, refusing(getattr(OperatingSystem, name)))

if __name__ == "__main__":
    sys.exit(main())
