"""Role annotations that a provider expects on messages of the client vocabulary.

Each message is returned as a new dict with ``adaptedRole`` beside its own role. OpenAI and Anthropic keep every
message; Gemini has no system role, so its system messages are merged into one leading message. This layer only
annotates; nativizing builds a provider's wire and keeps late system messages in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from cannery.errors import RoleError
from cannery.roles.providers import normalize_provider
from cannery.roles.refusal import MISSING, refuse_role, show
from cannery.roles.vocabularies import CLIENT

Adapted = TypeVar("Adapted", bound=Mapping[str, Any])

SYSTEM_INSTRUCTION: Final = "system_instruction"
BETWEEN_SYSTEM_MESSAGES: Final = "\n\n"


def adapt_role_for_provider(
    messages: Iterable[Mapping[str, Any]], provider: str
) -> list[dict[str, Any]]:
    """Annotate each message with the provider's role; the inputs are not changed.

    ``provider`` is any provider or model name that ``normalize_provider`` accepts.
    """
    checked = _check_all(messages)
    if normalize_provider(provider) == "gemini":
        return _adapt_for_gemini(checked)
    return [{**message, "adaptedRole": message["role"]} for message in checked]


def extract_gemini_system_instructions(adapted: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the text of the system instructions among adapted messages, or None without any."""
    return _merge_text(filter(_is_instruction, adapted)) or None


def filter_out_system_instructions(adapted: Iterable[Adapted]) -> list[Adapted]:
    """Return the adapted messages that are turns, unchanged."""
    return [message for message in adapted if not _is_instruction(message)]


def _adapt_for_gemini(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    system = [message for message in messages if message["role"] == "system"]
    turns = [message for message in messages if message["role"] != "system"]
    adapted = [{**turn, "adaptedRole": _name_for_gemini(turn["role"])} for turn in turns]
    return [_merge_system(system), *adapted] if system else adapted


def _name_for_gemini(role: str) -> str:
    return "model" if role == "assistant" else role


def _merge_system(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One message for all; a field beside role and content is kept if all messages agree on it."""
    first, *others = messages
    agreed = {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in others)
    }
    merged = {"role": "system", "content": _merge_text(messages)}
    return {**agreed, **merged, "adaptedRole": SYSTEM_INSTRUCTION}


def _merge_text(messages: Iterable[Mapping[str, Any]]) -> str:
    texts = (_read_text(message.get("content")) for message in messages)
    return BETWEEN_SYSTEM_MESSAGES.join(filter(None, texts))


def _read_text(content: object) -> str:
    """The text of a string, of a part, or of a list of parts joined without a separator."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        text = content.get("text")
        return text if isinstance(text, str) else ""
    if isinstance(content, (list, tuple)):
        return "".join(_read_text(part) for part in content if not isinstance(part, (list, tuple)))
    return ""


def _is_instruction(message: Mapping[str, Any]) -> bool:
    return message.get("adaptedRole") == SYSTEM_INSTRUCTION


def _check_all(messages: object) -> list[Mapping[str, Any]]:
    if not isinstance(messages, Iterable) or isinstance(messages, (str, bytes, Mapping)):
        text = f"messages: must be a list of messages (received: {show(messages)})"
        raise RoleError(text, received=messages, path="messages")
    return [_check(message, index) for index, message in enumerate(messages)]


def _check(message: object, index: int) -> Mapping[str, Any]:
    path = f"messages.{index}"
    if not isinstance(message, Mapping):
        text = f"{path}: must be an object with a role (received: {show(message)})"
        raise RoleError(text, received=message, path=path)
    if not isinstance(message.get("role"), str):
        groups = [(spelling,) for spelling in CLIENT.spellings]
        role = message.get("role", MISSING)
        raise refuse_role(role, groups, path=f"{path}.role", is_exact=True)
    return message
