"""Every repair has a switch: on, it is made and told; off, nothing of it happens, or what must is told.

Each row is a body that needs one repair of its target, with the gist of what is written with and without it: a line for
each message, its role and its parts. What a format cannot say is repaired whatever is switched off, and told.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

import cannery
from cannery.dialects import find_dialect
from cannery.wire.losses import ALWAYS_ON, REPAIRS
from cannery.wire.markers import CONTINUE, NO_RESULT, PLACEHOLDER, media_label
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    PDF,
    PNG,
    RESPONSES,
    assistant,
    call,
    calls,
    chat,
    claude,
    system,
    text,
    tool,
    tool_result,
    tool_use,
    user,
)

Body = dict[str, Any]


# --- what is written, in short -------------------------------------------------------------------


def gist(body: bytes, dialect: str) -> list[str]:
    """A line for each message: whose it is and what it says."""
    lines: list[str] = []
    for role, parts in _MESSAGES[dialect](json.loads(body)):
        lines.append(" ".join([role, *parts]))
    return lines


def _chat(body: Body) -> Any:
    for message in body["messages"]:
        parts = _parts(message.get("content"))
        if message["role"] == "tool":
            parts = [f"{message['tool_call_id']}={''.join(parts)}"]
        made = [
            f"{each['id']}:{each['function']['name']}" for each in message.get("tool_calls", ())
        ]
        yield message["role"], [*parts, *made]


def _claude(body: Body) -> Any:
    if "system" in body:
        yield "system", _parts(body["system"])
    for message in body["messages"]:
        yield message["role"], _parts(message["content"])


def _responses(body: Body) -> Any:
    if "instructions" in body:
        yield "system", [body["instructions"]]
    for item in [user(body["input"])] if type(body["input"]) is str else body["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            yield "assistant", [f"{item['call_id']}:{item['name']}"]
        elif kind == "function_call_output":
            yield "tool", [f"{item['call_id']}={''.join(_parts(item['output']))}"]
        else:
            yield item["role"], _parts(item["content"])


def _gemini(body: Body) -> Any:
    if "systemInstruction" in body:
        yield "system", _parts(body["systemInstruction"]["parts"])
    for content in body["contents"]:
        yield content["role"].replace("model", "assistant"), _parts(content["parts"])


def _parts(content: Any) -> list[str]:
    if content is None:
        return []
    return [content] if type(content) is str else [_part(part) for part in content]


def _part(part: Body) -> str:
    is_marked = part.keys() & {"cache_control", "prompt_cache_breakpoint"}
    return _said(part) + ("*" if is_marked else "")


def _said(part: Body) -> str:
    match part:
        case {"text": words}:
            return str(words)
        case {"type": "tool_use", "id": identifier, "name": name}:
            return f"{identifier}:{name}"
        case {"functionCall": {"id": identifier, "name": name}}:
            return f"{identifier}:{name}"
        case {"type": "tool_result", "tool_use_id": identifier, "content": content}:
            return f"{identifier}={''.join(_parts(content))}"
        case {"functionResponse": {"id": identifier, "response": response, **more}}:
            parts = [*map(str, response.values()), *_parts(more.get("parts"))]
            return f"{identifier}={''.join(parts)}"
        case {"source": {"media_type": mime_type}} | {"inlineData": {"mimeType": mime_type}}:
            return f"<{mime_type}>"
        case {"image_url": {"url": url}} | {"image_url": url}:
            return f"<{url[5:].partition(';')[0]}>"
        case {"file": {"file_data": url}} | {"file_data": url}:
            return f"<{url[5:].partition(';')[0]}>"
    raise AssertionError(part)


_MESSAGES: dict[str, Callable[[Body], Any]] = {
    CHAT: _chat,
    RESPONSES: _responses,
    CLAUDE: _claude,
    GEMINI: _gemini,
}


# --- the table -------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A body that needs a repair for a target; ``more`` are the repairs that are left without it."""

    repair: str
    target: str
    body: Body
    on: list[str]
    off: list[str]
    more: tuple[str, ...] = ()
    quirks: dict[str, Any] | None = None

    @property
    def source(self) -> str:
        if "input" in self.body:
            return RESPONSES
        return CLAUDE if "max_tokens" in self.body else CHAT

    def written(self, *off: str) -> cannery.Rendered:
        """The translation, or what is nativized where an endpoint has rules of its own."""
        if self.quirks:
            return self.nativized(cannery.normalize_request(self.body, self.source), *off)
        return cannery.translate(self.body, source=self.source, target=self.target, without=off)

    def nativized(self, request: cannery.Request, *off: str) -> cannery.Rendered:
        rules = None
        if self.quirks:
            rules = msgspec.structs.replace(find_dialect(self.target).rules, **self.quirks)
        return cannery.nativize_request(request, self.target, without=off, rules=rules)


