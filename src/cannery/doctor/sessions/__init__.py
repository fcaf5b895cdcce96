"""Sessions of agents as files: checked and fixed line by line, so that the agent itself can resume them.

Every module is named after an import format and has one function, ``open_session``. A session gives the history that
the agent would send as a body of its dialect, made of the same objects as the file's lines; a change in the body is a
change of a line. Unchanged lines are written byte for byte.
"""

from __future__ import annotations

import importlib
import importlib.util

from msgspec import Struct

from cannery.doctor.contract import Finding
from cannery.doctor.examination import judge
from cannery.doctor.fixing import Change, mend
from cannery.doctor.sessions.contract import Session

__all__ = ["MendedSession", "Session", "examine_session", "has_session", "mend_session"]


class MendedSession(Struct, frozen=True):
    """A fixed session file: its bytes, the changes, and the remaining findings."""

    data: bytes
    changes: tuple[Change, ...]
    left: tuple[Finding, ...]


def has_session(form: str) -> bool:
    """Whether files of a format can be checked and fixed as sessions."""
    return importlib.util.find_spec(f"{__name__}.{form}") is not None


def _open(data: bytes, form: str) -> Session:
    opened: Session = importlib.import_module(f"{__name__}.{form}").open_session(data)
    return opened


def examine_session(data: bytes, form: str) -> tuple[Finding, ...]:
    """Find damaged lines, and violations of the rules of the agent's provider; paths begin with the line."""
    session = _open(data, form)
    found = judge(session.judged(), session.dialect, is_request=False, place=session.place)
    return (*session.damage(), *found)


def mend_session(data: bytes, form: str) -> MendedSession:
    """Fix the records of a file, and remove its damaged lines."""
    session = _open(data, form)
    damaged = [Change(each.code, each.path, "removed the line") for each in session.damage()]
    mended = mend(session.judged(), session.dialect, is_request=False, place=session.place)
    changes = (*damaged, *mended.changes)
    written = session.written() if changes else data
    return MendedSession(written, changes, examine_session(written, form))
