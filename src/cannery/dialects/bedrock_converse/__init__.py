"""Bedrock Converse (``POST /model/{modelId}/converse`` and ``/converse-stream``).

Oddities: a block is an object with one key, its kind; the model is in the path, URL-encoded; a cache point is a block
after the content that it marks; tools must be sent whenever the history has calls; a document needs text beside it and
a legal, unique name; streams are binary. Written against the service model of botocore 1.44 (2026-11-18).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from cannery.dialects.bedrock_converse.hosted import HOSTED
from cannery.dialects.bedrock_converse.reading import KINDS, read_request
from cannery.dialects.bedrock_converse.responses import (
    COUNTS,
    MODELLED_ANSWER,
    read_response,
    write_response,
)
from cannery.dialects.bedrock_converse.settings import TABLE
from cannery.dialects.bedrock_converse.streams import ConverseStreamReader, ConverseStreamWriter
from cannery.dialects.bedrock_converse.tools import NAME
from cannery.dialects.bedrock_converse.writing import write_request
from cannery.families.bedrock.errors import HEADERS, read_error, write_error
from cannery.families.claude.models import rules_by_model
from cannery.roles.vocabularies import ANTHROPIC
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Route, Rules
from cannery.wire.framing import AWS_EVENT_STREAM
from cannery.wire.service import Replies, Service, Streams
from cannery.wire.signs import Evidence, Sign, blocks, both, has, listed

RULES = Rules(
    alternates=True,
    starts_with_user=True,
    refuses_blank_text=True,
    late_supervisors="fold",
    call_id_pattern=r"[A-Za-z0-9_.:-]+",
    call_id_length=64,
    name_pattern=r"[A-Za-z0-9_-]+",
    name_length=64,
    cache_marks=4,
    knows_developer=False,
)
_EVENTS = frozenset({"contentBlockIndex", "stopReason"})


def _has_keyed_blocks(value: Mapping[str, Any]) -> bool:
    if "model" in value:
        # The URL names the model; Mistral's chunks may omit their type too.
        return False
    found = [block for block in blocks(value) if "type" not in block]
    return any(len(block) == 1 and not KINDS.isdisjoint(block) for block in found)


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=ConverseStreamReader,
    stream_writer=aliased(ConverseStreamWriter, NAME),
    read_error=read_error,
    write_error=write_error,
    routes=(
        Route("POST", "/model/{model}/converse", "generate", safe=""),
        Route("POST", "/model/{model}/converse-stream", "stream", safe=""),
        Route("POST", "/model/{model}/count-tokens", "count", safe=""),
    ),
    control_paths=TABLE.paths,
    tool_paths={"strict": ".toolSpec.strict"},
    hosted=HOSTED,
    defaults={
        "guardrailConfig": ({"trace": "disabled"},),
        "performanceConfig": ({"latency": "standard"},),
        "serviceTier": ({"type": "default"},),
    },
    rules_for=rules_by_model(RULES),
    modelled=TABLE.modelled | {"modelId"},
    modelled_answer=MODELLED_ANSWER,
    short_names=("bedrock", "converse"),
    vocabulary=ANTHROPIC,
    names_model=False,
    service=Service(
        headers=replace(HEADERS, agents=("boto3", "botocore", "aws-sdk")),
        replies=Replies(
            "",
            ("output",),
            COUNTS,
        ),
        count=lambda tokens: {"inputTokens": tokens},
        counted=("input", "converse"),
        streams=Streams(AWS_EVENT_STREAM, endings=(b"messageStop", b"xception")),
        provider="aws.bedrock",
    ),
    signs=(
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "it has settings that only this dialect has",
            both(
                has("inferenceConfig", "toolConfig", "additionalModelRequestFields"),
                listed("messages"),
            ),
        ),
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "its blocks are keyed by their kind",
            _has_keyed_blocks,
        ),
        Sign(
            "response",
            Evidence.OWN_FIELD,
            "it has an output and a stopReason",
            both(has("output"), has("stopReason")),
        ),
        Sign(
            "stream",
            Evidence.OWN_FIELD,
            "its events have a contentBlockIndex or a stopReason",
            lambda value: not _EVENTS.isdisjoint(value),
        ),
    ),
)
