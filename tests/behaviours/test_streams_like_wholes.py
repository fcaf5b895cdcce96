"""A stream translated is the whole answer translated: texts, calls, citations with their places, and their order."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

import cannery
from cannery.messages import Delta, PartEnd, PartStart, absent, fold
from cannery.wire.contract import StreamOptions
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.conformance.matrix import DIALECTS
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sse import frames
from tests.oracles.stream_rules import check_stream_rules

Object = dict[str, Any]
URL = "https://example.com/a"


# --- streams as servers send them ----------------------------------------------------------------


def chat(*deltas: Object, finish: str = "stop") -> bytes:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks = [json.dumps({**head, "choices": [choice]}) for choice in choices]
    return "".join(f"data: {data}\n\n" for data in [*chunks, "[DONE]"]).encode()


def chat_whole(finish: str = "stop", **message: Any) -> Object:
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    message = {"role": "assistant", "content": None, **message}
    return {**head, "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def named(*events: Object) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


HEAD: Object = {
    "id": "r1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
}


def responses_whole(*output: Object) -> Object:
    return {**HEAD, "status": "completed", "output": list(output)}


def responses(*events: Object, output: tuple[Object, ...]) -> bytes:
    created = {
        "type": "response.created",
        "response": {**HEAD, "status": "in_progress", "output": []},
    }
    completed = {"type": "response.completed", "response": responses_whole(*output)}
    return named(created, *events, completed)


def added(index: int, item: Object) -> Object:
    begun = {**item, "status": "in_progress"} if "status" in item else dict(item)
    for key in ("content", "summary"):
        if key in item:
            begun[key] = []
    if "arguments" in item:
        begun["arguments"] = ""
    return {"type": "response.output_item.added", "output_index": index, "item": begun}


def done(index: int, item: Object) -> Object:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def said(index: int, words: str, part: int = 0) -> Object:
    place = {"output_index": index, "content_index": part, "item_id": f"msg_{index}"}
    return {"type": "response.output_text.delta", **place, "delta": words, "logprobs": []}


def opened(index: int, part: int = 0) -> Object:
    place = {"output_index": index, "content_index": part, "item_id": f"msg_{index}"}
    empty = {"type": "output_text", "text": "", "annotations": []}
    return {"type": "response.content_part.added", **place, "part": empty}


def message(index: int, *texts: str, cites: bool = False) -> Object:
    content = [
        {
            "type": "output_text",
            "text": text,
            "annotations": [annotation(0, len(text))] if cites else [],
        }
        for text in texts
    ]
    fixed = {"type": "message", "role": "assistant", "status": "completed"}
    return {"id": f"msg_{index}", **fixed, "content": content}


def annotation(start: int, end: int) -> Object:
    places = {"start_index": start, "end_index": end}
    return {"type": "url_citation", **places, "title": "T", "url": URL}


def summarized(index: int, *summaries: str) -> Object:
    parts = [{"type": "summary_text", "text": text} for text in summaries]
    return {"id": f"rs_{index}", "type": "reasoning", "summary": parts}


def summary(index: int, segment: int, words: str) -> Object:
    place = {"output_index": index, "summary_index": segment, "item_id": f"rs_{index}"}
    return {"type": "response.reasoning_summary_text.delta", **place, "delta": words}


CALL: Object = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"a":1}',
    "status": "completed",
}
SEARCH: Object = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}
PROTOCOL: Object = {
    "id": "mcp_1",
    "type": "mcp_call",
    "name": "t",
    "server_label": "s",
    "arguments": "{}",
    "output": "o",
    "error": None,
}


def claude(*blocks: Object, stop: str = "end_turn") -> bytes:
    """The blocks with their deltas, each of which is a piece of text or a citation."""
    events: list[Object] = [{"type": "message_start", "message": {**CLAUDE_HEAD, "content": []}}]
    for index, block in enumerate(blocks):
        start = {key: value for key, value in block.items() if key != "deltas"}
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta}
            for delta in block["deltas"]
        ]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": stop, "stop_sequence": None}
    usage = {"output_tokens": 2}
    return named(
        *events,
        {"type": "message_delta", "delta": ended, "usage": usage},
        {"type": "message_stop"},
    )


CLAUDE_HEAD: Object = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def claude_whole(*content: Object, stop: str = "end_turn") -> Object:
    usage = {"input_tokens": 1, "output_tokens": 2}
    return {**CLAUDE_HEAD, "content": list(content), "stop_reason": stop, "usage": usage}


LOCATION: Object = {
    "type": "web_search_result_location",
    "url": URL,
    "title": "T",
    "cited_text": "c",
    "encrypted_index": "x",
}
CITES: Object = {"type": "citations_delta", "citation": LOCATION}


def words(text: str) -> Object:
    return {"type": "text_delta", "text": text}


def block(*deltas: Object) -> Object:
    return {"type": "text", "text": "", "citations": [], "deltas": deltas}


def gemini(*candidates: Object) -> bytes:
    chunks = [
        {"candidates": [{"index": 0, **candidate}], "modelVersion": "m", "responseId": "g1"}
        for candidate in candidates
    ]
    return b"".join(b"data: %b\r\n\r\n" % json.dumps(chunk).encode() for chunk in chunks)


def parts(*listed: Object) -> Object:
    return {"content": {"role": "model", "parts": list(listed)}}


def gemini_whole(candidate: Object) -> Object:
    return {
        "candidates": [{"index": 0, **candidate}],
        "modelVersion": "m",
        "responseId": "g1",
    }


def grounded(start: int, end: int, text: str, part: int = 0) -> Object:
    segment: Object = {"startIndex": start, "endIndex": end, "text": text}
    if part:
        segment["partIndex"] = part
    return {
        "groundingMetadata": {
            "groundingChunks": [{"web": {"uri": URL, "title": "T"}}],
            "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
        }
    }


URL_CITATION: Object = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 2, "title": "T", "url": URL},
}
TOOL_CALL: Object = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "f", "arguments": '{"a":1}'},
}
FUNCTION: Object = {"functionCall": {"id": "call_1", "name": "f", "args": {"a": 1}}}
USE: Object = {"type": "tool_use", "id": "call_1", "name": "f"}
FINISH: Object = {"finishReason": "STOP"}
CITED = message(1, "é hi", cites=True)
REFUSED: Object = {**message(2), "content": [{"type": "refusal", "refusal": "No."}]}
TWO = (message(0, "Hello "), message(1, "World"))
WORLD = (message(0, "hi"), CALL)
THOUGHTS = summarized(0, "**A** one.", "**B** two.")

STREAMS: dict[str, tuple[str, bytes, Object]] = {
    "chat cites in a chunk of its own": (
        CHAT,
        chat({"content": "hé"}, {"content": "y"}, {"annotations": [URL_CITATION]}),
        chat_whole(content="héy", annotations=[URL_CITATION]),
    ),
    "chat cites with the words": (
        CHAT,
        chat({"content": "h"}, {"content": "ey", "annotations": [URL_CITATION]}),
        chat_whole(content="hey", annotations=[URL_CITATION]),
    ),
    "chat cites before the words": (
        CHAT,
        chat({"role": "assistant", "annotations": [URL_CITATION]}, {"content": "hey"}),
        chat_whole(content="hey", annotations=[URL_CITATION]),
    ),
    "chat cites and calls": (
        CHAT,
        chat(
            {"content": "hey"},
            {"annotations": [URL_CITATION]},
            {"tool_calls": [{"index": 0, **TOOL_CALL}]},
            finish="tool_calls",
        ),
        chat_whole("tool_calls", content="hey", annotations=[URL_CITATION], tool_calls=[TOOL_CALL]),
    ),
    "claude cites before the words": (
        CLAUDE,
        claude(block(CITES, words("hello "))),
        claude_whole({"type": "text", "text": "hello ", "citations": [LOCATION]}),
    ),
    "claude cites amid the words": (
        CLAUDE,
        claude(block(words("hél"), CITES, words("lo "))),
        claude_whole({"type": "text", "text": "héllo ", "citations": [LOCATION]}),
    ),
    "claude cites in several blocks and calls": (
        CLAUDE,
        claude(
            block(words("Öne. ")),
            block(CITES, words("Two. "), CITES),
            block(words("Three."), CITES),
            {
                **USE,
                "input": {},
                "deltas": [{"type": "input_json_delta", "partial_json": '{"a":1}'}],
            },
            stop="tool_use",
        ),
        claude_whole(
            {"type": "text", "text": "Öne. "},
            {"type": "text", "text": "Two. ", "citations": [LOCATION, LOCATION]},
            {"type": "text", "text": "Three.", "citations": [LOCATION]},
            {**USE, "input": {"a": 1}},
            stop="tool_use",
        ),
    ),
    "claude cites on both sides of a call": (
        CLAUDE,
        claude(
            block(words("One. "), CITES),
            {**USE, "input": {}, "deltas": []},
            block(words("Two."), CITES),
            stop="tool_use",
        ),
        claude_whole(
            {"type": "text", "text": "One. ", "citations": [LOCATION]},
            {**USE, "input": {}},
            {"type": "text", "text": "Two.", "citations": [LOCATION]},
            stop="tool_use",
        ),
    ),
    "responses cites before a refusal": (
        RESPONSES,
        responses(done(0, CITED), done(1, REFUSED), output=(CITED, REFUSED)),
        responses_whole(CITED, REFUSED),
    ),
    "gemini grounds at the end": (
        GEMINI,
        gemini(
            parts({"text": "a thought", "thought": True}),
            parts({"text": "日 é"}),
            {**parts({"text": " hi"}), **FINISH, **grounded(4, 6, "é", 1)},
        ),
        gemini_whole(
            {
                **parts({"text": "a thought", "thought": True}, {"text": "日 é hi"}),
                **FINISH,
                **grounded(4, 6, "é", 1),
            }
        ),
    ),
    "gemini grounds behind a signature": (
        GEMINI,
        gemini(
            parts({"text": "hello"}),
            {
                **parts({"text": "", "thoughtSignature": "c2ln"}),
                **FINISH,
                **grounded(0, 5, "hello"),
            },
        ),
        gemini_whole(
            {
                **parts({"text": "hello"}, {"text": "", "thoughtSignature": "c2ln"}),
                **FINISH,
                **grounded(0, 5, "hello"),
            }
        ),
    ),
    "gemini grounds behind a call": (
        GEMINI,
        gemini(
            parts({"text": "hello"}),
            parts(FUNCTION),
            {**parts({"text": ""}), **FINISH, **grounded(0, 5, "hello")},
        ),
        gemini_whole({**parts({"text": "hello"}, FUNCTION), **FINISH, **grounded(0, 5, "hello")}),
    ),
    "responses cites behind a search": (
        RESPONSES,
        responses(
            added(0, SEARCH),
            done(0, SEARCH),
            added(1, CITED),
            opened(1),
            said(1, "é hi"),
            done(1, CITED),
            output=(SEARCH, CITED),
        ),
        responses_whole(SEARCH, CITED),
    ),
    "responses has nothing but finished items": (
        RESPONSES,
        responses(done(0, SEARCH), done(1, CITED), output=(SEARCH, CITED)),
        responses_whole(SEARCH, CITED),
    ),
    "responses counts the output otherwise": (
        RESPONSES,
        responses(added(1, CALL), done(1, CALL), output=(CALL,)),
        responses_whole(CALL),
    ),
    "responses names the finished item otherwise": (
        RESPONSES,
        responses(added(1, CALL), done(1, CALL), output=({**CALL, "id": "other"},)),
        responses_whole({**CALL, "id": "other"}),
    ),
    "responses says two messages at once": (
        RESPONSES,
        responses(
            *(event for at in (0, 1) for event in (added(at, TWO[at]), opened(at))),
            *(said(at % 2, piece) for at, piece in enumerate(("Hel", "Wor", "lo ", "ld"))),
            *(done(at, TWO[at]) for at in (0, 1)),
            output=TWO,
        ),
        responses_whole(*TWO),
    ),
    "responses begins a call before the words": (
        RESPONSES,
        responses(
            added(0, WORLD[0]),
            added(1, CALL),
            done(1, CALL),
            done(0, WORLD[0]),
            output=WORLD,
        ),
        responses_whole(*WORLD),
    ),
    "responses ends what never was done": (
        RESPONSES,
        responses(added(0, WORLD[0]), added(1, CALL), done(1, CALL), output=WORLD),
        responses_whole(*WORLD),
    ),
    "responses runs tools beside each other": (
        RESPONSES,
        responses(
            added(0, SEARCH),
            added(1, PROTOCOL),
            added(2, CALL),
            done(2, CALL),
            done(1, PROTOCOL),
            done(0, SEARCH),
            output=(SEARCH, PROTOCOL, CALL),
        ),
        responses_whole(SEARCH, PROTOCOL, CALL),
    ),
    "responses sums up twice": (
        RESPONSES,
        responses(
            added(0, THOUGHTS),
            summary(0, 0, "**A** "),
            summary(0, 0, "one."),
            summary(0, 1, "**B** two."),
            done(0, THOUGHTS),
            output=(THOUGHTS,),
        ),
        responses_whole(THOUGHTS),
    ),
}
# Grounding comes with the finish, when the first of two texts has long ended: only who keeps the whole sees it all.
TOO_LATE = {("claude cites on both sides of a call", GEMINI)}
PAIRS = [(name, target) for name in STREAMS for target in DIALECTS]
# Those whose messages have one text in front of their calls.
CHATS = ("openai_chat", "mistral_chat", "ollama_chat", "cohere_chat")


# --- what they say -------------------------------------------------------------------------------


def flow(response: Any, *, is_chat: bool) -> list[Any]:
    """What is said and called, in order: neighbouring texts as one, with the places of what they cite.

    A Chat message has one text in front of its calls.
    """
    canisters = [one for one in response.canisters if one.held is not absent]
    if is_chat:
        canisters.sort(key=lambda one: one.role.value == "invocation")
    found: list[Any] = []
    for canister in canisters:
        held = canister.held
        if canister.role.value == "invocation":
            found.append(("call", canister.identifier, canister.name, canister.arguments))
        elif isinstance(held, str) or held.kind == "text":
            text = held if isinstance(held, str) else held.text
            if not (found and found[-1][0] == "text"):
                found.append(("text", "", []))
            before = len(found[-1][1])
            cited = [
                (one.url, *(None if at is None else before + at for at in (one.start, one.end)))
                for one in getattr(held, "citations", ())
            ]
            found[-1] = ("text", found[-1][1] + text, found[-1][2] + cited)
        elif held.kind != "reasoning":
            found.append((held.kind, canister.role.value))
    return [one for one in found if one != ("text", "", [])]


def thoughts(response: Any) -> str:
    held = [one.held for one in response.canisters if one.held is not absent]
    return "\n\n".join(
        words
        for one in held
        if not isinstance(one, str) and one.kind == "reasoning"
        for words in ("".join(one.texts), *one.summaries)
        if words
    )


def streamed(name: str, target: str) -> list[bytes]:
    source, data, _ = STREAMS[name]
    options = StreamOptions(include_usage=True)
    return list(cannery.translate_stream([data], source=source, target=target, options=options))


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_folds_to_its_whole_body(name: str):
    source, data, whole = STREAMS[name]
    folded = fold(cannery.normalize_stream([data], source))
    assert flow(folded, is_chat=False) == flow(
        cannery.normalize_response(whole, source), is_chat=False
    )


@pytest.mark.parametrize("name", STREAMS)
def test_the_split_of_the_bytes_does_not_matter(name: str):
    source, data, _ = STREAMS[name]
    whole = list(cannery.normalize_stream([data], source))
    single = [data[at : at + 1] for at in range(len(data))]
    assert list(cannery.normalize_stream(single, source)) == whole


@pytest.mark.parametrize("name, target", PAIRS)
def test_a_stream_is_translated_like_the_whole_answer(name: str, target: str):
    source, _, whole = STREAMS[name]
    rendered = cannery.translate(whole, source=source, target=target, kind="response")
    expected = flow(cannery.normalize_response(rendered.body, target), is_chat=target in CHATS)
    written = streamed(name, target)
    if (name, target) not in TOO_LATE:
        folded = fold(cannery.normalize_stream(written, target))
        assert flow(folded, is_chat=target in CHATS) == expected
    final = parse_stream(target, written).final
    assert flow(cannery.normalize_response(final, target), is_chat=target in CHATS) == expected


@pytest.mark.parametrize("name, target", PAIRS)
def test_the_official_parser_takes_what_we_write(name: str, target: str):
    written = streamed(name, target)
    assert check_stream_rules(target, b"".join(written)) == []
    source = STREAMS[name][0]
    if source != target:
        # Calls of MCP servers are in the beta types only.
        is_beta = any(b"mcp_tool_use" in chunk for chunk in written)
        assert parse_stream(target, written, beta=is_beta).problems == []


# --- one by one ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in STREAMS if name.startswith("responses")])
def test_items_keep_their_place_at_home(name: str):
    _, _, whole = STREAMS[name]
    final = parse_stream(RESPONSES, streamed(name, RESPONSES)).final
    assert [item["type"] for item in final["output"]] == [item["type"] for item in whole["output"]]


@pytest.mark.parametrize("target", [CHAT, CLAUDE, GEMINI])
def test_a_blank_line_parts_summaries(target: str):
    source, data, _ = STREAMS["responses sums up twice"]
    options = StreamOptions(reasoning=True)
    written = cannery.translate_stream([data], source=source, target=target, options=options)
    folded = fold(cannery.normalize_stream(written, target))
    assert thoughts(folded) == "**A** one.\n\n**B** two."


@pytest.mark.parametrize("target", [CHAT, GEMINI])
def test_a_blank_line_parts_thoughts_that_follow_each_other(target: str):
    items = (summarized(0, "one"), summarized(1, "two"))
    data = responses(*(done(at, item) for at, item in enumerate(items)), output=items)
    options = StreamOptions(reasoning=True)
    written = cannery.translate_stream([data], source=RESPONSES, target=target, options=options)
    assert thoughts(fold(cannery.normalize_stream(written, target))) == "one\n\ntwo"


def test_thoughts_of_chat_stay_as_they_were_at_home():
    data = chat({"reasoning_content": "on"}, {"content": "x"}, {"reasoning_content": "e"})
    options = StreamOptions(reasoning=True)
    written = cannery.translate_stream([data], source=CHAT, target=CHAT, options=options)
    folded = fold(cannery.normalize_stream(written, CHAT))
    assert [one.held.texts for one in folded.canisters if not isinstance(one.held, str)] == [
        ("on",),
        ("e",),
    ]


@pytest.mark.parametrize("target", DIALECTS)
def test_texts_side_by_side_are_not_mixed(target: str):
    events = [
        *(PartStart(at, "text") for at in range(3)),
        *(Delta(at, piece) for piece in "abc" for at in range(3)),
        *(PartEnd(at) for at in (2, 1, 0)),
    ]
    ended = list(cannery.normalize_stream([chat({"content": "x"})], CHAT))
    written = cannery.nativize_stream([ended[0], *events, ended[-1]], target)
    texts = [one.held for one in fold(cannery.normalize_stream(written, target)).canisters]
    assert "".join(texts) == "abcabcabc"


def test_texts_left_open_are_said():
    ended = list(cannery.normalize_stream([chat({"content": "x"})], CHAT))
    events = [PartStart(0, "text"), PartStart(1, "text"), Delta(1, "b"), Delta(0, "a")]
    written = cannery.nativize_stream([ended[0], *events, ended[-1]], CHAT)
    assert flow(fold(cannery.normalize_stream(written, CHAT)), is_chat=True)[0][1] == "ab"


def test_annotations_of_chat_come_in_one_chunk_behind_the_text():
    written = b"".join(streamed("claude cites in several blocks and calls", CHAT))
    deltas = [
        choice["delta"]
        for frame in frames(written)
        if frame.data != "[DONE]"
        for choice in frame.value["choices"]
    ]
    said_in = ["content" if delta.get("content") else next(iter(delta), "") for delta in deltas]
    assert said_in.count("annotations") == 1
    assert ("content", "annotations") in set(pairwise(said_in))


def test_annotations_behind_a_call_do_not_break_the_stream():
    call = {"tool_calls": [{"index": 0, **TOOL_CALL}]}
    data = chat({"content": "hey"}, call, {"annotations": [URL_CITATION]}, finish="tool_calls")
    folded = fold(cannery.normalize_stream([data], CHAT))
    assert [one[:2] for one in flow(folded, is_chat=True)] == [("text", "hey"), ("call", "call_1")]


def page(start: int, end: int) -> Object:
    inner = {"start_index": start, "end_index": end, "title": "T", "url": URL}
    return {"type": "url_citation", "url_citation": inner}


LATE: dict[str, tuple[Object, ...]] = {
    "for an earlier text": (
        {"content": "abc"},
        {"reasoning_content": "hm"},
        {"content": "def"},
        {"annotations": [page(0, 3), page(3, 6)]},
    ),
    "in two chunks behind a call": (
        {"content": "abc"},
        {"tool_calls": [{"index": 0, **TOOL_CALL}]},
        {"annotations": [page(0, 3)]},
        {"annotations": [{**page(0, 2), "index": 1}]},
    ),
    "without any text": ({"annotations": [page(0, 0)]},),
}


@pytest.mark.parametrize("name", LATE)
def test_annotations_that_come_too_late_come_home(name: str):
    data = chat(*LATE[name])
    cited = [one for delta in LATE[name] for one in delta.get("annotations", ())]
    written = b"".join(cannery.translate_stream([data], source=CHAT, target=CHAT))
    final = parse_stream(CHAT, [written]).final["choices"][0]["message"]
    pages = [one["url_citation"] for one in final["annotations"]]
    assert pages == [one["url_citation"] for one in cited]


def test_grounding_finds_its_text_before_a_call_that_streams():
    begun = {"name": "f", "willContinue": True}
    rest = {"partialArgs": [{"jsonPath": "$.a", "boolValue": True}]}
    calls = [parts({"functionCall": piece}) for piece in (begun, rest)]
    data = gemini(parts({"text": "abc"}), *calls, {**grounded(0, 3, "abc"), "finishReason": "STOP"})
    for target in (GEMINI, CHAT, RESPONSES):
        written = cannery.translate_stream([data], source=GEMINI, target=target)
        cited, call, *_ = flow(
            fold(cannery.normalize_stream(written, target)),
            is_chat=target in CHATS,
        )
        assert cited[:2] == ("text", "abc")
        assert [one[0] for one in cited[2]] == [URL]
        assert (call[2], call[3]) == ("f", {"a": True})


def test_speech_of_chat_is_read():
    audio = {"id": "audio_1", "data": "AAAA", "transcript": "Hello", "expires_at": 9}
    pieces = (
        {"role": "assistant", "audio": {"id": "audio_1", "transcript": "Hel"}},
        {"audio": {"data": "AAAA"}},
        {"audio": {"transcript": "lo", "expires_at": 9}},
        {"tool_calls": [{"index": 0, **TOOL_CALL}]},
    )
    folded = fold(cannery.normalize_stream([chat(*pieces, finish="tool_calls")], CHAT))
    whole = cannery.normalize_response(
        chat_whole("tool_calls", audio=audio, tool_calls=[TOOL_CALL]), CHAT
    )
    assert folded.canisters == whole.canisters


def test_items_that_failed_to_finish_are_said_before_the_error():
    start = {"type": "response.created", "response": {**HEAD, "status": "in_progress"}}
    data = named(start, added(0, SEARCH), added(1, CALL), done(1, CALL))
    events = list(cannery.normalize_stream([data], RESPONSES))
    assert [type(event).__name__ for event in events] == [
        "Start",
        "PartStart",
        "Delta",
        "PartEnd",
        "Failure",
    ]


def test_other_choices_are_folded_like_those_of_the_whole_answer():
    """Their words, thoughts, calls and probabilities come in pieces, between those of the first choice."""
    token = {"token": "x", "logprob": -1.0, "bytes": None, "top_logprobs": []}
    pieces = [
        (1, {"role": "assistant", "content": ""}, {"logprobs": {"content": [token]}}),
        (0, {"role": "assistant", "content": "one"}, {}),
        (2, {"role": "assistant", "reasoning_content": "h"}, {}),
        (1, {"content": "tw"}, {"logprobs": {"content": [token]}}),
        (2, {"reasoning_content": "m"}, {}),
        (
            2,
            {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": ""},
                    }
                ]
            },
            {},
        ),
        (
            2,
            {
                "tool_calls": [
                    {
                        "index": 1,
                        "id": "d",
                        "type": "function",
                        "function": {"name": "g", "arguments": "{"},
                    }
                ]
            },
            {},
        ),
        (
            2,
            {
                "tool_calls": [
                    {"index": 0, "function": {"arguments": "{}"}},
                    {"index": 1, "function": {"arguments": "}"}},
                ]
            },
            {},
        ),
        (1, {"content": "o"}, {}),
    ]
    ends = [
        (0, {}, {"finish_reason": "stop"}),
        (1, {}, {"finish_reason": "length"}),
        (2, {}, {"finish_reason": "tool_calls"}),
    ]
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [
        {**head, "choices": [{"index": index, "delta": delta, "finish_reason": None, **more}]}
        for index, delta, more in (*pieces, *ends)
    ]
    data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    folded = fold(cannery.normalize_stream([data.encode()], CHAT))
    calls = [
        {"id": i, "type": "function", "function": {"name": n, "arguments": "{}"}}
        for i, n in ("cf", "dg")
    ]
    whole = chat_whole(content="one")
    whole["choices"] += [
        {
            "index": 1,
            "message": {"role": "assistant", "content": "two"},
            "logprobs": {"content": [token, token]},
            "finish_reason": "length",
        },
        {
            "index": 2,
            "message": {"role": "assistant", "reasoning_content": "hm", "tool_calls": calls},
            "finish_reason": "tool_calls",
        },
    ]
    assert json.loads(cannery.nativize_response(folded, CHAT).body) == whole
    for target in (CLAUDE, GEMINI, RESPONSES):
        losses = {loss.code for loss in cannery.nativize_response(folded, target).losses}
        assert "CHOICE_DROPPED" in losses


@pytest.mark.parametrize("named", [{"created": "5"}, {"created": 0}, {"id": ""}, {"model": None}])
def test_what_an_answer_is_called_is_folded_as_it_came(named: Object):
    body = {**chat_whole(content="a"), **named}
    chunk = {**body, "object": "chat.completion.chunk"}
    said = [{"index": 0, "delta": {"role": "assistant", "content": "a"}, "finish_reason": None}]
    ended = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    chunks = [json.dumps({**chunk, "choices": choices}) for choices in (said, ended)]
    data = "".join(f"data: {line}\n\n" for line in [*chunks, "[DONE]"])
    folded = fold(cannery.normalize_stream([data.encode()], CHAT))
    assert json.loads(cannery.nativize_response(folded, CHAT).body) == body
