"""What each provider would make of a request: read it, say it to every dialect, and keep what had to change."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from cannery.dialects import find_dialect
from cannery.errors import CanneryError
from cannery.messages import Request
from cannery.translation import nativize_request, translate
from cannery.wire.losses import Loss, Rendered, Repair, real_losses
from cannery.wire.places import Places, path_text

# What is said about a last word of the model, which a request must not have and a conversation mostly has.
_UNANSWERED = ("PREFILL_DROPPED", "prefill")
_PLACE = re.compile(r"^conversation\[(\d+)\]")


class Patient(Struct, frozen=True):
    """A request to look at: where it comes from, its body if it has one, else the dialect that it was spoken in."""

    name: str
    request: Request
    dialect: str | None = None
    body: bytes | None = None
    reason: str = ""
    paths: tuple[str, ...] = ()
    home: str | None = None
    # Whether nothing else is in its file.
    is_alone: bool = False


class Finding(Struct, frozen=True):
    """What one provider would make of it."""

    dialect: str
    is_home: bool
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    refusal: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether everything can be said as it is."""
        return not (self.refusal or self.repairs or self.serious)

    @property
    def serious(self) -> tuple[Loss, ...]:
        """What is really lost or changed."""
        return real_losses(self.losses)


def read_patient(
    name: str, body: bytes, dialect: str, reason: str, *, is_alone: bool = False
) -> Patient:
    """A request body, with the path of each canister in it."""
    places = Places()
    request = find_dialect(dialect).read_request(body, places)
    paths = tuple(map(path_text, places.canisters))
    return Patient(name, request, dialect, body, reason, paths, is_alone=is_alone)


def examine(patient: Patient, dialect: str) -> Finding:
    """What one provider would make of it."""
    is_home = dialect == (patient.dialect or patient.home)
    try:
        if is_home or patient.body is None:
            rendered = mend(patient, dialect)
        else:
            rendered = translate(patient.body, source=patient.dialect or "", target=dialect)
    except CanneryError as error:
        return Finding(dialect, is_home, refusal=str(error))
    repairs = tuple(
        Repair(repair.name, _located(repair.path, patient.paths), repair.detail)
        for repair in rendered.repairs
        if patient.body is not None or repair.name not in _UNANSWERED
    )
    losses = tuple(
        Loss(loss.code, loss.severity, _located(loss.path, patient.paths), loss.detail)
        for loss in rendered.losses
        if patient.body is not None or loss.code not in _UNANSWERED
    )
    # At home nothing of a body is left out: what is not ours stays in the residue.
    return Finding(dialect, is_home, () if dialect == patient.dialect else losses, repairs)


def mend(patient: Patient, dialect: str) -> Rendered:
    """The request as a provider accepts it; at home too, where translation would leave it as it is."""
    request: Any = patient.request.replace(source=None)
    return nativize_request(request, dialect)


def _located(path: str, paths: tuple[str, ...]) -> str:
    found = _PLACE.match(path)
    if found is None or int(found[1]) >= len(paths):
        return path
    return paths[int(found[1])] + path[found.end() :]
