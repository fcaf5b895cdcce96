"""Lines that are translated many at once give what each gives the general way."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cannery
from cannery.shortcuts import translate_lines
from cannery.wire import line_calls

SOURCE = "sharegpt"
TARGETS = ("openai_chat", "openai_finetuning")
TEXT = st.text(max_size=12) | st.sampled_from(
    ["", " ", "hello", '"quoted" \\ \n', "é 你 😀", "[tool error] no", "[tool error]", "<image>"]
)
ARGUMENTS = st.sampled_from(['{"q": 1.0}', "{}", '{"a":{"b":[null]}}', '"text"', "null", "[1]", ""])
NAMES = st.sampled_from(["search", "a_b", "not plain", "", "x" * 50])


EXACT = st.sampled_from(
    [
        '{"name": "a", "arguments": {"q": "é \\\\ \\" \\u00e9 \\ud83d\\ude00"}}',
        '{"name":"a","arguments":{"arguments":{"name":"b"}}}',
        '{"name": "a", "arguments": {"x": 1.0, "x": 1e2, "\x7f": []}}',
        '{"name": "a", "arguments": {"\\u007f": {}}}',
        '{"name": "a", "arguments": {}, "name": "b"}',
        '{"name": "a", "arguments": {}, "arguments": {"q": 1}}',
        '{"name": "a", "arguments": {}, "more": {}}',
        '{"arguments": {}, "name": "a"}',
        '{"name": "a", "arguments": {}} ',
        ' {"name": "a", "arguments": { }}',
        '{"name": "a", "arguments": {"q": [1}}',
        '{"name": "a", "arguments": {}},{"name": "a", "arguments": {}}',
        '{"name": "\\u0061", "arguments": {}}',
    ]
)


def call(name: str, arguments: str) -> str:
    given = f', "arguments": {arguments}' if arguments else ""
    return f'{{"name": {json.dumps(name)}{given}}}'


CALL = (
    st.builds(call, NAMES | st.just("search"), ARGUMENTS | st.just('{"q": "x"}'))
    | st.builds(call, st.just("search"), st.dictionaries(TEXT, TEXT, max_size=2).map(json.dumps))
    | EXACT
)
CALLS = CALL | st.lists(CALL, max_size=3).map(lambda calls: f"[{', '.join(calls)}]") | TEXT
TURN = (
    st.fixed_dictionaries(
        {"from": st.sampled_from(["human", "gpt", "system", "observation"]), "value": TEXT},
        optional={"weight": st.integers(0, 1)},
    )
    | st.fixed_dictionaries({"from": st.just("observation"), "value": TEXT})
    | st.fixed_dictionaries({"from": st.just("function_call"), "value": CALLS})
    | st.fixed_dictionaries({"from": st.sampled_from(["human", "gpt"]), "value": TEXT})
)
PLAIN = st.fixed_dictionaries({"from": st.sampled_from(["human", "gpt"]), "value": TEXT})
EXCHANGE = st.tuples(CALL, TEXT).map(
    lambda pair: [
        {"from": "function_call", "value": pair[0]},
        {"from": "observation", "value": pair[1]},
    ]
)
SEVERAL = st.lists(st.tuples(CALL, TEXT), min_size=1, max_size=3).map(
    lambda pairs: [
        {"from": "function_call", "value": f"[{', '.join(spelled for spelled, _ in pairs)}]"},
        *({"from": "observation", "value": said} for _, said in pairs),
    ]
)
WELL_FORMED = st.lists(PLAIN.map(lambda turn: [turn]) | EXCHANGE | SEVERAL, max_size=4).map(
    lambda groups: [turn for group in groups for turn in group]
)
TOOLS = st.sampled_from(
    [
        '[{"name": "search", "description": "Finds", "parameters": {"type": "object"}}]',
        '[{"type": "function", "function": {"name": "search"}}]',
        '[{"name": "not plain"}]',
        '[{"name": "search", "extra": 1}]',
        "[]",
        "",
        "no tools",
    ]
)
RECORD = st.fixed_dictionaries(
    {"conversations": WELL_FORMED | st.lists(TURN, max_size=5)},
    optional={
        "id": st.sampled_from(["a", 7, None, [1]]),
        "system": TEXT,
        "tools": TOOLS,
        "source": st.sampled_from(["web", "", None, {"a": 1}, {}, 0]),
        "odd key": st.just(1),
        "signature": st.just("x"),
    },
)


@pytest.mark.parametrize("target", TARGETS)
def test_one_line_is_said_as_the_general_way_says_it(target: str, general):
    @settings(max_examples=400)
    @given(record=RECORD, is_ascii=st.booleans())
    def run(record: dict, is_ascii: bool):
        raw = json.dumps(record, ensure_ascii=is_ascii).encode()
        fast = cannery.translate(raw, source=SOURCE, target=target)
        slow = general(raw, SOURCE, target)
        assert json.loads(fast.body) == json.loads(slow.body)
        assert fast.losses == slow.losses
        assert fast.repairs == slow.repairs

    run()


@pytest.mark.parametrize("few", [0, 3])
@pytest.mark.parametrize("target", TARGETS)
def test_many_lines_are_said_as_each_of_them(target: str, few: int, general, monkeypatch):
    # With 0, arguments of even one call are taken over as they are spelled.
    monkeypatch.setattr(line_calls, "_FEW", few)

    @settings(max_examples=200)
    @given(records=st.lists(RECORD, min_size=1, max_size=4), spaced=st.booleans())
    def run(records: list[dict], spaced: bool):
        separators = None if spaced else (",", ":")
        lines = [
            json.dumps(record, separators=separators, ensure_ascii=spaced).encode()
            for record in records
        ]
        found = translate_lines(lines, source=SOURCE, target=target)
        if found is not None:
            slow = [general(line, SOURCE, target) for line in lines]
            said = [json.loads(line) for line in found.body.splitlines()]
            assert said == [json.loads(each.body) for each in slow]
            assert all((each.losses, each.repairs) == (found.losses, ()) for each in slow)

    run()


@pytest.mark.parametrize("turns", [1, 4])
def test_common_records_take_the_short_way(turns: int):
    talk = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "é\n"}] * turns
    asked = [
        {"from": "function_call", "value": call("search", '{"q": 1}')},
        {"from": "observation", "value": "found"},
    ]
    tools = '[{"name": "search", "parameters": {}}]'
    plain = json.dumps({"conversations": talk}).encode()
    calls = json.dumps({"conversations": [*talk, *asked * turns], "tools": tools}).encode()

    for lines in ([plain] * 3, [calls] * 3, [plain, calls]):
        found = translate_lines(lines, source=SOURCE, target="openai_chat")
        assert found is not None
        assert len(found.body.splitlines()) == len(lines)


BROKEN = [
    b'{"conversations":[{"from":"human","value":"\xff"}]}',
    b'{"conversations":[{"from":"human","value":"\xed\xa0\x80"}]}',
    b'{"conversations":[{"from":"human","value":"\\ud800"}]}',
    b'{"conversations":[{"from":"human","value":"\\udc00 and more"}]}',
    b'{"conversations":[{"from":"human","value":"\\q"}]}',
    b'{"conversations":[{"from":"human","value":"\t"}]}',
    b'{"conversations":[{"from":"human","value":7}]}',
    b'{"conversations":[{"from":"human","value":null}]}',
    b'{"conversations":[{"from":"human","value":{"content":"x"}}]}',
    b'{"conversations":[{"from":"human","value":["x"]}]}',
    b'{"conversations":[{"from":"human"}]}',
    b'{"conversations":[{"from":"admin","value":"x"}]}',
    b'{"conversations":[]}',
    b"{}",
    b"[]",
    b"",
    b"{",
]
SOUND = b'{"conversations":[{"from":"human","value":"Hi"}]}'


@pytest.mark.parametrize("line", BROKEN)
def test_a_line_that_is_odd_is_left_to_the_general_way(line: bytes):
    for lines in ([line], [SOUND, line], [line, SOUND]):
        assert translate_lines(lines, source=SOURCE, target="openai_chat") is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n", b""])
def test_any_end_of_line_will_do(end: bytes):
    found = translate_lines([SOUND + end, b" " + SOUND + end], source=SOURCE, target="openai_chat")
    assert found is not None
    assert found.body.count(b"\n") == 2


@pytest.mark.parametrize("line", [SOUND + SOUND, SOUND + b" " + SOUND, SOUND + b"\n" + SOUND])
def test_a_line_has_one_record(line: bytes):
    assert translate_lines([line], source=SOURCE, target="openai_chat") is None


def test_calls_are_counted_through_the_record():
    turns = [
        {"from": "gpt", "value": "Two at once."},
        {"from": "function_call", "value": f"[{call('a', '{}')}, {call('b', '{}')}]"},
        {"from": "observation", "value": "[1]"},
        {"from": "observation", "value": "2"},
        {"from": "function_call", "value": call("c", '{"q": "é"}')},
        {"from": "observation", "value": "3"},
    ]
    line = json.dumps({"conversations": turns}).encode()
    found = translate_lines([line, line], source=SOURCE, target="openai_chat")
    assert found is not None
    for written in map(json.loads, found.body.splitlines()):
        said, first, second, asked, third = written["messages"]
        assert [made["id"] for made in said["tool_calls"]] == ["call_0", "call_1"]
        assert [made["id"] for made in asked["tool_calls"]] == ["call_2"]
        answers = [answer["tool_call_id"] for answer in (first, second, third)]
        assert answers == ["call_0", "call_1", "call_2"]


@pytest.mark.parametrize(
    "answers",
    [(1, 3), (3, 1), (0, 2), (2, 0)],
)
def test_answers_that_do_not_fit_their_calls_are_left_to_the_general_way(answers: tuple[int, int]):
    turns = []
    for count in answers:
        turns.append({"from": "function_call", "value": f"[{call('a', '{}')}, {call('b', '{}')}]"})
        turns += [{"from": "observation", "value": "x"}] * count
    line = json.dumps({"conversations": turns}).encode()
    assert translate_lines([line], source=SOURCE, target="openai_chat") is None


def _line_with(value: str) -> bytes:
    turns = [
        {"from": "function_call", "value": value},
        {"from": "observation", "value": "found"},
    ]
    return json.dumps({"conversations": turns}).encode()


USUAL = '{"name": "a", "arguments": {}}'


@pytest.mark.parametrize(
    "values",
    [
        # Each of these looks like calls only beside the others.
        ['{"name": "a", "arguments": {"x": [1}}', '{"name": "a", "arguments": {"y": 2]}}'],
        ['{"name": "a", "arguments": {"x": [{}}', '{"name": "a", "arguments": {}]}}', USUAL],
        [
            '{"name": "a", "arguments": {"x": [{}}',
            '{"name": "a", "arguments": {}]}}',
            '{"name": "a", "arguments": {}},{"\\u007f":{}}',
        ],
    ],
)
def test_what_is_no_call_by_itself_is_none_among_others(values: list[str], general, monkeypatch):
    monkeypatch.setattr(line_calls, "_FEW", 0)
    lines = [_line_with(value) for value in values]
    assert translate_lines(lines, source=SOURCE, target="openai_chat") is None
    for line in lines:
        said = cannery.translate(line, source=SOURCE, target="openai_chat")
        assert json.loads(said.body) == json.loads(general(line, SOURCE, "openai_chat").body)


@pytest.mark.parametrize("value", ["[]", "", "{}", "text", "7", '["a"]', '[{"name": "a"}]'])
def test_a_turn_without_a_call_is_left_to_the_general_way(value: str):
    line = _line_with(value)
    assert translate_lines([line], source=SOURCE, target="openai_chat") is None


@pytest.mark.parametrize("separators", [None, (",", ":")])
def test_arguments_of_many_calls_are_taken_over_as_they_are_spelled(separators, monkeypatch):
    monkeypatch.delattr(line_calls, "_spelled")
    asked = {"name": "a-b", "arguments": {"q": 'é "quoted" \\ \n', "n": [1.0, {"name": "x"}]}}
    value = json.dumps(asked, separators=separators)
    found = translate_lines([_line_with(value)] * 5, source=SOURCE, target="openai_chat")
    assert found is not None
    for written in map(json.loads, found.body.splitlines()):
        function = written["messages"][0]["tool_calls"][0]["function"]
        spelled = json.dumps(asked["arguments"], separators=separators)
        assert function == {"name": "a-b", "arguments": spelled}


@pytest.mark.parametrize("answer", ["Sunny", "sunny", "7", '"quoted"', "[1, 2]", "é", ""])
def test_any_answer_that_tells_no_failure_takes_the_short_way(answer: str):
    turns = [{"from": "function_call", "value": USUAL}, {"from": "observation", "value": answer}]
    line = json.dumps({"conversations": turns}).encode()
    assert translate_lines([line], source=SOURCE, target="openai_chat") is not None


@pytest.mark.parametrize(
    "answer", ["[tool error] no", "\\u005btool error] no", "[tool\\u0020error]"]
)
def test_an_answer_that_tells_a_failure_is_left_to_the_general_way(answer: str):
    turns = f'[{{"from":"function_call","value":{json.dumps(USUAL)}}},{{"from":"observation","value":"{answer}"}}]'
    line = f'{{"conversations":{turns}}}'.encode()
    assert translate_lines([line], source=SOURCE, target="openai_chat") is None


@settings(max_examples=300)
@given(at=st.integers(0, 200), byte=st.binary(min_size=1, max_size=2))
@example(at=47, byte=b'"')
def test_a_damaged_line_never_gets_through_as_something_else(at: int, byte: bytes):
    line = b'{"id":"a","conversations":[{"from":"human","value":"Hi \\u00e9"},{"from":"gpt","value":"Hello"}]}'
    damaged = line[:at] + byte + line[at + 1 :]
    found = translate_lines([damaged], source=SOURCE, target="openai_chat")
    if found is not None:
        turns = json.loads(damaged)["conversations"]
        said = json.loads(found.body)["messages"]
        assert [message["content"] for message in said] == [turn["value"] for turn in turns]
        assert all(type(message["content"]) is str for message in said)


def test_a_field_of_its_own_counts_as_lost_and_a_strict_policy_refuses(general):
    line = b'{"conversations":[{"from":"human","value":"Hi"}],"source":"web"}'
    codes = [
        loss.code for loss in cannery.translate(line, source=SOURCE, target="openai_chat").losses
    ]
    assert codes == ["FIELD_DROPPED", "MODEL_UNKNOWN"]
    for translate in (cannery.translate, general):
        with pytest.raises(cannery.LossError):
            translate(line, source=SOURCE, target="openai_chat", policy="strict")
