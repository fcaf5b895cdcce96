"""The JSON shapes of a line (section 3 of ``docs/storage-format.md``), as msgspec reads and writes them.

One struct per role and per content type, distinguished by ``role`` and ``type`` while they are decoded: a line costs
only the members that its own kind has.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias, Union

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.messages import Citation, Location, Origin, Residue


class Reference(Struct, gc=False, frozen=True):
    """A long string that is kept in the content store."""

    content_id: str
    size: int


LongText: TypeAlias = str | Reference


class _ContentShape(Struct, omit_defaults=True, gc=False, tag_field="type"):
    """The base of all content shapes."""


class TextShape(_ContentShape, tag="text"):
    """Text, here or in the content store."""

    text: str | UnsetType = UNSET
    content_id: str | UnsetType = UNSET
    size: int = -1
    mime_type: str | UnsetType = UNSET
    citations: tuple[Citation, ...] = ()


class BinaryShape(_ContentShape):
    """What images, audio, video and files share."""

    content_id: str | UnsetType = UNSET
    size: int = -1
    mime_type: str | UnsetType = UNSET
    location: Location | UnsetType = UNSET
    base64: LongText | UnsetType = UNSET
    spelling: str | UnsetType = UNSET


class ImageShape(BinaryShape, tag="image"):
    """An image."""


class AudioShape(BinaryShape, tag="audio"):
    """A recording."""


class VideoShape(BinaryShape, tag="video"):
    """A video."""


class FileShape(BinaryShape, tag="file"):
    """A file."""

    name: str | UnsetType = UNSET
    context: LongText | UnsetType = UNSET
    citable: bool | UnsetType = UNSET
    chunks: list[ContentShape] | UnsetType = UNSET


class ReasoningShape(_ContentShape, tag="reasoning"):
    """Reasoning."""

    texts: tuple[LongText, ...] = ()
    summaries: tuple[LongText, ...] = ()
    signature: LongText | UnsetType = UNSET
    encrypted: LongText | UnsetType = UNSET
    origin: Origin | UnsetType = UNSET


class RefusalShape(_ContentShape, tag="refusal"):
    """A refusal."""

    text: str | UnsetType = UNSET
    content_id: str | UnsetType = UNSET
    size: int = -1


class DataShape(_ContentShape, tag="data"):
    """JSON."""

    json: LongText | UnsetType = UNSET


class OpaqueShape(_ContentShape, tag="opaque"):
    """A block that only its own dialect understands."""

    dialect: str | UnsetType = UNSET
    tag: str | UnsetType = UNSET
    json: LongText | UnsetType = UNSET


class PartsShape(_ContentShape, tag="parts"):
    """Several contents in place of one."""

    parts: list[ContentShape]


ContentShape: TypeAlias = Union[  # noqa: UP007 - the names above refer to it before it is there
    TextShape,
    ImageShape,
    AudioShape,
    VideoShape,
    FileShape,
    ReasoningShape,
    RefusalShape,
    DataShape,
    OpaqueShape,
    PartsShape,
]


class TurnShape(Struct, omit_defaults=True, gc=False):
    """The facts of the exchange that a line begins.

    ``setup`` has lines of canisters, ``tools`` and ``settings`` are JSON.
    """

    request: str = ""
    why: str = ""
    model: str = ""
    setup: list[Raw] | UnsetType = UNSET
    tools: Reference | UnsetType = UNSET
    settings: LongText | UnsetType = UNSET


class TurnLine(Struct):
    """The exchange facts in a line."""

    turn: TurnShape


class _LineShape(Struct, omit_defaults=True, gc=False, tag_field="role"):
    """The base of all line shapes; members are in the order in which they are written."""


class UserShape(_LineShape, tag="user"):
    """A user message."""

    content: ContentShape | list[ContentShape]
    timestamp: datetime | UnsetType = UNSET
    joined: bool = False
    residue: Residue | UnsetType = UNSET
    residue_id: str = ""
    turn: TurnShape | UnsetType = UNSET


class AssistantShape(_LineShape, tag="assistant"):
    """A message of the assistant, possibly without content."""

    content: ContentShape | list[ContentShape] | UnsetType | None = UNSET
    timestamp: datetime | UnsetType = UNSET
    joined: bool = False
    residue: Residue | UnsetType = UNSET
    residue_id: str = ""
    turn: TurnShape | UnsetType = UNSET


class SupervisorShape(_LineShape, tag="supervisor"):
    """An instruction."""

    content: ContentShape | list[ContentShape]
    rank: str | UnsetType = UNSET
    timestamp: datetime | UnsetType = UNSET
    joined: bool = False
    residue: Residue | UnsetType = UNSET
    residue_id: str = ""
    turn: TurnShape | UnsetType = UNSET


class DocumentShape(_LineShape, tag="document"):
    """Supplemental information."""

    content: ContentShape | list[ContentShape]
    title: str | UnsetType = UNSET
    timestamp: datetime | UnsetType = UNSET
    joined: bool = False
    residue: Residue | UnsetType = UNSET
    residue_id: str = ""
    turn: TurnShape | UnsetType = UNSET


class InvocationShape(_LineShape, tag="invocation"):
    """A call."""

    identifier: str = ""
    name: str = ""
    arguments: Raw = Raw()
    arguments_id: str = ""
    freeform: bool = False
    timestamp: datetime | UnsetType = UNSET
    joined: bool = False
    residue: Residue | UnsetType = UNSET
    residue_id: str = ""
    turn: TurnShape | UnsetType = UNSET


class ResultShape(_LineShape, tag="result"):
    """The result of a call."""

    content: ContentShape | list[ContentShape]
    invocation_id: str = ""
    error: str | Literal[True] | UnsetType = UNSET
    timestamp: datetime | UnsetType = UNSET
    joined: bool = False
    residue: Residue | UnsetType = UNSET
    residue_id: str = ""
    turn: TurnShape | UnsetType = UNSET


LineShape: TypeAlias = (
    UserShape | AssistantShape | SupervisorShape | DocumentShape | InvocationShape | ResultShape
)

encode_line = msgspec.json.Encoder().encode
decode_turn = msgspec.json.Decoder(TurnLine).decode
decode_line = msgspec.json.Decoder(LineShape).decode
encode_residue = msgspec.json.Encoder().encode
decode_residue = msgspec.json.Decoder(Residue).decode
