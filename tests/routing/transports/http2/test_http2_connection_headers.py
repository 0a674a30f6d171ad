"""A connection's header blocks: bad ones end it, and what was read or written before changes none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.transports.http2.grpc_status import Status
from tests.routing.transports.http2.test_http2_connection import (
    ANSWER,
    END_HEADERS,
    HEADERS,
    Heard,
    Side,
    fields_of,
    frame,
    run,
)


@pytest.mark.parametrize(
    "broken",
    [
        "be",  # field 62, of a dynamic table that was not offered
        "4001610162be",  # the same, after a field that a table would have kept
        "80",  # field 0
        "3fe11f",  # a table of 4096 bytes
        "8820",  # a table's size after a field
        "000361",
        "00",
        "ffffffffffff7f",  # a number of more than 32 bits
        "0001618101",  # bad Huffman padding
        "00016184ffffffff",  # Huffman end mark
        "90" * 2000,  # 2,000 bytes that stand for 100,000
    ],
)
def test_a_bad_header_block_ends_the_connection(broken: str) -> None:
    def test() -> None:
        side = Side()
        _, heard = side.call()
        side.hear(frame(HEADERS, END_HEADERS, 1, bytes.fromhex(broken)))
        ((status, said),) = heard.ends
        assert (status, side.pipe.closed) == (Status.UNAVAILABLE, True)
        assert re.search(r"a bad header block \(\w+\)$", said)

    run(test)


@given(st.binary(max_size=60))
async def test_any_header_block_is_read_or_ends_the_connection(data: bytes) -> None:
    side = Side()
    _, heard = side.call()
    side.hear(frame(HEADERS, END_HEADERS, 1, data))
    assert side.pipe.closed == any("a bad header block" in said for _, said in heard.ends)
    side.done()


@pytest.mark.parametrize(
    ("literal", "coding"),
    [("40", "incremental"), ("00", "not indexed"), ("10", "never indexed")],
)
def test_no_field_that_a_peer_would_index_is_kept(literal: str, coding: str) -> None:
    def test() -> None:
        side = Side()
        (_, first), (_, second) = side.call(), side.call()
        field = bytes.fromhex(literal) + b"\x04name\x05value"
        side.hear(frame(HEADERS, END_HEADERS, 1, ANSWER + field))
        assert not first.ends, coding
        side.hear(frame(HEADERS, END_HEADERS, 3, b"\xbe"))
        assert [status for status, _ in second.ends] == [Status.UNAVAILABLE]

    run(test)


def test_metadata_is_a_calls_own() -> None:
    def test() -> None:
        side = Side()
        for trace in ("one", "two", None):
            side.connection.start("/s/M", b"", Heard(), {"traceparent": trace} if trace else None)
        blocks = [payload for kind, _, _, payload in side.pipe.frames() if kind == HEADERS]
        calls = fields_of(*blocks)
        assert [dict(each).get(b"traceparent") for each in calls] == [b"one", b"two", None]
        assert calls[0][:-1] == calls[1][:-1] == calls[2]
        side.done()

    run(test)
