"""Lists what an import kept uninterpreted: records beside messages, unknown fields of records, opaque blocks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from cannery.cli.files import note, write_json
from cannery.importers.pieces import facts_of
from cannery.messages import AnyCanister, OpaqueContentClass, PartsContentClass
from cannery.messages.json_text import decode_json


def show_unknown(options: argparse.Namespace, canisters: Any, start: int) -> None:
    """Write every piece, one JSON object per line."""
    found = list(unknown_pieces(canisters, start))
    if options.json:
        write_json(found)
    elif not found:
        note("nothing of an unknown kind was kept with this conversation", quiet=options.quiet)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(b"".join(msgspec.json.encode(each) + b"\n" for each in found))


def unknown_pieces(canisters: Any, start: int = 0) -> Iterator[dict[str, Any]]:
    """Yield every record, field or block that was kept unchanged: its message, kind and location."""
    for position, canister in enumerate(canisters, start):
        facts = facts_of(canister)
        for record in facts.get("unknown", ()):
            yield {"message": position, **record}
        if "fields" in facts:
            yield {"message": position, "kind": "fields", "record": facts["fields"]}
        for block in _opaque(canister):
            record = decode_json(block.json)
            yield {"message": position, "kind": block.tag, "place": "in place", "record": record}


def _opaque(canister: AnyCanister) -> Iterator[OpaqueContentClass]:
    held = getattr(canister, "content", None)
    parts = held.parts if isinstance(held, PartsContentClass) else (held,)
    yield from (part for part in parts if isinstance(part, OpaqueContentClass))
