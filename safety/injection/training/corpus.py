"""The texts that the phrases are learned from: one JSON object a line."""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(__file__).with_name("texts")


class Text(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, and whether it is an attempt to make a model disobey."""

    text: str
    attack: bool


_TEXT: Final = msgspec.json.Decoder(Text)


def load() -> dict[str, list[Text]]:
    """The texts of each file, by its name without ending, in alphabetic order."""
    return {
        path.stem: [_TEXT.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
        for path in sorted(FOLDER.glob("*.jsonl"))
    }


def digest() -> str:
    """A hash of all texts: phrases that were fitted to other ones have another."""
    found = hashlib.sha256()
    for path in sorted(FOLDER.glob("*.jsonl")):
        found.update(b"%b %d\n" % (path.name.encode(), path.stat().st_size))
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
