"""Which of three providers a model or provider name belongs to, for the shape of its messages.

The name is split into words. The model family decides first, because one host serves many families; then the maker or
service; otherwise the answer is ``openai``, because servers without a shape of their own copy OpenAI's.
``explain_provider`` returns the rule that decided and whether it was only that fallback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from cannery.errors import InputError
from cannery.roles.refusal import show

ProviderType = Literal["openai", "gemini", "anthropic"]

FAMILIES: Mapping[str, ProviderType] = {
    "gpt": "openai",
    "chatgpt": "openai",
    "codex": "openai",
    "davinci": "openai",
    "babbage": "openai",
    "gemini": "gemini",
    "learnlm": "gemini",
    "palm": "gemini",
    "bison": "gemini",
    "bard": "gemini",
    "claude": "anthropic",
}
"""Model families with a provider of their own, beside OpenAI's o-series."""

SERVICES: Mapping[str, ProviderType] = {
    "openai": "openai",
    "azure": "openai",
    "google": "gemini",
    "googleai": "gemini",
    "vertex": "gemini",
    "vertexai": "gemini",
    "anthropic": "anthropic",
}
"""Makers and services, for names without a known family."""

OPENAI_SHAPED = frozenset(
    """
    arctic aya baichuan codellama codestral command dbrx deepseek devstral doubao ernie falcon
    glm chatglm granite grok hermes hunyuan internlm jamba kimi llama magistral mercury minimax
    ministral mistral mixtral moonshot nemotron nova olmo palmyra phi pixtral qwen qwq reka solar
    sonar starcoder titan vicuna wizardlm yi zephyr
    """.split()  # noqa: SIM905  a list of fifty literals hides the names
)
"""Families that are served in the OpenAI shape (or have no provider here)."""

OPEN_WEIGHTS = frozenset({"gemma"})
"""Families for which a named service decides; without one they run on OpenAI-shaped servers."""

GEMINI_RESOURCES = ("models/", "tunedmodels/")
"""The prefixes of a model's resource name in the Gemini API."""

_WORD_BREAKS = re.compile(r"[^a-z0-9]+")
_O_SERIES = re.compile(r"(?:^|[/:.])o\d+(?![a-z0-9])")
_FAMILY = re.compile(r"([a-z]+)(\d\w*)?")


class ProviderMatch(NamedTuple):
    """Which provider a name belongs to, and why."""

    name: str
    provider: ProviderType
    reason: str
    is_fallback: bool


def normalize_provider(name: str) -> ProviderType:
    """Return the provider whose message shape a model or provider name requires."""
    return explain_provider(name).provider


def explain_provider(name: str) -> ProviderMatch:
    """Return the provider of a name, the rule that decided, and whether it is a fallback."""
    if not isinstance(name, str):
        raise InputError(f"a provider or model name must be text (received: {show(name)})")
    lowered = name.strip().lower()
    words = [word for word in _WORD_BREAKS.split(lowered) if word]
    return (
        _match_family(name, lowered, words)
        or _match_service(name, lowered, words)
        or _fall_back(name, words)
    )


def _match_family(name: str, lowered: str, words: list[str]) -> ProviderMatch | None:
    """The first word that is a known family decides: later ones name a fine-tune or a copy."""
    if _O_SERIES.search(lowered):
        reason = "the o-series is a model family of openai"
        return ProviderMatch(name, "openai", reason, is_fallback=False)
    for word in words:
        family = _name_family(word)
        if family in OPENAI_SHAPED:
            reason = f'"{family}" models are reached through servers that speak the OpenAI shape'
            return ProviderMatch(name, "openai", reason, is_fallback=True)
        if family in FAMILIES:
            provider = FAMILIES[family]
            reason = f'"{family}" is a model family of {provider}'
            return ProviderMatch(name, provider, reason, is_fallback=False)
    return None


def _match_service(name: str, lowered: str, words: list[str]) -> ProviderMatch | None:
    """The last named service decides: the ones before it only forward the request."""
    for word in reversed(words):
        if word in SERVICES:
            provider = SERVICES[word]
            reason = f'"{word}" is a service that speaks the {provider} shape'
            return ProviderMatch(name, provider, reason, is_fallback=False)
    if lowered.startswith(GEMINI_RESOURCES):
        reason = "resource names of the Gemini API begin like this"
        return ProviderMatch(name, "gemini", reason, is_fallback=False)
    return None


def _fall_back(name: str, words: list[str]) -> ProviderMatch:
    known = next((family for family in map(_name_family, words) if family in OPEN_WEIGHTS), None)
    reason = (
        f'"{known}" is served by others than its maker, and they speak the OpenAI shape'
        if known
        else "no word of the name is known, and most servers speak the OpenAI shape"
    )
    return ProviderMatch(name, "openai", reason, is_fallback=True)


def _name_family(word: str) -> str:
    match = _FAMILY.fullmatch(word)
    return match[1] if match else ""
