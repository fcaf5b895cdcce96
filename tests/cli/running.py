"""Runs the installed ``cannery`` as a person or a script would: in pipes, or on a pseudo-terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(sys.executable).parent / "cannery"
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "cannery"]
# What belongs to the person who runs the tests and must not reach the command.
PRIVATE = (
    "CANNERY_STORE",
    "CANNERY_ENCRYPTION_KEY",
    "CANNERY_DEBUG",
    "FORCE_COLOR",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
)


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str = ""

    @property
    def json(self):
        return json.loads(self.out)


class Cannery:
    """The command in one surrounding: a home, a store, a cache of bytecode."""

    def __init__(self, home, bytecode):
        self.home = home
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in PRIVATE},
            "HOME": str(home),
            "PYTHONPYCACHEPREFIX": str(bytecode),
            "COLUMNS": "120",
            "TERM": "xterm",
            "PAGER": "cat",
        }

    def surroundings(self, **more):
        return {**self.environment, **more}

    def __call__(self, *arguments, given=b"", **more):
        """Run in pipes."""
        finished = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            input=given.encode() if isinstance(given, str) else given,
            capture_output=True,
            check=False,
            cwd=self.home,
            env=self.surroundings(**more),
            timeout=60,
        )
        ran = Ran(finished.returncode, finished.stdout.decode(), finished.stderr.decode())
        assert "Traceback" not in ran.err
        return ran

    def start(self, *arguments, stdin=subprocess.PIPE, **options):
        """Start in pipes and go on."""
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.home,
            env=self.surroundings(),
            **options,
        )

    def on_terminal(self, *arguments, given="", **more):
        """Run with stdin, stdout and stderr on one pseudo-terminal."""
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self.home,
            env=self.surroundings(**more),
        )
        os.close(slave)
        if given:
            os.write(master, given.encode())
        shown = drain(master, process)
        os.close(master)
        return Ran(process.wait(timeout=30), shown.decode(errors="replace").replace("\r\n", "\n"))


def drain(master, process, seconds=60):
    """Everything that a process writes on its terminal."""
    shown = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 0.05)
        if ready:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux says so when the other side is gone
                break
            if not data:
                break
            shown += data
        elif process.poll() is not None:
            break
    return shown
