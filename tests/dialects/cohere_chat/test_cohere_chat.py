"""What Cohere has that its relatives have not: documents, plans, citations by places, results as documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

COHERE = "cohere_chat"
ASKED = {"role": "user", "content": "q"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **more}}


def ask(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "command-a", "messages": list(messages) or [ASKED], **more}


def translated(body: Any, source: str, target: str, **more: Any) -> tuple[Any, list[Any]]:
    rendered = cannery.translate(body, source=source, target=target, policy="allow", **more)
    return json.loads(rendered.body), [(loss.code, loss.path) for loss in rendered.losses]


def answer(**message: Any) -> dict[str, Any]:
    return {"id": "a", "finish_reason": "COMPLETE", "message": {"role": "assistant", **message}}


# --- documents -----------------------------------------------------------------------------------


def test_documents_stand_between_the_instructions_and_the_first_turn():
    system = {"role": "system", "content": "S"}
    body = ask(system, ASKED, documents=["one", {"data": {"title": "T", "snippet": "two"}}])
    request = cannery.normalize_request(body, COHERE)
    roles = [canister.role.value for canister in request.conversation]
    assert roles == ["supervisor", "document", "document", "user"]
    written, losses = translated(body, COHERE, "anthropic_messages")
    first, second, asked = written["messages"][0]["content"]
    assert written["system"] == "S"
    assert (first["source"]["data"], second["source"]["data"], second["title"]) == (
        "one",
        "two",
        "T",
    )
    assert asked["text"] == "q"
    assert [code for code, _ in losses] == ["CONTROL_DEFAULTED"]


@pytest.mark.parametrize("source", [COHERE, None])
def test_documents_stay_when_a_long_conversation_grows(source: str | None):
    turns = [ASKED, {"role": "assistant", "content": "a"}] * 12
    request = cannery.normalize_request(ask(*turns, ASKED, documents=["one"]), COHERE)
    request = request.replace(source=source)
    for _ in range(3):
        body = json.loads(cannery.nativize_request(request, COHERE).body)
        assert [
            item if isinstance(item, str) else item["data"]["text"] for item in body["documents"]
        ] == ["one"]
        assert len(body["messages"]) == len(request.conversation) - 1
        more = [cannery.assistant("more"), cannery.user("and more")]
        request = request.replace(conversation=[*request.conversation, *more])


def test_a_document_amid_the_turns_stays_in_its_place():
    canisters = [
        cannery.user("q"),
        cannery.assistant("a"),
        cannery.document("D"),
        cannery.user("r"),
    ]
    rendered = cannery.nativize_request(cannery.Request(canisters, model="m"), COHERE)
    body = json.loads(rendered.body)
    assert "documents" not in body
    assert body["messages"][2]["content"].endswith("D")
    assert [loss.code for loss in rendered.losses] == ["DOCUMENT_TO_TEXT"]


def test_results_are_documents_where_they_are_objects():
    call = {"functionCall": {"name": "f", "args": {}}}
    result = {"functionResponse": {"name": "f", "response": {"temp": 3}}}
    contents = [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [result]},
    ]
    there, _ = translated({"contents": contents}, "gemini_generate", COHERE)
    assert there["messages"][2]["content"] == [
        {"type": "document", "document": {"data": {"temp": 3}}}
    ]
    back, _ = translated(there, COHERE, "gemini_generate")
    assert back["contents"][2]["parts"][0]["functionResponse"]["response"] == {"temp": 3}


# --- thoughts and tools --------------------------------------------------------------------------


def test_a_plan_is_a_thought_before_the_calls():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"role": "assistant", "tool_plan": "I look.", "tool_calls": [call]}
    body = ask(ASKED, said, {"role": "tool", "tool_call_id": "c", "content": "ok"})
    parts = translated(body, COHERE, "gemini_generate")[0]["contents"][1]["parts"]
    assert parts[0] == {"text": "I look.", "thought": True}
    assert "functionCall" in parts[1]
    assert ("REASONING_DROPPED", "messages[1].tool_plan") in translated(
        body, COHERE, "openai_chat"
    )[1]


def test_all_tools_are_strict_or_none():
    strict = translated(
        ask(tools=[tool("f"), tool("g")], strict_tools=True), COHERE, "openai_chat"
    )[0]
    assert [each["function"]["strict"] for each in strict["tools"]] == [True, True]
    assert translated(strict, "openai_chat", COHERE)[0]["strict_tools"] is True
    one = ask(tools=[tool("f", strict=True), tool("g")])
    written, losses = translated(one, "openai_chat", COHERE)
    assert "strict_tools" not in written
    assert losses == [("FIELD_DROPPED", "tools[0].function.strict")]
    assert "strict" not in json.dumps(written["tools"])


@pytest.mark.parametrize("beside", ["tools", "documents"])
def test_a_format_beside_tools_or_documents_is_named(beside: str):
    lead = [cannery.document("D")] if beside == "documents" else []
    tools = [cannery.Tool("f", schema=SCHEMA)] if beside == "tools" else []
    controls = cannery.Controls(output=cannery.OutputFormat("json"))
    request = cannery.Request([*lead, cannery.user("q")], model="m", tools=tools, controls=controls)
    rendered = cannery.nativize_request(request, COHERE)
    assert "response_format" not in json.loads(rendered.body)
    assert [(loss.code, loss.path) for loss in rendered.losses] == [("CONTROL_DROPPED", "output")]


# --- citations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("start, end", [(4, 8), (5, 9), (8, 12)])
def test_places_of_citations_are_characters_in_whatever_unit_they_came(start: int, end: int):
    source = {"type": "document", "id": "d", "document": {"url": "https://example.com/p"}}
    citation = {"start": start, "end": end, "text": "tall", "sources": [source]}
    body = answer(content=[{"type": "text", "text": "😀 é tall"}], citations=[citation])
    written, _ = translated(body, COHERE, "openai_chat", kind="response")
    (found,) = written["choices"][0]["message"]["annotations"]
    assert (found["url_citation"]["start_index"], found["url_citation"]["end_index"]) == (4, 8)
    assert found["url_citation"]["url"] == "https://example.com/p"


def test_citations_of_others_become_documents():
    cited = {"start_index": 3, "end_index": 7, "title": "P", "url": "https://example.com/p"}
    annotations = [{"type": "url_citation", "url_citation": cited}]
    message = {"role": "assistant", "content": "is tall.", "annotations": annotations}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    written, losses = translated(body, "openai_chat", COHERE, kind="response")
    assert losses == []
    assert written["message"]["citations"] == [
        {
            "start": 3,
            "end": 7,
            "text": "tall",
            "sources": [
                {
                    "type": "document",
                    "id": "https://example.com/p",
                    "document": {"url": "https://example.com/p", "title": "P"},
                }
            ],
            "content_index": 0,
            "type": "TEXT_CONTENT",
        }
    ]


def test_what_a_source_says_is_quoted_there_and_back():
    citation = {"type": "web_search_result_location", "url": "https://a.example", "title": "T"}
    quoted = {**citation, "cited_text": "It is tall.", "encrypted_index": ""}
    usage = {"input_tokens": 1, "output_tokens": 1}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    body["content"] = [{"type": "text", "text": "is tall.", "citations": [quoted]}]
    body |= {"stop_reason": "end_turn", "stop_sequence": None}
    there, _ = translated(body, "anthropic_messages", COHERE, kind="response")
    [found] = there["message"]["citations"]
    assert found["sources"][0]["document"]["snippet"] == "It is tall."
    back, _ = translated(there, COHERE, "anthropic_messages", kind="response")
    assert back["content"][0]["citations"] == [quoted]


def test_words_of_the_answer_are_no_words_of_the_source():
    support = {"segment": {"startIndex": 0, "endIndex": 2, "text": "is"}}
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "T"}}],
        "groundingSupports": [{**support, "groundingChunkIndices": [0]}],
    }
    content = {"role": "model", "parts": [{"text": "is tall."}]}
    body = {"candidates": [{"content": content, "groundingMetadata": grounding}]}
    written, _ = translated(body, "gemini_generate", COHERE, kind="response")
    [found] = written["message"]["citations"]
    assert found["sources"][0]["document"] == {"url": "https://a.example", "title": "T"}
    written, _ = translated(body, "gemini_generate", "bedrock_converse", kind="response")
    blocks = written["output"]["message"]["content"]
    [cited] = [block["citationsContent"] for block in blocks if "citationsContent" in block]
    assert "sourceContent" not in cited["citations"][0]


def test_a_citation_behind_the_end_of_its_content_reaches_other_dialects():
    def event(kind: str, **more: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()

    source = {"type": "document", "id": "d", "document": {"url": "https://example.com/p"}}
    citation = {"start": 0, "end": 4, "text": "Tall", "sources": [source]}
    stream = b"".join(
        [
            event("message-start", id="a", delta={"message": {"role": "assistant"}}),
            event("content-start", index=0, delta={"message": {"content": {"type": "text"}}}),
            event("content-delta", index=0, delta={"message": {"content": {"text": "Tall."}}}),
            event("content-end", index=0),
            event("citation-start", index=0, delta={"message": {"citations": citation}}),
            event("citation-end", index=0),
            event("message-end", delta={"finish_reason": "COMPLETE"}),
        ]
    )
    written = b"".join(cannery.translate_stream([stream], source=COHERE, target="openai_chat"))
    assert b'"start_index":0,"end_index":4' in written
    (text,) = cannery.fold(cannery.normalize_stream([stream], COHERE))
    assert [one.url for one in text.content.citations] == ["https://example.com/p"]


# --- settings that say nothing ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, quiet, telling",
    [
        (COHERE, {"safety_mode": "CONTEXTUAL"}, {"safety_mode": "STRICT"}),
        (COHERE, {"logprobs": False, "priority": 0}, {"logprobs": True}),
        ("mistral_chat", {"safe_prompt": False}, {"safe_prompt": True}),
        ("ollama_chat", {"keep_alive": "5m"}, {"keep_alive": "1h"}),
    ],
)
def test_a_default_that_was_sent_is_no_loss(source: str, quiet: Any, telling: Any):
    noted = translated(ask(**quiet), source, "openai_chat")[1]
    assert sorted(noted) == sorted(("DEFAULT_DROPPED", key) for key in quiet)
    (key,) = telling
    assert translated(ask(**telling), source, "openai_chat")[1] == [("FIELD_DROPPED", key)]


def test_how_long_a_server_worked_is_no_loss():
    durations = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
    message = {"role": "assistant", "content": "a"}
    body = {"model": "m", "created_at": "2026-11-15T10:00:00Z", "message": message, "done": True}
    told = {**body, "done_reason": "stop", **dict.fromkeys(durations, 7)}
    assert translated(told, "ollama_chat", "openai_chat", kind="response")[1] == []


def test_a_document_outside_of_a_result_comes_back():
    document = {"type": "document", "document": {"data": {"temp": 5}}}
    body = ask({"role": "system", "content": [{"type": "text", "text": "S"}, document]}, ASKED)
    request = cannery.normalize_request(body, COHERE)
    assert json.loads(cannery.nativize_request(request, COHERE).body) == body


def test_a_body_of_the_old_api_is_refused_with_the_way_out():
    body = {"model": "command-r", "message": "hi", "chat_history": []}
    with pytest.raises(cannery.DialectError, match="send them as 'messages' to /v2/chat"):
        cannery.normalize_request(body, COHERE)


def test_the_id_of_a_document_is_told_where_it_is_lost():
    body = {
        "model": "command-a",
        "messages": [{"role": "user", "content": "q"}],
        "documents": [{"id": "annual-report", "data": {"text": "x"}}],
    }
    rendered = cannery.translate(body, source="cohere_chat", target="anthropic_messages")
    assert "documents[0].id" in [loss.path for loss in rendered.losses]


@pytest.mark.parametrize("role", ["user", "system"])
def test_only_the_model_thinks(role: str):
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    said = {"role": role, "content": [thought, {"type": "text", "text": "x"}]}
    body = {"model": "m", "messages": [said, ASKED]}
    written, losses = translated(body, "mistral_chat", COHERE)
    assert "hm" not in json.dumps(written)
    assert [path for _, path in losses] == ["messages[0].content[0]"]


@pytest.mark.parametrize(
    "given, kind",
    [
        ({"schema": SCHEMA}, "schema"),
        ({"json_schema": SCHEMA}, "schema"),
        ({"schema": SCHEMA, "x": 1}, "schema"),
        ({"json_schema": SCHEMA, "schema": {}}, "schema"),
        ({"json_schema": None, "schema": SCHEMA}, "json"),
        ({"schema": 5}, "json"),
        ({}, "json"),
    ],
)
def test_a_schema_has_two_names(given: dict[str, Any], kind: str):
    body = ask(response_format={"type": "json_object", **given})
    output = cannery.normalize_request(body, COHERE).controls.output
    assert output.kind == kind
    assert translated(body, COHERE, COHERE) == (body, [])
    written, _ = translated(body, COHERE, "openai_chat")
    assert written["response_format"]["type"] == (
        "json_schema" if kind == "schema" else "json_object"
    )
