"""Bodies that come packed: what they become, and what is refused."""

import asyncio
import gzip
import zlib
from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.server.compression import unpacked
from protos.errors import BodyTooLarge, InvalidRequest, UnsupportedEncoding
from tests.asgi import CHAT, HELLO, gateway_of
from tests.harness import MODEL, engine_of

LIMIT = 1 << 22


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"GZip ": gzip.compress,
    b"deflate": zlib.compress,
}


def unpack(body: bytes, coding: bytes, limit: int = LIMIT) -> bytes:
    return asyncio.run(unpacked(body, coding, limit))


@given(st.binary(max_size=2000), st.integers(0, 3000), st.sampled_from([*PACKERS, b"bare"]))
def test_what_was_packed_comes_out(data: bytes, times: int, coding: bytes) -> None:
    data *= times
    packed = bare(data) if coding == b"bare" else PACKERS[coding](data)
    coding = b"deflate" if coding == b"bare" else coding
    if len(data) <= LIMIT:
        assert unpack(packed, coding) == data
    else:
        with pytest.raises(BodyTooLarge, match=f"{LIMIT} bytes once it is unpacked"):
            unpack(packed, coding)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_several_members_are_one_body(parts: list[bytes]) -> None:
    assert unpack(b"".join(map(gzip.compress, parts)) or gzip.compress(b""), b"gzip") == b"".join(parts)


@given(st.binary(min_size=1, max_size=500), st.integers(0, 1 << 20))
def test_the_limit_is_exact(data: bytes, extra: int) -> None:
    packed = gzip.compress(data)
    assert unpack(packed, b"gzip", len(data)) == data
    with pytest.raises(BodyTooLarge):
        unpack(packed, b"gzip", len(data) - 1)


def test_a_bomb_is_never_unpacked_whole() -> None:
    with pytest.raises(BodyTooLarge):
        unpack(gzip.compress(bytes(1 << 26)), b"gzip", 1 << 20)


def test_many_empty_members_are_no_body() -> None:
    with pytest.raises(InvalidRequest, match="follows"):
        unpack(gzip.compress(b"") * 5000, b"gzip")


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
@pytest.mark.parametrize("harm", ["cut", "flipped", "longer", "other"])
def test_what_is_broken_is_refused(coding: bytes, harm: str) -> None:
    packed = PACKERS[coding](b"some text that is long enough " * 50)
    middle = len(packed) // 2
    broken = {
        "cut": packed[:-4],
        "flipped": packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :],
        "longer": packed + b"{}",
        "other": b'{"model": "x"}',
    }[harm]
    with pytest.raises(InvalidRequest):
        unpack(broken, coding)


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"gzip, gzip", b"compress", b"\xff" * 500])
def test_another_coding_is_refused_by_name(coding: bytes) -> None:
    with pytest.raises(UnsupportedEncoding) as caught:
        unpack(b"x", coding)
    assert len(caught.value.message) < 200
    assert unpack(b"x", b"identity") == unpack(b"x", b"") == b"x"


async def test_a_packed_request_is_answered(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), max_body_bytes=2048) as client:
        key = (b"authorization", b"Bearer " + client.key.encode())
        body = orjson.dumps({"model": MODEL, "max_tokens": 3, "messages": HELLO})
        for coding in (b"gzip", b"deflate"):
            packed = PACKERS[coding](body)
            answer = await client.request("POST", CHAT, packed, [key, (b"content-encoding", coding)])
            assert answer.status == 200
            assert answer.json["usage"]["completion_tokens"] == 3
        for sent, coding, status, code in (
            (gzip.compress(bytes(4096)), b"gzip", 413, "request_too_large"),
            (body, b"gzip", 400, None),
            (body, b"br", 415, "unsupported_content_encoding"),
        ):
            answer = await client.request("POST", CHAT, sent, [key, (b"content-encoding", coding)])
            assert (answer.status, answer.error["code"]) == (status, code)
        assert answer.headers["accept-encoding"] == "gzip, deflate"
