"""Transcripts and exports of other programs as subjects of the doctor: every history in a file, without a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from cannery.cli.diagnosis import Subject, read_subject
from cannery.detection import detect
from cannery.dialects import dialect_names
from cannery.doctor.sessions import has_session
from cannery.errors import InputError, NotFoundError
from cannery.importers import Format, Imported, Source, branches, detect_format, open_sources
from cannery.messages import Request, absent
from cannery.titles import title_of

_SURE = 0.6
# A larger session is checked by its imported messages only.
_MOST = 256 << 20


class Transcript:
    """A file or folder that another program wrote."""

    def __init__(self, path: str) -> None:
        self.problems: list[str] = []
        self.is_sure = False
        self._found: list[tuple[Source, Format, str]] = []
        sources = open_sources(path)
        for source in sources:
            try:
                found, detection = detect_format(source)
            except (InputError, NotFoundError) as error:
                if len(sources) > 1 and not _is_request(source):
                    self.problems.append(str(error))
                continue
            told = f"{found.title} ({detection.reason})"
            self._found.append((source, found, told))
            is_foreign = found.name not in (*dialect_names(), "requests")
            self.is_sure |= is_foreign and detection.confidence > _SURE
        self.is_folder = Path(path).is_dir()

    def __bool__(self) -> bool:
        return bool(self._found)

    def subjects(self) -> Iterator[Subject]:
        """Yield every history, with the location of each message in its file."""
        for source, found, told in self._found:
            file = str(source.path or source.name)
            if found.name == "requests":
                yield from self._requests(source, file)
                continue
            session = source.whole(_MOST) if has_session(found.name) else None
            for each in found.read(source):
                if not isinstance(each, Imported):
                    continue
                for subject in _subjects(each, found, told, file):
                    form = found.name if has_session(found.name) else ""
                    yield msgspec.structs.replace(subject, session=session, form=form)
                    # The file is checked once, with its first history.
                    session = None
            is_judged = has_session(found.name)
            damaged = [] if is_judged else [str(each) for each in source.problems]
            self.problems += [f"{source.name}: {each}" for each in damaged]

    def _requests(self, source: Source, file: str) -> Iterator[Subject]:
        """Yield every request body, with the paths in it."""
        for record in source.records():
            place = source.place_of(record)
            try:
                told = detect(record.raw)
                subject = read_subject(place, record.raw, told.dialect, told.reason)
                yield msgspec.structs.replace(subject, file=file)
            except InputError as error:
                self.problems.append(f"{place}: {error}")
        self.problems += [f"{source.name}: {each}" for each in source.problems]


def _is_request(source: Source) -> bool:
    try:
        return detect(source.head(1 << 20)).kind == "request"
    except InputError:
        return False


def _subjects(imported: Imported, found: Format, reason: str, file: str) -> Iterator[Subject]:
    everything = list(branches(imported))
    for number, branch in enumerate(everything, 1):
        canisters = [canister for node in branch for canister in node.canisters]
        places = [_place(node.identifier) for node in branch for _ in node.canisters]
        title = imported.title or title_of(canisters) or imported.identifier
        yield Subject(
            title if len(everything) == 1 else f"{title}, branch {number}",
            Request(canisters, imported.model or absent),
            reason=reason,
            paths=tuple(places),
            home=found.dialect,
            file=file,
        )


def _place(name: str) -> str:
    """The location of a message, by the name it has in its file."""
    return name if name.startswith(("line ", "#", "[")) else f"message {name}"
