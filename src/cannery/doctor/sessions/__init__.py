"""Sessions of agents as files: judged and mended line by line, so that the agent itself can resume them.

Every module is named after an import format and has one function, ``open_session``. It gives the history that the agent
would send as a body of its dialect, made of the very objects of the file's lines; what a check changes there is a
change of a line. Lines that nothing changed are written as they were, byte for byte.
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
    """A session file that was mended: its bytes, what was changed, and what is still broken."""

    data: bytes
    changes: tuple[Change, ...]
    left: tuple[Finding, ...]


def has_session(form: str) -> bool:
    """Whether the files of a format can be judged and mended as what they are."""
    return importlib.util.find_spec(f"{__name__}.{form}") is not None


def _open(data: bytes, form: str) -> Session:
    opened: Session = importlib.import_module(f"{__name__}.{form}").open_session(data)
    return opened


def examine_session(data: bytes, form: str) -> tuple[Finding, ...]:
    """What is known to break the agent's provider, and the lines that are damaged; paths begin with the line."""
    session = _open(data, form)
    found = judge(session.judged(), session.dialect, is_request=False, place=session.place)
    return (*session.damage(), *found)


def mend_session(data: bytes, form: str) -> MendedSession:
    """The same file with its broken records mended and its damaged lines left out."""
    session = _open(data, form)
    damaged = [Change(each.code, each.path, "removed the line") for each in session.damage()]
    mended = mend(session.judged(), session.dialect, is_request=False, place=session.place)
    changes = (*damaged, *mended.changes)
    written = session.written() if changes else data
    return MendedSession(written, changes, examine_session(written, form))
