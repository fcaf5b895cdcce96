"""A store that is full, read-only or failing while the gateway runs: replies go on, and what is kept is right."""

from __future__ import annotations

import contextlib
import errno
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cannery.storage import open_store

from .running import Running, wait_for, words
from .test_contract import ask, chat

CHAT = "/v1/chat/completions"
QUEUE = 20
CONFIG = f"[recording]\nqueue = {QUEUE}\n"
SHIM = str(Path(__file__).parent / "refusing_disk.py")


def namespace() -> list[str] | None:
    """The command that gives a process mounts of its own, if this user may have them."""
    for options in (["-m"], ["-r", "-m"]):
        command = ["unshare", *options]
        with contextlib.suppress(OSError):
            probe = [*command, "sh", "-c", "mount -t tmpfs none /mnt"]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return command
    return None


def mounted(folder: Path, options: str) -> tuple[str, ...]:
    """What starts a program in a namespace where the store lies on a file system of its own."""
    command = namespace()
    if command is None:
        pytest.skip("needs a mount namespace: root, or user namespaces")
    store = folder / "store"
    store.mkdir(parents=True)
    script = f'mount -t tmpfs -o {options} none {store} && exec "$@"'
    return (*command, "sh", "-c", script, "sh")


def from_outside(running: Running, path: Path) -> Path:
    """A path of the gateway's own mounts, as the rest of the machine sees it."""
    return Path("/proc", str(running.process.pid), "root") / path.relative_to("/")


def inside(running: Running, *command: str) -> None:
    """Run something where the gateway's mounts are."""
    enter = ["nsenter", "--target", str(running.process.pid), "--user", "--preserve-credentials"]
    if not Path(f"/proc/{running.process.pid}/ns/user").samefile("/proc/self/ns/user"):
        enter += ["--mount", *command]
    else:
        enter = [*enter[:3], "--mount", *command]
    subprocess.run(enter, check=True, capture_output=True)


def talk(running: Running, *texts: str) -> str:
    """One exchange at the end of a history of questions; the conversation that the reply names."""
    said: list[tuple[str, str]] = []
    for text in texts:
        said += [("user", text), ("assistant", f"echo: {text}")]
    status, headers, answer = ask(running, CHAT, chat("echo", *said[:-1]))
    assert status == 200
    assert answer["choices"][0]["message"]["content"] == f"echo: {texts[-1]}"
    return headers["x-cannery-conversation"]


def ride_out(running: Running, fail: Callable[[], Any], mend: Callable[[], Any]) -> None:
    """Talk before, while and after a store fails, and look at what was kept."""
    said = {talk(running, "before"): ["before"]}
    running.settle()
    fail()
    # The first goes on with what is stored; the second is looked for in the store and not found.
    for texts in (["before", "and now"], ["something old", "something new"]):
        said[talk(running, *texts)] = texts
    calls = 3
    while running.recorded("dropped") < 3:
        said[talk(running, f"question {calls}")] = [f"question {calls}"]
        calls += 1
        # Some may still find room in files that are there; the queue takes no more than it may.
        assert running.metrics()["cannery_recording_queue"] <= QUEUE
        assert calls < 20 * QUEUE, "nothing is ever dropped"
    # That the queue is full may be known a moment before why.
    wait_for(lambda: "the store" in str(ask(running, "/readyz")[2]), "readiness does not notice")
    assert ask(running, "/readyz")[0] == 503
    assert running.metrics()["cannery_store_up"] == 0
    assert ask(running, "/healthz")[0] == 200
    dropped = running.recorded("dropped")

    mend()
    running.settle(60)
    wait_for(lambda: ask(running, "/readyz")[0] == 200, "readiness does not come back")
    assert running.metrics()["cannery_store_up"] == 1
    assert running.recorded() == calls - dropped
    # Histories whose beginning was dropped go on, and what was dropped is said again.
    for number, again in ((calls - 1, ["go on"]), (calls - 2, [])):
        texts = [f"question {number}", *again]
        named = talk(running, *texts)
        said.pop(named, None)
        said[named] = texts
    running.settle()
    assert running.recorded("failed") == 0
    check(running, said, most_missing=int(dropped))


