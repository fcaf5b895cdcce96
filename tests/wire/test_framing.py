"""Framings of streams: bytes in any split give the same frames, and what is written is read again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import DialectError
from cannery.wire.framing import AWS_EVENT_STREAM, NDJSON, SSE, Framing

FRAMINGS = (SSE, NDJSON, AWS_EVENT_STREAM)
VALUES = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20)), max_size=5)


def read(framing: Framing, chunks: list[bytes]) -> list[tuple[str, str]]:
    reader = framing.reader()
    frames = [frame for chunk in chunks for frame in reader.feed(chunk)]
    return [(frame.name, frame.data) for frame in (*frames, *reader.close())]


@pytest.mark.parametrize("framing", FRAMINGS, ids=lambda framing: framing.name)
@given(values=VALUES, size=st.integers(1, 40))
def test_what_is_written_is_read_again_whatever_the_split(
    framing: Framing, values: list[dict[str, str]], size: int
) -> None:
    written = b"".join(framing.write("delta", value) for value in values)
    whole = read(framing, [written])
    chunks = [written[at : at + size] for at in range(0, len(written), size)]
    assert read(framing, chunks) == whole
    assert [json.loads(data) for _, data in whole] == values
    names = {name for name, _ in whole}
    assert names <= ({""} if framing is NDJSON else {"delta"})


def test_lines_may_end_in_crlf_and_the_last_in_nothing() -> None:
    chunks = [b'{"a":1}\r\n\n  \n{"b"', b":2}"]
    assert read(NDJSON, chunks) == [("", '{"a":1}'), ("", '{"b":2}')]


def test_a_line_that_was_cut_off_completes_nothing() -> None:
    assert read(NDJSON, [b'{"a":1}\n{"b":']) == [("", '{"a":1}')]


def test_a_known_message_of_an_aws_event_stream_is_read() -> None:
    # The empty message and the one with a header of the int32 type of Smithy's test vectors.
    empty = bytes.fromhex("0000001000000000 05c248eb 7d98c8ff")
    header = bytes.fromhex(
        "0000002d 00000010 41c424b8 0a6576656e742d74797065 04 0000a00c 7b27666f6f273a27626172277d 36f480a0"
    )
    assert read(AWS_EVENT_STREAM, [empty, header]) == [("", ""), ("", "{'foo':'bar'}")]


@pytest.mark.parametrize("at", [0, 9, 20, -1])
def test_a_damaged_message_is_an_error(at: int) -> None:
    message = bytearray(AWS_EVENT_STREAM.write("delta", {"text": "hello"}))
    message[at] ^= 0xFF
    with pytest.raises(DialectError, match="message"):
        read(AWS_EVENT_STREAM, [bytes(message)])


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\n", "\x0b", "\x1e"])
def test_a_line_of_json_is_one_line_for_every_client(character: str):
    line = NDJSON.write("", {"text": f"a{character}b"})

    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == {"text": f"a{character}b"}
