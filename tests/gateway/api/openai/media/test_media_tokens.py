import base64
import json
import struct
import zlib
from typing import Any

import pytest

from gateway.api.openai.media.media_tokens import body_tokens, part_tokens
from gateway.models.media_rules import ANTHROPIC, GEMINI, OPENAI, MediaRule
from routing.estimates.text_tokens import text_tokens


def text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url_of(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{text_of(data)}"


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", bytes(3000)) + chunk(b"IEND", b"")


def image(width: int, height: int, **more: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url_of("image/png", png(width, height)), **more}}


def sound(data: bytes, name: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": text_of(data), "format": name}}


def file(data: bytes) -> dict[str, Any]:
    return {"type": "file", "file": {"file_data": text_of(data)}}


WAV = b"RIFF____WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 32_000, 2, 16) + b"data____" + bytes(320_000)
MP3 = b"ID3\x04\x00\x00" + bytes((0, 0, 7, 104)) + bytes(1000) + b"\xff\xfb\x90\x00" + bytes(159_996)
FLAC = b"fLaC" + bytes(14) + (16_000 << 44 | 160_000).to_bytes(8, "big") + bytes(500)
PDF = b"%PDF-1.7\n1 0 obj <</Type /Pages /Kids [2 0 R] /Count 12>> endobj\n" + bytes(1000)


@pytest.mark.parametrize(
    ("part", "rule", "tokens"),
    [
        (image(512, 512), OPENAI, 255),
        (image(512, 512, detail="low"), OPENAI, 85),
        (image(512, 512), ANTHROPIC, 350),
        (image(512, 512), GEMINI, 258),
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}, OPENAI, 765),
        (sound(WAV, "wav"), OPENAI, 101),
        (sound(WAV, "wav"), GEMINI, 321),
        (sound(MP3, "mp3"), OPENAI, 100),
        (sound(FLAC, "flac"), OPENAI, 100),
        (sound(b"OggS" + bytes(39_996), "ogg"), OPENAI, 100),
        ({"type": "audio_url", "audio_url": {"url": "https://example.com/a.wav"}}, GEMINI, 1920),
        (
            {"type": "video_url", "video_url": {"url": url_of("video/mp4", b"\0\0\0\x18ftyp" + bytes(249_992))}},
            GEMINI,
            526,
        ),
        (file(PDF), OPENAI, 12 * 1200),
        (file(PDF), GEMINI, 12 * 258),
        (file(b"%PDF-1.7\n" + b"<</Type /Page>>" * 3), GEMINI, 3 * 258),
        (file(b"%PDF-1.7\n" + bytes(200_000)), GEMINI, 4 * 258),
        (file(b"%PDF-1.7\n" + b"/Count 99999 "), GEMINI, 1000 * 258),
        (file(b"Hello, world!"), OPENAI, 4),
    ],
)
def test_a_part_by_its_providers_rule(part: dict[str, Any], rule: MediaRule, tokens: int) -> None:
    assert part_tokens(part, rule) == tokens


def test_the_data_of_parts_is_no_text() -> None:
    said = {"type": "text", "text": "What is this? " * 30}
    parts = [image(512, 512), sound(WAV, "wav"), file(PDF)]
    bare = json.dumps({"messages": [{"role": "user", "content": [said]}]}).encode()
    body = json.dumps({"messages": [{"role": "user", "content": [said, *parts]}]}).encode()
    media = sum(part_tokens(part, OPENAI) for part in parts)
    assert 0 <= body_tokens(body, parts, OPENAI) - media - text_tokens(bare) < 60
