"""Opens files and pipes: ``-`` is stdin or stdout, and a file is written atomically."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import msgspec

from cannery.cli.complaints import Complaint, Misuse
from cannery.cli.terminal import is_terminal

if TYPE_CHECKING:
    from pathlib import Path

# Large enough that few lines cross its end.
_BUFFER = 1 << 16
_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ABSENT_INPUT = "Give a file, or pipe something in"


@contextlib.contextmanager
def reading(name: str) -> Iterator[BinaryIO]:
    """Open a file or stdin for reading; gzip is decompressed, and a byte order mark is skipped."""
    if name == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise Misuse("there is nothing on stdin", _ABSENT_INPUT)
        with open(sys.stdin.fileno(), "rb", _BUFFER, closefd=False) as file:
            yield _text(file, name)
        return
    with open(name, "rb", _BUFFER) as file:  # noqa: PTH123 - pathlib costs as much as the rest of starting
        yield _text(file, name)


def _text(file: Any, name: str) -> Any:
    head = file.peek(3)[:3]
    if head.startswith(_GZIP):
        import gzip

        return _text(io.BufferedReader(gzip.GzipFile(fileobj=file)), name)
    if head == _MARK:
        file.read(3)
    elif head[:2] in _WIDE_MARKS:
        raise Complaint(f"{shown(name)} is in UTF-16", "Save it as UTF-8")
    return file


def read(name: str) -> bytes:
    """Read a whole file or stdin; an empty one is an error."""
    with reading(name) as file:
        data = file.read()
    if not data.strip():
        raise Complaint(f"{shown(name)} is empty", _ABSENT_INPUT)
    return data


def read_json(name: str) -> Any:
    """Read the JSON value of a file or of stdin."""
    data = read(name)
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Complaint(f"{shown(name)} is not JSON: {error}") from None


@contextlib.contextmanager
def writing(name: str | None) -> Iterator[IO[bytes]]:
    """Open stdout (None or ``-``), or a file that appears when it is complete."""
    if name is None or name == "-":
        yield sys.stdout.buffer
        flush()
        return
    from pathlib import Path

    target = Path(name)
    if target.exists() and not target.is_file():
        # A device or a pipe cannot be replaced.
        with target.open("wb") as file:
            yield file
        return
    if not target.parent.is_dir():
        raise Complaint(f"{name}: there is no folder {target.parent}", "Make it first")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with _named(partial, name), partial.open("wb") as file:
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def flush() -> None:
    """Flush stdout; an error names stdout."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # The flush would fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Complaint(f"stdout: {error.strerror}") from None


@contextlib.contextmanager
def _named(partial: Path, name: str) -> Iterator[None]:
    """Replace the name of the temporary file in errors by the requested name."""
    try:
        yield
    except OSError as error:
        if error.filename == str(partial):
            error.filename = name
        raise


def write_json(value: Any, name: str | None = None) -> None:
    """Write a value as JSON: indented on a terminal and in files, on one line in a pipe."""
    data = msgspec.json.encode(value)
    with writing(name) as file:
        file.write(pretty(data, always=name not in (None, "-")) + b"\n")


def pretty(body: bytes, *, always: bool = False) -> bytes:
    """Indent a JSON body if it goes to a terminal, or ``always``."""
    return msgspec.json.format(body, indent=2) if always or is_terminal() else body


@contextlib.contextmanager
def as_path(name: str) -> Iterator[str]:
    """A path that can be read several times: a pipe (stdin, or a named one) is copied to a temporary file."""
    from pathlib import Path

    if name != "-" and not Path(name).is_fifo():
        yield name
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="cannery-") as folder:
        path = f"{folder}/{Path(shown(name)).name}"
        with open(path, "wb") as kept, reading(name) as stream:  # noqa: PTH123 - as above
            while chunk := stream.read(1 << 20):
                kept.write(chunk)
        yield path


def shown(name: str) -> str:
    """The name of a file in messages."""
    return "stdin" if name == "-" else name


def note(text: str, *, quiet: bool = False) -> None:
    """Print a message on stderr, after the output so far."""
    if not quiet:
        sys.stdout.flush()
        sys.stderr.write(f"{text}\n")
