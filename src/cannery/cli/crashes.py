"""Reports of internal errors: a file that can be attached to an issue, without any text of conversations."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from pathlib import Path


def write_report(error: BaseException, words: list[str]) -> str:
    """Write a crash report; return the path of the file, or "" if it could not be written.

    The message of the error and the values on the command line may contain text of the user, so they are left out.
    """
    from importlib.metadata import version

    names = [word.partition("=")[0] for word in words if word.startswith("-")]
    lines = [
        f"cannery {version('cannery')}, Python {platform.python_version()}, {platform.platform()}",
        f"verb: {next((word for word in words if not word.startswith('-')), '-')}",
        f"options: {' '.join(names) or '-'}",
        *(_chain(error)),
    ]
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cannery"
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", "utf-8")
    except OSError:
        return ""
    return str(path)


def _chain(error: BaseException) -> list[str]:
    """The tracebacks of an error and its causes, without their messages."""
    lines: list[str] = []
    link: BaseException | None = error
    while link is not None and len(lines) < 1000:
        kind = type(link)
        lines.append(f"{kind.__module__}.{kind.__qualname__}")
        frames = traceback.extract_tb(link.__traceback__)
        lines += [f"  {_module(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return lines


def _module(filename: str) -> str:
    """The path of a file relative to the import path, so that the report names no folder of the user."""
    places = sorted((place for place in sys.path if place), key=len, reverse=True)
    for place in places:
        if filename.startswith(place + os.sep):
            return filename[len(place) + 1 :]
    return Path(filename).name
