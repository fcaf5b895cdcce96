"""A model or provider name leads to one of three providers, and it is said why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import InputError
from cannery.roles import explain_provider, normalize_provider
from cannery.roles.providers import FAMILIES, OPEN_WEIGHTS, OPENAI_SHAPED, SERVICES

RECOGNISED = {
    "openai": [
        *("gpt-4o-mini", "gpt-4o", "GPT-4", "gpt-3.5-turbo", "gpt4", "gpt-oss-120b", " gpt-5 "),
        *("o1", "o1-preview", "o3", "o3-mini", "o4-mini", "openai/o1", "azure/o3-mini"),
        *("chatgpt-4o-latest", "codex-mini-latest", "text-davinci-003", "babbage-002"),
        *("openai", "OpenAI", "azure", "azure/my-deployment", "azure_openai", "openai/anything"),
        *("azure/gpt-4o", "openrouter/openai/gpt-4o", "ft:gpt-4o:my-org:claude:x", "openai_chat"),
        *("groq/openai/gpt-oss-20b", "databricks-gpt-5"),
    ],
    "gemini": [
        *("gemini-1.5-flash", "gemini", "GEMINI-2.5-PRO", "gemini/gemini-pro", "learnlm-1.5-pro"),
        *("models/gemini-1.5-pro", "google/gemini-2.5-flash", "vertex_ai/gemini-2.0-flash"),
        *("openrouter/google/gemini-pro-1.5:free", "palm-2", "google/palm-2", "chat-bison@001"),
        *("google", "Google", "vertex_ai", "vertexai", "google_genai", "google/gemma-2-9b-it"),
        *("models/gemma-3-27b-it", "tunedModels/my-model-x1", "gemini_generate"),
        "projects/p/locations/l/publishers/google/models/gemini-2.5-pro",
    ],
    "anthropic": [
        *("claude-3-haiku", "claude", "Claude-3.5-Sonnet", "claude-instant-1.2", "claude2"),
        *("anthropic", "anthropic/claude", "anthropic/claude-3-opus", "anthropic_messages"),
        *("anthropic.claude-3-5-sonnet-20240620-v1:0", "us.anthropic.claude-sonnet-4"),
        *("bedrock/eu.anthropic.claude-3-haiku", "vertex_ai/claude-3-5-sonnet@20240620"),
        *("openrouter/anthropic/claude-3.5-sonnet:beta", "databricks-claude-3-7-sonnet"),
        *("google-vertex-anthropic", "anthropic.something-new"),
        "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-v2",
    ],
}
FALLS_BACK = [
    *("mistral-large-latest", "mistral", "open-mixtral-8x22b", "codestral", "ministral-8b"),
    *("command-r-plus", "cohere.command-r-v1:0", "c4ai-aya-expanse", "llama-3.1-70b", "llama3:8b"),
    *("us.meta.llama3-1-70b-instruct-v1:0", "groq/llama-3.3-70b-versatile", "qwen2.5-coder"),
    *("qwq-32b", "deepseek-chat", "deepseek-r1-distill-llama-70b", "grok-2", "phi3", "yi-34b"),
    *("amazon.nova-pro-v1:0", "vertex_ai/mistral-large", "sonar-pro", "kimi-k2", "glm-4.5"),
    *("gemma2:9b", "gemma-3-27b-it", "palmyra-x5", "llama-3-gemini-distill"),
    *("marco-o1", "my-model", "", "   ", "日本語", "accounts/fireworks/models/foo", "o", "echo"),
]


@pytest.mark.parametrize(
    "name, provider",
    [(name, provider) for provider, names in RECOGNISED.items() for name in names],
)
def test_recognised_name(name, provider):
    match = explain_provider(name)

    assert normalize_provider(name) == provider
    assert match.provider == provider
    assert match.name == name
    assert not match.is_fallback
    assert match.reason


@pytest.mark.parametrize("name", FALLS_BACK)
def test_other_names_fall_back_to_the_openai_shape(name):
    match = explain_provider(name)

    assert normalize_provider(name) == "openai"
    assert match.is_fallback
    assert "OpenAI shape" in match.reason


@pytest.mark.parametrize(
    "name, reason",
    [
        ("claude-3-haiku", '"claude" is a model family of anthropic'),
        ("o3-mini", "the o-series is a model family of openai"),
        ("azure/mine", '"azure" is a service that speaks the openai shape'),
        ("models/gemma-3", "resource names of the Gemini API begin like this"),
        (
            "llama3",
            '"llama" models are reached through servers that speak the OpenAI shape',
        ),
        ("gemma2", '"gemma" is served by others than its maker, and they speak the OpenAI shape'),
        ("mine", "no word of the name is known, and most servers speak the OpenAI shape"),
    ],
)
def test_reason(name, reason):
    assert explain_provider(name).reason == reason


@given(st.text())
def test_every_name_has_a_provider(name):
    assert normalize_provider(name) in {"openai", "gemini", "anthropic"}
    assert normalize_provider(f" {name.upper()} ") in {"openai", "gemini", "anthropic"}


@pytest.mark.parametrize("name", [None, 5, ["gpt-4"], b"gpt-4"])
def test_what_is_no_text_is_refused(name):
    with pytest.raises(InputError, match="must be text"):
        normalize_provider(name)


def test_no_word_has_two_meanings():
    tables = [set(FAMILIES), set(SERVICES), set(OPENAI_SHAPED), set(OPEN_WEIGHTS)]

    assert sum(map(len, tables)) == len(set().union(*tables))
