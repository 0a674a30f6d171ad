"""How many tokens a text may have, for models whose tokenizer is not known here.

The rule is that of tokenizers' first step, which cuts a text into words, numbers and marks: a run of Latin letters is a
token and one more for each seven of them, so is a run of digits and one more for each four, so is a run of marks. A
character of Chinese, Japanese or Korean is a token, and so are three of another alphabet.
"""

import re
from typing import Final

#: Bytes by kind: letters `a`, digits `0`, marks `.`, blanks; first bytes of characters in UTF-8 by their length.
_KINDS: Final = bytes(
    ord(
        "a"
        if chr(byte).isalpha() and byte < 128
        else "0"
        if chr(byte).isdigit() and byte < 128
        else "."
        if 32 < byte < 127
        else "L"
        if 0xC0 <= byte < 0xE0
        else "C"
        if byte >= 0xE0
        else " "
    )
    for byte in range(256)
)
#: Where a run begins, and what makes it longer than one token. No two of them overlap with themselves.
_TOKENS: Final = (
    *(b" a", b".a", b"0a", b" 0", b".0", b"a0", b" .", b"a.", b"0."),
    *(b"aaaaaaa", b"0000", b".......", b"C"),
)
_ESCAPE: Final = re.compile(rb"\\u(0)?[0-9A-Fa-f]{3,4}")
#: Of a longer text so many parts of this size are counted, spread over it.
_WHOLE_BYTES: Final = 16 * 1024
_PART_BYTES: Final = 2 * 1024
_PARTS: Final = 8


def text_tokens(text: bytes) -> int:
    """Estimate the tokens of a text in UTF-8, or of JSON; in constant time for long ones."""
    size = len(text)
    if size <= _WHOLE_BYTES:
        return _counted(text)
    step = (size - _PART_BYTES) // (_PARTS - 1)
    found = sum([_counted(text[at : at + _PART_BYTES]) for at in range(0, step * _PARTS, step)])
    return round(found * size / (_PARTS * _PART_BYTES))


def _counted(text: bytes) -> int:
    if b"\\u" in text:
        text = _ESCAPE.sub(lambda escape: b"\xd0\x90" if escape[1] else b"\xe4\xb8\x80", text)
    kinds = b" " + text.replace(b"\\n", b"\n").translate(_KINDS)
    return sum(map(kinds.count, _TOKENS)) + -(-kinds.count(b"L") // 3)
