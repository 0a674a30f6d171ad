"""Load labelled texts from files with one JSON object a line."""

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

#: The sets that ship with Penstock; README.md says how they were made.
SHIPPED: Final = tuple(Path(__file__).with_name(name) for name in ("pii.jsonl", "injection.jsonl"))


class SetError(Exception):
    """A labelled set is unusable; the text names the file, the line and the error."""


class Span(NamedTuple):
    """A labelled span of a kind: characters `start` to `end` (exclusive, in code points)."""

    start: int
    end: int
    kind: str


class SpanText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text and all the spans in it that a filter should find."""

    text: str
    spans: tuple[Span, ...]
    language: str = ""
    genre: str = ""


class InjectionText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, and whether it is an injection attempt."""

    text: str
    injection: bool
    family: str = ""
    language: str = ""
    genre: str = ""


class Labelled(NamedTuple):
    """Labelled texts of both sorts: with spans, and with an injection label."""

    spans: tuple[SpanText, ...]
    injections: tuple[InjectionText, ...]


class _Fields(msgspec.Struct):
    spans: msgspec.Raw = msgspec.Raw()
    injection: msgspec.Raw = msgspec.Raw()


_FIELDS: Final = msgspec.json.Decoder(_Fields)
_SPANS: Final = msgspec.json.Decoder(SpanText)
_INJECTION: Final = msgspec.json.Decoder(InjectionText)


def load(paths: Iterable[Path]) -> Labelled:
    """Load the texts of some files, each line of which has either `spans` or `injection`. Raises SetError."""
    texts = [text for path in paths for text in _read(path)]
    return Labelled(
        tuple(text for text in texts if isinstance(text, SpanText)),
        tuple(text for text in texts if isinstance(text, InjectionText)),
    )


def _read(path: Path) -> Iterator[SpanText | InjectionText]:
    number, empty = 0, True
    try:
        with path.open("rb") as lines:
            for line in lines:
                number += 1
                # Some editors begin a UTF-8 file with a byte order mark, which is not part of its text.
                text = line.removeprefix(BOM_UTF8) if number == 1 else line
                if text.strip():
                    empty = False
                    yield _parsed(text)
    except OSError as error:
        raise SetError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SetError(f"{path}:{number}: is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise SetError(f"{path}:{number}: {error}") from error
    if empty:
        raise SetError(f"{path}: is empty")


def _parsed(line: bytes) -> SpanText | InjectionText:
    fields = _FIELDS.decode(line)
    if bool(fields.spans) == bool(fields.injection):
        raise ValueError("needs either `spans` or `injection` beside `text`")
    if fields.injection:
        return _INJECTION.decode(line)
    labelled = _SPANS.decode(line)
    for index, (start, end, _) in enumerate(labelled.spans):
        if not 0 <= start < end <= len(labelled.text):
            raise ValueError(
                f"spans[{index}]: {start} to {end} is no stretch of a text of {len(labelled.text)} characters"
            )
    return labelled
