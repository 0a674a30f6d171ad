"""Pure: what a picker reads of a request's body. Whatever it cannot read is the endpoint's to refuse."""

from typing import Any, Final

import msgspec
from xxhash import xxh3_128_hexdigest

from protos.packed_ids import PackedIds

#: Bytes of a prompt's text that are taken for a token: the usual mean of English text.
TOKEN_BYTES: Final = 4
_MOST_SEQUENCES: Final = 128
#: First bytes of characters that are less than a token for each four bytes: of alphabets with two bytes a character, of
#: India's, and of Korean. Without them a text has about as many fours as tokens.
_LIGHT: Final = bytes([*range(0xC0, 0xE1), *range(0xEA, 0xEE)])
#: Names under which the APIs have what becomes the prompt, in the order in which chat templates write it.
_PROMPTS: Final = ("tools", "system", "instructions", "messages", "prompt", "input")
#: Names under which they have the bound of an answer's tokens.
_BOUNDS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
#: Members by which a part is known that is no text: `image_url` and the others, `input_audio`, `file`.
_MEDIA: Final = (b'_url":', b'"input_audio":', b'"file":')
#: A string of JSON from so many bytes on may be a part's data, if its first bytes are of base64 or a data URL.
_DATA_BYTES: Final = 1024
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_;:,."


class _Body(msgspec.Struct, frozen=True):
    model: Any = None
    tools: msgspec.Raw = msgspec.Raw()
    system: msgspec.Raw = msgspec.Raw()
    instructions: msgspec.Raw = msgspec.Raw()
    messages: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    max_completion_tokens: Any = None
    max_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    cache_salt: Any = None


class Asked(msgspec.Struct, frozen=True):
    """A request as far as it is known.

    `model` is empty where none is named. `prompt` are the bytes of its JSON that hold the prompt, weighed as `_weighed`
    does, `TOKEN_BYTES` of them as one id, by which prefixes are compared: equal prompts of one client have equal bytes,
    and no tokenizer is as fast. `media` counts its parts that are no text. `max_tokens` bounds each of `n` answers,
    None: nothing does. `salt` separates the engine's caches.
    """

    model: str = ""
    prompt: PackedIds = PackedIds(b"", b"")
    media: int = 0
    max_tokens: int | None = None
    n: int = 1
    salt: str = ""


NOTHING: Final = Asked()
_DECODER: Final = msgspec.json.Decoder(_Body)


def asked_in(body: bytes) -> Asked:
    """Read a body of any of the APIs; `NOTHING` for one that is no JSON object. Linear in its length."""
    try:
        found = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NOTHING
    text = b"".join([bytes(getattr(found, name)) for name in _PROMPTS])
    # Every part says its type, so that a chat of plain texts is looked through once.
    media = sum([text.count(name) for name in _MEDIA]) if b'"type"' in text else 0
    if media:
        text = b'"'.join([_shortened(string) for string in text.split(b'"')])
    text = _weighed(text)
    text = text[: len(text) // TOKEN_BYTES * TOKEN_BYTES]
    bounds = [value for name in _BOUNDS if (value := _count(getattr(found, name))) is not None]
    salt = found.cache_salt if isinstance(found.cache_salt, str) else ""
    return Asked(
        found.model if isinstance(found.model, str) else "",
        PackedIds(text, b""),
        media,
        bounds[0] if bounds else None,
        min(_count(found.n) or 1, _MOST_SEQUENCES),
        salt,
    )


def _weighed(text: bytes) -> bytes:
    """Give characters beyond ASCII about as many bytes as they have tokens, each by itself: beginnings stay equal."""
    if text.isascii():
        if b"\\u" not in text:
            return text
        # What some clients write as six bytes. A half of a pair is a character here, too.
        text = text.decode("raw_unicode_escape", "replace").encode("utf-8", "surrogatepass")
    return text.translate(None, _LIGHT)


def _shortened(string: bytes) -> bytes:
    """Put a digest in the place of data: images differ, and are no text."""
    if len(string) < _DATA_BYTES or string[:_DATA_BYTES].translate(None, _ALPHABET):
        return string
    return xxh3_128_hexdigest(string).encode()


def _count(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None
