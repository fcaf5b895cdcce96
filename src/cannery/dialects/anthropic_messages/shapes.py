"""The common shapes of a Messages request, as a decoder takes them.

Blocks are canisters already: their classes differ from the public ones only in what the wire calls the fields, and in
the cache mark, which ``fast_reading`` turns into residue. Anything else in a body is refused.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
)
from cannery.messages.hidden import Hidden, hidden
from cannery.wire.plain import SPOKEN_NAMES, SUPERVISOR_NAMES
from cannery.wire.received import RECEIVED

_TEXT_NAMES = {**SPOKEN_NAMES, "held": "text"}


class Never(Struct, frozen=True, gc=False, tag="never"):
    """No block: a decoder insists on a tag only where it has a choice, and nothing can be this one."""

    nothing: Hidden[None]


class UserText(
    UserCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="text",
    rename=_TEXT_NAMES,
):
    """A text block of the user; a canister already unless it is marked."""

    held: str
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    cache_control: Raw | UnsetType = UNSET


class AssistantText(
    AssistantCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="text",
    rename=_TEXT_NAMES,
):
    """A text block of the assistant; a canister already unless it is marked."""

    held: str
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    cache_control: Raw | UnsetType = UNSET
    citations: UnsetType | None = UNSET


class SystemText(
    SupervisorCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="text",
    rename={**SUPERVISOR_NAMES, "held": "text"},
):
    """A text block of the system field; a canister already unless it is marked."""

    held: str
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    rank: Hidden[Any] = "system"
    cache_control: Raw | UnsetType = UNSET


class ToolUse(
    InvocationCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="tool_use",
    rename={
        "held": "input",
        **hidden("timestamp", "joined"),
        "identifier": "id",
        "name": "name",
    },
):
    """A call; a canister as soon as its input, a JSON object that is not decoded, is text."""

    held: Raw
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    joined: Hidden[bool] = True
    identifier: str = ""
    name: str = ""
    cache_control: Raw | UnsetType = UNSET


class Thinking(Struct, frozen=True, gc=False, tag="thinking", forbid_unknown_fields=True):
    """A signed thought."""

    thinking: str
    signature: str | UnsetType = UNSET


class RedactedThinking(
    Struct, frozen=True, gc=False, tag="redacted_thinking", forbid_unknown_fields=True
):
    """A thought that only its maker can read."""

    data: str


class ImageSource(Struct, frozen=True, gc=False, tag="base64", forbid_unknown_fields=True):
    """Inline bytes of an image."""

    media_type: str
    data: str


class UrlSource(Struct, frozen=True, gc=False, tag="url", forbid_unknown_fields=True):
    """Where an image is."""

    url: str


class Image(Struct, frozen=True, gc=False, tag="image", forbid_unknown_fields=True):
    """An image block."""

    source: ImageSource | UrlSource
    cache_control: Raw | UnsetType = UNSET


class PartText(Struct, frozen=True, gc=False, tag="text", forbid_unknown_fields=True):
    """A text block of a result."""

    text: str


class PartImage(Struct, frozen=True, gc=False, tag="image", forbid_unknown_fields=True):
    """An image block of a result."""

    source: ImageSource | UrlSource


class ToolResult(
    ResultCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="tool_result",
    rename={
        "held": "content",
        **hidden("timestamp"),
        "invocation_id": "tool_use_id",
        "_error": "is_error",
    },
):
    """The answer to a call; a canister already when it is unmarked text."""

    held: str | list[PartText | PartImage]
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    invocation_id: str = ""
    _error: bool = absent  # type: ignore[assignment]
    cache_control: Raw | UnsetType = UNSET


class User(
    UserCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="user",
    rename=SPOKEN_NAMES,
):
    """A user message; a canister already when its content is a string."""

    held: str | list[UserText | Image | ToolResult]
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)


class Assistant(
    AssistantCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="assistant",
    rename=SPOKEN_NAMES,
):
    """An assistant message; a canister already when its content is a string."""

    held: str | list[AssistantText | ToolUse | Thinking | RedactedThinking]
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)


class ToolDefinition(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A tool of the client."""

    name: str
    input_schema: dict[str, Any]
    description: str = absent  # type: ignore[assignment]
    strict: bool = absent  # type: ignore[assignment]
    type: Literal["custom"] | UnsetType = UNSET
    cache_control: Raw | UnsetType = UNSET


class Choice(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Which tools the model may or must call."""

    type: Literal["auto", "any", "none", "tool"]
    name: str | UnsetType = UNSET
    disable_parallel_tool_use: bool = absent  # type: ignore[assignment]


class Metadata(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Who asks."""

    user_id: str


class Thought(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Whether and how much the model thinks."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int = absent  # type: ignore[assignment]
    display: str = absent  # type: ignore[assignment]


class Output(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """How hard the model tries."""

    effort: str


class Settings(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The common fields of a request beside system and messages; absent unless given."""

    model: str = absent  # type: ignore[assignment]
    max_tokens: int = absent  # type: ignore[assignment]
    temperature: int | float = absent  # type: ignore[assignment]
    top_p: int | float = absent  # type: ignore[assignment]
    top_k: int = absent  # type: ignore[assignment]
    stop_sequences: list[str] = absent  # type: ignore[assignment]
    stream: bool = absent  # type: ignore[assignment]
    tools: list[ToolDefinition] = absent  # type: ignore[assignment]
    tool_choice: Choice = absent  # type: ignore[assignment]
    metadata: Metadata = absent  # type: ignore[assignment]
    thinking: Thought = absent  # type: ignore[assignment]
    output_config: Output = absent  # type: ignore[assignment]


class Body(Settings, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """A request of common shape."""

    messages: list[User | Assistant]
    system: str | list[SystemText | Never] = absent  # type: ignore[assignment]


class Slice(Struct, frozen=True, gc=False):
    """Any block, of which only the input is looked at."""

    input: Raw | UnsetType = UNSET


class Slices(Struct, frozen=True, gc=False):
    """Any message of blocks."""

    content: list[Slice]


class AnyBlock(Struct, frozen=True, gc=False):
    """A block, whatever it holds."""

    type: str = ""


class AnyMessage(Struct, frozen=True, gc=False):
    """A message, whatever stands beside its content."""

    role: Literal["user", "assistant", "system"]
    content: str | list[AnyBlock]


class AnyBody(Struct, frozen=True, gc=False):
    """A request, whatever its settings."""

    messages: list[AnyMessage]
    system: str | list[AnyBlock] | None = None
