"""Bodies with thousands of tools or calls take as many steps, not that many times as many."""

from __future__ import annotations

from typing import Any

from cannery.dialects.gemini_generate.call_ids import CallIds
from cannery.wire.sse import FrameReader
from tests.behaviours.bodies import CHAT, GEMINI, told

MANY = 200


class Compared(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_results_find_their_calls_without_looking_at_all_that_wait():
    ids = CallIds("call_")
    for position in range(MANY):
        ids.call(ids.make(), Compared(f"f{position}"), position)
    Compared.times = 0
    found = [ids.answered(None, Compared(f"f{position}")) for position in reversed(range(MANY))]
    assert found == [f"call_{position}" for position in reversed(range(MANY))]
    assert Compared.times <= 4 * MANY


def test_results_answer_calls_of_one_name_in_their_order():
    ids = CallIds("call_")
    for position, (given, name) in enumerate(
        [(None, "f"), ("real", "f"), (None, "g"), (None, "f")]
    ):
        ids.call(given or ids.make(), name, position)
    assert (
        ids.answered("stranger", "f") == "call_0"
    )  # an id that was made here may be another elsewhere
    assert ids.answered("real", "f") == "real"
    assert ids.answered(None, "f") == "call_3"
    assert ids.answered(None, None) == "orphan_1"
    assert ids.answered(None, "g") == "call_2"
    assert ids.answered(None, "f") == "orphan_2"


def test_a_thousand_tools_keep_their_paths():
    tools = [{"type": "function", "function": {"name": f"t {index}"}} for index in range(1_000)]
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}], "tools": tools}
    found = told(body, CHAT, GEMINI)
    assert {path for code, path in found.paths if code == "NAME_CHANGED"} == {
        f"tools[{index}]" for index in range(1_000)
    }


class Watched(bytes):
    """Bytes that count how many of them are looked through for the ends of lines."""

    looked_through = 0

    def split(self, *how: Any, **more: Any) -> list[bytes]:
        Watched.looked_through += len(self)
        return super().split(*how, **more)


def test_a_long_line_in_small_pieces_is_looked_through_once():
    reader = FrameReader()
    pieces = [b"data: ", *[b"x" * 100] * MANY, b"\n\n"]
    Watched.looked_through = 0
    frames = [frame for piece in pieces for frame in reader.feed(Watched(piece))]
    assert [frame.data for frame in frames] == ["x" * 100 * MANY]
    assert Watched.looked_through == sum(map(len, pieces))
