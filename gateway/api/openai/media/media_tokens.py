"""Estimate the tokens of checked media parts by what their headers say; nothing is decoded whole."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateway.api.openai.media.image_sizes import SIZES, BadImage
from gateway.api.openai.media.media_data import Base64Bytes
from gateway.api.openai.media.media_types import HEAD_BYTES, kind_of
from gateway.models.media_rules import UNSEEN_IMAGE, MediaRule
from routing.estimates.text_tokens import text_tokens

#: Of what only the provider fetches: seconds of sound or video, and pages.
_UNSEEN_SECONDS: Final = 60.0
#: Bytes a second of sound (32 kbit/s) and of video (1 Mbit/s) in formats whose headers do not say it.
_SOUND_BYTES: Final = 4_000
_VIDEO_BYTES: Final = 125_000
#: Pages are counted in so many bytes at a PDF's beginning and end; else each is taken to have `_PAGE_BYTES`.
_PDF_BYTES: Final = 64 * 1024
_PAGE_BYTES: Final = 50_000
#: The providers take no longer ones.
_MOST_PAGES: Final = 1000
_COUNT: Final = re.compile(rb"/Count\s+(\d{1,5})")
_PAGE: Final = re.compile(rb"/Type\s*/Page(?!s)")
#: Kilobits a second of MPEG-1 layer III by the index in a frame's header.
_MP3_RATES: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0)
#: Strings of a body that may be a part's data are at least so long.
_DATA_BYTES: Final = 256
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_;:,. "


def body_tokens(body: bytes, parts: Iterable[Mapping[str, Any]], rule: MediaRule) -> int:
    """Estimate the tokens of a JSON body: its text, and its media parts by the provider's rule."""
    found = [part_tokens(part, rule) for part in parts]
    if found:
        body = b'"'.join([text for text in body.split(b'"') if not _is_data(text)])
    return text_tokens(body) + sum(found)


def _is_data(text: bytes) -> bool:
    """Whether a JSON string is base64, alone or in a data URL."""
    return len(text) > _DATA_BYTES and b" " not in text and not text[:4096].translate(None, _ALPHABET)


def part_tokens(part: Mapping[str, Any], rule: MediaRule) -> int:
    """Estimate the tokens of one media part that has been checked (gateway/api/openai/media/media_parts.py)."""
    kind = part["type"]
    value = part[kind]
    low = value.get("detail") == "low"
    given = value.get("url") or value.get("data") or value.get("file_data") or ""
    if given[:5].lower() == "data:":
        given = given.partition(",")[2]
    elif "url" in value:
        if kind == "image_url":
            return rule.image(*UNSEEN_IMAGE, low)
        return math.ceil(_UNSEEN_SECONDS * (rule.video if kind == "video_url" else rule.sound))
    data = Base64Bytes.checked(given)
    found = kind_of(data.at(0, HEAD_BYTES)) or ""
    if kind == "image_url":
        return _image(data, found, rule, low)
    if kind == "file":
        if found == "application/pdf":
            return _pages(data) * rule.page
        return text_tokens(data.at(0, len(data)))
    if kind == "video_url":
        return math.ceil(len(data) / _VIDEO_BYTES * rule.video)
    return math.ceil(_seconds(data, found) * rule.sound)


def _image(data: Base64Bytes, kind: str, rule: MediaRule, low: bool) -> int:
    try:
        size = SIZES[kind](data)
    except (KeyError, BadImage):
        return rule.image(*UNSEEN_IMAGE, low)
    # Of an animation providers look at the first frame.
    return rule.image(max(1, size.width), max(1, size.height), low)


def _seconds(data: Base64Bytes, kind: str) -> float:
    """Give the length of sound by the rate in its header, else by its bytes."""
    head, size = data.at(0, HEAD_BYTES), len(data)
    if kind == "audio/wav":
        at = head.find(b"fmt ")
        rate = int.from_bytes(head[at + 16 : at + 20], "little") if at >= 0 else 0
        if rate:
            return size / rate
    if kind == "audio/flac":
        rate = int.from_bytes(head[18:21], "big") >> 4
        samples = int.from_bytes(head[21:26], "big") & 0xF_FFFF_FFFF
        if rate and samples:
            return samples / rate
    if kind == "audio/mpeg":
        at = 0
        if head[:3] == b"ID3":
            # Its size has seven bits a byte.
            at = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
        frame = data.at(at, 4)
        if len(frame) == 4 and frame[0] == 0xFF and frame[1] & 0xFE == 0xFA and _MP3_RATES[frame[2] >> 4]:
            return (size - at) / (_MP3_RATES[frame[2] >> 4] * 125)
    return size / _SOUND_BYTES


def _pages(data: Base64Bytes) -> int:
    """Give the pages of a PDF as far as it says them in plain, else by its bytes."""
    size = len(data)
    text = data.at(0, _PDF_BYTES)
    if size > _PDF_BYTES:
        text += data.at(max(_PDF_BYTES, size - _PDF_BYTES), _PDF_BYTES)
    stated = max([int(count) for count in _COUNT.findall(text)], default=0)
    return min(_MOST_PAGES, max(1, stated or len(_PAGE.findall(text)) or size // _PAGE_BYTES))
