"""What Converse insists on, and what is kept of its own."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

import cannery
from cannery.errors import DialectError
from cannery.messages import Failure, fold, unfold
from cannery.wire.framing import AWS_EVENT_STREAM

NAME = "bedrock_converse"
PDF = "JVBERi0xLjQKJSVFT0Y="


def written(source: str, body: dict[str, Any]) -> tuple[dict[str, Any], cannery.Rendered]:
    rendered = cannery.translate(body, source=source, target=NAME, policy="allow")
    return json.loads(rendered.body), rendered


def claude(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": list(messages), **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def codes(rendered: cannery.Rendered) -> list[str]:
    return [loss.code for loss in rendered.losses]


def test_tools_are_stubbed_where_the_history_calls_and_none_are_sent():
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "r"}
    history = (user({"type": "text", "text": "q"}), {"role": "assistant", "content": [call]})
    body, rendered = written("anthropic_messages", claude(*history, user(result)))
    (tool,) = body["toolConfig"]["tools"]
    assert tool == {"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}
    assert "CONTROL_DEFAULTED" in codes(rendered)
    assert "'look'" in str(rendered.losses) or "look" in str(rendered.losses)


def test_stubs_stand_for_calls_that_were_written_before():
    """A conversation that grew is not written anew, and its earlier calls count all the same."""
    conversation = cannery.Conversation(
        [
            cannery.user("q"),
            cannery.assistant("looking"),
            cannery.invocation("a", "look", {}),
            cannery.result("a", "r"),
            cannery.assistant("done"),
            cannery.user("thanks"),
        ]
    )
    request = cannery.Request(conversation)
    assert json.loads(cannery.nativize_request(request, NAME).body)["toolConfig"]
    grown = cannery.Request([*conversation, cannery.assistant("well"), cannery.user("more")])
    body = json.loads(cannery.nativize_request(grown, NAME).body)
    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["look"]
    assert len(body["messages"]) == 7


def test_no_choice_of_none_means_no_tools():
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "q"}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "none",
    }
    body, rendered = written("openai_chat", asked)
    assert "toolConfig" not in body
    assert codes(rendered) == ["CONTROL_CHANGED"]


def test_documents_get_text_beside_them_and_legal_unique_names():
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    shown = [{"type": "document", "source": source, "title": "Q3 / report.pdf"}] * 2
    body, rendered = written(
        "anthropic_messages", claude(user(*shown, {"type": "document", "source": source}))
    )
    text, *documents = body["messages"][0]["content"]
    names = [block["document"]["name"] for block in documents]
    assert names == ["Q3 - report-pdf", "Q3 - report-pdf (2)", "document"]
    assert text == {"text": "[document: Q3 - report-pdf]"}
    assert codes(rendered).count("NAME_CHANGED") == 2
    assert "CONTROL_DEFAULTED" in codes(rendered)


def test_a_document_that_was_called_an_image_is_one_of_the_documents():
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PDF}}
    body, _ = written("anthropic_messages", claude(user(shown)))
    text, found = body["messages"][0]["content"]
    assert text == {"text": "[document: document]"}
    assert (found["document"]["name"], found["document"]["format"]) == ("document", "pdf")
    plain = {"type": "text", "media_type": "text/plain", "data": "x"}
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    held = [shown, {"type": "document", "source": plain}]
    result = {"type": "tool_result", "tool_use_id": "a", "content": held}
    history = (user({"type": "text", "text": "q"}), {"role": "assistant", "content": [call]})
    body, _ = written("anthropic_messages", claude(*history, user(result)))
    inner = body["messages"][2]["content"][0]["toolResult"]["content"]
    assert [each["document"]["name"] for each in inner] == ["document", "document (2)"]


def test_cache_marks_are_blocks_behind_what_they_mark():
    short, long = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
    system = [{"type": "text", "text": "S", "cache_control": long}]
    said = user(
        {"type": "text", "text": "a", "cache_control": short}, {"type": "text", "text": "b"}
    )
    body, _ = written("anthropic_messages", claude(said, system=system))
    assert body["system"] == [{"text": "S"}, {"cachePoint": {"type": "default", "ttl": "1h"}}]
    point = {"cachePoint": {"type": "default"}}
    assert body["messages"][0]["content"] == [{"text": "a"}, point, {"text": "b"}]
    back = cannery.translate(body, source=NAME, target="anthropic_messages")
    assert json.loads(back.body)["messages"][0]["content"][0]["cache_control"] == short


def test_long_call_ids_are_shortened_and_map_back():
    identifier = "call_" + "x" * 80
    call = {"id": identifier, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": identifier, "content": "r"},
    ]
    body, rendered = written("openai_chat", {"model": "m", "messages": messages})
    sent = body["messages"][1]["content"][0]["toolUse"]["toolUseId"]
    assert len(sent) <= 64
    assert body["messages"][2]["content"][0]["toolResult"]["toolUseId"] == sent
    assert rendered.aliases.ids[sent] == identifier


def test_an_error_flag_is_a_status():
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}
    history = (user({"type": "text", "text": "q"}), {"role": "assistant", "content": [call]})
    body, _ = written("anthropic_messages", claude(*history, user(result)))
    told = body["messages"][2]["content"][0]["toolResult"]
    assert told == {"toolUseId": "a", "content": [{"text": "no"}], "status": "error"}


def test_turns_alternate_and_begin_with_the_user():
    messages = [
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    body, rendered = written("openai_chat", {"model": "m", "messages": messages})
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert {repair.name for repair in rendered.repairs} == {"first_user", "alternation"}


@pytest.mark.parametrize(
    "model, more, output",
    [
        (
            "us.anthropic.claude-sonnet-4-5-v1:0",
            {"thinking": {"type": "enabled", "budget_tokens": 8192}},
            {},
        ),
        ("amazon.nova-pro-v1:0", {}, {"effort": "medium"}),
    ],
)
def test_effort_is_told_as_the_model_takes_it(model: str, more: Any, output: Any):
    asked = {
        "model": model,
        "messages": [{"role": "user", "content": "q"}],
        "reasoning_effort": "medium",
    }
    body, _ = written("openai_chat", asked)
    assert body.get("additionalModelRequestFields", {}) == more
    assert body.get("outputConfig", {}) == output


def test_a_guard_is_reported_and_its_words_stay():
    guarded = {"guardContent": {"text": {"text": "check"}}}
    rendered = cannery.translate({"messages": [user(guarded)]}, source=NAME, target="openai_chat")
    assert json.loads(rendered.body)["messages"][0]["content"] == "check"
    lost = [(loss.code, loss.path) for loss in rendered.losses if loss.severity == "lost"]
    assert lost == [("FIELD_DROPPED", "messages[0].content[0].guardContent")]


def test_a_model_that_is_changed_is_written():
    request = cannery.normalize_request({"modelId": "a.b", "messages": [user({"text": "q"})]}, NAME)
    assert request.model == "a.b"
    body = json.loads(cannery.nativize_request(request.replace(model="c.d"), NAME).body)
    assert body["modelId"] == "c.d"


# --- streams -----------------------------------------------------------------------------------


def stream(*events: tuple[str, dict[str, Any]]) -> bytes:
    return b"".join(AWS_EVENT_STREAM.write(name, value) for name, value in events)


BEGUN = (
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}}),
)


def test_checksums_are_those_that_botocore_checks():
    buffer = EventStreamBuffer()
    buffer.add_data(stream(*BEGUN, ("throttlingException", {"message": "m"})))
    told = [message.headers for message in buffer]
    assert [headers[":message-type"] for headers in told] == ["event", "event", "exception"]
    assert told[2][":exception-type"] == "throttlingException"


@pytest.mark.parametrize("place", [0, 3, 5, 9, 11, 30, -6, -1])
def test_a_damaged_byte_is_an_error_of_the_dialect(place: int):
    data = bytearray(stream(BEGUN[1]))
    data[place] ^= 0x10
    with pytest.raises(DialectError, match=NAME):
        list(cannery.normalize_stream([bytes(data), bytes(100)], NAME))


def test_an_exception_is_a_failure_and_comes_back_as_it_was():
    data = stream(
        *BEGUN, ("modelStreamErrorException", {"message": "m", "originalStatusCode": 424})
    )
    *_, last = cannery.normalize_stream([data], NAME)
    assert isinstance(last, Failure)
    assert (last.message, last.kind) == ("m", "modelStreamErrorException")
    again = b"".join(cannery.translate_stream([data], source=NAME, target=NAME))
    assert b"originalStatusCode" in again
    assert b"modelStreamErrorException" in again


def test_an_error_without_a_body_is_a_failure():
    """Errors that are not in the service's model come in headers alone."""

    def header(name: str, value: str) -> bytes:
        spelled = value.encode()
        return (
            bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(spelled)) + spelled
        )

    import zlib

    told = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "boom"}
    headers = b"".join(header(name, value) for name, value in told.items())
    head = struct.pack(">II", 16 + len(headers), len(headers))
    message = head + struct.pack(">I", zlib.crc32(head)) + headers
    message += struct.pack(">I", zlib.crc32(message))
    *_, last = cannery.normalize_stream([stream(*BEGUN), message], NAME)
    assert isinstance(last, Failure)
    assert last.message == "boom"


