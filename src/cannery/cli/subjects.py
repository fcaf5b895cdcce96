"""The input of ``cannery doctor``: a request, the transcripts of a file or folder, or a stored conversation."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cannery.cli.complaints import WRONG, Complaint, choose_dialect
from cannery.cli.diagnosis import Subject, read_subject
from cannery.cli.files import as_path, read, shown
from cannery.errors import InputError


class Subjects:
    """The subjects of a command, read on demand; ``problems`` is complete after the last one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.problems: list[str] = []
        self._options = options

    def __iter__(self) -> Iterator[Subject]:
        for subject in self._all():
            model = self._options.model
            yield subject if model is None else msgspec.structs.replace(subject, model=model)

    def _all(self) -> Iterator[Subject]:
        options = self._options
        if options.what != "-" and not Path(options.what).exists():
            yield _stored(options)
            return
        name = shown(options.what)
        with as_path(options.what) as path:
            if options.source:
                dialect = choose_dialect(options.source)
                yield read_subject(name, read(path), dialect, "as requested", is_alone=True)
                return
            yield from self._detected(name, Path(path))

    def _detected(self, name: str, path: Path) -> Iterator[Subject]:
        from cannery.cli.transcripts import Transcript

        try:
            transcript = Transcript(str(path))
        except InputError as error:
            raise Complaint(f"{name}: {error}") from None
        if not transcript.is_sure and path.is_file():
            from cannery.detection import detect

            try:
                body = read(str(path))
                found = detect(body)
                if found.kind != "request":
                    raise Complaint(f"{name} is a {found.kind}", "The doctor looks at requests")
                yield read_subject(name, body, found.dialect, found.reason, is_alone=True)
            except InputError as error:
                if not transcript:
                    raise Complaint(f"{name}: {error}", "Say what it is with --from") from None
            else:
                return
        if not transcript:
            raise Complaint(f"{name}: nothing of a known format", "See `cannery import --formats`")
        yield from transcript.subjects()
        self.problems += transcript.problems


def _stored(options: argparse.Namespace) -> Subject:
    from cannery.cli.stores import find, find_place, is_there, opened
    from cannery.messages import Request, absent

    fix = "Give a file, a folder, - for stdin, or the id of a conversation"
    has_store = is_there(find_place(options.store)[0])
    if "." in options.what or "/" in options.what or not (has_store or options.store):
        raise Complaint(f"{options.what}: no such file", fix)
    with opened(options) as store:
        try:
            conversation = find(store, options.what)
        except Complaint as error:
            if error.code != WRONG or options.what.startswith("@"):
                raise
            problem = f"{options.what}: no such file, and {error.problem}"
            raise Complaint(problem, fix) from None
        model = conversation.metadata.model or absent
        request = Request(conversation.hydrate(), model)
        return Subject(conversation.identifier, request, reason=conversation.title)