def rows(
    repair: str, body: Body, expected: dict[str, tuple[list[str], list[str]]], **more: Any
) -> list[Row]:
    """A row for each target, given by one or two letters."""
    return [
        Row(repair, _LETTERS[letter], body, on, off, **more)
        for letters, (on, off) in expected.items()
        for letter in letters
    ]


_LETTERS = {"c": CHAT, "r": RESPONSES, "a": CLAUDE, "g": GEMINI}


def image(mime_type: str) -> Body:
    return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{PNG}"}}


def file(mime_type: str, data: str) -> Body:
    inline = {"file_data": f"data:{mime_type};base64,{data}", "filename": "f"}
    return {"type": "file", "file": inline}


def responses(*items: Body) -> Body:
    return {"model": "gpt-5.5", "input": [*items]}


def input_file(mime_type: str, data: str) -> Body:
    url = f"data:{mime_type};base64,{data}"
    return {"type": "input_file", "filename": "f", "file_data": url}


def picture(mime_type: str) -> Body:
    return {"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": PNG}}


def marked(words: str) -> Body:
    return text(words, cache_control={"type": "ephemeral"})


def breaking(words: str) -> Body:
    return text(words, prompt_cache_breakpoint={"mode": "explicit"})


Q = user("q")
CALL, CALLS = calls(call("a")), calls(call("a"), call("b"))
USE, USES = assistant([tool_use("a")]), assistant([tool_use("a"), tool_use("b")])
LONG = "c" * 70
SHORT_40, SHORT_64 = f"{LONG[:31]}_6fe5981a", f"{LONG[:55]}_6fe5981a"
LATE = "<system-message>\nlate\n</system-message>"
ORPHAN = "[result of tool call a]\nA"
MOVED = media_label("a")
FAILED = f"tool a=[tool error] {NO_RESULT}"
NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

