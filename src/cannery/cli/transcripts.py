"""Transcripts and exports of other programs as patients of the doctor: every history in a file, without a store."""

from __future__ import annotations

from collections.abc import Iterator

from cannery.cli.diagnosis import Patient, read_patient
from cannery.detection import detect
from cannery.dialects import dialect_names
from cannery.errors import InputError, NotFoundError
from cannery.importers import Format, Imported, Source, branches, detect_format, open_sources
from cannery.messages import Request, absent
from cannery.titles import title_of

_SURE = 0.6


class Transcript:
    """A file or folder that some program wrote."""

    def __init__(self, path: str) -> None:
        self.told: list[str] = []
        self.problems: list[str] = []
        self.is_sure = False
        self._found: list[tuple[Source, Format]] = []
        sources = open_sources(path)
        for source in sources:
            try:
                found, detection = detect_format(source)
            except (InputError, NotFoundError) as error:
                if len(sources) > 1:
                    self.problems.append(str(error))
                continue
            self._found.append((source, found))
            self.told.append(f"{found.title} ({detection.reason})")
            is_foreign = found.name not in (*dialect_names(), "requests")
            self.is_sure |= is_foreign and detection.confidence > _SURE

    def __bool__(self) -> bool:
        return bool(self._found)

    def patients(self) -> Iterator[Patient]:
        """Every history, with the place of each message in its file."""
        for source, found in self._found:
            if found.name == "requests":
                yield from self._requests(source)
                continue
            for each in found.read(source):
                if isinstance(each, Imported):
                    yield from _patients(each, found, self.told[0])
            self.problems += source.problems

    def _requests(self, source: Source) -> Iterator[Patient]:
        """Every body, with the paths in it."""
        for record in source.records():
            place = source.place_of(record)
            try:
                told = detect(record.raw)
                yield read_patient(place, record.raw, told.dialect, told.reason)
            except InputError as error:
                self.problems.append(f"{place}: {error}")
        self.problems += source.problems


def _patients(imported: Imported, found: Format, reason: str) -> Iterator[Patient]:
    everything = list(branches(imported))
    for number, branch in enumerate(everything, 1):
        canisters = [canister for node in branch for canister in node.canisters]
        places = [_place(node.identifier) for node in branch for _ in node.canisters]
        title = imported.title or title_of(canisters) or imported.identifier
        yield Patient(
            title if len(everything) == 1 else f"{title}, branch {number}",
            Request(canisters, imported.model or absent),
            reason=reason,
            paths=tuple(places),
            home=found.dialect,
        )


def _place(name: str) -> str:
    """Where a message stands: what its file calls it."""
    return name if name.startswith(("line ", "#", "[")) else f"message {name}"
