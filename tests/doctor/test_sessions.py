"""Sessions of agents: what would break them is found by line, and a mended file changes nothing else."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.doctor.sessions import examine_session, has_session, mend_session


def claude(number: int, parent: int | None, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "parentUuid": None if parent is None else str(uuid.UUID(int=parent)),
        "isSidechain": False,
        "type": message["role"],
        "message": message,
        "uuid": str(uuid.UUID(int=number)),
        "timestamp": f"2026-11-18T10:00:{number:02}.000Z",
        "sessionId": "s",
        "cwd": "/home/user/project",
        "version": "2.1.197",
        **more,
    }


def said(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content), **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {}}


def result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "done"}


def written(records: list[Any]) -> bytes:
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in records)


def read(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


SOUND = [
    {"type": "mode", "mode": "normal", "sessionId": "s"},
    claude(1, None, {"role": "user", "content": "hello"}),
    claude(2, 1, said("assistant", text("hi"), id="m1", model="claude-opus-5")),
    claude(3, 2, {"role": "user", "content": "list"}),
    claude(4, 3, said("assistant", call("a"), id="m2", model="claude-opus-5")),
    claude(5, 4, said("assistant", call("b"), id="m2", model="claude-opus-5")),
    claude(6, 4, said("user", result("a"))),
    claude(7, 5, said("user", result("b"))),
    claude(8, 7, said("assistant", text("both"), id="m3", model="claude-opus-5")),
]


def test_a_sound_transcript_is_given_back_byte_for_byte():
    data = written(SOUND)
    assert examine_session(data, "claude_code") == ()
    assert mend_session(data, "claude_code").data == data


def test_calls_that_were_made_at_once_are_paired_beside_the_chain():
    data = written([each for each in SOUND if "6" not in str(each.get("uuid"))[-1:]])
    (found,) = examine_session(data, "claude_code")
    assert (found.code, found.path) == ("call-unanswered", "line 5: content[0]")


def test_an_interrupted_call_gets_a_result_between_it_and_what_follows():
    broken = [*SOUND[:5], claude(9, 4, {"role": "user", "content": "go on"})]
    mended = mend_session(written(broken), "claude_code")
    lines = mended.data.splitlines(keepends=True)
    added, after = json.loads(lines[5]), json.loads(lines[6])

    assert [change.code for change in mended.changes] == ["call-unanswered"]
    assert mended.left == ()
    assert lines[:5] == written(broken[:5]).splitlines(keepends=True)
    assert added["parentUuid"] == broken[4]["uuid"]
    assert after["parentUuid"] == added["uuid"]
    assert {**after, "parentUuid": broken[5]["parentUuid"]} == broken[5]
    assert (added["sessionId"], added["cwd"]) == ("s", "/home/user/project")
    assert mend_session(mended.data, "claude_code").data == mended.data


def test_a_line_of_which_nothing_is_left_goes_and_the_chain_holds():
    broken = [
        *SOUND[:3],
        claude(20, 2, said("assistant", text(" "), id="m9", model="claude-opus-5")),
        claude(21, 20, {"role": "user", "content": "next"}),
    ]
    mended = mend_session(written(broken), "claude_code")
    records = read(mended.data)
    assert [each.get("uuid") for each in records[1:]] == [
        broken[1]["uuid"],
        broken[2]["uuid"],
        broken[4]["uuid"],
    ]
    assert records[-1]["parentUuid"] == broken[2]["uuid"]


def test_what_another_model_signed_is_told_and_removed():
    thought = {"type": "thinking", "thinking": "hm", "signature": "EgA="}
    broken = [
        SOUND[1],
        claude(2, 1, said("assistant", thought, text("hi"), id="m1", model="claude-fable-5")),
        claude(3, 2, {"role": "user", "content": "again"}),
        claude(4, 3, said("assistant", text("yes"), id="m2", model="claude-opus-5")),
    ]
    (found,) = examine_session(written(broken), "claude_code")
    assert (found.code, found.path) == ("signature-model", "line 2: content[0]")
    mended = mend_session(written(broken), "claude_code")
    assert read(mended.data)[1]["message"]["content"] == [text("hi")]
    assert read(mended.data)[2:] == broken[2:]


def test_branches_and_subagents_that_are_not_sent_are_not_judged():
    aside = claude(30, 3, said("assistant", call("left"), id="m8", model="claude-opus-5"))
    agent = claude(31, None, said("assistant", call("other")), isSidechain=True)
    assert examine_session(written([*SOUND[:4], aside, agent, *SOUND[4:]]), "claude_code") == ()


def test_a_compacted_session_is_judged_from_the_compaction_on():
    old = claude(2, 1, said("assistant", call("x"), id="m1", model="claude-opus-5"))
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "c", "parentUuid": None}
    data = written(
        [
            SOUND[1],
            old,
            boundary,
            {**claude(9, 0, {"role": "user", "content": "summary"}), "parentUuid": "c"},
        ]
    )
    assert examine_session(data, "claude_code") == ()


@pytest.mark.parametrize("form", ["claude_code", "codex", "gemini_cli"])
@pytest.mark.parametrize("tail", [b'{"cut', b"\0\0\0\n", b"not json\n"])
def test_torn_lines_and_nul_bytes_are_problems_and_go(form, tail):
    data = written([{"type": "mode"}])
    (found,) = examine_session(data + tail, form)
    assert (found.code, found.path) == ("line-damaged", "line 2")
    assert mend_session(data + tail, form).data == data


# --- Codex and Gemini CLI --------------------------------------------------------------------------


def item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-11-18T10:00:00Z", "type": "response_item", "payload": payload}


TURN = {"timestamp": "t", "type": "turn_context", "payload": {"model": "gpt-5.1-codex"}}
ASKED = item(type="message", role="user", content=[{"type": "input_text", "text": "list"}])
CALLED = item(type="function_call", call_id="c1", name="shell", arguments="{}")
ANSWERED = item(type="function_call_output", call_id="c1", output="a.txt")
TOLD = item(type="message", role="assistant", content=[{"type": "output_text", "text": "one"}])


def test_a_rollout_gets_the_output_that_is_missing_and_keeps_its_other_lines():
    broken = [TURN, ASKED, CALLED, TOLD]
    mended = mend_session(written(broken), "codex")
    lines = mended.data.splitlines(keepends=True)
    assert [change.path for change in mended.changes] == ["line 3"]
    assert lines[:3] + lines[4:] == written(broken).splitlines(keepends=True)
    assert json.loads(lines[3])["payload"]["call_id"] == "c1"
    assert mended.left == ()


def test_reasoning_of_another_origin_is_removed_from_a_rollout():
    strange = item(type="reasoning", id="rs_1", summary=[], encrypted_content="EqQBCgIYAhIk")
    mended = mend_session(written([TURN, ASKED, strange, CALLED, ANSWERED, TOLD]), "codex")
    assert mended.data == written([TURN, ASKED, CALLED, ANSWERED, TOLD])


def test_a_compacted_rollout_is_judged_by_what_replaced_its_history():
    compacted = {
        "type": "compacted",
        "payload": {"message": "", "replacement_history": [ASKED["payload"]]},
    }
    assert examine_session(written([TURN, CALLED, compacted, TOLD]), "codex") == ()
    broken = {"type": "compacted", "payload": {"replacement_history": [CALLED["payload"]]}}
    mended = mend_session(written([TURN, broken, TOLD]), "codex")
    assert len(read(mended.data)) == 3
    assert len(read(mended.data)[1]["payload"]["replacement_history"]) == 2
    assert mended.left == ()


def test_turns_that_were_rolled_back_are_not_judged():
    back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    assert examine_session(written([TURN, ASKED, CALLED, back, ASKED, TOLD]), "codex") == ()


def test_a_call_of_gemini_cli_gets_its_result_in_place():
    header = {"sessionId": "s", "projectHash": "h", "startTime": "t"}
    asked = {"id": "1", "type": "user", "content": [{"text": "list"}]}
    calling = {
        "id": "2",
        "type": "gemini",
        "content": "",
        "toolCalls": [{"id": "c", "name": "ls", "args": {}}],
    }
    mended = mend_session(written([header, asked, calling]), "gemini_cli")
    (call_made,) = read(mended.data)[2]["toolCalls"]
    assert call_made["result"][0]["functionResponse"]["id"] == "c"
    assert mended.data.splitlines()[:2] == written([header, asked]).splitlines()
    assert mended.left == ()


def test_only_sessions_of_known_agents_are_mended_as_files():
    assert has_session("claude_code")
    assert not has_session("chatgpt")


BLOCKS = st.sampled_from(
    [
        text("x"),
        text(" "),
        call("a"),
        call("b:"),
        result("a"),
        result("z"),
        {"type": "thinking", "thinking": "t"},
    ]
)
MESSAGES = st.tuples(st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=4))


@given(st.lists(MESSAGES, min_size=1, max_size=6))
def test_any_mended_transcript_has_one_unbroken_chain_and_is_mended_once(messages):
    records = [
        claude(
            number + 1, number or None, {"role": role, "content": json.loads(json.dumps(blocks))}
        )
        for number, (role, blocks) in enumerate(messages)
    ]
    mended = mend_session(written(records), "claude_code")
    names = [each["uuid"] for each in read(mended.data)]
    assert all(each["parentUuid"] in (None, *names) for each in read(mended.data))
    assert len(names) == len(set(names))
    assert mend_session(mended.data, "claude_code").data == mended.data