ROWS = [
    *rows(
        "alternation",
        chat(Q, user("x"), assistant("v"), assistant("w"), user("y")),
        {
            "ag": (
                ["user q x", "assistant v w", "user y"],
                ["user q", "user x", "assistant v", "assistant w", "user y"],
            )
        },
    ),
    # Results of one turn belong together, whoever else does not.
    *rows(
        "alternation",
        chat(Q, user("x"), CALLS, tool("a", "A"), {**tool("b", "B"), "name": "f"}),
        {
            "g": (
                ["user q x", "assistant a:f b:f", "user a=A b=B"],
                ["user q", "user x", "assistant a:f b:f", "user a=A b=B"],
            )
        },
    ),
    # A turn in which nothing was said parts nobody.
    *rows(
        "alternation",
        chat(Q, assistant(None), user("x")),
        {"ag": (["user q x"], ["user q", "user x"])},
    ),
    *rows(
        "cache_marks",
        chat(user([breaking(word) for word in "vwxyz"])),
        {"ar": (["user v w* x* y* z*"], ["user v* w* x* y* z*"])},
    ),
    *rows(
        "cache_marks",
        claude(user([marked(word) for word in "vwxyz"])),
        {"cr": (["user v w* x* y* z*"], ["user v* w* x* y* z*"])},
    ),
    *rows(
        "call_ids",
        chat(Q, calls(call("a.b")), tool("a.b", "A")),
        {
            "a": (
                ["user q", "assistant a_b_2e7336dc:f", "user a_b_2e7336dc=A"],
                ["user q", "assistant a.b:f", "user a.b=A"],
            )
        },
    ),
    *rows(
        "call_ids",
        claude(Q, assistant([tool_use(LONG)]), user([tool_result(LONG, "A")])),
        {
            "c": (
                ["user q", f"assistant {SHORT_40}:f", f"tool {SHORT_40}=A"],
                ["user q", f"assistant {LONG}:f", f"tool {LONG}=A"],
            ),
            "r": (
                ["user q", f"assistant {SHORT_64}:f", f"tool {SHORT_64}=A"],
                ["user q", f"assistant {LONG}:f", f"tool {LONG}=A"],
            ),
        },
    ),
    *rows(
        "call_ids",
        chat(Q, CALL, tool("a", "A"), CALL, tool("a", "B")),
        {
            "ag": (
                [
                    "user q",
                    "assistant a:f",
                    "user a=A",
                    "assistant a_ca978112:f",
                    "user a_ca978112=B",
                ],
                ["user q", "assistant a:f", "user a=A", "assistant a:f", "user a=B"],
            ),
        },
    ),
    *rows(
        "duplicate_results",
        chat(Q, CALL, tool("a", "A"), tool("a", "Z"), user("x")),
        {
            "ag": (
                ["user q", "assistant a:f", "user a=A x"],
                ["user q", "assistant a:f", "user a=A a=Z x"],
            ),
            "r": (
                ["user q", "assistant a:f", "tool a=A", "user x"],
                ["user q", "assistant a:f", "tool a=A", "tool a=Z", "user x"],
            ),
        },
    ),
    *rows(
        "duplicate_results",
        claude(Q, USE, user([tool_result("a", "A"), text("x"), tool_result("a", "Z")])),
        {
            "c": (
                ["user q", "assistant a:f", "tool a=A", "user x"],
                ["user q", "assistant a:f", "tool a=A", "user x", "tool a=Z"],
            ),
            "g": (
                ["user q", "assistant a:f", "user a=A x"],
                ["user q", "assistant a:f", "user a=A x a=Z"],
            ),
        },
    ),
    *rows(
        "empty_text",
        chat(system(" "), Q, assistant("w"), user([text(" "), text("x")])),
        {
            "ag": (
                ["user q", "assistant w", "user x"],
                ["system  ", "user q", "assistant w", "user   x"],
            )
        },
    ),
    *rows(
        "empty_text",
        chat(Q, CALL, tool("a", [text("A"), text(" ")])),
        {
            "a": (
                ["user q", "assistant a:f", "user a=A"],
                ["user q", "assistant a:f", "user a=A "],
            )
        },
    ),
    *rows(
        "first_user",
        chat(assistant("w"), Q),
        {"ag": ([f"user {PLACEHOLDER}", "assistant w", "user q"], ["assistant w", "user q"])},
    ),
    *rows(
        "function_names",
        chat(Q, calls(call("a", "1 f")), tool("a", "A")),
        {
            "a": (
                ["user q", "assistant a:1_f_e3f12ffc", "user a=A"],
                ["user q", "assistant a:1 f", "user a=A"],
            ),
            "g": (
                ["user q", "assistant a:_f_e3f12ffc", "user a=A"],
                ["user q", "assistant a:1 f", "user a=A"],
            ),
            "r": (
                ["user q", "assistant a:1_f_e3f12ffc", "tool a=A"],
                ["user q", "assistant a:1 f", "tool a=A"],
            ),
        },
    ),
    *rows(
        "function_names",
        claude(Q, assistant([tool_use("a", "f.g")]), user([tool_result("a", "A")])),
        {
            "c": (
                ["user q", "assistant a:f_g_d2bb54fa", "tool a=A"],
                ["user q", "assistant a:f.g", "tool a=A"],
            )
        },
    ),
    *rows(
        "function_names",
        claude(Q, assistant([tool_use("a", "")]), user([tool_result("a", "A")])),
        {
            "g": (
                ["user q", f"assistant a:c{NOTHING}", "user a=A"],
                ["user q", "assistant a:", "user a=A"],
            )
        },
    ),
    *rows(
        "late_supervisors",
        chat(Q, system("late"), user("x")),
        {"a": ([f"user q {LATE} x"], ["user q", "system late", "user x"])},
    ),
    *rows(
        "late_supervisors",
        chat(Q, assistant("w"), system("late"), model="claude-opus-5-5"),
        {
            "a": (
                ["user q", "assistant w", f"user {LATE}"],
                ["user q", "assistant w", "system late"],
            )
        },
    ),
    # Gemini cannot say it.
    *rows(
        "late_supervisors",
        chat(Q, system("late"), user("x")),
        {"g": ([f"user q {LATE} x"], [f"user q {LATE} x"])},
        more=("late_supervisors", "alternation"),
    ),
    *rows(
        "media_types",
        chat(user([image("image/jpeg"), file("application/x-pdf", PDF)])),
        {
            "rg": (
                ["user <image/png> <application/pdf>"],
                ["user <image/jpeg> <application/x-pdf>"],
            ),
            # A document that is no PDF cannot be said here.
            "a": (["user <image/png> <application/pdf>"], ["user <image/jpeg>"]),
        },
    ),
    *rows(
        "media_types",
        claude(Q, USE, user([tool_result("a", [picture("image/jpeg")]), picture("image/gif")])),
        {
            "c": (
                ["user q", "assistant a:f", "tool a=", f"user {MOVED} <image/png> <image/png>"],
                ["user q", "assistant a:f", "tool a=", f"user {MOVED} <image/jpeg> <image/gif>"],
            ),
            "r": (
                ["user q", "assistant a:f", "tool a=<image/png>", "user <image/png>"],
                ["user q", "assistant a:f", "tool a=<image/jpeg>", "user <image/gif>"],
            ),
            "g": (
                ["user q", "assistant a:f", "user a=<image/png> <image/png>"],
                ["user q", "assistant a:f", "user a=<image/jpeg> <image/gif>"],
            ),
        },
    ),
    # Claude knows only one kind of text, Gemini no data without a type.
    *rows(
        "media_types",
        responses(user([input_file("application/json", "e30=")])),
        {"a": (["user <text/plain>"], ["user <text/plain>"])},
        more=("media_types",),
    ),
    *rows(
        "media_types",
        chat(user([file("", "e30=")])),
        {"g": (["user <application/octet-stream>"], ["user <application/octet-stream>"])},
        more=("media_types",),
    ),
    *rows(
        "orphaned_results",
        chat(Q, assistant("w"), tool("a", "A"), user("x")),
        {
            "ag": (
                ["user q", "assistant w", f"user {ORPHAN} x"],
                ["user q", "assistant w", "user a=A x"],
            ),
            "r": (
                ["user q", "assistant w", f"user {ORPHAN}", "user x"],
                ["user q", "assistant w", "tool a=A", "user x"],
            ),
        },
    ),
    *rows(
        "orphaned_results",
        claude(Q, assistant("w"), user([text("x"), tool_result("a", "A")])),
        {
            "c": (
                ["user q", "assistant w", f"user x {ORPHAN}"],
                ["user q", "assistant w", "user x", "tool a=A"],
            )
        },
    ),
    *rows(
        "prefill",
        chat(Q, assistant("w"), model="claude-opus-5-5"),
        {"ag": (["user q", "assistant w", f"user {CONTINUE}"], ["user q", "assistant w"])},
    ),
    *rows(
        "result_order",
        chat(Q, CALLS, tool("b", "B"), tool("a", "A"), user("x")),
        {
            "ag": (
                ["user q", "assistant a:f b:f", "user a=A b=B x"],
                ["user q", "assistant a:f b:f", "user b=B a=A x"],
            ),
            "r": (
                ["user q", "assistant a:f", "assistant b:f", "tool a=A", "tool b=B", "user x"],
                ["user q", "assistant a:f", "assistant b:f", "tool b=B", "tool a=A", "user x"],
            ),
        },
    ),
    *rows(
        "result_order",
        claude(Q, USES, user([text("x"), tool_result("b", "B"), tool_result("a", "A")])),
        {
            "c": (
                ["user q", "assistant a:f b:f", "tool a=A", "tool b=B", "user x"],
                ["user q", "assistant a:f b:f", "user x", "tool b=B", "tool a=A"],
            ),
            "g": (
                ["user q", "assistant a:f b:f", "user a=A b=B x"],
                ["user q", "assistant a:f b:f", "user x b=B a=A"],
            ),
        },
    ),
    # A call without a result gets one in its place, and the others stay in theirs.
    *rows(
        "result_order",
        chat(Q, calls(call("a"), call("b"), call("c")), tool("c", "C"), user("x"), tool("a", "A")),
        {
            "ag": (
                ["user q", "assistant a:f b:f c:f", f"user a=A b={NO_RESULT} c=C x"],
                ["user q", "assistant a:f b:f c:f", f"user b={NO_RESULT} c=C x a=A"],
            )
        },
        more=("unanswered_calls",),
    ),
    *rows(
        "single_system",
        chat(system("s"), system("t"), Q),
        {
            "a": (["system s\n\nt", "user q"], ["system s t", "user q"]),
            "g": (["system s\n\nt", "user q"], ["system s t", "user q"]),
            "r": (["system s\n\nt", "user q"], ["system s", "system t", "user q"]),
        },
        quirks={"leading_supervisors": "one"},
    ),
    *rows(
        "single_system",
        claude(Q, system=[text("s"), text("t")]),
        {"c": (["system s\n\nt", "user q"], ["system s t", "user q"])},
        quirks={"leading_supervisors": "one"},
    ),
    *rows(
        "unanswered_calls",
        chat(Q, CALLS, tool("b", "B"), user("x")),
        {
            "ag": (
                ["user q", "assistant a:f b:f", f"user a={NO_RESULT} b=B x"],
                ["user q", "assistant a:f b:f", "user b=B x"],
            ),
            "r": (
                ["user q", "assistant a:f", "assistant b:f", FAILED, "tool b=B", "user x"],
                ["user q", "assistant a:f", "assistant b:f", "tool b=B", "user x"],
            ),
        },
    ),
    *rows(
        "unanswered_calls",
        claude(Q, USES, user([tool_result("b", "B"), text("x")])),
        {
            "c": (
                ["user q", "assistant a:f b:f", FAILED, "tool b=B", "user x"],
                ["user q", "assistant a:f b:f", "tool b=B", "user x"],
            )
        },
    ),
]


