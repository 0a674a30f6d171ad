"""Load the training texts of the phrases: one JSON object a line, compressed."""

import hashlib
import lzma
from pathlib import Path
from typing import Final

import msgspec

TEXTS: Final = Path(__file__).with_name("texts.jsonl.xz")


class Text(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, and whether it is an injection attempt; `file` is the group that it was written in."""

    file: str
    attack: bool
    text: str


_TEXT: Final = msgspec.json.Decoder(Text)


def _lines() -> list[bytes]:
    return lzma.decompress(TEXTS.read_bytes()).splitlines()


def load() -> dict[str, list[Text]]:
    """Load the texts by their file's name, in alphabetic order."""
    found: dict[str, list[Text]] = {}
    for line in _lines():
        text = _TEXT.decode(line)
        found.setdefault(text.file, []).append(text)
    return found


def digest() -> str:
    """Hash all texts, to identify the texts that a phrase file was fitted to."""
    found = hashlib.sha256()
    for line in _lines():
        found.update(line + b"\n")
    return found.hexdigest()[:16]
