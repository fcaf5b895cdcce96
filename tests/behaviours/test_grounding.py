"""Searches that Gemini tells only by the grounding of an answer: calls, sources and citations elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.messages.events import fold, unfold
from cannery.messages.hosted import FileQuery, Search
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sdk_types import validate_response

Object = dict[str, Any]
SAID = "Olé: Spain won. More."
SPAN = {"startIndex": 0, "endIndex": len("Olé: Spain won.".encode()), "text": "Olé: Spain won."}
WEB = [
    {"web": {"uri": "https://a.example", "title": "a", "domain": "a.example"}},
    {"web": {"uri": "https://b.example", "title": "b"}},
]
GROUNDING: Object = {
    "webSearchQueries": ["euro 2024", "who won"],
    "groundingChunks": WEB,
    "groundingSupports": [{"segment": SPAN, "groundingChunkIndices": [0, 1]}],
}
SNAKE: Object = {
    "web_search_queries": ["euro 2024", "who won"],
    "grounding_chunks": WEB,
    "grounding_supports": [
        {
            "segment": {"start_index": 0, "end_index": 16, "text": "Olé: Spain won."},
            "grounding_chunk_indices": [0, 1],
        }
    ],
}


def answer(grounding: Object, key: str = "groundingMetadata", text: str | None = SAID) -> Object:
    candidate: Object = {"finishReason": "STOP", "index": 0, key: grounding}
    if text is not None:
        candidate["content"] = {"role": "model", "parts": [{"text": text}]}
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {
        "candidates": [candidate],
        "usageMetadata": counts,
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r1",
    }


def streamed(size: int = 10_000) -> list[bytes]:
    """The same answer in chunks: words, then what grounds them."""
    head = {"modelVersion": "gemini-2.5-flash", "responseId": "r1"}
    chunks: list[Object] = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": part}]}, "index": 0}]}
        for part in (SAID[:7], SAID[7:])
    ]
    last = {"index": 0, "finishReason": "STOP", "groundingMetadata": GROUNDING}
    chunks.append({"candidates": [last]})
    data = b"".join(
        f"data: {json.dumps({**chunk, **head}, ensure_ascii=False)}\r\n\r\n".encode()
        for chunk in chunks
    )
    return [data[start : start + size] for start in range(0, len(data), size)]


def lost(rendered: cannery.Rendered) -> list[tuple[str, str]]:
    return [(loss.code, loss.path) for loss in rendered.losses if loss.severity != "info"]


GROUNDED = pytest.mark.parametrize(
    "body", [answer(GROUNDING), answer(SNAKE, "grounding_metadata")], ids=["camel", "snake"]
)


@GROUNDED
def test_the_meaning_of_grounding_is_a_search(body: Object):
    (use,) = cannery.hosted_uses(cannery.normalize_response(body, GEMINI))
    assert use.call == Search(("euro 2024", "who won"))
    assert [one.url for one in use.result.items] == ["https://a.example", "https://b.example"]


@GROUNDED
def test_responses_show_a_search_and_annotations(body: Object):
    rendered = cannery.translate(body, source=GEMINI, target=RESPONSES, kind="response")
    written = json.loads(rendered.body)
    message, search = written["output"]
    assert search["type"] == "web_search_call"
    assert search["action"]["queries"] == ["euro 2024", "who won"]
    assert [one["url"] for one in search["action"]["sources"]] == [
        "https://a.example",
        "https://b.example",
    ]
    [text] = message["content"]
    assert [text["text"][one["start_index"] : one["end_index"]] for one in text["annotations"]] == [
        "Olé: Spain won."
    ] * 2
    assert validate_response(RESPONSES, written) == []
    # The titles stand in the annotations, and the search has no room for them.
    assert {code for code, _ in lost(rendered)} == {"HOSTED_APPROXIMATED"}


@GROUNDED
def test_messages_show_a_search_and_citations(body: Object):
    rendered = cannery.translate(body, source=GEMINI, target=CLAUDE, kind="response")
    written = json.loads(rendered.body)
    text, call, found = written["content"]
    assert (call["type"], call["name"]) == ("server_tool_use", "web_search")
    assert [one["url"] for one in found["content"]] == ["https://a.example", "https://b.example"]
    assert [one["url"] for one in text["citations"]] == ["https://a.example", "https://b.example"]
    assert validate_response(CLAUDE, written) == []
    assert {code for code, _ in lost(rendered)} == {"CITATION_APPROXIMATED"}


@GROUNDED
def test_chat_shows_annotations_and_names_what_was_asked(body: Object):
    rendered = cannery.translate(body, source=GEMINI, target=CHAT, kind="response")
    written = json.loads(rendered.body)
    annotations = written["choices"][0]["message"]["annotations"]
    assert [one["url_citation"]["url"] for one in annotations] == [
        "https://a.example",
        "https://b.example",
    ]
    assert validate_response(CHAT, written) == []
    [(code, path)] = lost(rendered)
    assert code == "FIELD_DROPPED"
    assert path.rpartition(".")[2] in ("webSearchQueries", "web_search_queries")


@pytest.mark.parametrize("target", [CHAT, "cohere_chat", "mistral_chat", "ollama_chat"])
def test_with_text_the_search_can_be_read(target: str):
    response = cannery.normalize_response(answer(GROUNDING), GEMINI)
    rendered = cannery.nativize_response(response, target, hosted="text")
    assert b"euro 2024; who won" in rendered.body
    assert ("HOSTED_TO_TEXT", "candidates[0].groundingMetadata") in [
        (loss.code, loss.path) for loss in rendered.losses
    ]


@pytest.mark.parametrize("size", [1, 13, 10_000])
@pytest.mark.parametrize("target", [CHAT, CLAUDE, RESPONSES])
def test_streams_show_what_whole_answers_show(target: str, size: int):
    written = list(cannery.translate_stream(streamed(size), source=GEMINI, target=target))
    parse_stream(target, written)
    heard = fold(cannery.normalize_stream(written, target))
    whole = cannery.normalize_response(
        cannery.translate(answer(GROUNDING), source=GEMINI, target=target, kind="response").body,
        target,
    )
    assert [use.call for use in cannery.hosted_uses(heard)] == [
        use.call for use in cannery.hosted_uses(whole)
    ]
    texts = [
        [one.url for one in canister.held.citations]
        for answered in (heard, whole)
        for canister in answered.canisters
        if getattr(canister.held, "citations", None)
    ]
    assert texts == [["https://a.example", "https://b.example"]] * 2


def test_the_same_dialect_keeps_the_grounding():
    for body in (
        answer(GROUNDING),
        answer(SNAKE, "grounding_metadata"),
        answer(GROUNDING, text=None),
    ):
        again = cannery.translate(body, source=GEMINI, target=GEMINI, kind="response")
        assert json.loads(again.body) == body
    written = b"".join(cannery.translate_stream(streamed(), source=GEMINI, target=GEMINI))
    assert written.count(b"webSearchQueries") == 1


def test_files_that_ground_an_answer_are_a_search_of_files():
    found = {"title": "manual.pdf", "text": "Press the button.", "fileSearchStore": "stores/1"}
    grounding = {"groundingChunks": [{"retrievedContext": found}]}
    response = cannery.normalize_response(answer(grounding), GEMINI)
    (use,) = cannery.hosted_uses(response)
    assert use.call == FileQuery()
    rendered = cannery.nativize_response(response, RESPONSES)
    search = json.loads(rendered.body)["output"][1]
    assert search["type"] == "file_search_call"
    assert search["results"][0]["filename"] == "manual.pdf"
    assert search["results"][0]["text"] == "Press the button."
    # The store has a name only at its provider.
    assert ("FIELD_DROPPED", "candidates[0].groundingMetadata.groundingChunks") in lost(rendered)


def test_what_grounds_no_text_is_no_silent_loss():
    rendered = cannery.translate(
        answer(GROUNDING, text=None), source=GEMINI, target=RESPONSES, kind="response"
    )
    assert json.loads(rendered.body)["output"][0]["type"] == "web_search_call"
    assert "candidates[0].groundingMetadata.groundingSupports" in [
        path for _, path in lost(rendered)
    ]


def test_a_search_that_parts_tell_of_is_shown_once():
    body = answer({"webSearchQueries": ["euro 2024"], "groundingChunks": WEB[:1]})
    call = {"id": "c1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["euro 2024"]}}
    found = {"id": "c1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"result": []}}
    parts = body["candidates"][0]["content"]["parts"]
    parts[:0] = [{"toolCall": call}, {"toolResponse": found}]
    rendered = cannery.translate(body, source=GEMINI, target=RESPONSES, kind="response")
    search, message = json.loads(rendered.body)["output"]
    assert (search["type"], message["type"]) == ("web_search_call", "message")
    # The parts do not tell what was found.
    assert search["action"]["sources"] == [{"type": "url", "url": "https://a.example"}]


ODD = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=3),
    st.lists(st.one_of(st.none(), st.integers(), st.just({}), st.just({"web": 1})), max_size=2),
    st.just({"web": {"uri": 3, "title": None}}),
    st.just([{"web": {"uri": 3}}, {"segment": 4, "groundingChunkIndices": [0, "x", 9]}]),
)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([*GROUNDING, *SNAKE, "new"]), ODD), ODD)
def test_odd_grounding_breaks_nothing(grounding: Object, whole: Any):
    for body in (answer(grounding), answer(whole)):
        again = cannery.translate(body, source=GEMINI, target=GEMINI, kind="response")
        assert json.loads(again.body) == body
        for target in (CHAT, CLAUDE, RESPONSES):
            written = cannery.translate(body, source=GEMINI, target=target, kind="response")
            assert validate_response(target, json.loads(written.body)) == []
            stream = [b"data: " + json.dumps(body).encode() + b"\n\n"]
            assert b"".join(cannery.translate_stream(stream, source=GEMINI, target=target))


# --- the other way -------------------------------------------------------------------------------

SEARCHED: Object = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-5.5",
    "output": [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {
                "type": "search",
                "query": "euro 2024",
                "queries": ["euro 2024"],
                "sources": [
                    {"type": "url", "url": "https://a.example"},
                    {"type": "url", "url": "https://b.example"},
                ],
            },
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": SAID,
                    "annotations": [
                        {
                            "type": "url_citation",
                            "start_index": 0,
                            "end_index": 15,
                            "url": "https://b.example",
                            "title": "b",
                        }
                    ],
                }
            ],
        },
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


@pytest.mark.parametrize("is_stream", [False, True])
def test_gemini_shows_a_search_from_elsewhere_as_grounding(is_stream: bool):
    response = cannery.normalize_response(SEARCHED, RESPONSES)
    if is_stream:
        written = list(cannery.nativize_stream(unfold(response), GEMINI))
        parse_stream(GEMINI, written)
        folded = fold(cannery.normalize_stream(written, GEMINI))
        body = json.loads(cannery.nativize_response(folded, GEMINI).body)
    else:
        body = json.loads(cannery.nativize_response(response, GEMINI).body)
    assert validate_response(GEMINI, body) == []
    grounding = body["candidates"][0]["groundingMetadata"]
    assert grounding["webSearchQueries"] == ["euro 2024"]
    assert [chunk["web"]["uri"] for chunk in grounding["groundingChunks"]] == [
        "https://b.example",
        "https://a.example",
    ]
    [support] = grounding["groundingSupports"]
    assert support["segment"]["text"] == "Olé: Spain won."
    back = cannery.translate(body, source=GEMINI, target=RESPONSES, kind="response")
    kinds = [item["type"] for item in json.loads(back.body)["output"]]
    assert kinds == ["web_search_call", "message"]
    assert lost(back) == []


def test_messages_quote_a_page_and_not_the_answer():
    citation = {
        "location": {"web": {"url": "https://a.example"}},
        "title": "a",
        "sourceContent": [{"text": "Spain were champions."}],
    }
    block = {"citationsContent": {"content": [{"text": SAID}], "citations": [citation]}}
    body = {
        "output": {"message": {"role": "assistant", "content": [block]}},
        "stopReason": "end_turn",
    }
    rendered = cannery.translate(body, source="bedrock", target=CLAUDE, kind="response")
    [text] = json.loads(rendered.body)["content"]
    [cited] = text["citations"]
    assert (cited["url"], cited["cited_text"]) == ("https://a.example", "Spain were champions.")


# --- files ---------------------------------------------------------------------------------------


def answered(*annotations: Object) -> Object:
    text = {"type": "output_text", "text": SAID, "annotations": [*annotations]}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**SEARCHED, "output": [{**message, "content": [text]}]}


FILE = {"type": "file_citation", "file_id": "file_1", "filename": "manual.pdf", "index": 15}


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_cited_file_keeps_its_name(is_stream: bool):
    response = cannery.normalize_response(answered(FILE), RESPONSES)
    found = {}
    for target in (GEMINI, "gemini_interactions"):
        if is_stream:
            written = list(cannery.nativize_stream(unfold(response), target))
            heard = fold(cannery.normalize_stream(written, target))
        else:
            rendered = cannery.nativize_response(response, target)
            assert [code for code, _ in lost(rendered)] == ["CITATION_APPROXIMATED"]
            heard = cannery.normalize_response(rendered.body, target)
        found[target] = heard
    for heard in found.values():
        body = json.loads(cannery.nativize_response(heard, RESPONSES).body)
        texts = [part for item in body["output"] for part in item.get("content", ())]
        [annotation] = texts[0]["annotations"]
        assert (annotation["type"], annotation["filename"]) == ("file_citation", "manual.pdf")
        assert validate_response(RESPONSES, body) == []
    again = cannery.nativize_response(response, RESPONSES)
    assert json.loads(again.body)["output"] == answered(FILE)["output"]


def test_files_that_a_program_made_are_told():
    made = {"type": "code_execution_output", "file_id": "file_9"}
    output = {"type": "code_execution_result", "stdout": "ok", "stderr": "", "return_code": 0}
    blocks = [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "code_execution",
            "input": {"code": "plot()"},
        },
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {**output, "content": [made]},
        },
    ]
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": blocks,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    response = cannery.normalize_response(body, CLAUDE)
    (use,) = cannery.hosted_uses(response)
    assert [one.file for one in use.result.files] == ["file_9"]
    for target in (RESPONSES, GEMINI, "gemini_interactions"):
        rendered = cannery.nativize_response(response, target)
        assert "generated files are not shown" in [loss.detail for loss in rendered.losses]
    text = cannery.nativize_response(response, CHAT, hosted="text")
    assert b"[file: file_9]" in text.body


def test_a_container_with_files_is_named_by_its_own_path():
    tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}}
    body = {"model": "m", "input": "q", "tools": [tool]}
    rendered = cannery.translate(body, source=RESPONSES, target=CLAUDE, model="claude-opus-4-8")
    assert lost(rendered) == [("FIELD_DROPPED", "tools[0].container.file_ids[0]")]


def test_stores_of_files_go_between_the_dialects_of_one_provider():
    search = {"fileSearchStoreNames": ["fileSearchStores/1"], "topK": 3, "metadataFilter": "a=1"}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "tools": [{"fileSearch": search}],
    }
    rendered = cannery.translate(
        body, source=GEMINI, target="gemini_interactions", model="gemini-3"
    )
    assert json.loads(rendered.body)["tools"] == [
        {
            "type": "file_search",
            "file_search_store_names": ["fileSearchStores/1"],
            "top_k": 3,
            "metadata_filter": "a=1",
        }
    ]
    back = cannery.translate(rendered.body, source="gemini_interactions", target=GEMINI)
    assert json.loads(back.body)["tools"] == body["tools"]
    elsewhere = cannery.translate(body, source=GEMINI, target=RESPONSES, model="gpt-5.5")
    assert lost(elsewhere) == [("TOOL_DROPPED", "tools[0].fileSearch")]