def name_of(row: Row) -> str:
    return f"{row.repair}-{row.source}-{row.target}"


each_row = pytest.mark.parametrize("row", ROWS, ids=name_of)
each_switch = pytest.mark.parametrize("is_off", [False, True], ids=["on", "off"])


def names(rendered: cannery.Rendered) -> set[str]:
    return {repair.name for repair in rendered.repairs}


# --- what holds for every row ----------------------------------------------------------------------


def test_every_repair_has_a_row():
    assert {row.repair for row in ROWS} == set(REPAIRS) - ALWAYS_ON


@each_row
def test_a_repair_that_is_on_is_made_and_told(row: Row):
    rendered = row.written()
    assert gist(rendered.body, row.target) == row.on
    assert names(rendered) >= {row.repair, *row.more}


@each_row
def test_a_repair_that_is_off_is_not_made(row: Row):
    rendered = row.written(row.repair)
    assert gist(rendered.body, row.target) == row.off
    assert names(rendered) == {*row.more}


@each_row
@each_switch
def test_the_same_body_comes_out_every_time(row: Row, *, is_off: bool):
    off = (row.repair,) if is_off else ()
    assert row.written(*off) == row.written(*off)


@each_row
def test_what_was_repaired_needs_no_repair_again(row: Row):
    body = row.written().body
    at_home = cannery.translate(body, source=row.target, target=row.target)
    assert json.loads(at_home.body) == json.loads(body)
    assert not at_home.repairs
    back = cannery.translate(body, source=row.target, target=row.source, model=row.body["model"])
    again = row._replace(body=json.loads(back.body)).written()
    assert gist(again.body, row.target) == row.on
    assert not names(again)


