"""Requests and responses: a conversation with its settings and tools, and the model's answer.

Controls are settings that several providers have under different names; a setting of a single provider stays in the
residue. Calling a class checks its arguments; ``new_request`` and its siblings do not, for decoders.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cannery.errors import MessageError
from cannery.messages.absence import Absential, absent
from cannery.messages.canisters import AnyCanister
from cannery.messages.checked import (
    CheckedStruct,
    check_facts,
    check_flag,
    check_instance,
    check_items,
    check_name,
    check_number,
    check_text,
    check_whole,
    maker,
    with_fields,
)
from cannery.messages.conversation import Conversation, regrouped
from cannery.messages.immutable import freeze
from cannery.messages.json_text import is_json, is_json_object, read_json, write_json
from cannery.messages.protocols import Canister
from cannery.messages.residue import Residue

Check = Callable[[str, Any], Any]


def _instance(cls: type) -> Check:
    return lambda where, value: check_instance(where, value, cls)


def _word(*words: str) -> Check:
    def check(where: str, value: Any) -> str:
        if value not in words:
            raise MessageError(where, f"must be one of {', '.join(words)}, got {value!r}")
        return check_text(where, value)

    return check


def _optional(check: Check) -> Check:
    return lambda where, value: None if value is None else check(where, value)


def _conversation(where: str, value: Any) -> Conversation:
    if isinstance(value, Conversation):
        return value
    return Conversation(check_items(where, value))


def _texts(where: str, value: Any) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str) else check_items(where, value)
    return tuple(check_text(f"{where}[{index}]", item) for index, item in enumerate(items))


def _json_object(where: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return write_json(freeze(value, where), where)
    if not is_json_object(check_text(where, value)):
        raise MessageError(where, "not the text of a JSON object")
    return str(value)


def _json(where: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return write_json(freeze(value, where), where)
    if not is_json(check_text(where, value)):
        raise MessageError(where, "not JSON text")
    return str(value)


def _residue(where: str, value: Any) -> Residue | None:
    if value is not None:
        check_facts(where, check_instance(where, value, Residue))
    return value  # type: ignore[no-any-return]


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


class Tool(CheckedStruct, frozen=True, gc=False):
    """A tool that the model may call.

    ``schema`` is the JSON text of its parameters (a mapping is converted); a custom tool has a ``grammar`` (JSON text)
    or nothing instead; a hosted tool (``hosted`` is its JSON text) belongs to one provider.
    """

    name: str
    description: Absential[str] = absent
    schema: Absential[str] = absent
    strict: Absential[bool | None] = absent
    is_freeform: bool = False
    grammar: Absential[str] = absent
    hosted: Absential[str] = absent
    residue: Residue | None = None

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0917 - the fields by position
            self,
            name: str,
            description: Absential[str] = absent,
            schema: Absential[str | Mapping[str, Any]] = absent,
            strict: Absential[bool | None] = absent,
            is_freeform: bool = False,  # noqa: FBT001, FBT002 - the fields by position
            grammar: Absential[str | Mapping[str, Any]] = absent,
            hosted: Absential[str | Mapping[str, Any]] = absent,
            residue: Residue | None = None,
        ) -> None: ...

    checks: ClassVar[dict[str, Check]] = {
        "name": check_name,
        "description": check_text,
        "schema": _json_object,
        "strict": _optional(check_flag),
        "is_freeform": check_flag,
        "grammar": _json_object,
        "hosted": _json,
        "residue": _residue,
    }

    @property
    def parameters(self) -> Any:
        """The parameters' JSON schema, deeply immutable, or absent."""
        return absent if self.schema is absent else read_json(self.schema)


class ToolChoice(CheckedStruct, frozen=True, gc=False):
    """Which tools the model may or must call: auto, none, required, named or allowed.

    ``allowed`` lets the model choose among ``names``; ``must_call`` requires it to choose one.
    """

    mode: str
    names: tuple[str, ...] = ()
    must_call: bool = False
    is_freeform: bool = False

    if TYPE_CHECKING:

        def __init__(
            self,
            mode: str,
            names: str | Iterable[str] = (),
            must_call: bool = False,  # noqa: FBT001, FBT002 - the fields by position
            is_freeform: bool = False,  # noqa: FBT001, FBT002 - the same
        ) -> None: ...

    checks: ClassVar[dict[str, Check]] = {
        "mode": _word("auto", "none", "required", "named", "allowed"),
        "names": _texts,
        "must_call": check_flag,
        "is_freeform": check_flag,
    }

    @classmethod
    def _make(cls, *args: Any, **kwargs: Any) -> Any:
        made = super()._make(*args, **kwargs)
        count = len(made.names)
        if (made.mode == "named" and count != 1) or (made.mode == "allowed" and not count):
            expected = "one name" if made.mode == "named" else "names"
            raise MessageError("ToolChoice.names", f"{made.mode!r} needs {expected}, got {count}")
        return made


class OutputFormat(CheckedStruct, frozen=True, gc=False):
    """The format of the output: text, json, or schema (with the JSON text of the schema)."""

    kind: str
    schema: Absential[str] = absent
    name: Absential[str] = absent
    description: Absential[str] = absent
    strict: Absential[bool | None] = absent

    checks: ClassVar[dict[str, Check]] = {
        "kind": _word("text", "json", "schema"),
        "schema": _json_object,
        "name": check_text,
        "description": check_text,
        "strict": _optional(check_flag),
    }


