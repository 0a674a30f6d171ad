"""Read the file of scripted answers of a simulated engine, for its replica and the gateway's check."""

from pathlib import Path

import msgspec

MAX_LINES = 10_000


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The prompts that a line is for, and the answer, in which control tokens are written by their text."""

    contains: str
    answer: str


def read_script(path: str | Path) -> tuple[Line, ...]:
    """Read the lines of a file. Raises ValueError, which names the file and the line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot read the answers in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"cannot read the answers in {path}: they are not UTF-8") from None
    lines: list[Line] = []
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        place = f"{path}, line {number}"
        if len(lines) == MAX_LINES:
            raise ValueError(f"{place}: there are more than {MAX_LINES} answers")
        try:
            line = msgspec.json.decode(raw, type=Line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"{place}: {error}") from None
        if not line.answer:
            raise ValueError(f"{place}: `answer` must not be empty")
        lines.append(line)
    return tuple(lines)