@each_row
@each_switch
def test_the_conversation_stays_as_it_was(row: Row, *, is_off: bool):
    request = cannery.normalize_request(row.body, row.source)
    before = cannery.nativize_request(request, row.source).body
    row.nativized(request, *((row.repair,) if is_off else ()))
    assert cannery.nativize_request(request, row.source).body == before
    assert json.loads(before) == row.body


@each_row
@each_switch
def test_both_ways_to_write_agree(row: Row, *, is_off: bool):
    off = (row.repair,) if is_off else ()
    one = row.written(*off)
    other = row.nativized(cannery.normalize_request(row.body, row.source), *off)
    assert one.body == other.body
    assert [(each.name, each.detail) for each in one.repairs] == [
        (each.name, each.detail) for each in other.repairs
    ]


# --- what no row shows -----------------------------------------------------------------------------


def test_a_system_message_added_at_home_is_told():
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}]}
    request = cannery.normalize_request(body, GEMINI)
    longer = cannery.Conversation((*request.conversation, cannery.supervisor("late")))
    rendered = cannery.nativize_request(request.replace(conversation=longer), GEMINI)
    assert gist(rendered.body, GEMINI) == ["user q", f"user {LATE}"]
    assert names(rendered) == {"late_supervisors"}


@pytest.mark.parametrize("off", [(), ("late_supervisors", "single_system")], ids=["on", "off"])
def test_alpaca_has_one_system_text(off: tuple[str, ...]):
    body = chat(system("s"), system("t"), Q, system("late"), assistant("w"))
    rendered = cannery.translate(body, source=CHAT, target="alpaca", without=off)
    assert json.loads(rendered.body)["system"] == "s\n\nt"
    assert json.loads(rendered.body)["instruction"] == f"q\n\n{LATE}"
    assert names(rendered) == {"single_system", "late_supervisors", "alternation"}


