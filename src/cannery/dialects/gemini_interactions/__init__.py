"""Gemini Interactions (``POST /v1beta/interactions``).

Oddities: a conversation is a timeline of steps, and the input may also be a string, contents, or turns as in older
clients; calls and results have ids; a thought is a step of its own with a signature that the model requires; settings
are in ``generation_config``; instructions and tools are sent again with every request; citation spans count bytes.
``agent`` and ``background`` request something that only the service runs. Written against the types of google-genai
3.3.0 (2026-11-18).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cannery.dialects.gemini_interactions.hosted import HOSTED
from cannery.dialects.gemini_interactions.reading import CONTENTS, read_request
from cannery.dialects.gemini_interactions.responses import (
    COUNTS,
    read_response,
    write_error,
    write_response,
)
from cannery.dialects.gemini_interactions.settings import (
    MODELLED_ANSWER,
    NAME,
    TABLE,
)
from cannery.dialects.gemini_interactions.streams import (
    InteractionsStreamReader,
    InteractionsStreamWriter,
)
from cannery.dialects.gemini_interactions.writing import write_request
from cannery.families.gemini.errors import read_google_error
from cannery.families.gemini.models import rules_of_steps
from cannery.families.gemini.service import HEADERS, HOST
from cannery.roles.vocabularies import GEMINI
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Route
from cannery.wire.service import Continuing, Replies, Service, Streams
from cannery.wire.signs import Evidence, Sign, both, has

# Item types of its input that only this dialect has.
_OWN = frozenset({*CONTENTS, "user_input", "model_output", "thought", "function_result"})


def _has_steps(value: Mapping[str, Any]) -> bool:
    given = value.get("input")
    listed = given if isinstance(given, list) else [given]
    return any(isinstance(item, Mapping) and str(item.get("type")) in _OWN for item in listed)


DIALECT = Dialect(
    name=NAME,
    messages="input",
    rules=rules_of_steps(None),
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=InteractionsStreamReader,
    stream_writer=aliased(InteractionsStreamWriter, NAME),
    read_error=partial(read_google_error, NAME),
    write_error=write_error,
    routes=tuple(
        Route("POST", f"{version}/interactions", "generate")
        for version in ("/v1beta", "/v1beta2", "/v1", "")
    ),
    control_paths=TABLE.paths,
    defaults={
        "background": (False,),
        "response_modalities": (["text"],),
        "service_tier": ("standard",),
        "store": (True, False),
    },
    references={
        "previous_interaction_id": "HISTORY_MISSING",
        "continuation_token": "HISTORY_MISSING",
        "agent": "AGENT_MISSING",
    },
    modelled=TABLE.modelled,
    modelled_answer=MODELLED_ANSWER,
    rules_for=rules_of_steps,
    hosted=HOSTED,
    fixed_repairs=frozenset({"late_supervisors"}),
    short_names=("interactions",),
    vocabulary=GEMINI,
    needs_roles=False,
    service=Service(
        host=HOST,
        headers=HEADERS,
        replies=Replies(
            "v1_",
            ("status",),
            COUNTS,
        ),
        streams=Streams(
            endings=(b"interaction.completed", b"event: error"),
            # Google's SDK does not support SSE comments (google-genai 3.3.0).
            ping=b"\n",
        ),
        continuing=Continuing(
            reply="previous_interaction_id",
            endpoint="/interactions",
            unserved=(
                ("agent", "agents run only at Google's service; name a 'model' instead"),
                (
                    "background",
                    "nothing runs in the background here; leave it out and wait, or stream",
                ),
            ),
        ),
        passed=("/interactions",),
        provider="gcp.gemini",
        operation="generate_content",
    ),
    signs=(
        Sign(
            "response",
            Evidence.ANSWER,
            "its object is interaction",
            lambda value: value.get("object") == "interaction",
        ),
        Sign(
            "stream",
            Evidence.ANSWER,
            "its events are named interaction.… or step.…",
            lambda value: str(value.get("event_type", "")).startswith(("interaction.", "step.")),
        ),
        Sign(
            "response",
            Evidence.ANSWER,
            "it has outputs and a status",
            both(has("outputs"), has("status")),
        ),
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "it goes on with an interaction",
            lambda value: "previous_interaction_id" in value and "status" not in value,
        ),
        Sign(
            "request",
            Evidence.DETAIL,
            "it has settings that only this dialect has",
            both(has("input"), has("generation_config", "agent", "system_instruction")),
        ),
        Sign("request", Evidence.DETAIL, "its input has steps or contents", _has_steps),
        Sign(
            "request",
            Evidence.MODEL,
            "its input is for a Gemini model",
            lambda value: "input" in value and str(value.get("model")).startswith("gemini-"),
        ),
    ),
)
