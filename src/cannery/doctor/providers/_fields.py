"""The top-level fields of the providers' APIs; their servers refuse any other field.

The names are those of the official SDKs' types, with older ones that the servers still accept. Other servers of a
dialect accept fields of their own, so a body is checked only if it names a model of the provider. A field that is in no
list may be newer than the list: that is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches

from cannery.doctor.contract import Broken, Object
from cannery.wire.places import Path

CHAT = frozenset(
    [
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    ]
)
RESPONSES = frozenset(
    [
        "access_programs",
        "background",
        "context_management",
        "conversation",
        "image",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ]
)
# Two of them are headers elsewhere, and body fields on Bedrock and Vertex.
ANTHROPIC = frozenset(
    [
        "anthropic_beta",
        "anthropic_version",
        "billing_policy",
        "cache_control",
        "compaction",
        "container",
        "context_management",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "thread",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user_profile_id",
        "workspace_id",
    ]
)
# The last two are Vertex's.
GEMINI = frozenset(
    [
        "cachedContent",
        "contents",
        "generationConfig",
        "model",
        "safetySettings",
        "serviceTier",
        "store",
        "systemInstruction",
        "toolConfig",
        "tools",
        "labels",
        "modelArmorConfig",
    ]
)
GENERATION = frozenset(
    [
        "audioTimestamp",
        "audioTranscriptionConfig",
        "candidateCount",
        "enableAffectiveDialog",
        "enableEnhancedCivicAnswers",
        "frequencyPenalty",
        "imageConfig",
        "logprobs",
        "maxOutputTokens",
        "mediaResolution",
        "modelSelectionConfig",
        "presencePenalty",
        "responseFormat",
        "responseJsonSchema",
        "responseLogprobs",
        "responseMimeType",
        "responseModalities",
        "responseSchema",
        "routingConfig",
        "seed",
        "speechConfig",
        "stopSequences",
        "temperature",
        "thinkingConfig",
        "topK",
        "topP",
        "translationConfig",
    ]
)


MISTRAL = frozenset(
    [
        "frequency_penalty",
        "guardrails",
        "logprobs",
        "max_tokens",
        "messages",
        "metadata",
        "min_tokens",
        "model",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_logprobs",
        "prompt_mode",
        "random_seed",
        "reasoning_effort",
        "repetition_penalty",
        "response_format",
        "safe_prompt",
        "service_tier",
        "stop",
        "stream",
        "temperature",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
        "top_prompt_logprobs",
    ]
)
COHERE = frozenset(
    [
        "citation_options",
        "documents",
        "frequency_penalty",
        "k",
        "logprobs",
        "max_tokens",
        "messages",
        "model",
        "p",
        "presence_penalty",
        "priority",
        "raw_prompting",
        "response_format",
        "safety_mode",
        "seed",
        "stop_sequences",
        "stream",
        "strict_tools",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
    ]
)
BEDROCK = frozenset(
    [
        "additionalModelRequestFields",
        "additionalModelResponseFieldPaths",
        "guardrailConfig",
        "inferenceConfig",
        "messages",
        "modelId",
        "outputConfig",
        "performanceConfig",
        "promptVariables",
        "requestMetadata",
        "serviceTier",
        "system",
        "toolConfig",
    ]
)
_ALL = CHAT | RESPONSES | ANTHROPIC | GEMINI | GENERATION | MISTRAL | COHERE | BEDROCK

Fields = Callable[[Object, frozenset[str], Path], Iterator[Broken]]


def foreign_fields(holder: Object, known: frozenset[str], path: Path) -> Iterator[Broken]:
    """Fields of an object that only another provider's API has."""
    for key in holder:
        if key not in known and key in _ALL:
            yield (*path, key), f"the API has no field {key!r}; another provider's has"


def unknown_fields(holder: Object, known: frozenset[str], path: Path) -> Iterator[Broken]:
    """Fields of an object that no known API has, with the most similar known field."""
    for key in holder:
        if key not in known and key not in _ALL:
            near = get_close_matches(key, known, 1, 0.75)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield (*path, key), f"the API has no known field {key!r}{meant}"
