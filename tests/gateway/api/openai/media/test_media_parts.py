"""Images, audio, video and files in messages: what is refused, and what goes on."""

import base64
import contextlib
import struct
import zlib
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.openai.media.image_sizes import SIZES, BadImage
from gateway.api.openai.media.media_data import Base64Bytes
from gateway.api.openai.media.media_parts import MEDIA_TYPES, check_media
from gateway.api.openai.media.media_urls import url_problem
from gateway.config.media import Media
from protos.errors import ClientError, InvalidRequest, UnsupportedParameter

AT = "messages[0].content[1]"


def png(width: int = 2, height: int = 3, frames: int | None = None, more: bytes = b"") -> bytes:
    def piece(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    animation = b"" if frames is None else piece(b"acTL", struct.pack(">II", frames, 0))
    head = piece(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + more + animation + piece(b"IDAT", b"x") + piece(b"IEND", b"")


def jpeg(width: int = 2, height: int = 3, before: bytes = b"") -> bytes:
    app = b"\xff\xe1" + struct.pack(">H", 40) + b"\xff\xc0" * 19
    frame = b"\xff\xc2" + struct.pack(">HBHH", 8, 8, height, width) + b"\x01"
    return b"\xff\xd8" + app + before + frame + b"\xff\xda\x00\x02"


def gif(width: int = 2, height: int = 3, frames: tuple[tuple[int, int], ...] = ((2, 3),)) -> bytes:
    body = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0" * 6
    for w, h in frames:
        body += b"\x21\xf9\x04\0\0\0\0\0" + b"\x2c" + struct.pack("<HHHHB", 0, 0, w, h, 0) + b"\x02" + b"\x03abc\0"
    return body + b"\x3b"


def webp(width: int = 2, height: int = 3, frames: int = 0, kind: bytes = b"VP8X") -> bytes:
    if kind == b"VP8 ":
        data = b"VP8 " + struct.pack("<I", 10) + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    elif kind == b"VP8L":
        data = b"VP8L" + struct.pack("<I", 5) + b"\x2f" + struct.pack("<I", width - 1 | height - 1 << 14)
    else:
        size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        data = (
            b"VP8X"
            + struct.pack("<I", 10)
            + b"\2\0\0\0"
            + size
            + (b"ANMF" + struct.pack("<I", 16) + b"\0" * 16) * frames
        )
    return b"RIFF" + struct.pack("<I", len(data) + 4) + b"WEBP" + data


IMAGES: dict[str, Callable[[], bytes]] = {"image/png": png, "image/jpeg": jpeg, "image/gif": gif, "image/webp": webp}
WAV = b"RIFF\x24\0\0\0WAVEfmt "
MP4 = b"\0\0\0\x18ftypmp42"
PDF = b"%PDF-1.7\n"


def data_url(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image(url: Any, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def refused(part: Any, limits: Media | None = None) -> ClientError:
    with pytest.raises((InvalidRequest, UnsupportedParameter)) as caught:
        check_media(part, AT, limits or Media())
    assert caught.value.param is not None
    assert caught.value.param.startswith(AT)
    assert len(caught.value.message) < 400
    return caught.value


@pytest.mark.parametrize("kind", IMAGES)
def test_images_that_are_what_they_say_pass(kind: str) -> None:
    check_media(image(data_url(IMAGES[kind](), kind), detail="low"), AT)
    check_media(image(data_url(IMAGES[kind](), kind.upper())), AT)


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("claimed", [*IMAGES, "image/bmp", "application/pdf"])
def test_an_image_that_lies_about_its_type_is_refused(kind: str, claimed: str) -> None:
    if kind != claimed:
        error = refused(image(data_url(IMAGES[kind](), claimed)))
        assert error.param == f"{AT}.image_url.url"


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ({"type": "input_audio", "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"}}, None),
        ({"type": "input_audio", "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "mp3"}}, "data"),
        ({"type": "input_audio", "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "exe"}}, "format"),
        ({"type": "input_audio", "input_audio": {"format": "wav"}}, "data"),
        ({"type": "audio_url", "audio_url": {"url": data_url(b"\xff\xfb\x90\0", "audio/mp3")}}, None),
        ({"type": "video_url", "video_url": {"url": data_url(MP4, "video/mp4")}}, None),
        ({"type": "video_url", "video_url": {"url": data_url(png(), "image/png")}}, "url"),
        ({"type": "file", "file": {"file_data": data_url(PDF, "application/pdf"), "filename": "a.pdf"}}, None),
        ({"type": "file", "file": {"file_data": base64.b64encode(PDF).decode()}}, None),
        ({"type": "file", "file": {"file_data": data_url(b"a,b\n1,2\n", "text/csv;charset=utf-8")}}, None),
        ({"type": "file", "file": {"file_data": data_url(b"\n <!DOCTYPE html><p>", "text/plain")}}, "file_data"),
        ({"type": "file", "file": {"file_data": data_url(b"<p>", "text/html")}}, "file_data"),
        ({"type": "file", "file": {"file_data": data_url(b"MZ\0\0", "text/plain")}}, "file_data"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "file_id"),
        ({"type": "file", "file": {"filename": "a" * 300, "file_data": "x"}}, "filename"),
        ({"type": "file", "file": {"url": "https://example.com/"}}, "url"),
    ],
)
def test_other_parts(part: Any, wanted: str | None) -> None:
    if wanted is None:
        check_media(part, AT)
    else:
        assert refused(part).param == f"{AT}.{part['type']}.{wanted}"


@pytest.mark.parametrize("part", [{}, {"type": "hologram"}, {"type": 5}, {"type": ["image_url"]}, {"type": "x" * 999}])
def test_unknown_types_are_refused_by_name(part: Any) -> None:
    assert refused(part).param == f"{AT}.type"


@pytest.mark.parametrize("value", [None, "https://example.com/a.png", [], {"url": 5}, {"url": ""}, {"uri": "x"}])
def test_wrong_shapes_name_the_member(value: Any) -> None:
    refused({"type": "image_url", "image_url": value})
    assert refused(image("https://example.com/a", detail="vast")).param == f"{AT}.image_url.detail"


@pytest.mark.parametrize(
    "data",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"<?xml version='1.0'?><svg/>",
        b"<html></html>",
        b"\xef\xbb\xbf<!DOCTYPE html>",
        b"",
    ],
)
@pytest.mark.parametrize("kind", ["image/svg+xml", "image/png", "text/html"])
def test_markup_is_no_image(data: bytes, kind: str) -> None:
    refused(image(data_url(data, kind)))


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png,abc",
        "data:image/png;base64",
        "data:;base64,AAAA",
        "data:image/png;base64,iVBORw0KGgo",
        "data:image/png;base64,iVBO Rw0K",
        "data:image/png;base64,iVBO\nRw0K",
        "data:image/png;base64,iVBORw0KGg-_",
        "data:image/png;base64,====",
        "data:image/png;base64,A===",
        "data:image/png;base64,AA=A",
        "data:image/png;base64,\u00e4AAA",
        "data:image/png;" + "a=b;" * 50 + "base64,AAAA",
    ],
)
def test_broken_data_urls(url: str) -> None:
    assert refused(image(url)).param == f"{AT}.image_url.url"


def test_a_large_part_is_refused_before_it_is_read() -> None:
    limits = Media(max_bytes=1024)
    check_media(image(data_url(png() + b"\0" * 900, "image/png")), AT, limits)
    for size in (1024, 5000):
        assert "larger than 1024" in refused(image(data_url(png() + b"\0" * size, "image/png")), limits).message


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("image/png", png(65535, 65535)),
        ("image/png", png(0xFFFF_FFFF, 0xFFFF_FFFF)),
        ("image/png", png(1000, 1000, frames=1000)),
        ("image/png", png(0, 5)),
        ("image/png", png(more=png(60000, 60000)[8:33])),
        ("image/png", png()[:20]),
        ("image/png", png()[:37]),
        ("image/jpeg", jpeg(65535, 65535)),
        ("image/jpeg", jpeg(5, 0)),
        ("image/jpeg", jpeg(before=b"\xff\xc0" + struct.pack(">HBHH", 8, 8, 9, 9) + b"\x01")),
        ("image/jpeg", jpeg(before=b"\xff\xe0\0\0")),
        ("image/jpeg", jpeg(before=b"\xff" * 4000)),
        ("image/jpeg", jpeg()[:30]),
        ("image/jpeg", b"\xff\xd8\xff\xd9"),
        ("image/gif", gif(65535, 65535)),
        ("image/gif", gif(frames=((65535, 65535),))),
        ("image/gif", gif(1000, 1000, frames=((1, 1),) * 100)),
        ("image/gif", gif(frames=())),
        ("image/gif", gif()[:9]),
        ("image/gif", b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0, 0, 0) + b"\x21\xf9" + b"\x01a" * 4000),
        ("image/webp", webp(16384, 16384)),
        ("image/webp", webp(16383, 16383, kind=b"VP8 ")),
        ("image/webp", webp(16384, 16384, kind=b"VP8L")),
        ("image/webp", webp(2000, 2000, frames=20)),
        ("image/webp", webp(kind=b"VP8 ").replace(b"\x9d\x01\x2a", b"\0\0\0")),
        ("image/webp", webp().replace(b"VP8X", b"ABCD")),
        ("image/webp", webp()[:18]),
    ],
)
def test_bombs_and_broken_headers(kind: str, data: bytes) -> None:
    assert refused(image(data_url(data, kind))).param == f"{AT}.image_url.url"


