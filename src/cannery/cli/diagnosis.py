"""What each provider would do with a file or conversation: broken rules, and losses and repairs in other dialects.

A request body is checked unchanged, an agent's session line by line, any other history as written in its own dialect.
For another provider it is translated first, and what no repair fixes is checked in the result.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from cannery.dialects import find_dialect
from cannery.doctor import PROBLEM, Finding, examine_body
from cannery.doctor import examine as examine_request
from cannery.doctor.sessions import examine_session
from cannery.errors import CanneryError
from cannery.messages import Request
from cannery.translation import nativize_request, translate
from cannery.wire.losses import Loss, Rendered, Repair, real_losses
from cannery.wire.places import Places, path_text

# Losses and repairs of a trailing model turn, which a request must not have and a stored conversation usually has.
_UNANSWERED = ("PREFILL_DROPPED", "prefill")
_PLACE = re.compile(r"^conversation\[(\d+)\]")


class Subject(Struct, frozen=True):
    """A request, session or conversation to examine, and its origin.

    It has a ``body`` in ``dialect``, or the bytes of a ``session`` file of the format ``form``, or only a history that
    was sent to ``home``. ``unreadable`` is the reason why there is no request.
    """

    name: str
    request: Request | None
    dialect: str | None = None
    body: bytes | None = None
    reason: str = ""
    paths: tuple[str, ...] = ()
    home: str | None = None
    # Whether its file contains nothing else.
    is_alone: bool = False
    session: bytes | None = None
    form: str = ""
    unreadable: str = ""
    file: str = ""
    # The model that it is for, if it was given and the body does not name it.
    model: str | None = None

    @property
    def own(self) -> str | None:
        """The dialect of its own provider."""
        return self.dialect or self.home


class Diagnosis(Struct, frozen=True):
    """The findings for one provider."""

    dialect: str
    is_home: bool
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    problems: tuple[Finding, ...] = ()
    refusal: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether no problem is known, and everything can be translated without change."""
        return not (self.refusal or self.repairs or self.serious or self.broken)

    @property
    def serious(self) -> tuple[Loss, ...]:
        """The losses that really remove or change something."""
        return real_losses(self.losses)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The problems that the provider refuses, without warnings."""
        return tuple(each for each in self.problems if each.severity == PROBLEM)


def read_subject(
    name: str, body: bytes, dialect: str, reason: str, *, is_alone: bool = False
) -> Subject:
    """Read a request body and the path of each canister in it; if it cannot be read, ``unreadable`` is the reason."""
    places = Places()
    try:
        request = find_dialect(dialect).read_request(body, places)
    except CanneryError as error:
        return Subject(
            name, None, dialect, body, reason, is_alone=is_alone, unreadable=str(error), file=name
        )
    paths = tuple(map(path_text, places.canisters))
    return Subject(name, request, dialect, body, reason, paths, is_alone=is_alone, file=name)


def examine(subject: Subject, dialect: str) -> Diagnosis:
    """Examine a subject for one provider."""
    try:
        if dialect == subject.own:
            return Diagnosis(
                dialect, is_home=True, problems=_own_findings(subject), refusal=_refusal(subject)
            )
        if subject.request is None:
            return Diagnosis(dialect, is_home=False, refusal=subject.unreadable)
        return _examine_translated(subject, subject.request, dialect)
    except CanneryError as error:
        return Diagnosis(dialect, dialect == subject.own, refusal=str(error))


def _own_findings(subject: Subject) -> tuple[Finding, ...]:
    if subject.session is not None:
        return examine_session(subject.session, subject.form)
    if subject.form:
        # Another branch of a file that is checked as a whole; the agent does not continue it.
        return ()
    if subject.body is not None:
        return examine_body(subject.body, subject.own or "", model=subject.model)
    request: Any = subject.request
    model = request.model if isinstance(request.model, str) else None
    found = examine_request(request.replace(source=subject.own), subject.own or "", model=model)
    return tuple(
        each
        if each.message is None or each.message >= len(subject.paths)
        else msgspec.structs.replace(each, path=subject.paths[each.message])
        for each in found
    )


def _refusal(subject: Subject) -> str:
    """Why a body cannot be read, if no broken rule explains it."""
    if not subject.unreadable or any(each.severity == PROBLEM for each in _own_findings(subject)):
        return ""
    return subject.unreadable


def _examine_translated(subject: Subject, request: Request, dialect: str) -> Diagnosis:
    is_request = subject.body is not None
    if subject.body is None:
        rendered = write_repaired(request, dialect)
    else:
        rendered = translate(subject.body, source=subject.dialect or "", target=dialect)
    repairs = tuple(
        Repair(repair.name, _located(repair.path, subject.paths), repair.detail)
        for repair in rendered.repairs
        if is_request or repair.name not in _UNANSWERED
    )
    losses = tuple(
        Loss(loss.code, loss.severity, _located(loss.path, subject.paths), loss.detail)
        for loss in rendered.losses
        if is_request or loss.code not in _UNANSWERED
    )
    problems = examine_body(rendered.body, dialect, is_request=is_request)
    return Diagnosis(dialect, is_home=False, losses=losses, repairs=repairs, problems=problems)


def write_repaired(request: Request, dialect: str) -> Rendered:
    """Write the request for a provider with all repairs; translation would leave it unchanged for its own."""
    untied: Any = request.replace(source=None)
    return nativize_request(untied, dialect)


def _located(path: str, paths: tuple[str, ...]) -> str:
    found = _PLACE.match(path)
    if found is None or int(found[1]) >= len(paths):
        return path
    return paths[int(found[1])] + path[found.end() :]
