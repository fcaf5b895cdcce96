"""Shared code of importers: times, canisters at a given time, opaque blocks, facts beside messages."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from cannery.errors import CanneryError
from cannery.importers.contract import Node, Unknown
from cannery.messages import AnyCanister, OpaqueContentClass, Residue, Usage, absent
from cannery.messages.json_text import decode_json, write_json
from cannery.translation import normalize_request

# Values that mean an empty field.
_EMPTY: tuple[Any, ...] = (None, "", [], {})
# A larger file is not read as a companion file.
_BESIDE = 1 << 22
# Larger numbers are milliseconds.
_MILLISECONDS = 100_000_000_000


def moment(value: Any) -> datetime | None:
    """The time from a number of seconds or milliseconds or an ISO date; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return _iso(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS else value, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _iso(value: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def text_of(value: Any) -> str:
    """A string, or "" for anything else."""
    return value if isinstance(value, str) else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; an empty list for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def opaque(source: str, kind: Any, value: Any, unknown: Counter[str]) -> OpaqueContentClass:
    """A part of an unknown kind as an opaque block, counted."""
    tag = kind if isinstance(kind, str) and kind else "unknown"
    unknown[tag] += 1
    return OpaqueContentClass(source, tag, write_json(value))


def unknown_record(kind: Any, place: str, value: Any, above: str | None = None) -> Unknown:
    """A record of an unknown kind; ``above`` is the message before it."""
    known = kind if isinstance(kind, str) and kind else "unknown"
    return Unknown(known, place, write_json(value), above)


def row_digest(value: Any) -> bytes:
    """The digest of a whole row, independent of the order of its keys and of white space."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_spelled)
    return hashlib.sha256(text.encode()).digest()


def _spelled(number: msgspec.Raw) -> str:
    """The text of a number that is too large for a float or an int."""
    return str(number, "utf-8")


def read_beside(source: Any, ending: str) -> dict[str, Any]:
    """The JSON object in the file with a source's name and another ending; {} if there is none."""
    path = None if source.path is None else source.path.with_suffix("")
    beside = None if path is None else path.with_name(path.name + ending)
    if beside is None or not beside.is_file() or beside.stat().st_size > _BESIDE:
        return {}
    try:
        found = decode_json(beside.read_bytes())
    except (OSError, ValueError, CanneryError):
        return {}
    return found if isinstance(found, dict) else {}


def list_beside(source: Any, name: str) -> list[dict[str, Any]]:
    """The objects of the JSON array in another file of the same folder; an empty list if there is none."""
    beside = None if source.path is None else source.path.with_name(name)
    if beside is None or not beside.is_file() or beside.stat().st_size > _BESIDE:
        return []
    try:
        return objects(decode_json(beside.read_bytes()))
    except (OSError, ValueError, CanneryError):
        return []


def json_value(text: Any) -> Any:
    """The value of a JSON text in a database; invalid JSON is returned unchanged."""
    try:
        return decode_json(text) if isinstance(text, (str, bytes)) else text
    except (ValueError, CanneryError):
        return text


def spoken_by(dialect: str, body: dict[str, Any], when: datetime | None) -> list[AnyCanister]:
    """The canisters of a body in a dialect, at a given time; InputError if it is invalid."""
    conversation = normalize_request(body, dialect).conversation
    return at_time(conversation, when)


def at_time(canisters: Iterable[AnyCanister], when: datetime | None) -> list[AnyCanister]:
    """Set the time of canisters, if it is known."""
    if when is None:
        return list(canisters)
    return [canister.replace(timestamp=when) for canister in canisters]


def joined(canisters: list[AnyCanister]) -> tuple[AnyCanister, ...]:
    """Join the canisters of one message."""
    first, rest = canisters[:1], canisters[1:]
    return (*first, *(canister.replace(joined=True) for canister in rest))


# --- facts beside words ------------------------------------------------------------------------


def whole(value: Any) -> int:
    """A count; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def usage_of(
    *, fresh: Any = 0, output: Any = 0, read: Any = None, written: Any = None, reasoning: Any = None
) -> Usage | None:
    """The usage of a message; ``fresh`` is input without tokens read from or written to a cache. None if all are 0."""
    counted = [whole(fresh), whole(output), whole(read), whole(written), whole(reasoning)]
    if not any(counted):
        return None
    return Usage(
        counted[0] + counted[2] + counted[3],
        counted[1],
        absent if read is None else counted[2],
        absent if written is None else counted[3],
        absent if reasoning is None else counted[4],
    )


def with_facts(
    canisters: Iterable[AnyCanister],
    source: str,
    *,
    model: Any = None,
    usage: Usage | None = None,
    cost: Any = None,
) -> list[AnyCanister]:
    """Add the model to the canisters of one message, and usage and cost to the last of them."""
    found = list(canisters)
    known = model if isinstance(model, str) and model else None
    if known is not None:
        found = [_with_residue(canister, source, model=known) for canister in found]
    facts: dict[str, Any] = {}
    if usage is not None:
        facts["usage"] = {
            name: count
            for name in usage.__struct_fields__
            if (count := getattr(usage, name)) is not absent
        }
    if isinstance(cost, (int, float)) and not isinstance(cost, bool) and cost > 0:
        facts["cost"] = cost
    if facts and found:
        found[-1] = add_facts(found[-1], source, facts)
    return found


def add_facts(canister: AnyCanister, source: str, facts: dict[str, Any]) -> AnyCanister:
    """Add facts to a canister."""
    known = facts_of(canister)
    return _with_residue(canister, source, facts=write_json({**known, **facts}))


def with_fields(
    canisters: Iterable[AnyCanister], source: str, record: Any, *taken: str
) -> tuple[AnyCanister, ...]:
    """Add the fields of a record that were not taken to the first of its canisters."""
    found = tuple(canisters)
    rest = {key: value for key, value in record.items() if key not in taken and value not in _EMPTY}
    if not rest or not found:
        return found
    known = facts_of(found[0]).get("fields", {})
    return (add_facts(found[0], source, {"fields": {**known, **rest}}), *found[1:])


def nodes_with_fields(
    nodes: Iterable[Node], source: str, record: dict[str, Any], *taken: str
) -> tuple[Node, ...]:
    """Add the fields of a conversation's record that were not taken to its first message."""
    found = list(nodes)
    for number, node in enumerate(found):
        if node.canisters:
            said = with_fields(node.canisters, source, record, *taken)
            found[number] = node._replace(canisters=said)
            break
    return tuple(found)


def facts_of(canister: AnyCanister) -> dict[str, Any]:
    """The facts stored with a message: ``usage``, ``cost``, ``fields``, ``unknown`` records."""
    residue = canister.residue
    if residue is None or residue.facts is None:
        return {}
    found = decode_json(residue.facts)
    return found if isinstance(found, dict) else {}


def _with_residue(canister: AnyCanister, source: str, **fields: Any) -> AnyCanister:
    old = canister.residue or Residue(source)
    changed: AnyCanister = canister.replace(residue=msgspec.structs.replace(old, **fields))
    return changed
