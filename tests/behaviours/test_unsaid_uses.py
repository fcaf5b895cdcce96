"""A use of a hosted tool in the shapes of another dialect: each fact is heard there again, or named as not said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

import cannery
from cannery.dialects import all_dialects
from cannery.hosting import hosted_uses
from cannery.hosting.unsaid import unsaid
from cannery.messages.canisters import new_assistant
from cannery.messages.checked import now
from cannery.messages.content import new_opaque
from cannery.messages.hosted import (
    FAILED,
    Fetch,
    FileQuery,
    HostedCall,
    HostedUse,
    McpCall,
    Output,
    Run,
    Search,
    Source,
    Sources,
)
from cannery.messages.json_text import write_json

WRITERS = [dialect for dialect in all_dialects() if dialect.hosted.write_use is not None]
ASKED: list[HostedCall] = [
    *(Search(("tides",)), Search(("tides", "moon")), Search()),
    *(Fetch(("https://u.example",)), Fetch(("https://u.example",), "moon")),
    *(Run("print(1)"), Run("ls", "bash"), Run("1;", "javascript")),
    *(McpCall("s", "n", text) for text in ('{"a": 1}', "no object", "")),
    *(FileQuery(("moon",)), FileQuery()),
]
FOUND = [
    None,
    Sources(),
    Sources((Source("https://a.example", "Title", "Words", "a day"), Source("https://b.example"))),
    Sources((Source(None, "n.pdf", "Words", None, "file_1"),)),
]
PRINTED = [
    None,
    *(
        Output("out"),
        Output("out", "complaint", 0),
        Output("out", "", 2),
        Output("", "complaint", 0),
    ),
    Output("out", "", 0, (Source(file="file_1"),)),
]
SEARCHES = (Search, Fetch, FileQuery)


def uses() -> Iterator[HostedUse]:
    for call, error in product(ASKED, (None, FAILED, "too long")):
        for result in FOUND if isinstance(call, SEARCHES) else PRINTED:
            yield HostedUse("id_1", call, result, error)


def facts(use: HostedUse) -> set[Any]:
    """What a use tells; the same query is told whether it stands alone or beside another."""
    call, found = use.call, set[Any]()
    for field in call.__struct_fields__:
        held = getattr(call, field)
        if field == "arguments":
            held = json.loads(held or "{}") if held[:1] in ("{", "") else held
        words = "; ".join(held) if isinstance(held, tuple) else held
        found.add((field, json.dumps(words)))
    if isinstance(use.result, Sources):
        found |= {
            (field, getattr(item, field))
            for item in use.result.items
            for field in item.__struct_fields__
        }
    elif isinstance(use.result, Output):
        found |= {("word", word) for word in (use.result.text, use.result.errors)}
        found |= {("made", made) for made in use.result.files}
        if use.result.exit_code:
            found.add(("exit code", use.result.exit_code))
    return {fact for fact in found if fact[1]} | {("failed", use.has_failed)} - {("failed", False)}


@pytest.mark.parametrize("dialect", WRITERS, ids=lambda dialect: dialect.name)
def test_each_fact_is_heard_or_named(dialect: Any):
    count = 0
    for use, is_answer in product(uses(), (True, False)):
        written = dialect.hosted.write_use(use, is_answer)
        if written is None:
            continue
        count += 1
        blocks = [new_opaque(dialect.name, tag, write_json(item)) for tag, item in written]
        (heard,) = hosted_uses(new_assistant(block, now()) for block in blocks)
        missing = facts(use) - facts(heard)
        said = "".join(str(block.json) for block in blocks)
        missing = {fact for fact in missing if fact[0] != "word" or fact[1] not in said}
        if use.error not in (None, FAILED) and use.error not in said:
            missing.add(("error", use.error))
        named = [*unsaid(use, blocks)]
        assert named or not missing, (use, heard)
        one_text = [name for name in named if "one text" not in name]
        assert missing or not one_text, (use, heard, named)
    assert count


def test_the_text_of_an_mcp_result_is_what_it_says_and_the_rest_is_named():
    call = {"type": "mcp_server_tool_call", "id": "m", "name": "look", "server_name": "wiki"}
    image = {"type": "image", "data": "AAAA", "mime_type": "image/png"}
    told = {"type": "mcp_server_tool_result", "call_id": "m", "name": "look"}
    words = {"type": "text", "text": "seen"}
    steps = [{**call, "arguments": {}}, {**told, "result": [words, image]}]
    body = {"id": "v1_a", "status": "completed", "object": "interaction", "steps": steps}
    rendered = cannery.translate(
        body,
        source="gemini_interactions",
        target="anthropic_messages",
        kind="response",
        policy="allow",
    )
    (use,) = cannery.hosted_uses(cannery.normalize_response(rendered.body, "anthropic_messages"))
    assert use.result == Output("seen")
    assert ("FIELD_DROPPED", "steps[1].result[1].data") in [
        (loss.code, loss.path) for loss in rendered.losses
    ]


@pytest.mark.parametrize("target", ["gemini_interactions", "openai_responses"])
def test_that_an_mcp_call_failed_is_said_or_named(target: str):
    asked = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "n", "server_name": "s"}
    told = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": True}
    content = [{**asked, "input": {}}, {**told, "content": [{"type": "text", "text": "boom"}]}]
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    rendered = cannery.translate(
        body, source="anthropic_messages", target=target, kind="response", policy="allow"
    )
    (use,) = cannery.hosted_uses(cannery.normalize_response(rendered.body, target))
    named = [loss.detail for loss in rendered.losses if loss.code == "HOSTED_APPROXIMATED"]
    assert b"boom" in rendered.body
    assert use.has_failed != bool(named)
