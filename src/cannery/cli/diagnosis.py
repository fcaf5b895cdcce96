"""What each provider would make of a request: read it, say it to every dialect, and keep what had to change."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from cannery.errors import CanneryError
from cannery.messages import Request
from cannery.translation import find_dialect, nativize_request, translate
from cannery.wire.losses import INFO, Loss, Rendered, Repair

_PLACE = re.compile(r"^conversation\[(\d+)\]")


class Patient(Struct, frozen=True):
    """A request to look at: where it comes from, and its body if it has one."""

    name: str
    request: Request
    dialect: str | None = None
    body: bytes | None = None
    reason: str = ""
    paths: tuple[str, ...] = ()


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
        return tuple(loss for loss in self.losses if loss.severity != INFO)


def read_patient(name: str, body: bytes, dialect: str, reason: str) -> Patient:
    """A request body, with the path of each canister in it."""
    paths: list[str] = []
    request = find_dialect(dialect).read_request(body, paths)
    return Patient(name, request, dialect, body, reason, tuple(paths))


def examine(patient: Patient, dialect: str) -> Finding:
    """What one provider would make of it."""
    is_home = dialect == patient.dialect
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
    )
    # At home nothing is left out: what is not ours stays in the residue.
    return Finding(dialect, is_home, () if is_home else rendered.losses, repairs)


def mend(patient: Patient, dialect: str) -> Rendered:
    """The request as a provider accepts it; at home too, where translation would leave it as it is."""
    request: Any = patient.request.replace(source=None)
    return nativize_request(request, dialect)


def _located(path: str, paths: tuple[str, ...]) -> str:
    found = _PLACE.match(path)
    if found is None or int(found[1]) >= len(paths):
        return path
    return paths[int(found[1])] + path[found.end() :]
