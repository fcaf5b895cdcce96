"""Responses streams: any split, the same answer as the whole body, and what the SDK accepts."""

from __future__ import annotations

import json

import pytest

from cannery.dialects import dialect_names
from cannery.messages import fold, unfold
from cannery.messages.events import Delta, Failure, Finish, PartEnd, PartStart, Start, UsageReport
from cannery.messages.requests import FinishReason, Usage
from cannery.translation import (
    nativize_response,
    nativize_stream,
    normalize_response,
    normalize_stream,
)
from cannery.wire.contract import StreamOptions
from cannery.wire.losses import Aliases
from tests.oracles.corpus import DIALECTS, response_cases, stream_cases
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.stream_rules import check_stream_rules

NAME = "openai_responses"
READ = stream_cases(NAME)
FINISHED = [case for case in READ if not case.ends_in_error]
SOURCES = [case for name in DIALECTS if name in dialect_names() for case in stream_cases(name)]
WHOLES = [case for name in DIALECTS if name in dialect_names() for case in response_cases(name)]


def name(case):
    return f"{case.dialect}-{case.id}"


def events_of(data, size=None, dialect=NAME):
    size = size or len(data)
    return list(
        normalize_stream([data[at : at + size] for at in range(0, len(data), size)], dialect)
    )


def written(events, **options):
    return b"".join(nativize_stream(events, NAME, options=StreamOptions(**options)))


def last(transcript):
    return json.loads(transcript.split(b"data: ")[-1])


@pytest.mark.parametrize("case", READ, ids=name)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_any_split_gives_the_same_events(case, size):
    assert events_of(case.data, size) == events_of(case.data)


@pytest.mark.parametrize("case", FINISHED, ids=name)
def test_a_stream_folds_to_the_whole_answer(case):
    folded = fold(events_of(case.data))
    whole = normalize_response(case.whole_case.body, NAME)

    assert folded.canisters == whole.canisters
    assert (folded.finish, folded.usage) == (whole.finish, whole.usage)
    assert (folded.model, folded.identifier) == (whole.model, whole.identifier)
    assert json.loads(nativize_response(folded, NAME).body) == case.whole_case.body


@pytest.mark.parametrize("lacking", ["created_at", "error", "metadata", "tools", "top_p", "usage"])
def test_a_field_that_the_whole_answer_lacks_is_folded_with_a_default(lacking):
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "metadata": {},
        "tools": [],
        "top_p": None,
        "model": "gpt-5",
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "id": "msg_1",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
    }
    del whole[lacking]
    event = {"type": "response.completed", "response": whole}
    folded = fold(events_of(b"data: " + json.dumps(event).encode() + b"\n\n"))
    body = json.dumps(whole).encode()

    assert json.loads(nativize_response(folded, NAME).body) == whole
    assert folded.residue == normalize_response(body, NAME).residue


@pytest.mark.parametrize("case", FINISHED, ids=name)
def test_every_part_starts_and_ends_once_and_the_finish_comes_last(case):
    events = events_of(case.data)

    assert isinstance(events[0], Start)
    assert isinstance(events[-1], Finish)
    started = [event.index for event in events if isinstance(event, PartStart)]
    ended = [event.index for event in events if isinstance(event, PartEnd)]
    assert sorted(started) == sorted(ended) == sorted(set(started))


@pytest.mark.parametrize("case", [case for case in READ if case.ends_in_error], ids=name)
def test_an_error_in_mid_stream_is_a_failure(case):
    failure = events_of(case.data)[-1]

    assert isinstance(failure, Failure)
    assert failure.kind == "server_error"


@pytest.mark.parametrize("case", FINISHED, ids=name)
def test_a_stream_that_ends_early_is_a_failure(case):
    cut = case.data[: case.data.rindex(b"event: response.")]

    assert events_of(cut)[-1] == Failure(
        "the stream ended before the answer was complete", "incomplete"
    )


@pytest.mark.parametrize("case", SOURCES, ids=name)
def test_what_is_written_is_what_the_sdk_accepts(case):
    transcript = written(events_of(case.data, dialect=case.dialect))

    assert check_stream_rules(NAME, transcript) == []
    accumulated = parse_stream(NAME, [transcript])
    assert case.extended or accumulated.problems == []
    if case.dialect == NAME and not case.ends_in_error:
        assert last(transcript)["response"]["output"] == case.whole_case.body["output"]


@pytest.mark.parametrize("case", WHOLES, ids=name)
def test_a_stream_ends_with_the_output_of_the_whole_answer(case):
    response = normalize_response(case.body, case.dialect)
    transcript = written(unfold(response) if response.finish else [*unfold(response), stop()])

    whole = json.loads(nativize_response(response, NAME).body)
    assert last(transcript)["response"]["output"] == whole["output"]
    assert check_stream_rules(NAME, transcript) == []


def stop():
    return Finish(FinishReason.Stop)


