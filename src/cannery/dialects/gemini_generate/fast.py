"""Plain conversations written straight to generateContent bodies; anything else is ``writing``'s."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from cannery.messages.absence import absent
from cannery.wire.bodies import encode
from cannery.wire.contract import Notes
from cannery.wire.plain import PlainRequest, alternating, split_system


class Text(Struct, frozen=True, gc=False):
    """A text part."""

    text: str


class UserContent(Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    """What the user says."""

    parts: tuple[Text]


class ModelContent(Struct, frozen=True, gc=False, tag_field="role", tag="model"):
    """What the model says."""

    parts: tuple[Text]


class Instruction(Struct, frozen=True, gc=False):
    """The system instruction."""

    parts: tuple[Text]


class GenerationConfig(Struct, frozen=True, gc=False):
    """The commonest settings."""

    maxOutputTokens: Any = UNSET  # noqa: N815 - the wire's spelling
    temperature: Any = UNSET
    topP: Any = UNSET  # noqa: N815 - the wire's spelling


class Body(Struct, frozen=True, gc=False):
    """A request."""

    contents: list[Any]
    systemInstruction: Any = UNSET  # noqa: N815 - the wire's spelling
    generationConfig: Any = UNSET  # noqa: N815 - the wire's spelling


def write_plain(request: PlainRequest, _notes: Notes) -> bytes | None:
    """The body of a plain request that needs no repair; None for any other."""
    given: Any = request
    split = split_system(request)
    temperature = given.temperature
    if split is None or (temperature is not absent and not 0 <= temperature <= 2):
        return None
    system, messages = split
    written = alternating(messages, _user, _model)
    if written is None:
        return None
    limit = given.limit if given.old_limit is absent else given.old_limit
    top_p = given.top_p
    config: Any = UNSET
    if not (limit is absent and temperature is absent and top_p is absent):
        config = GenerationConfig(
            UNSET if limit is absent else limit,
            UNSET if temperature is absent else temperature,
            UNSET if top_p is absent else top_p,
        )
    instruction = UNSET if system is absent else Instruction((Text(system),))
    return encode(Body(written, instruction, config))


def _user(text: str) -> UserContent:
    return UserContent((Text(text),))


def _model(text: str) -> ModelContent:
    return ModelContent((Text(text),))
