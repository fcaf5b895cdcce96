"""OpenTelemetry GenAI: the messages, instructions and settings of a call as attributes of its span.

A body is a JSON object of attributes: ``gen_ai.input.messages`` and the other request attributes, or for a response
``gen_ai.output.messages``. Written against the JSON schemas of the semantic conventions (model/gen-ai, read
2026-11-18). Oddities: lists may be given as JSON text; instructions are separate or among the messages; parts may have
further keys, so nothing from another dialect has to be left out. A span is recorded as a whole, so there are no
streams, and nothing is repaired: a span is a record, not a request to a server.
"""

from __future__ import annotations

from cannery.dialects.otel_genai.hosted import HOSTED
from cannery.dialects.otel_genai.reading import MessageReader
from cannery.dialects.otel_genai.responses import read_response, write_response
from cannery.dialects.otel_genai.settings import (
    CONTROL_PATHS,
    INPUT,
    INSTRUCTIONS,
    MODEL,
    NAME,
    OUTPUT,
    STREAM,
    TOOLS,
    around,
    read_tool,
    take,
    take_choice,
    take_controls,
    take_list,
)
from cannery.dialects.otel_genai.writing import write_request
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, new_request
from cannery.wire.bodies import Fields, decode, fields_reader
from cannery.wire.call_ids import set_apart
from cannery.wire.contract import Rules
from cannery.wire.controls import flag, text
from cannery.wire.places import Places
from cannery.wire.records import data_set
from cannery.wire.signs import Evidence, Sign, has


@fields_reader(NAME)
def read_request(fields: Fields, places: Places) -> Request:
    """Read the request from the attributes of a span."""
    left = {key: decode(raw) for key, raw in fields.items()}
    reader = MessageReader(places.canisters)
    spelled: dict[str, str] = {}
    reader.instructions(take_list(reader, left, INSTRUCTIONS, spelled) or [], INSTRUCTIONS)
    messages = take_list(reader, left, INPUT, spelled)
    if messages is None:
        reader.fail((INPUT,), "is required")
    reader.messages(messages, INPUT)
    tools = []
    for index, item in enumerate(take_list(reader, left, TOOLS, spelled) or ()):
        tools.append(read_tool(reader, item, (TOOLS, index)))
        places.tools.append((TOOLS, index))
    model, stream = take(left, MODEL, text), take(left, STREAM, flag)
    choice, controls = take_choice(left), take_controls(left)
    if reader.made:
        set_apart(reader.canisters, reader.made)
    conversation = Conversation.trusted(reader.canisters)
    source, residue = around(left, spelled)
    return new_request(conversation, model, tuple(tools), choice, controls, stream, residue, source)  # type: ignore[no-any-return]


DIALECT = data_set(
    NAME,
    Rules(pairs_calls=False, ends_with_calls=True, takes_reasoning_text=True),
    read_request,
    write_request,
    read_response=read_response,
    write_response=write_response,
    control_paths=CONTROL_PATHS,
    messages=INPUT,
    short_names=("otel", "opentelemetry"),
    is_archive=True,
    hosted=HOSTED,
    signs=(
        Sign("request", Evidence.OWN_FIELD, "it has messages of a span", has(INPUT, INSTRUCTIONS)),
        Sign("response", Evidence.OWN_FIELD, "it has output messages of a span", has(OUTPUT)),
    ),
)