def test_parts_that_interleave_are_not_mixed():
    events = [
        Start("r", "m"),
        PartStart(0, "text"),
        PartStart(1, "invocation", "c1", "f"),
        PartStart(2, "invocation", "c2", "g"),
        Delta(1, '{"a"', "arguments"),
        Delta(2, '{"b"', "arguments"),
        Delta(0, "late"),
        Delta(2, ":2}", "arguments"),
        PartEnd(2),
        Delta(1, ":1}", "arguments"),
        PartStart(3, "text"),
        Delta(3, "more"),
        PartEnd(0),
        PartEnd(1),
        PartEnd(3),
        UsageReport(Usage(1, 2)),
        Finish(FinishReason.Tool),
    ]
    transcript = written(events)

    assert check_stream_rules(NAME, transcript) == []
    assert parse_stream(NAME, [transcript]).problems == []
    output = last(transcript)["response"]["output"]
    assert [item.get("arguments") for item in output] == [None, '{"a":1}', '{"b":2}', None]
    assert [item["content"][0]["text"] for item in (output[0], output[3])] == ["late", "more"]


def test_texts_in_a_row_are_parts_of_one_message():
    parts = [
        event
        for index in range(3)
        for event in (PartStart(index, "text"), Delta(index, str(index)), PartEnd(index))
    ]
    transcript = written([Start("r", "m"), *parts, stop()])

    (message,) = last(transcript)["response"]["output"]
    assert [part["text"] for part in message["content"]] == ["0", "1", "2"]


