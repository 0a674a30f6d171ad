"""The window around a place that decides on a match there, the same for streamed and whole texts.

A match at a place depends on the LEFT characters before it and on those after it up to the first BREAK, at most WINDOW.
A match may extend beyond that by runs, which end at the first character that they do not match.
"""

import re
from typing import Final, NamedTuple

#: The number of characters examined from a place on, and before it.
WINDOW: Final = 64
LEFT: Final = 128
#: Scripts without spaces between words.
UNSPACED: Final = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u30ff\u3130-\u318f\u3400-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff"
)
#: A letter, digit or underscore of all other scripts.
WORD: Final = rf"[^\W{UNSPACED}]"
#: The boundary before a place; a backslash with n, r or t is white space, as in JSON strings.
BEGINS: Final = rf"(?:(?<!{WORD})(?!(?<=\\)[nrt])|(?<=\\[nrt])|(?<=%2[Bb0])|(?<=/bot))"
#: No match that begins before the end of a BREAK goes on after it, except by runs.
BREAK: Final = re.compile(
    rf"[\s，。！？；、…{UNSPACED}]"
    r"(?:(?<=\n)|(?<=[.,;!?]\s)|(?<=[，。！？；、…])|(?<=[^\W\d_A-Z]\s)(?=[^\W\d_])|(?<=[A-Z]\s)(?=[^\W\d_A-Z])"
    rf"|(?<=[{UNSPACED}])(?=[{UNSPACED}]{{7}}))"
)

Runs = tuple[re.Pattern[str], ...]


class Found(NamedTuple):
    """A match of `kind` at `start` to `end` that these runs extend in turn; kind None: no match begins before `end`."""

    kind: str | None
    start: int
    end: int
    runs: Runs = ()


def view_end(text: str, place: int) -> int:
    """Return the end of the window that begins at a place."""
    found = BREAK.search(text, place, place + WINDOW)
    return min(place + WINDOW, len(text)) if found is None else found.end()


def run_end(run: re.Pattern[str], text: str, place: int) -> int:
    """Return the end of a run that continues from a place."""
    found = run.match(text, place)
    return place if found is None else found.end()


#: The characters that end a value, for a character class.
ENDS: Final = r"\s\"'`,;<>(){}，。！？；、…"
RUNS: Final[dict[str, Runs]] = {
    name: tuple(map(re.compile, runs))
    for name, runs in {
        "-": (),
        "word": (r"[A-Za-z0-9_\-]*",),
        "letters": (r"[A-Za-z0-9]*",),
        "base64": (r"[A-Za-z0-9+/=_\-]*",),
        "dotted": (r"[A-Za-z0-9._~+/=\-]*",),
        "path": (r"[A-Za-z0-9_\-/.@]*",),
        "url": (r"[A-Za-z0-9_.~!$&*+=%\-]*",),
        "lines": (r"[A-Za-z0-9+/=\r\n]*",),
        "value": (f"[^{ENDS}]*",),
        "quoted": (r"[^\s\"'`，。！？；、…]*",),
        "domain": (r"[\w.\-]*",),
        # PEM: the body, which has no words, and the last line.
        "pem": (
            r"(?:[A-Za-z0-9+/=\\\r\n\t:,\"]|(?<!-)-|(?<=[A-Za-z0-9+/=]{16}) |(?<=[:,\s\\]) |(?<=-----) )*",
            r"-*",
            r"[A-Z0-9 ]*",
            r"-*",
        ),
    }.items()
}