def check(running: Running, said: dict[str, list[str]], most_missing: int) -> None:
    """Every conversation that a reply named holds what was said or is not there, and the store is sound."""
    assert running.stop() == 0
    store = open_store(str(running.store))
    try:
        held = {each.identifier: words(store.get(each.identifier).load()) for each in store.list()}
        for identifier, texts in held.items():
            assert texts == [word for text in said[identifier] for word in (text, f"echo: {text}")]
        assert len(said) - len(held) <= most_missing
        assert list(said)[-1] in held
        assert list(said)[-2] in held
        assert store.verify().damages == ()
    finally:
        store.close()


def test_a_store_that_is_taken_away_and_brought_back(tmp_path: Path) -> None:
    """What was under way when it went may have been written; it is not written again."""
    running = Running(tmp_path, CONFIG)
    away = tmp_path / "away"

    def bring_back() -> None:
        wait_for(
            lambda: "is missing: put it back" in str(ask(running, "/readyz")[2]),
            "nobody says where it is",
        )
        assert not running.store.exists(), "another store was begun in its place"
        away.rename(running.store)

    ride_out(running, lambda: running.store.rename(away), bring_back)
    assert running.log.count('"event":"store_unavailable"') == 1
    assert running.log.count('"event":"store_is_back"') == 1


def test_a_store_that_never_came_is_not_said_to_be_back_at_the_end(tmp_path: Path) -> None:
    running = Running(tmp_path, "", "--store", "sqlite:/missing/store", record=None)
    assert "not working yet" in running.whole_banner()
    running.stop()
    assert running.log.count('"event":"store_unavailable"') == 1
    assert "store_is_back" not in running.log


def test_a_store_that_cannot_grow(tmp_path: Path) -> None:
    """The operating system refuses to let any file grow, for every user alike."""
    running = Running(tmp_path, CONFIG, "--log-level", "error")

    def limit(size: int) -> None:
        _, most = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (size, most))

    with stopped(running):
        ride_out(running, lambda: limit(1), lambda: limit(resource.RLIM_INFINITY))


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EIO])
def test_a_store_that_refuses_to_be_written(tmp_path: Path, code: int) -> None:
    switch = tmp_path / "refuse"
    running = Running(
        tmp_path,
        CONFIG,
        "--log-level",
        "error",
        environment={"REFUSING_DISK": str(switch)},
        program=(SHIM,),
    )
    with stopped(running):
        ride_out(running, lambda: switch.write_text(str(code)), switch.unlink)


def test_a_file_system_that_is_full(tmp_path: Path) -> None:
    """A disk of a few megabytes, filled to the last byte by somebody else."""
    launcher = mounted(tmp_path, "size=8m")
    running = Running(tmp_path, CONFIG, "--log-level", "error", launcher=launcher)
    outside, running.store = running.store, tmp_path / "saved"
    seen = from_outside(running, outside)

    def fill() -> None:
        with (seen / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(b"x" * 4096):
                pass
        with pytest.raises(OSError, match="No space"):
            (seen / "more").write_bytes(b"x" * 8192)
        (seen / "more").unlink()

    def free() -> None:
        (seen / "ballast").unlink()

    original = running.stop

    def stop() -> int:
        # The file system goes with the process.
        running.settle()
        if running.process.poll() is None:
            shutil.copytree(seen, running.store)
        return original()

    running.stop = stop  # type: ignore[method-assign]
    with stopped(running):
        ride_out(running, fill, free)


def test_a_file_system_that_is_read_only_until_somebody_mends_it(tmp_path: Path) -> None:
    running = Running(tmp_path, CONFIG, launcher=mounted(tmp_path, "ro"))
    with stopped(running):
        assert "cannot be opened" in ask(running, "/readyz")[2]["problems"][0]
        wait_for(lambda: "not working yet" in running.banner, "the banner does not say so")
        kept = {talk(running, f"question {number}") for number in range(5)}
        wait_for(lambda: ask(running, "/readyz")[0] == 503, "readiness does not notice")
        assert running.metrics()["cannery_store_up"] == 0
        inside(running, "mount", "-o", "remount,rw", str(running.store))
        running.settle(60)
        assert ask(running, "/readyz")[0] == 200
        assert running.recorded() == 5
        seen = from_outside(running, running.store)
        assert {path.name for path in (seen / "conversations").iterdir()} >= kept


@contextlib.contextmanager
def stopped(running: Running) -> Iterator[None]:
    """End a gateway whatever happens."""
    try:
        yield
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
        if running.process.stdout is not None and not running.process.stdout.closed:
            running._reader.join(5)
            running.process.stdout.close()