def test_a_stream_that_is_cut_off_is_a_failure():
    *_, last = cannery.normalize_stream([stream(*BEGUN)], NAME)
    assert isinstance(last, Failure)


@pytest.mark.parametrize("block", [{}, {"text": {"odd": 1}}], ids=["no key", "text that is none"])
def test_an_answer_with_a_block_that_is_none_streams(block: Any):
    message = {"role": "assistant", "content": [{"text": "a"}, block]}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    body = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}
    response = cannery.normalize_response(body, "bedrock_converse")
    written = list(cannery.nativize_stream(unfold(response), "bedrock_converse"))
    told = fold(cannery.normalize_stream(written, "bedrock_converse"))
    assert [each.held for each in told.canisters] == ["a"]


def test_an_image_at_an_address_is_lost_since_nothing_is_fetched_and_not_for_its_type():
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    _, rendered = written("anthropic_messages", claude(user(image, {"type": "text", "text": "q"})))
    (loss,) = (loss for loss in rendered.losses if loss.severity == "lost")
    detail = "Converse fetches nothing but from S3"
    assert (loss.code, loss.path, loss.detail) == (
        *("MEDIA_DROPPED", "messages[0].content[0]", detail),
    )


def test_a_streamed_citation_of_a_page_has_the_words_that_it_cites():
    cited = {
        "type": "web_search_result_location",
        "url": "https://a.example",
        "title": "A",
        "cited_text": "Cans are old.",
        "encrypted_index": "x",
    }
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "They are.", "citations": [cited]}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    response = cannery.normalize_response(json.dumps(body).encode(), "anthropic_messages")
    stream = b"".join(cannery.nativize_stream(unfold(response), NAME))
    whole = cannery.normalize_response(cannery.nativize_response(response, NAME).body, NAME)
    streamed = fold(cannery.normalize_stream([stream], NAME))
    for found in (whole, streamed):
        (citation,) = found.canisters[0].held.citations
        assert (citation.url, citation.title) == ("https://a.example", "A")
        assert citation.cited_text == "Cans are old."
