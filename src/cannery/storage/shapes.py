"""The JSON shapes of a line (section 3 of ``docs/storage-format.md``), as msgspec reads and writes them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.messages import Citation, Location, Origin, Residue


class Reference(Struct, gc=False, frozen=True):
    """A long string that is kept in the content store."""

    content_id: str
    size: int


LongText: TypeAlias = str | Reference


class ContentShape(Struct, omit_defaults=True, gc=False):
    """Any content; which members it has depends on its type."""

    type: str
    text: str | UnsetType = UNSET
    content_id: str | UnsetType = UNSET
    size: int = -1
    mime_type: str | UnsetType = UNSET
    citations: tuple[Citation, ...] = ()
    location: Location | UnsetType = UNSET
    base64: LongText | UnsetType = UNSET
    spelling: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    context: LongText | UnsetType = UNSET
    citable: bool | UnsetType = UNSET
    chunks: list[ContentShape] | UnsetType = UNSET
    texts: tuple[LongText, ...] = ()
    summaries: tuple[LongText, ...] = ()
    signature: LongText | UnsetType = UNSET
    encrypted: LongText | UnsetType = UNSET
    origin: Origin | UnsetType = UNSET
    dialect: str | UnsetType = UNSET
    tag: str | UnsetType = UNSET
    json: LongText | UnsetType = UNSET
    parts: list[ContentShape] | UnsetType = UNSET


class LineShape(Struct, omit_defaults=True, gc=False):
    """Any canister; which members it has depends on its role."""

    role: str
    content: ContentShape | list[ContentShape] | UnsetType | None = UNSET
    identifier: str = ""
    name: str = ""
    arguments: Raw = Raw()
    arguments_id: str = ""
    freeform: bool = False
    invocation_id: str = ""
    error: str | Literal[True] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    rank: str | UnsetType = UNSET
    timestamp: datetime | UnsetType = UNSET
    joined: bool = False
    residue: Residue | UnsetType = UNSET
    residue_id: str = ""


encode_line = msgspec.json.Encoder().encode
decode_line = msgspec.json.Decoder(LineShape).decode
encode_residue = msgspec.json.Encoder().encode
decode_residue = msgspec.json.Decoder(Residue).decode
