"""What is special about Interactions: shapes of the input, one turn of many steps, thoughts, and what blocks."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import cannery
from cannery.dialects import find_dialect
from cannery.messages import FinishReason, fold
from cannery.wire.contract import WireError

NAME = "gemini_interactions"
FLASH, PRO = "gemini-3.5-flash", "gemini-3.1-pro-preview"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def asked(*contents: Any) -> dict[str, Any]:
    return {"type": "user_input", "content": [*contents]}


def said(*contents: Any) -> dict[str, Any]:
    return {"type": "model_output", "content": [*contents]}


def request(given: Any, **more: Any) -> dict[str, Any]:
    return {"model": FLASH, "input": given, **more}


def write(body: Any, source: str, target: str = NAME, **more: Any) -> tuple[Any, set[str]]:
    rendered = cannery.translate(body, source=source, target=target, **more)
    return json.loads(rendered.body), {loss.code for loss in rendered.losses}


# --- the input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    ["Hi", text("Hi"), [text("Hi")], [asked(text("Hi"))], [{"role": "user", "content": "Hi"}]],
    ids=["string", "content", "contents", "steps", "turns"],
)
def test_every_shape_of_input_says_the_same(given: Any):
    body, losses = write(request(given), NAME, "openai_chat")
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert losses == set()
    read = cannery.normalize_request(request(given), NAME)
    assert json.loads(cannery.nativize_request(read, NAME).body) == request(given)


@pytest.mark.parametrize("given", ["Hi", text("Hi"), [text("Hi")]])
def test_an_input_becomes_a_step_when_the_conversation_goes_on(given: Any):
    read = cannery.normalize_request(request(given), NAME)
    longer = read.replace(conversation=read.conversation.append(cannery.assistant("Hello.")))
    body = json.loads(cannery.nativize_request(longer, NAME).body)
    assert body["input"] == [asked(text("Hi")), said(text("Hello."))]


def test_steps_of_the_model_are_one_turn():
    call = {"type": "function_call", "id": "c1", "name": "look", "arguments": {}}
    thought = {"type": "thought", "summary": [text("Hm.")], "signature": "c2ln"}
    result = {"type": "function_result", "call_id": "c1", "name": "look", "result": "seen"}
    body = request([asked(text("a")), thought, said(text("b")), call, result, asked(text("c"))])
    written, _ = write(body, NAME, "openai_chat")
    assert [message["role"] for message in written["messages"]] == [
        *("user", "assistant", "tool", "user"),
    ]
    assert written["messages"][1]["tool_calls"][0]["id"] == "c1"
    assert write(written, "openai_chat")[0]["input"] == [
        *(body["input"][0], said(text("b")), call, result, body["input"][-1])
    ]


def test_instructions_are_one_text():
    chat = {
        "model": FLASH,
        "messages": [
            {"role": "system", "content": "I"},
            {"role": "developer", "content": "D"},
            {"role": "user", "content": "q"},
            {"role": "system", "content": "late"},
            {"role": "user", "content": "r"},
        ],
    }
    body, losses = write(chat, "openai_chat")
    assert body["system_instruction"] == "I\n\nD"
    assert "late" in json.dumps(body["input"])
    assert losses == {"RANK_LOWERED"}


def test_a_file_of_text_is_text():
    data = base64.b64encode(b"words").decode()
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    plain = {"type": "text", "media_type": "text/plain", "data": "words"}
    for given in (source, plain):
        block = {"type": "document", "source": given}
        body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [block]}]}
        written, losses = write(body, "anthropic_messages")
        assert "words" in written["input"][0]["content"][0]["text"]
        assert "DOCUMENT_TO_TEXT" in losses


# --- what blocks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field, code",
    [
        ("previous_interaction_id", "HISTORY_MISSING"),
        ("continuation_token", "HISTORY_MISSING"),
        ("agent", "AGENT_MISSING"),
    ],
)
def test_what_only_the_service_has_is_not_sent_elsewhere(field: str, code: str):
    body = request("Hi", **{field: "x"})
    with pytest.raises(cannery.LossError) as caught:
        cannery.translate(body, source=NAME, target="openai_chat")
    assert [(loss.code, loss.path) for loss in caught.value.losses] == [(code, field)]
    assert write(body, NAME)[0] == body


# --- signatures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, is_kept", [(FLASH, True), ("gemini-3.5-flash-001", True), (PRO, False)]
)
def test_signatures_go_to_the_family_that_made_them(model: str, is_kept: bool):
    call = {"type": "function_call", "id": "c", "name": "f", "arguments": {}, "signature": "Yw=="}
    steps = [{"type": "thought", "signature": "dA=="}, call]
    answer = {"id": "v1_a", "status": "requires_action", "model": FLASH, "steps": steps}
    spoken = cannery.normalize_response(answer, NAME).canisters
    history = [cannery.user("q"), *spoken, cannery.result("c", "r")]
    rendered = cannery.nativize_request(cannery.Request(history, model=model), NAME)
    body = rendered.body.decode()
    assert [words in body for words in ("Yw==", "dA==")] == [is_kept] * 2
    lost = [loss.code for loss in rendered.losses if loss.code == "SIGNATURE_DROPPED"]
    assert len(lost) == (0 if is_kept else 2)


# --- answers, streams, errors --------------------------------------------------------------------


def test_thoughts_and_prompts_of_tools_are_counted():
    usage = {"total_input_tokens": 3, "total_tool_use_tokens": 4, "total_output_tokens": 5}
    answer = {"id": "a", "status": "completed", "steps": [], "usage": usage}
    answer["usage"] |= {"total_thought_tokens": 6, "total_cached_tokens": 2}
    found = cannery.normalize_response(answer, NAME).usage
    assert (found.input, found.output, found.reasoning, found.cache_read) == (7, 11, 6, 2)


def stream(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


BEGUN = {"event_type": "interaction.created", "interaction": {"id": "a", "status": "in_progress"}}
ENDED = {"event_type": "interaction.completed", "interaction": {"id": "a", "status": "completed"}}


def test_a_call_whose_arguments_began_empty_has_those_of_its_deltas():
    step = {"type": "function_call", "id": "c", "name": "f", "arguments": {}}
    delta = {"type": "arguments_delta", "arguments": '{"a":1}'}
    data = stream(
        BEGUN,
        {"event_type": "step.start", "index": 0, "step": step},
        {"event_type": "step.delta", "index": 0, "delta": delta},
        ENDED,
    )
    answer = fold(cannery.normalize_stream([data], NAME))
    assert answer.canisters[-1].arguments_text == '{"a":1}'  # type: ignore[union-attr]
    assert answer.finish is FinishReason.Tool


def test_what_stands_beside_an_event_returns_to_that_event():
    events = [
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": text("Hi")},
        {"event_type": "step.stop", "index": 0},
    ]
    marked = [{**event, "event_id": f"e{number}"} for number, event in enumerate(events)]
    data = stream(BEGUN, *marked, {**ENDED, "event_id": "end"})
    written = b"".join(cannery.translate_stream([data], source=NAME, target=NAME))
    told = [json.loads(line[6:]) for line in written.splitlines() if line.startswith(b"data: {")]
    assert [event.get("event_id") for event in told] == [None, "e0", "e1", "e2", "end"]


@pytest.mark.parametrize(
    "status, code", [(400, "invalid_request"), (404, "not_found"), (429, "resource_exhausted")]
)
def test_the_code_of_an_error_is_a_word(status: int, code: str):
    dialect = find_dialect(NAME)
    body = dialect.write_error(WireError(status, "no"))
    assert json.loads(body) == {"error": {"code": code, "message": "no"}}
    read = dialect.read_error(status, body)
    assert (read.message, read.code) == ("no", code)
    assert read.kind is not None


STEP = {"type": "function_result", "call_id": "c", "name": "f", "result": "r"}
KEPT: list[Any] = [
    [{"role": "user", "content": [STEP, {"type": "text", "text": "and?"}], "x_new": 1}],
    [{"role": "user", "content": [STEP], "x_new": 1}],
    {"type": "image", "data": "AAAA", "mime_type": ""},
]


@pytest.mark.parametrize(
    "given", KEPT, ids=["around a step and a text", "around a step", "no type"]
)
def test_what_stands_around_a_turn_and_a_blank_type_come_back(given: Any):
    body = {"model": "m", "input": given}
    request = cannery.normalize_request(body, "gemini_interactions")
    assert json.loads(cannery.nativize_request(request, "gemini_interactions").body) == body


def test_a_capital_type_of_a_pdf_does_not_cost_its_name():
    shown = {"type": "image", "data": "JVBERi0xLjQK", "mime_type": "Application/Pdf"}
    body = {"model": "m", "input": [shown]}
    rendered = cannery.translate(body, source="gemini_interactions", target="bedrock_converse")
    (message,) = json.loads(rendered.body)["messages"]
    assert message["content"][1]["document"]["name"] == "document"


@pytest.mark.parametrize(
    "around", [{"outputs": None}, {"steps": None}, {"steps": None, "outputs": None}, {}]
)
def test_an_answer_without_steps_keeps_the_field_that_says_so(around: dict[str, None]):
    body = {"id": "a", "status": "completed", **around}
    same = {"source": NAME, "target": NAME, "kind": "response"}
    assert json.loads(cannery.translate(body, **same).body) == body


def test_a_turn_keeps_its_role_whatever_its_first_step_is() -> None:
    result = {"type": "function_result", "call_id": "c1", "name": "look", "result": "seen"}
    call = {"type": "function_call", "id": "c1", "name": "look", "arguments": {}}
    turns = [{"role": "user", "content": [call]}, {"role": "model", "content": [result]}]
    body = json.dumps({"model": "g", "input": turns}).encode()
    name = "gemini_interactions"
    assert json.loads(cannery.translate(body, source=name, target=name).body)["input"] == turns
