"""Redacts conversations: every string of every canister, and of the metadata.

A canister is redacted in its portable JSON form, so that a new field is redacted by default. Unchanged are roles,
times, types, ids that link calls and results, images and sound. Residue is removed, except model and usage, because it
is a difference from the original text. Signatures are removed, because they would not match.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from cannery.backends import Metadata
from cannery.messages import AnyCanister, Conversation, Residue
from cannery.messages.json_text import write_json
from cannery.redaction.redactor import Redactor
from cannery.storage.portable import from_portable, portable

# Fields without text: kinds, times and links within the conversation.
_LINKS = frozenset(
    {"role", "type", "kind", "timestamp", "mime_type", "dialect", "tag", "joined", "rank"}
    | {"identifier", "invocation_id", "content_id", "size", "citable"}
)
_SEALED = ("signature", "encrypted")
_FACTS = ("usage", "cost")
_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "application/x-")


def redact_conversation(canisters: Iterable[AnyCanister], redactor: Redactor) -> Conversation:
    """Redact a conversation; hydrate it first."""
    return Conversation([_canister(canister, redactor) for canister in canisters])


def redact_metadata(metadata: Metadata, redactor: Redactor) -> Metadata:
    """Metadata with redacted titles and tags, and without the names of a scope and a session."""
    return msgspec.structs.replace(
        metadata,
        title=redactor.text(metadata.title),
        tags=tuple(map(redactor.text, metadata.tags)),
        model=None if metadata.model is None else redactor.text(metadata.model),
        other_titles=tuple(map(redactor.text, metadata.other_titles)),
        scope="",
        session="",
    )


def _canister(canister: AnyCanister, redactor: Redactor) -> AnyCanister:
    line = portable(canister)
    line.pop("residue", None)
    redacted = from_portable(_redacted(line, redactor))
    kept = _residue(canister.residue, redactor)
    return redacted if kept is None else redacted.replace(residue=kept)


def _residue(residue: Residue | None, redactor: Redactor) -> Residue | None:
    if residue is None:
        return None
    known = json.loads(residue.facts) if residue.facts else {}
    facts = {key: known[key] for key in _FACTS if key in known}
    if not facts and residue.model is None:
        return None
    model = None if residue.model is None else redactor.text(residue.model)
    return Residue(residue.dialect, model=model, facts=write_json(facts) if facts else None)


def _redacted(line: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in line.items():
        if name in _LINKS:
            found[name] = value
        elif name == "base64":
            found[name] = _payload(value, str(line.get("mime_type", "")), redactor)
        elif name == "arguments":
            found[name] = redactor.value(value)
        elif name in ("content", "origin", "location"):
            found[name] = _redacted(value, redactor) if isinstance(value, dict) else value
        elif name in ("parts", "chunks"):
            found[name] = [_redacted(each, redactor) for each in value]
        elif name not in _SEALED:
            found[name] = redactor.value(value)
    return _unsealed(found) if line.get("type") == "reasoning" else found


def _unsealed(content: dict[str, Any]) -> dict[str, Any]:
    if not content.get("texts") and not content.get("summaries"):
        content["summaries"] = ["[redacted:reasoning]"]
    return content


def _payload(text: str, mime_type: str, redactor: Redactor) -> str:
    """The base64 of a file: text is redacted inside, other data is unchanged."""
    if not mime_type.startswith(_TEXTS):
        return text
    try:
        said = base64.b64decode(text).decode()
    except (binascii.Error, ValueError, UnicodeDecodeError):
        return text
    redacted = redactor.text(said)
    return text if redacted == said else base64.b64encode(redacted.encode()).decode()
