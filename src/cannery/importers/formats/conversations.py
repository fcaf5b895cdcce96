"""Cannery's own exports: one conversation per line with metadata and canisters (``cannery export --as jsonl``)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from cannery.backends import check_identifier
from cannery.errors import CanneryError
from cannery.importers.contract import UNREADABLE, Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import unknown_record
from cannery.importers.sources import Source
from cannery.messages import AnyCanister
from cannery.storage import Metadata, Store, open_store
from cannery.storage.metadata import check_tags, check_title

NAME = "conversations"


class _Canisters(Struct):
    canisters: list[Raw]


_read_metadata = msgspec.json.Decoder(Metadata).decode
_read_canisters = msgspec.json.Decoder(_Canisters).decode


def detect(sample: Sample) -> Detection | None:
    """Canisters beside the metadata of a conversation."""
    for record in sample.objects:
        if isinstance(record.get("canisters"), list) and {"id", "created"} <= record.keys():
            return Detection(0.98, "each line is a conversation with its canisters")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per line; forks get their parents when they are filed."""
    with open_store("sqlite::memory:") as store:
        for record, value in source.values():
            try:
                yield _conversation(store, record.raw)
            except (CanneryError, msgspec.MsgspecError, UnicodeError) as error:
                yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)


def _conversation(store: Store, raw: bytes) -> Imported:
    kept = _read_metadata(raw)
    check_identifier(kept.id)
    check_title(kept.title)
    check_tags(kept.tags)
    lines = [bytes(line) for line in _read_canisters(raw).canisters]
    canisters: list[AnyCanister] = []
    for line in lines:
        canisters += store.codec("").decoder.decode([line], hydrate=True)
    nodes = (Node("canisters", None, tuple(canisters)),)
    return Imported(kept.id, nodes, kept.title, kept.created, model=kept.model, kept=kept)


FORMAT = Format(
    NAME, "Cannery conversations", detect, read, keys=("canisters", "created", "updated")
)
