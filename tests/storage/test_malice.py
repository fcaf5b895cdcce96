"""Stores that somebody made to do harm: bounded memory and time, and always an error of ours."""

import resource

import pytest

from cannery.backends._seals import seal
from cannery.backends.directory.lines import find_end, judge, read_range
from cannery.errors import DamageError
from cannery.messages import assistant, user
from cannery.storage import open_store

LINE = b'{"role":"user","content":{"type":"text","text":"hi"},"timestamp":"2025-11-18T10:30:00Z"}'


def replace_log(path, identifier, data):
    (path / "conversations" / identifier / "messages.jsonl").write_bytes(data)


@pytest.fixture
def one(path):
    """A closed store with one conversation of two messages."""
    with open_store(path) as store:
        identifier = store.create("one", canisters=[user("hello"), assistant("hi")]).identifier
    return path, identifier


@pytest.mark.parametrize("ordinal", [2_000_000_000, 10**17, 10**18 - 1])
def test_a_line_that_claims_a_huge_position_is_damaged(one, ordinal):
    path, identifier = one
    log = path / "conversations" / identifier / "messages.jsonl"
    replace_log(path, identifier, log.read_bytes() + seal(LINE, ordinal))
    with open_store(path) as store:
        conversation = store.get(identifier)
        assert len(conversation) == 3
        reading = conversation.read()
        assert len(reading.canisters) == 2
        assert [damage.problem for damage in reading.damages] == ["damaged line"]
        with pytest.raises(DamageError):
            conversation.load()
        store.rebuild_index()
        assert store.list()[0].count == 3
        conversation.append(user("next"))
        assert conversation.load(-1)[0].text == "next"


def test_many_lines_may_be_missing():
    """A log of a million lines of which all but the last were lost."""
    data = seal(LINE, 1_000_000)
    reading = judge(data, "log", 0, 0)
    assert (len(reading.lines), reading.lines[-1]) == (1_000_001, data[:-1])
    assert find_end(lambda length, at: data[at : at + length], len(data), "log", 0) == 1_000_001


def test_a_row_of_false_seals_is_judged_in_linear_time():
    def work(count):
        data = b'{"a":1' + b',"check":"1.00000000"}' * count + b"\n"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        assert judge(data, "log", 0, 0).lines == [None]
        read_range(lambda length, at: data[at : at + length], len(data), "log", 0, 1, None)
        return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before

    work(10_000)
    assert work(200_000) < 20 * (work(20_000) + 0.02)