def test_one_system_message_for_all_says_what_it_leaves_out():
    row = Row(
        "single_system",
        CHAT,
        claude(Q, system=[marked("s"), text("t")]),
        [],
        [],
        quirks={"leading_supervisors": "one"},
    )
    assert {loss.code for loss in row.written().losses} == {"CACHE_MARK_DROPPED"}


def test_a_result_without_its_call_gets_a_name_for_gemini_and_that_is_told():
    body = chat(Q, assistant("w"), tool("a", "A"))
    off = {"orphaned_results"}
    rendered = cannery.translate(body, source=CHAT, target=GEMINI, without=off)
    assert [(loss.code, loss.path) for loss in rendered.losses] == [("NAME_CHANGED", "messages[2]")]


@pytest.mark.parametrize("off", [(), ("first_user",)], ids=["on", "off"])
def test_an_input_of_which_nothing_is_left_is_refused(off: tuple[str, ...]):
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    body = claude(assistant([thought]))
    with pytest.raises(cannery.EmptyConversationError):
        cannery.translate(body, source=CLAUDE, target=RESPONSES, without=off)


@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
def test_a_lone_system_message_is_nothing_to_send_without_its_repair(target: str):
    off = {"first_user"}
    with pytest.raises(cannery.EmptyConversationError):
        cannery.translate(chat(system("s")), source=CHAT, target=target, without=off)


@pytest.mark.parametrize("target", [RESPONSES, CLAUDE, GEMINI])
def test_text_that_looks_like_sound_stays_text(target: str):
    words = base64.b64encode(b"ID3 is a format of tags").decode()
    body = chat(user([file("text/plain", words)]))
    rendered = cannery.translate(body, source=CHAT, target=target)
    assert b"text/plain" in rendered.body
    assert names(rendered) == set()


def test_an_answer_has_the_type_of_its_bytes():
    image = cannery.ImageContentClass(base64.b64decode(PNG), "image/jpeg")
    response = cannery.Response(cannery.Conversation([cannery.assistant(image)]))
    rendered = cannery.nativize_response(response, GEMINI)
    assert b"image/png" in rendered.body
    assert names(rendered) == {"media_types"}
