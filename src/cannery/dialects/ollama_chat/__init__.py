"""Ollama's chat (``POST /api/chat``) and the other requests that its clients make.

Oddities: the text of a message is one string and images stand beside it as bare base64; calls need no id, and results
are paired by name and order; arguments are objects; a request streams by default; streams are lines of JSON. Written
against ollama 0.6.3 and the server at fb30760 (2026-08-21), whose calls and results may have ids.
"""

from __future__ import annotations

from functools import partial

from cannery.dialects.ollama_chat.requests import NAME, SHAPE, TABLE, read_request, write_request
from cannery.families.chat.tools import TOOL_PATHS
from cannery.families.ollama.answers import response_reader, response_writer
from cannery.families.ollama.service import RULES, ollama_service
from cannery.families.ollama.settings import DEFAULTS, MODELLED_ANSWER, shared_settings
from cannery.families.ollama.streams import (
    OllamaStreamReader,
    OllamaStreamWriter,
    read_error,
    write_error,
)
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Route
from cannery.wire.signs import Evidence, Sign, both, has, listed, message_has

DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=response_reader(SHAPE),
    write_response=response_writer(SHAPE),
    stream_reader=partial(OllamaStreamReader, SHAPE),
    stream_writer=aliased(partial(OllamaStreamWriter, SHAPE), NAME),
    read_error=read_error,
    write_error=write_error,
    routes=(
        Route("POST", "/api/chat", "generate"),
        Route("GET", "/api/tags", "models"),
        # The list of loaded models contains all models.
        Route("GET", "/api/ps", "models"),
        Route("POST", "/api/show", "model"),
        Route("GET", "/api/version", "version"),
    ),
    control_paths=TABLE.paths,
    modelled=TABLE.modelled,
    modelled_answer=MODELLED_ANSWER,
    defaults=DEFAULTS,
    takes_over=shared_settings,
    tool_paths=TOOL_PATHS,
    short_names=("ollama",),
    service=ollama_service(SHAPE),
    signs=(
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "it has options",
            both(has("options"), listed("messages")),
        ),
        Sign(
            "request",
            Evidence.DETAIL,
            "it has fields that only this dialect has",
            both(has("keep_alive", "think"), listed("messages")),
        ),
        Sign(
            "request",
            Evidence.DETAIL,
            "its messages have images",
            message_has("images", "tool_name"),
        ),
        Sign("response", Evidence.OWN_FIELD, "it is done", both(has("message"), has("done"))),
        Sign(
            "stream",
            Evidence.OWN_FIELD,
            "its lines say whether it is done",
            both(has("message"), has("done")),
        ),
    ),
)
