"""Check media parts of messages (images, audio, video, files); they are passed on unchanged."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.api.openai.media.image_sizes import SIZES, BadImage
from gateway.api.openai.media.media_data import Base64Bytes
from gateway.api.openai.media.media_types import HEAD_BYTES, kind_of, one_name
from gateway.api.openai.media.media_urls import url_problem
from gateway.api.server.body_decoder import MAX_ECHO
from gateway.config.media import Media
from protos.errors import InvalidRequest, UnsupportedParameter

#: The bounds without configuration.
DEFAULT: Final = Media()

#: Part type -> the media types that it may hold.
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "image_url": ("image/png", "image/jpeg", "image/gif", "image/webp"),
    "input_audio": ("audio/wav", "audio/mpeg", "audio/flac", "audio/ogg", "video/mp4", "video/webm"),
    "audio_url": ("audio/wav", "audio/mpeg", "audio/flac", "audio/ogg", "video/mp4", "video/webm"),
    "video_url": ("video/mp4", "video/webm"),
    "file": ("application/pdf", "text/plain"),
}
#: Part types that `check_media` knows.
MEDIA_TYPES: Final = frozenset(_KINDS)
_MEMBERS: Final[dict[str, frozenset[str]]] = {
    "image_url": frozenset(("url", "detail")),
    "input_audio": frozenset(("data", "format")),
    "audio_url": frozenset(("url",)),
    "video_url": frozenset(("url",)),
    "file": frozenset(("file_data", "filename", "file_id")),
}
_DETAILS: Final = ("auto", "low", "high", "original")
_AUDIO_FORMATS: Final = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "m4a": "video/mp4",
    "mp4": "video/mp4",
    "webm": "video/webm",
}
#: Text formats, which have no magic bytes.
_TEXTS: Final = frozenset(("text/plain", "text/markdown", "text/csv", "application/json"))
_DATA_URL: Final = re.compile(
    r"data:(?P<type>[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63})"
    r"(?P<params>(?:;[a-z0-9_.-]{1,32}=[a-z0-9_.\"-]{1,64}){0,4});base64,",
    re.IGNORECASE,
)
MAX_FILENAME: Final = 256


def check_media(part: Mapping[str, Any], param: str, limits: Media = DEFAULT) -> None:
    """Check one part of a message's content, at `param` in the request; the caller counts the parts.

    Raises InvalidRequest or UnsupportedParameter, with the member at fault as `param`.
    """
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnsupportedParameter(
            f"Unsupported value: '{param}.type' may not be {_shown(kind)} here.", param=f"{param}.type"
        )
    at = f"{param}.{kind}"
    value = part.get(kind)
    if not isinstance(value, Mapping):
        if value is None:
            raise InvalidRequest(f"Missing required parameter: '{at}'.", param=at)
        raise _invalid(at, "expected an object")
    unknown = next((name for name in value if name not in _MEMBERS[kind]), None)
    if unknown is not None:
        name = f"{at}.{str(unknown)[:MAX_ECHO]}"
        raise InvalidRequest(f"Unrecognized request argument supplied: {name}", param=name)
    if kind == "input_audio":
        _check_audio(value, at, limits)
    elif kind == "file":
        _check_file(value, at, limits)
    else:
        if value.get("detail") not in (None, *_DETAILS):
            raise _invalid(f"{at}.detail", f"expected one of {', '.join(_DETAILS)}")
        _check_url(_text(value, "url", at), f"{at}.url", kind, limits)


def _check_url(url: str, at: str, kind: str, limits: Media) -> None:
    scheme = url[:8].partition(":")[0].lower()
    if scheme not in ("https", "http", "data") or scheme not in limits.schemes:
        known = ", ".join(limits.schemes) or "none"
        raise _invalid(at, f"its scheme is not one of those that are taken here ({known})")
    if scheme == "data":
        _check_data_url(url, at, kind, limits)
    elif problem := url_problem(url, limits.hosts):
        raise _invalid(at, f"it {problem}")


def _check_data_url(url: str, at: str, kind: str, limits: Media) -> None:
    found = _DATA_URL.match(url)
    if found is None:
        raise _invalid(at, "expected a URL of the form data:TYPE;base64,DATA")
    claimed = found["type"].lower()
    wanted = "text/plain" if claimed in _TEXTS else one_name(claimed)
    if wanted not in _KINDS[kind]:
        raise _invalid(at, f"'{claimed[:MAX_ECHO]}' is not a media type that is taken here")
    _check_bytes(url[found.end() :], at, (wanted,), limits)


def _check_audio(value: Mapping[str, Any], at: str, limits: Media) -> None:
    name = _text(value, "format", at)
    wanted = _AUDIO_FORMATS.get(name)
    if wanted is None:
        raise _invalid(f"{at}.format", f"expected one of {', '.join(_AUDIO_FORMATS)}")
    _check_inline(limits, f"{at}.data")
    _check_bytes(_text(value, "data", at), f"{at}.data", (wanted,), limits)


def _check_file(value: Mapping[str, Any], at: str, limits: Media) -> None:
    if value.get("file_id") is not None:
        name = f"{at}.file_id"
        raise UnsupportedParameter(
            f"Unsupported parameter: '{name}' is not supported here; send the file itself as 'file_data'.", param=name
        )
    filename = value.get("filename")
    if filename is not None and not (isinstance(filename, str) and 0 < len(filename) <= MAX_FILENAME):
        raise _invalid(f"{at}.filename", f"expected 1 to {MAX_FILENAME} characters")
    data, place = _text(value, "file_data", at), f"{at}.file_data"
    _check_inline(limits, place)
    if data[:5].lower() == "data:":
        _check_data_url(data, place, "file", limits)
    else:
        _check_bytes(data, place, _KINDS["file"], limits)


def _check_inline(limits: Media, at: str) -> None:
    if "data" not in limits.schemes:
        raise _invalid(at, "data within a request is not taken here")


def _check_bytes(text: str, at: str, wanted: tuple[str, ...], limits: Media) -> None:
    """Check that a base64 text holds such bytes, not too many, and no image that is too large."""
    if len(text) // 4 * 3 > limits.max_bytes + 2:
        raise _invalid(at, f"it is larger than {limits.max_bytes} bytes")
    try:
        data = Base64Bytes(text)
    except ValueError:
        raise _invalid(at, "it is not valid base64") from None
    if len(data) > limits.max_bytes:
        raise _invalid(at, f"it is larger than {limits.max_bytes} bytes")
    kind = kind_of(data.at(0, HEAD_BYTES))
    if kind not in wanted:
        raise _invalid(at, f"its bytes are not those of {' or '.join(wanted)}")
    measure = SIZES.get(kind)
    if measure is None:
        return
    try:
        pixels = measure(data).pixels
    except BadImage as error:
        raise _invalid(at, str(error)) from None
    if not pixels:
        raise _invalid(at, "it has no pixels")
    if pixels > limits.max_pixels:
        raise _invalid(at, f"it has more than {limits.max_pixels} pixels")


def _text(value: Mapping[str, Any], name: str, at: str) -> str:
    text = value.get(name)
    place = f"{at}.{name}"
    if text is None:
        raise InvalidRequest(f"Missing required parameter: '{place}'.", param=place)
    if not isinstance(text, str) or not text:
        raise _invalid(place, "expected a string that is not empty")
    return text


def _shown(value: object) -> str:
    if not isinstance(value, str):
        return "left out" if value is None else "something else than a string"
    return f"'{value}'" if len(value) <= MAX_ECHO else f"'{value[:MAX_ECHO]}...'"


def _invalid(at: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid value for '{at}': {problem}.", param=at)
