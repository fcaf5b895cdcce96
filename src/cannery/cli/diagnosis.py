"""What each provider would make of a file or conversation: broken rules, and losses and repairs in other dialects.

A request body is judged as it is, an agent's session line by line, any other history as its own dialect spells it. For
another provider it is translated first, and what no repair can mend is judged in the result.
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

# What is said about a last word of the model, which a request must not have and a conversation mostly has.
_UNANSWERED = ("PREFILL_DROPPED", "prefill")
_PLACE = re.compile(r"^conversation\[(\d+)\]")


class Patient(Struct, frozen=True):
    """Something to look at: where it comes from, and what it is.

    It has a ``body`` in ``dialect``, or the bytes of a ``session`` file of the format ``form``, or only a history that
    was spoken to ``home``. ``unreadable`` says why there is no request.
    """

    name: str
    request: Request | None
    dialect: str | None = None
    body: bytes | None = None
    reason: str = ""
    paths: tuple[str, ...] = ()
    home: str | None = None
    # Whether nothing else is in its file.
    is_alone: bool = False
    session: bytes | None = None
    form: str = ""
    unreadable: str = ""
    file: str = ""
    # The model that it is for, where that was told and the body does not say it.
    model: str | None = None

    @property
    def own(self) -> str | None:
        """The dialect of its own provider."""
        return self.dialect or self.home


class Diagnosis(Struct, frozen=True):
    """What one provider would make of it."""

    dialect: str
    is_home: bool
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    problems: tuple[Finding, ...] = ()
    refusal: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether no problem is known, and everything can be said as it is."""
        return not (self.refusal or self.repairs or self.serious or self.broken)

    @property
    def serious(self) -> tuple[Loss, ...]:
        """What is really lost or changed."""
        return real_losses(self.losses)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """What the provider refuses; warnings are not among it."""
        return tuple(each for each in self.problems if each.severity == PROBLEM)


def read_patient(
    name: str, body: bytes, dialect: str, reason: str, *, is_alone: bool = False
) -> Patient:
    """A request body, with the path of each canister in it; one that cannot be read says why."""
    places = Places()
    try:
        request = find_dialect(dialect).read_request(body, places)
    except CanneryError as error:
        return Patient(
            name, None, dialect, body, reason, is_alone=is_alone, unreadable=str(error), file=name
        )
    paths = tuple(map(path_text, places.canisters))
    return Patient(name, request, dialect, body, reason, paths, is_alone=is_alone, file=name)


def examine(patient: Patient, dialect: str) -> Diagnosis:
    """What one provider would make of it."""
    try:
        if dialect == patient.own:
            return Diagnosis(
                dialect, is_home=True, problems=_at_home(patient), refusal=_refusal(patient)
            )
        if patient.request is None:
            return Diagnosis(dialect, is_home=False, refusal=patient.unreadable)
        return _elsewhere(patient, patient.request, dialect)
    except CanneryError as error:
        return Diagnosis(dialect, dialect == patient.own, refusal=str(error))


def _at_home(patient: Patient) -> tuple[Finding, ...]:
    if patient.session is not None:
        return examine_session(patient.session, patient.form)
    if patient.form:
        # Another branch of a file that is judged as a whole, which the agent does not go on with.
        return ()
    if patient.body is not None:
        return examine_body(patient.body, patient.own or "", model=patient.model)
    request: Any = patient.request
    model = request.model if isinstance(request.model, str) else None
    found = examine_request(request.replace(source=patient.own), patient.own or "", model=model)
    return tuple(
        each
        if each.message is None or each.message >= len(patient.paths)
        else msgspec.structs.replace(each, path=patient.paths[each.message])
        for each in found
    )


def _refusal(patient: Patient) -> str:
    """Why a body cannot be read, if no rule says it better."""
    if not patient.unreadable or any(each.severity == PROBLEM for each in _at_home(patient)):
        return ""
    return patient.unreadable


def _elsewhere(patient: Patient, request: Request, dialect: str) -> Diagnosis:
    is_request = patient.body is not None
    if patient.body is None:
        rendered = say(request, dialect)
    else:
        rendered = translate(patient.body, source=patient.dialect or "", target=dialect)
    repairs = tuple(
        Repair(repair.name, _located(repair.path, patient.paths), repair.detail)
        for repair in rendered.repairs
        if is_request or repair.name not in _UNANSWERED
    )
    losses = tuple(
        Loss(loss.code, loss.severity, _located(loss.path, patient.paths), loss.detail)
        for loss in rendered.losses
        if is_request or loss.code not in _UNANSWERED
    )
    problems = examine_body(rendered.body, dialect, is_request=is_request)
    return Diagnosis(dialect, is_home=False, losses=losses, repairs=repairs, problems=problems)


def say(request: Request, dialect: str) -> Rendered:
    """The request as a provider accepts it; to its own too, where translation would leave it as it is."""
    untied: Any = request.replace(source=None)
    return nativize_request(untied, dialect)


def _located(path: str, paths: tuple[str, ...]) -> str:
    found = _PLACE.match(path)
    if found is None or int(found[1]) >= len(paths):
        return path
    return paths[int(found[1])] + path[found.end() :]