class Thinking(CheckedStruct, frozen=True, gc=False):
    """The thinking setting: an ``effort`` word, a ``budget`` in tokens, or a plain switch.

    ``summary`` says whether and how thoughts are shown.
    """

    enabled: Absential[bool] = absent
    effort: Absential[str] = absent
    budget: Absential[int] = absent
    summary: Absential[str] = absent
    adaptive: bool = False

    checks: ClassVar[dict[str, Check]] = {
        "enabled": check_flag,
        "effort": check_text,
        "budget": check_whole,
        "summary": check_text,
        "adaptive": check_flag,
    }


class Controls(CheckedStruct, frozen=True, gc=False):
    """The settings that several providers have."""

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

    checks: ClassVar[dict[str, Check]] = {
        "max_tokens": check_whole,
        "temperature": check_number,
        "top_p": check_number,
        "top_k": check_whole,
        "stop": _texts,
        "seed": check_whole,
        "presence_penalty": check_number,
        "frequency_penalty": check_number,
        "candidates": check_whole,
        "parallel_calls": check_flag,
        "output": _instance(OutputFormat),
        "thinking": _instance(Thinking),
        "metadata": _json_object,
        "user": check_text,
        "include_usage": check_flag,
    }


DEFAULT_CONTROLS = Controls()


def _tools(where: str, value: Any) -> tuple[Tool, ...]:
    items = check_items(where, value)
    for index, item in enumerate(items):
        check_instance(f"{where}[{index}]", item, Tool)
    return items


class Request(CheckedStruct, frozen=True, gc=False):
    """A request of an application to a model; ``source`` names the dialect it was read from.

    ``replace`` keeps the residue, because it concerns the other fields. An edited conversation keeps its wire messages
    apart: a message without its first canister does not fall to its neighbour.
    """

    conversation: Conversation
    model: Absential[str] = absent
    tools: tuple[Tool, ...] = ()
    tool_choice: Absential[ToolChoice] = absent
    controls: Controls = DEFAULT_CONTROLS
    stream: Absential[bool] = absent
    residue: Residue | None = None
    source: str | None = None

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0917 - the same
            self,
            conversation: Iterable[Canister],
            model: Absential[str] = absent,
            tools: Iterable[Tool] = (),
            tool_choice: Absential[ToolChoice] = absent,
            controls: Controls = DEFAULT_CONTROLS,
            stream: Absential[bool] = absent,
            residue: Residue | None = None,
            source: str | None = None,
        ) -> None: ...

    checks: ClassVar[dict[str, Check]] = {
        "conversation": _conversation,
        "model": check_text,
        "tools": _tools,
        "tool_choice": _instance(ToolChoice),
        "controls": _instance(Controls),
        "stream": check_flag,
        "residue": _residue,
        "source": _optional(check_name),
    }

    def replace(self, **changes: Any) -> Self:
        """A new request with some facts changed; the others are kept."""
        if "conversation" in changes:
            edited = _conversation("Request.conversation", changes["conversation"])
            changes["conversation"] = regrouped(self.conversation, edited, self.source)
            if len(changes) == 1:
                return with_fields(self, changes)  # type: ignore[no-any-return]
        return super().replace(**changes)

    __replace__ = replace


class Usage(CheckedStruct, frozen=True, gc=False):
    """Tokens counted by the provider; ``input`` includes cache reads and writes."""

    input: int = 0
    output: int = 0
    cache_read: Absential[int] = absent
    cache_write: Absential[int] = absent
    reasoning: Absential[int] = absent

    checks: ClassVar[dict[str, Check]] = {
        "input": check_whole,
        "output": check_whole,
        "cache_read": check_whole,
        "cache_write": check_whole,
        "reasoning": check_whole,
    }

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


class Response(CheckedStruct, frozen=True, gc=False):
    """A model's answer; ``source`` names the dialect it was read from.

    ``created`` is the provider's time of the answer, in seconds since 1970.
    """

    canisters: Conversation
    finish: Absential[FinishReason] = absent
    usage: Absential[Usage] = absent
    model: Absential[str] = absent
    identifier: Absential[str] = absent
    stop_sequence: Absential[str] = absent
    residue: Residue | None = None
    source: str | None = None
    created: Absential[int] = absent

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913, PLR0917 - the same
            self,
            canisters: Iterable[Canister],
            finish: Absential[FinishReason] = absent,
            usage: Absential[Usage] = absent,
            model: Absential[str] = absent,
            identifier: Absential[str] = absent,
            stop_sequence: Absential[str] = absent,
            residue: Residue | None = None,
            source: str | None = None,
            created: Absential[int] = absent,
        ) -> None: ...

    def __iter__(self) -> Iterator[AnyCanister]:
        """Iterate over the canisters, so that an answer can be appended to a conversation."""
        return iter(self.canisters)

    checks: ClassVar[dict[str, Check]] = {
        "canisters": _conversation,
        "finish": _instance(FinishReason),
        "usage": _instance(Usage),
        "model": check_text,
        "identifier": check_text,
        "stop_sequence": check_text,
        "residue": _residue,
        "source": _optional(check_name),
        "created": check_whole,
    }


# Unchecked constructors for decoders: fields by position or by name.
new_tool = maker(Tool)
new_tool_choice = maker(ToolChoice)
new_output_format = maker(OutputFormat)
new_thinking = maker(Thinking)
new_controls = maker(Controls)
new_request = maker(Request)
new_usage = maker(Usage)
new_response = maker(Response)