@given(st.integers(1, 16383), st.integers(1, 16383))
def test_sizes_are_read_as_they_were_written(width: int, height: int) -> None:
    def pixels(data: bytes, kind: str) -> int:
        return SIZES[kind](Base64Bytes(base64.b64encode(data).decode())).pixels

    wanted = width * height
    assert pixels(png(width, height), "image/png") == wanted
    assert pixels(png(width, height, frames=7), "image/png") == 7 * wanted
    assert pixels(jpeg(width, height), "image/jpeg") == wanted
    assert pixels(gif(width, height, ((1, 1),) * 3), "image/gif") == 3 * wanted
    assert pixels(webp(width, height), "image/webp") == wanted
    assert pixels(webp(width, height, frames=5), "image/webp") == 5 * wanted
    assert pixels(webp(width, height, kind=b"VP8 "), "image/webp") == wanted
    assert pixels(webp(width, height, kind=b"VP8L"), "image/webp") == wanted


@given(st.sampled_from(sorted(IMAGES)), st.binary(max_size=80), st.integers(0, 60))
def test_any_bytes_are_measured_or_refused(kind: str, tail: bytes, kept: int) -> None:
    data = Base64Bytes(base64.b64encode(IMAGES[kind]()[:kept] + tail).decode())
    with contextlib.suppress(BadImage):
        assert SIZES[kind](data).pixels >= 0


