"""The codec of external processing."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from protos import ext_proc_pb2 as pb
from protos.ext_proc_codec import (
    PIECE_BYTES,
    BodyMode,
    Kind,
    answer_at_once,
    answer_body,
    answer_request_headers,
    decode,
)
from protos.protocol_error import ProtocolError
from tests.proxies import metadata


@given(st.binary(max_size=200))
def test_no_bytes_are_another_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode(data)


def test_headers_are_read_with_what_goes_with_them() -> None:
    spaces: dict[str, Mapping[str, Any]] = {
        "envoy_lb.subset_hint": {"x-gateway-destination-endpoint-subset": ["1.2.3.4:8000", " [::1]:9 "]},
        "envoy_lb": {"x-gateway-destination-endpoint-served": "1.2.3.4:8000"},
    }
    headers = pb.HeaderMap(headers=[pb.HeaderValue(key="a", raw_value=b"\xff"), pb.HeaderValue(key="b", value="text")])
    message = decode(
        pb.ProcessingRequest(
            response_headers=pb.HttpHeaders(headers=headers, end_of_stream=True),
            metadata_context=metadata(**spaces),
            protocol_config=pb.ProtocolConfiguration(request_body_mode=pb.BUFFERED),
        ).SerializeToString()
    )
    assert message.kind is Kind.RESPONSE_HEADERS
    assert message.end
    assert message.headers == {"a": "\xff", "b": "text"}
    assert message.subset == ("1.2.3.4:8000", "[::1]:9")
    assert message.served == "1.2.3.4:8000"
    assert (message.request_body, message.response_body) == (BodyMode.BUFFERED, BodyMode.NONE)


def test_metadata_without_the_key_restrict_nothing() -> None:
    given_ = metadata(**{"envoy_lb.subset_hint": {"other": "1"}})
    message = pb.ProcessingRequest(request_headers=pb.HttpHeaders(), metadata_context=given_)
    assert decode(message.SerializeToString()).subset is None


def test_a_mode_that_comes_later_is_refused_by_its_number() -> None:
    config = pb.ProtocolConfiguration()
    config.ParseFromString(b"\x08\x63")
    message = pb.ProcessingRequest(request_headers=pb.HttpHeaders(), protocol_config=config)
    with pytest.raises(ProtocolError, match="99"):
        decode(message.SerializeToString())


@given(st.integers(0, 3 * PIECE_BYTES + 1), st.booleans())
def test_pieces_are_the_body_and_the_last_one_ends_it(size: int, end: bool) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    parts = [
        pb.ProcessingResponse.FromString(answer).request_body.response.body_mutation.streamed_response
        for answer in answer_body(Kind.REQUEST_BODY, body[:size], end)
    ]
    assert b"".join(part.body for part in parts) == body[:size]
    assert all(len(part.body) <= PIECE_BYTES for part in parts)
    assert [part.end_of_stream for part in parts] == [False] * (len(parts) - 1) + [end]


def test_the_header_and_the_metadata_agree() -> None:
    answer = pb.ProcessingResponse.FromString(answer_request_headers(["1.2.3.4:5", "[::1]:6"]))
    (option,) = answer.request_headers.response.header_mutation.set_headers
    assert json_format.MessageToDict(answer.dynamic_metadata) == {
        "envoy.lb": {"x-gateway-destination-endpoint": option.header.raw_value.decode()}
    }
    assert option.header.raw_value == b"1.2.3.4:5,[::1]:6"


def test_an_answer_at_once_has_its_status_headers_and_body() -> None:
    answer = pb.ProcessingResponse.FromString(answer_at_once(429, [(b"retry-after", b"3")], b"{}", "why"))
    immediate = answer.immediate_response
    assert (immediate.status.code, immediate.body, immediate.details) == (429, b"{}", "why")
    (option,) = immediate.headers.set_headers
    assert (option.header.key, option.header.raw_value) == ("retry-after", b"3")
