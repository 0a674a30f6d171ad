import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.load.http1 import MalformedResponse, ResponseReader

EVENTS = [
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    b": a comment\n\n",
    b'data: {"choices":[],"usage":{"completion_tokens":17}}\n\n',
    b"data: [DONE]\n\n",
]


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def chunked_stream(payloads: list[bytes], end: bytes = b"0\r\n\r\n") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(map(chunk, payloads)) + end


def read(data: bytes, cuts: list[int]) -> tuple[ResponseReader, int]:
    reader, seen = ResponseReader(), 0
    edges = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        if end > start:
            seen += reader.feed(data[start:end])
    return reader, seen


@given(cuts=st.lists(st.integers(0, 10_000)), sizes=st.lists(st.integers(1, 60), min_size=1))
def test_a_stream_reads_the_same_however_it_is_cut(cuts: list[int], sizes: list[int]) -> None:
    body = b"".join(EVENTS)
    payloads: list[bytes] = []
    position = 0
    while position < len(body):
        size = sizes[len(payloads) % len(sizes)]
        payloads.append(body[position : position + size])
        position += size
    reader, seen = read(chunked_stream(payloads), cuts)
    assert (reader.complete, reader.done, reader.failed) == (True, True, False)
    assert seen == reader.events == 2
    assert reader.output_tokens == 17
    assert reader.keeps_alive


def test_a_stream_reads_the_same_byte_by_byte() -> None:
    data = chunked_stream(EVENTS, end=b"0\r\nx-trailer: 1\r\n\r\n")
    reader, seen = read(data, list(range(len(data))))
    assert (seen, reader.complete, reader.done) == (2, True, True)


@given(cuts=st.lists(st.integers(0, 10_000)))
def test_a_body_with_a_length(cuts: list[int]) -> None:
    body = b'{"usage":{"prompt_tokens":3,"completion_tokens":14}}'
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-penstock-engine-ms: 1.5\r\ncontent-length: %d\r\n\r\n"
    )
    reader, _ = read(head % len(body) + body, cuts)
    assert reader.complete
    assert reader.status == 200
    assert reader.output_tokens == 14
    assert reader.header(b"x-penstock-engine-ms") == b"1.5"
    assert reader.header(b"x-penstock") == b""


def test_an_empty_body_is_complete_with_its_head() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    assert reader.complete
    assert not reader.keeps_alive
    assert reader.output_tokens is None


def test_a_body_without_length_ends_with_the_connection() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nsome")
    before = reader.complete
    reader.end_of_connection()
    assert (before, reader.complete, reader.keeps_alive) == (False, True, False)


def test_the_end_of_a_connection_does_not_complete_what_had_another_end() -> None:
    for head in (b"content-length: 5", b"transfer-encoding: chunked"):
        reader = ResponseReader()
        reader.feed(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        reader.end_of_connection()
        assert not reader.complete


def test_an_error_event_is_seen() -> None:
    reader, _ = read(chunked_stream([b'data: {"error":{"message":"lost"}}\n\n']), [])
    assert reader.complete
    assert reader.failed
    assert not reader.done


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nmore",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"0" * 300,
        b"x" * 70_000,
    ],
)
def test_what_is_no_response_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedResponse):
        ResponseReader().feed(data)
