"""A gateway in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cannery.dialects import all_dialects
from tests.oracles.judges import JUDGES

_URL = re.compile(r"Cannery gateway on (http://\S+)")


class Running:
    """A gateway that was started for tests."""

    def __init__(
        self,
        folder: Path,
        config: str = "",
        *arguments: str,
        record: bool | None = True,
        environment: dict[str, str] | None = None,
        launcher: tuple[str, ...] = (),
        program: tuple[str, ...] = ("-m", "cannery.gateway"),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.store = folder / "store"
        self.config = folder / "gateway.toml"
        self.config.write_text(config)
        self.log_path = folder / "log.jsonl"
        command = [*launcher, sys.executable, *program, "--port", "0"]
        command += ["--config", str(self.config), *arguments]
        if record is not None:
            command += ["--store", str(self.store)] if record else ["--no-record"]
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.endswith("_API_KEY") and not name.startswith("OTEL_")
        }
        given = {**inherited, "TEST_KEY": "secret-upstream-key", **(environment or {})}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=given
            )
        self.banner = ""
        self.url = self._read_url()

    def _read_url(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.banner += line
            found = _URL.search(line)
            if found:
                self._drain()
                return found[1]
        raise AssertionError(f"it did not start: {self.log}")

    def _drain(self) -> None:
        """Read the rest of what is printed, so that nobody waits for it to be read."""

        def read() -> None:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                self.banner += line

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    def whole_banner(self) -> str:
        """What is printed at the start, once its last line has come."""
        wait_for(lambda: "/docs\n" in self.banner, "the banner is not whole")
        return self.banner

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def metrics(self) -> dict[str, float]:
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:  # noqa: S310 - loopback
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def recorded(self, outcome: str = "complete") -> float:
        return self.metrics().get(f'cannery_recorded_total{{outcome="{outcome}"}}', 0)

    def settle(self, seconds: float = 20) -> None:
        """Wait until everything is filed."""
        wait_for(
            lambda: not self.metrics()["cannery_recording_queue"],
            "the recording queue does not empty",
            seconds,
        )

    def wait_for_log(self, words: str, times: int = 1) -> None:
        """Wait until something was logged; lines are written a moment later."""
        wait_for(lambda: self.log.count(words) >= times, f"{words!r} is not logged")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def open_files(self) -> int:
        """How many files and connections it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def rss(self) -> int:
        """Resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(status[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_for(is_so: Callable[[], Any], what: str, seconds: float = 30) -> None:
    """Wait until something is so; ``what`` is wrong if it never is."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def _row_name(dialect: str) -> str:
    """The vendor of a dialect, or its API where the vendor has an older one among the first rows."""
    vendor, _, api = dialect.partition("_")
    return api if vendor in ("openai", "anthropic", "gemini") else vendor


# The upstreams of a configuration, one a dialect.
ROWS = {
    "chat": "openai_chat",
    "responses": "openai_responses",
    "anthropic": "anthropic_messages",
    "gemini": "gemini_generate",
    **{_row_name(dialect): dialect for dialect in JUDGES},
}
# Beside them those that no judge knows, under their own names: all that the registry has.
EVERY = {
    **ROWS,
    **{
        one.name: one.name for one in all_dialects() if one.routes and one.name not in ROWS.values()
    },
}


def rows(url: str, **more: Any) -> str:
    """The configuration of one upstream a dialect; those with a judge are below a path of their own name."""
    lines = []
    for name, dialect in EVERY.items():
        place = f"{url}/{dialect}" if dialect in JUDGES else url
        lines += [
            "[[upstreams]]",
            f'name = "{name}"',
            f'dialect = "{dialect}"',
            f'url = "{place}"',
            'key_variable = "TEST_KEY"',
            f'models = ["{name}-*"]',
            *(f"{key} = {value}" for key, value in more.items()),
            "",
        ]
    return "\n".join(lines)


def words(canisters: Any) -> list[str]:
    """The texts of canisters that all have one."""
    return [canister.content.text for canister in canisters]