def test_reasoning_from_elsewhere_is_shown_without_its_signature():
    events = [
        Start("r", "m"),
        PartStart(0, "reasoning"),
        Delta(0, "hm"),
        Delta(0, "sig", "signature"),
        PartEnd(0),
        PartStart(1, "reasoning"),
        Delta(1, "sealed", "encrypted"),
        PartEnd(1),
        PartStart(2, "text"),
        Delta(2, "hi"),
        PartEnd(2),
        stop(),
    ]
    transcript = written(events)

    thought, message = last(transcript)["response"]["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert message["content"][0]["text"] == "hi"
    assert b"sig" not in transcript
    assert b"sealed" not in transcript


def test_names_map_back():
    events = [Start("r", "m"), PartStart(0, "invocation", "c", "a_1"), PartEnd(0), stop()]
    transcript = written(events, aliases=Aliases({"a_1": "a.1"}))

    assert last(transcript)["response"]["output"][0]["name"] == "a.1"
    assert last(transcript)["response"]["output"][0]["arguments"] == "{}"


@pytest.mark.parametrize("events", [[], [Start("r", "m")], [Start("r", "m"), PartStart(0, "text")]])
def test_a_failure_is_said_at_any_time(events):
    transcript = written([*events, Failure("slow down", "rate_limit_error"), stop()])

    response = last(transcript)["response"]
    assert response["status"] == "failed"
    assert response["error"]["code"] == "rate_limit_exceeded"
    assert events_of(transcript)[-1].message == "slow down"
    assert parse_stream(NAME, [transcript]).problems == []


def test_a_server_that_sends_no_deltas_is_understood():
    case = next(case for case in FINISHED if case.id == "reasoning_summary_encrypted")
    frames = case.data.split(b"\n\n")
    bare = b"\n\n".join([frames[0], *frames[-2:]])

    assert fold(events_of(bare)).canisters == fold(events_of(case.data)).canisters


def test_codex_gets_the_end_of_every_item_before_the_end_of_the_answer():
    case = next(case for case in READ if case.id == "parallel_tools_interleaved")
    kinds = [
        json.loads(line[6:])["type"]
        for line in written(events_of(case.data)).split(b"\n")
        if line.startswith(b"data: ")
    ]

    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert (
        kinds.count("response.output_item.done") == kinds.count("response.output_item.added") == 2
    )


def test_a_result_in_an_answer_is_nobodys_words():
    """The output of a tool that ran at the server is an item of the answer."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "id": "fco_1", "call_id": "c", "output": "42"}
    items = [{**item, "status": "completed"} for item in (call, output)]
    body = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": []}
    said = [{"type": "response.created", "response": body}]
    for index, item in enumerate(items):
        place = {"output_index": index, "item": item}
        said += [{"type": f"response.output_item.{what}", **place} for what in ("added", "done")]
    said += [{"type": "response.completed", "response": {**body, "output": items}}]
    events = events_of(b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in said))

    whole = normalize_response(json.dumps({**body, "output": items}), NAME)
    assert [item.role for item in fold(events).canisters][-1] == whole.canisters[-1].role
    assert last(written(events))["response"]["output"] == items
    for dialect in ("openai_chat", "anthropic_messages", "gemini_generate"):
        assert b"42" not in b"".join(nativize_stream(events, dialect))
        rendered = nativize_response(whole, dialect)
        assert b"42" not in rendered.body
        assert "RESULT_DROPPED" in {loss.code for loss in rendered.losses}


def answer_of(output, **fields):
    body = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    body |= {"error": None, "incomplete_details": None, "instructions": None, "metadata": {}}
    body |= {"parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": []}
    return {**body, "top_p": 1.0, "usage": None, "output": output, **fields}


def message_of(text, **part):
    content = [{"type": "output_text", "text": text, "annotations": [], **part}]
    item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    return {**item, "content": content}


def streamed(answer, *between):
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    said = [
        {"type": "response.created", "response": begun},
        *between,
        {"type": "response.completed", "response": answer},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in said)


def spoken(text, *, content_index, done):
    place = {"output_index": 0, "item_id": "msg_1"}
    at = {**place, "content_index": content_index}
    part = {"type": "output_text", "text": "", "annotations": []}
    empty = {**done, "status": "in_progress", "content": []}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.content_part.added", **at, "part": part},
        *({"type": "response.output_text.delta", **at, "delta": word} for word in text),
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]


@pytest.mark.parametrize("content_index", [0, 1, 2, 5_000_000])
def test_parts_that_are_not_counted_from_zero_are_said_once(content_index):
    done = message_of("Hi!")
    data = streamed(answer_of([done]), *spoken(["Hi", "!"], content_index=content_index, done=done))

    assert [canister.text for canister in fold(events_of(data)).canisters] == ["Hi!"]
    assert last(written(events_of(data)))["response"]["output"] == [done]
    for target in ("openai_chat", "anthropic_messages", "gemini_generate"):
        transcript = b"".join(nativize_stream(events_of(data), target))
        assert fold(events_of(transcript, dialect=target)).canisters[0].text == "Hi!"


def test_a_later_part_that_starts_first_keeps_its_place():
    done = message_of("one")
    done["content"].append({"type": "output_text", "text": "two", "annotations": []})
    data = streamed(answer_of([done]), *spoken(["two"], content_index=1, done=done))

    assert [canister.text for canister in fold(events_of(data)).canisters] == ["one", "two"]


def test_fold_keeps_what_is_around_the_answer():
    logprobs = [{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}]
    usage = {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0, "audio_tokens": 2},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 7,
        "cost": 0.25,
    }
    done = {**message_of("Hi", logprobs=logprobs), "phase": "final_answer"}
    around = {"service_tier": "flex", "metadata": {"a": "b"}, "reasoning": {"effort": "low"}}
    answer = answer_of([done], **around, usage=usage, vendor_score=3, temperature=0.5)
    events = events_of(streamed(answer, *spoken(["Hi"], content_index=0, done=done)))
    folded = fold(events)
    whole = normalize_response(json.dumps(answer, separators=(",", ":")), NAME)

    assert (folded.residue, folded.usage) == (whole.residue, whole.usage)
    assert json.loads(nativize_response(folded, NAME).body) == answer
    for target in ("openai_chat", "anthropic_messages", "gemini_generate"):
        assert nativize_response(folded, target) == nativize_response(whole, target)
    assert last(written(events))["response"] == answer


def test_the_same_dialect_keeps_what_events_say_beside_their_words():
    done = message_of("Hi")
    between = spoken(["Hi"], content_index=0, done=done)
    between[1]["part"]["logprobs"] = []
    between[2] |= {"logprobs": [{"token": "Hi", "logprob": -1}], "obfuscation": "x7", "odd": {}}
    answer = answer_of([done], first_seen_late=7, late_object={"a": [1]})
    queued = {"type": "response.queued", "response": {"id": "r", "model": "m", "place": 4}}
    data = streamed(answer, queued, *between).replace(b'"first_seen_late": 7,', b"", 1)
    told = [
        json.loads(line[6:])
        for line in written(events_of(data)).split(b"\n")
        if line[:5] == b"data:"
    ]

    def of(kind):
        return [event for event in told if event["type"] == f"response.{kind}"]

    assert [event["type"] for event in told].count("response.in_progress") == 0
    assert of("queued")[0]["response"] == queued["response"]
    assert of("content_part.added")[0]["part"] == between[1]["part"]
    (delta,) = of("output_text.delta")
    assert {**between[2], "sequence_number": delta["sequence_number"]} == delta
    assert "first_seen_late" not in of("created")[0]["response"]
    assert told[-1]["response"] == answer


@pytest.mark.parametrize("order", ["added done added done", "added added done done"])
def test_streamed_reasoning_knows_its_follower(order):
    """Without what followed it, a reasoning item must not go back alone."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    done = message_of("Hi")
    counts = {"added": 0, "done": 0}
    events = []
    for what in order.split():
        place = {"output_index": counts[what], "item": [thought, done][counts[what]]}
        events.append({"type": f"response.output_item.{what}", **place})
        counts[what] += 1
    answer = answer_of([thought, done])
    folded = fold(events_of(streamed(answer, *events)))
    whole = normalize_response(json.dumps(answer), NAME)

    assert [canister.residue for canister in folded.canisters] == [
        canister.residue for canister in whole.canisters
    ]
    assert json.loads(nativize_response(folded, NAME).body)["output"] == [thought, done]