@given(st.binary(max_size=200), st.integers(0, 210), st.integers(0, 100))
def test_base64_is_decoded_anywhere(data: bytes, at: int, size: int) -> None:
    read = Base64Bytes(base64.b64encode(data).decode())
    assert len(read) == len(data)
    assert read.at(at, size) == data[at : at + size]


@given(
    st.recursive(
        st.none() | st.text(max_size=30) | st.integers(),
        lambda inner: st.dictionaries(
            st.sampled_from([*MEDIA_TYPES, "type", "url", "data", "format", "file_data"]) | st.text(max_size=5), inner
        ),
        max_leaves=8,
    ),
    st.sampled_from(sorted(MEDIA_TYPES)),
)
def test_whatever_a_part_is_only_errors_of_the_api_come(value: Any, kind: str) -> None:
    try:
        check_media({"type": kind, kind: value}, AT)
    except (InvalidRequest, UnsupportedParameter) as error:
        assert error.param is not None
        assert error.param.startswith(AT)


PRIVATE = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "0",
    "0.0.0.0",
    "10.0.0.1",
    "010.0.0.1",
    "12.0.0.010.",
    "172.16.3.4",
    "192.168.0.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "255.255.255.255",
    "256.1.1.1",
    "1.2.3.4.5",
    "09.1.1.1",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2001::1]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[1.2.3.4]",
    "[::g]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "printer.local",
    "metadata.google.internal",
    "metadata.google.internal.",
    "router.lan",
    "service",
    "db.default.svc",
    "127.0.0.1.nip.io",
    "localtest.me",
    "a..b.com",
    ".com",
]


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_in_any_spelling(host: str) -> None:
    for url in (f"https://{host}/a.png", f"https://{host}:8080/a.png", f"HTTPS://{host}"):
        assert refused(image(url)).param == f"{AT}.image_url.url"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/a.png",
        "ftp://example.com/a.png",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "//example.com/a.png",
        "https:/example.com",
        "https:example.com",
        "https:///example.com",
        "https://",
        " https://example.com/",
        "https://example.com/ a",
        "https://example.com/\\a",
        "https://example.com\\@127.0.0.1/",
        "https://user@example.com/",
        "https://example.com:80@127.0.0.1/",
        "https://example.com#@127.0.0.1:x@/",
        "https://exa%6dple.com/",
        "https://ex\u00e4mple.com/",
        "https://\u2460\u2461\u2466.0.0.1/",
        "https://127\u30020\u30020\u30021/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://example.com:/",
        "https://example.com/\n",
        "https://example.com/\x00",
        "https://example.com/\u00e4",
        "https://[::1%25eth0]/",
        "https://example.com/" + "a" * 9000,
    ],
)
def test_urls_that_can_be_read_in_two_ways(url: str) -> None:
    if url == "https://example.com#@127.0.0.1:x@/":
        check_media(image(url), AT)  # all after the # is the fragment, to everybody
    else:
        refused(image(url))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.png",
        "https://example.com",
        "https://example.com?x=@127.0.0.1",
        "https://sub_domain.example.com:8443/a/b.png?x=1&y=[2]#z",
        "https://8.8.8.8/a.png",
        "https://[2606:4700::1111]/a.png",
        "https://[64:ff9b::8.8.8.8]/",
        "https://xn--bcher-kva.example.com/",
    ],
)
def test_public_urls_pass(url: str) -> None:
    check_media(image(url), AT)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.randoms(use_true_random=False))
