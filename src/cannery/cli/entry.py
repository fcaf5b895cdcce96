"""The entry point of the command line: turns arguments into an exit code, and every error into one or two lines."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence

from cannery.cli.catalogue import load_verb
from cannery.cli.complaints import (
    DONE,
    INTERRUPTED,
    MISUSED,
    PIPE_CLOSED,
    WRONG,
    Complaint,
    Misuse,
    nearest,
)
from cannery.cli.files import flush
from cannery.cli.terminal import choose_colour, harmless, paint
from cannery.errors import (
    CanneryError,
    ConfigurationError,
    StoreUnavailableError,
    UnknownDialectError,
)

_LONGEST = 600
# Internal value instead of an exit code: an unexpected error, which is a bug.
BROKEN = -1
_METADATA = ".dist-info"
# The options that are allowed before the verb.
_WITH_VALUE = ("--store", "--encryption-key", "--color")
_LEADING = (*_WITH_VALUE, "--json", "--quiet", "-q", "--version", "-V", "--help", "-h")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    # Importing modules creates many long-lived objects; the default collector thresholds take a tenth of the start
    # time.
    gc.set_threshold(50_000, 20, 20)
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - as in files
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(given)
        flush()
    except BrokenPipeError:
        # The reader closed the pipe; Python would report an error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        sys.stderr.write("\ncannery: interrupted\n")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the edge: nobody should ever see a traceback
        return _complain(error, given)
    return code


def _run(given: list[str]) -> int:
    from cannery.cli import parser

    leading, rest = _split(given)
    if "--version" in leading or "-V" in leading:
        return _version()
    if not rest or rest == ["help"]:
        sys.stdout.write(parser.overview())
        return DONE
    if rest[0] == "help":
        rest = [rest[1], "--help"]
    verb = parser.find_verb(rest[0])
    options = parser.parse(verb, [*rest[1:], *leading])
    if options.help is not None:
        sys.stdout.write(options.help)
        return DONE
    choose_colour(options.color)
    code: int = load_verb(verb).run(options)
    return code


def _split(given: list[str]) -> tuple[list[str], list[str]]:
    """The options before the verb, which are treated as options of the verb, and the remaining words."""
    leading: list[str] = []
    waiting = list(given)
    while waiting and waiting[0].startswith("-"):
        option = waiting.pop(0)
        name = option.partition("=")[0]
        if name not in _LEADING:
            near = nearest(name, _LEADING)
            meant = f" Did you mean {near}?" if near else ""
            fix = "Its own options stand after the verb; see `cannery --help`"
            raise Misuse(f"cannery takes no {name!r} before a verb.{meant}", fix)
        leading.append(option)
        if option in _WITH_VALUE and waiting:
            leading.append(waiting.pop(0))
    return leading, waiting


def _version() -> int:
    print(f"cannery {_folder_version() or _metadata_version()}")
    return DONE


def _folder_version() -> str:
    """The version in the name of our metadata folder, which is faster than reading the metadata; "" if ambiguous."""
    found = set()
    for place in sys.path:
        try:
            names = os.listdir(place)  # noqa: PTH208 - pathlib costs as much as the rest
        except OSError:
            continue
        found |= {
            name for name in names if name.startswith("cannery-") and name.endswith(_METADATA)
        }
    return found.pop().removeprefix("cannery-").removesuffix(_METADATA) if len(found) == 1 else ""


def _metadata_version() -> str:
    from importlib.metadata import version

    return version("cannery")


def _complain(error: Exception, given: list[str]) -> int:
    problem, fix, code = explain(error)
    if code == BROKEN:
        fix, code = _report_crash(error, given), WRONG
    text = harmless(problem if len(problem) <= _LONGEST else f"{problem[:_LONGEST]}…")
    sys.stderr.write(f"{paint('cannery:', 'red', stream=sys.stderr)} {text.rstrip()}\n")
    if fix:
        sys.stderr.write(f"  {fix}\n")
    if os.environ.get("CANNERY_DEBUG"):
        import traceback

        traceback.print_exception(error)
    return code


def _report_crash(error: Exception, given: list[str]) -> str:
    """Write a crash report; return the advice for the user."""
    from cannery.cli.crashes import write_report

    path = write_report(error, given)
    if not path:
        return "This is a bug in cannery. CANNERY_DEBUG=1 shows where; please open an issue with it"
    return f"This is a bug in cannery. Please attach {path} to an issue; it has no text of yours"


def _store_advice(error: StoreUnavailableError) -> str:
    """The advice for a store that cannot be used."""
    cause = error.__cause__
    code = cause.errno if isinstance(cause, OSError) else None
    if code in {errno.ENOSPC, errno.EDQUOT} or "disk is full" in str(error):
        return "Free some space where the store is"
    return "Is it the right --store, and may you write there?"


def explain(error: Exception) -> tuple[str, str, int]:
    """What is wrong, what to do about it, and the exit code."""
    match error:
        case Complaint(problem=problem, fix=fix, code=code):
            return problem, fix, code
        case UnknownDialectError() | ConfigurationError():
            return str(error), "", MISUSED
        case StoreUnavailableError():
            return str(error), _store_advice(error), WRONG
        case CanneryError():
            return str(error), "", WRONG
        case FileNotFoundError(filename=name) | IsADirectoryError(filename=name):
            return f"{name}: {error.strerror}", "Give a file, or - for stdin", WRONG
        case OSError(filename=str(name)):
            return f"{name}: {error.strerror}", "", WRONG
        case OSError(strerror=str(reason)):
            return reason, "", WRONG
        case OSError() | UnicodeError():
            return str(error), "", WRONG
        case EOFError():
            return (
                f"the compressed data is truncated: {error}",
                "Compress it again with gzip",
                WRONG,
            )
        case MemoryError() | RecursionError():
            return "the input is too large or too deep for this machine", "", WRONG
        case ModuleNotFoundError(name=name):
            return f"the package {name!r} is missing", "pip install 'cannery[cli,gateway]'", MISUSED
        case _:
            return f"internal error: {type(error).__name__}: {error}", "", BROKEN
