"""Gemini generateContent (``POST /v1beta/models/{model}:generateContent``).

Oddities: the model and the choice to stream are in the URL; keys come in camelCase and snake_case, mixed; calls often
have no id and results find them by name and order; any part may carry a ``thoughtSignature`` that Gemini 3 requires;
the system instruction is one field. Written against the types of google-genai 3.1.0 (2026-11-15).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from cannery.dialects.gemini_generate.forms import NAME, camel, read_form, snake
from cannery.dialects.gemini_generate.hosted import HOSTED
from cannery.dialects.gemini_generate.reading import read_request
from cannery.dialects.gemini_generate.responses import COUNTS, read_response, write_response
from cannery.dialects.gemini_generate.settings import (
    MODELLED_ANSWER,
    TABLE,
    write_settings,
)
from cannery.dialects.gemini_generate.stream_reading import GeminiStreamReader
from cannery.dialects.gemini_generate.stream_writing import GeminiStreamWriter
from cannery.dialects.gemini_generate.writing import MessageWriter
from cannery.families.gemini.errors import read_google_error, write_google_error
from cannery.families.gemini.models import RULES, needs_signatures, rules_for
from cannery.families.gemini.service import HEADERS, HOST
from cannery.messages.requests import Request
from cannery.roles.vocabularies import GEMINI
from cannery.wire.aliasing import aliased
from cannery.wire.bodies import Object
from cannery.wire.contract import Dialect, Piece, Route, Variant
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall_settings
from cannery.wire.service import VERTEX_BASE, Models, Replies, Service, Streams
from cannery.wire.signs import Evidence, Sign, has, holds_turns


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request."""
    model = request.model if isinstance(request.model, str) else None
    is_same = request.source == NAME
    signs = not is_same and model is not None and needs_signatures(model)
    writer = MessageWriter(report, is_same=is_same, model=model, signs=signs)
    residue = own_residue(request, NAME)
    shapes, _ = read_form(residue)
    body = recall_settings(write_settings(request, report, shapes), residue, camel)
    messages = writer.messages(pieces)
    contents = messages["contents"]
    if "content" in shapes and len(contents) == 1:
        messages["contents"] = contents[0]
    return {**body, **messages}


_KINDS = {
    ("POST", "/models/{model}:generateContent"): "generate",
    ("POST", "/models/{model}:streamGenerateContent"): "stream",
    ("POST", "/models/{model}:countTokens"): "count",
    ("GET", "/models"): "models",
    ("GET", "/models/{model}"): "model",
}


def _describe_model(name: str, _: str) -> Object:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {
        "name": f"models/{name}",
        "displayName": name,
        "supportedGenerationMethods": methods,
    }


SERVICE = Service(
    host=HOST,
    headers=HEADERS,
    replies=Replies(
        "",
        ("candidates", "promptFeedback"),
        COUNTS,
        "usageMetadata",
    ),
    streams=Streams(
        endings=(b"finishReason", b"blockReason", b'"error"'),
        query="alt=sse",
        # Google's SDK does not support SSE comments (google-genai 3.1.0).
        ping=b"\n",
    ),
    models=Models(_describe_model, lambda listed: {"models": listed}, "?pageSize=1000"),
    count=lambda tokens: {"totalTokens": tokens},
    passed=("/files", "/cachedContents", "/batches"),
    passed_verbs=(
        "embedContent",
        "batchEmbedContents",
        "predict",
        "predictLongRunning",
        "asyncBatchEmbedContent",
    ),
    provider="gcp.gemini",
    operation="generate_content",
)

_USUAL: dict[str, tuple[Any, ...]] = {
    "generationConfig.audioTimestamp": (False,),
    "generationConfig.enableEnhancedCivicAnswers": (False,),
    "generationConfig.logprobs": (0,),
    "generationConfig.mediaResolution": ("MEDIA_RESOLUTION_UNSPECIFIED",),
    "generationConfig.responseLogprobs": (False,),
    "generationConfig.responseModalities": (["TEXT"],),
    "serviceTier": ("standard",),
    "store": (False,),
    "toolConfig.includeServerSideToolInvocations": (False,),
}
DEFAULTS = {
    ".".join(spelling(key) for key in path.split(".")): values
    for path, values in _USUAL.items()
    for spelling in (str, snake)
}

DIALECT = Dialect(
    name=NAME,
    messages="contents",
    names_model=False,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=GeminiStreamReader,
    stream_writer=aliased(GeminiStreamWriter, NAME),
    read_error=partial(read_google_error, NAME),
    write_error=write_google_error,
    routes=tuple(
        Route(method, f"{version}{path}", kind)
        for version in ("/v1beta", "/v1", "")
        for (method, path), kind in _KINDS.items()
    ),
    control_paths=TABLE.paths,
    defaults=DEFAULTS,
    hosted=HOSTED,
    modelled=TABLE.modelled,
    modelled_answer=MODELLED_ANSWER,
    rules_for=rules_for,
    fixed_repairs=frozenset({"late_supervisors"}),
    short_names=("gemini", "google", "vertex"),
    vocabulary=GEMINI,
    needs_roles=False,
    variants=(
        Variant(
            "vertex",
            tuple(
                Route("POST", f"/publishers/google{path}", kind)
                for (_, path), kind in _KINDS.items()
                if kind in ("generate", "stream", "count")
            ),
            replace(HEADERS, key="bearer"),
            base=VERTEX_BASE,
        ),
    ),
    service=SERVICE,
    signs=(
        Sign("request", Evidence.OWN_FIELD, "it has contents", holds_turns("contents")),
        Sign(
            "response",
            Evidence.OWN_FIELD,
            "it has candidates",
            has("candidates", "promptFeedback"),
        ),
        Sign("response", Evidence.OWN_FIELD, "it has usageMetadata", has("usageMetadata")),
        Sign(
            "stream",
            Evidence.ANSWER,
            "its events have candidates",
            has("candidates", "promptFeedback"),
        ),
    ),
)
