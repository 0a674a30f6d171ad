import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.protocol_error import ProtocolError
from routing.transports.http2 import hpack

fields = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.binary(max_size=300)), max_size=8)


@given(fields)
def test_what_is_written_is_read(sent: list[tuple[bytes, bytes]]) -> None:
    assert hpack.decode(hpack.encode(sent)) == tuple(sent)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        # RFC 7541, C.2.1 to C.2.4: literal with indexing, without, never indexed, and indexed.
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", ((b"custom-key", b"custom-header"),)),
        ("040c2f73616d706c652f70617468", ((b":path", b"/sample/path"),)),
        ("100870617373776f726406736563726574", ((b"password", b"secret"),)),
        ("82", ((b":method", b"GET"),)),
        # C.4.1: Huffman-coded.
        (
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            (
                (b":method", b"GET"),
                (b":scheme", b"http"),
                (b":path", b"/"),
                (b":authority", b"www.example.com"),
            ),
        ),
        # C.6.1's status and date.
        ("4803333032", ((b":status", b"302"),)),
        ("6196d07abe941054d444a8200595040b8166e082a62d1bff", ((b"date", b"Mon, 21 Oct 2013 20:13:21 GMT"),)),
        ("2088", ((b":status", b"200"),)),
    ],
)
def test_the_examples_of_the_rfc(block: str, expected: hpack.Fields) -> None:
    assert hpack.decode(bytes.fromhex(block)) == expected


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("be", "header field 62"),  # of a dynamic table
        ("80", "header field 0"),
        ("3fe11f", "a header table"),
        ("000361", "cut off"),
        ("00", "cut off"),
        ("ffffffffffff7f", "too large"),
        ("0001618101", "bad Huffman padding"),
        ("00016184ffffffff", "Huffman end mark"),
    ],
)
def test_broken_blocks(block: str, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        hpack.decode(bytes.fromhex(block))


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_a_protocol_error(block: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        hpack.decode(block)
