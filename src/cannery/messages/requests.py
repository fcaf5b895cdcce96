"""Requests and responses: a conversation and what is asked for around it.

Controls are what several providers have under different names; what only one has stays in the residue.
"""

from __future__ import annotations

import enum
from typing import Any

from msgspec import Struct

from cannery.messages.absence import Absential, absent
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import read_json
from cannery.messages.residue import Residue


class FinishReason(enum.Enum):
    """Why the model stopped."""

    Stop = "stop"
    Length = "length"
    Tool = "tool"
    StopSequence = "stop_sequence"
    Refusal = "refusal"
    Filter = "filter"
    Pause = "pause"
    ContextWindow = "context_window"
    Malformed = "malformed"
    Error = "error"
    Other = "other"


class Tool(Struct, frozen=True, gc=False):
    """A tool that the model may call.

    ``schema`` is the JSON text of its parameters; a custom tool has a ``grammar`` (JSON text) or nothing instead; a hosted
    tool (``hosted`` is its JSON text) belongs to one provider.
    """

    name: str
    description: Absential[str] = absent
    schema: Absential[str] = absent
    strict: Absential[bool | None] = absent
    is_freeform: bool = False
    grammar: Absential[str] = absent
    hosted: Absential[str] = absent
    residue: Residue | None = None

    @property
    def parameters(self) -> Any:
        """The parameters' JSON schema, deeply immutable, or absent."""
        return absent if self.schema is absent else read_json(self.schema)


class ToolChoice(Struct, frozen=True, gc=False):
    """Which tools the model may or must call: ``auto``, ``none``, ``required``, ``named`` or ``allowed``.

    ``allowed`` lets the model choose among ``names``; ``must_call`` says that it has to choose one.
    """

    mode: str
    names: tuple[str, ...] = ()
    must_call: bool = False
    is_freeform: bool = False


class OutputFormat(Struct, frozen=True, gc=False):
    """The shape of the answer: ``text``, ``json`` or ``schema`` (with the JSON text of the schema)."""

    kind: str
    schema: Absential[str] = absent
    name: Absential[str] = absent
    description: Absential[str] = absent
    strict: Absential[bool | None] = absent


class Thinking(Struct, frozen=True, gc=False):
    """How much the model may think: an ``effort`` word, a ``budget`` in tokens, or a plain switch.

    ``summary`` says whether and how thoughts are shown.
    """

    enabled: Absential[bool] = absent
    effort: Absential[str] = absent
    budget: Absential[int] = absent
    summary: Absential[str] = absent
    adaptive: bool = False


class Controls(Struct, frozen=True, gc=False):
    """The knobs that several providers have."""

    max_tokens: Absential[int] = absent
    temperature: Absential[float] = absent
    top_p: Absential[float] = absent
    top_k: Absential[int] = absent
    stop: Absential[tuple[str, ...]] = absent
    seed: Absential[int] = absent
    presence_penalty: Absential[float] = absent
    frequency_penalty: Absential[float] = absent
    candidates: Absential[int] = absent
    parallel_calls: Absential[bool] = absent
    output: Absential[OutputFormat] = absent
    thinking: Absential[Thinking] = absent
    metadata: Absential[str] = absent
    user: Absential[str] = absent
    include_usage: Absential[bool] = absent


DEFAULT_CONTROLS = Controls()


class Request(Struct, frozen=True, gc=False):
    """What an application asks of a model."""

    conversation: Conversation
    model: Absential[str] = absent
    tools: tuple[Tool, ...] = ()
    tool_choice: Absential[ToolChoice] = absent
    controls: Controls = DEFAULT_CONTROLS
    stream: Absential[bool] = absent
    residue: Residue | None = None

    def replace(self, **changes: Any) -> Request:
        """A new request with some facts changed; residue stays, since it is about the rest."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        if "conversation" in changes:
            changes["conversation"] = Conversation(changes["conversation"])
        return Request(**{**fields, **changes})


class Usage(Struct, frozen=True, gc=False):
    """Tokens counted by the provider; ``input`` includes what was read from or written to a cache."""

    input: int = 0
    output: int = 0
    cache_read: Absential[int] = absent
    cache_write: Absential[int] = absent
    reasoning: Absential[int] = absent

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


class Response(Struct, frozen=True, gc=False):
    """What a model answered."""

    canisters: Conversation
    finish: Absential[FinishReason] = absent
    usage: Absential[Usage] = absent
    model: Absential[str] = absent
    identifier: Absential[str] = absent
    stop_sequence: Absential[str] = absent
    residue: Residue | None = None

    def replace(self, **changes: Any) -> Response:
        """A new response with some facts changed."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        if "canisters" in changes:
            changes["canisters"] = Conversation(changes["canisters"])
        return Response(**{**fields, **changes})