def test_every_spelling_of_an_address_is_judged_alike(value: int, count: int, random: Any) -> None:
    address = IPv4Address(value)
    packed = address.packed
    numbers = [*packed[: count - 1], int.from_bytes(packed[count - 1 :], "big")]
    host = ".".join(random.choice([str, hex])(number) for number in numbers)
    plain = url_problem(f"https://{address}/", ())
    assert url_problem(f"https://{host}/", ()) == plain
    if not address.is_global or address.is_multicast:
        assert plain is not None


def test_the_configuration_says_what_is_taken() -> None:
    inline = Media(schemes=("data",))
    check_media(image(data_url(png(), "image/png")), AT, inline)
    assert "scheme" in refused(image("https://example.com/a.png"), inline).message
    remote = Media(schemes=("https", "http"), hosts=("Example.com",))
    refused(image(data_url(png(), "image/png")), remote)
    refused({"type": "file", "file": {"file_data": base64.b64encode(PDF).decode()}}, remote)
    check_media(image("http://cdn.example.com/a.png"), AT, remote)
    check_media(image("https://EXAMPLE.com./a.png"), AT, remote)
    refused(image("https://badexample.com/a.png"), remote)
    refused(image("https://example.com.evil.net/a.png"), remote)
    assert refused(image("https://localhost/"), Media(hosts=("localhost",))).param
