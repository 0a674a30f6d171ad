"""What a place of a text is judged by, so that a stream can tell as early as a whole text.

Whatever begins at a place is told from the LEFT characters before it and from those after it up to the first BREAK, at
most WINDOW. What is found may go on after that with runs, which end at the first character that they do not take.
"""

import re
from typing import Final, NamedTuple

#: Characters that are looked at from a place on, and before it.
WINDOW: Final = 64
LEFT: Final = 128
#: Scripts that put no spaces between words.
UNSPACED: Final = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u30ff\u3130-\u318f\u3400-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff"
)
#: A letter, digit or underscore of all other scripts.
WORD: Final = rf"[^\W{UNSPACED}]"
#: What stands before a place; a backslash with an n, r or t is white space, as JSON has it within strings.
BEGINS: Final = rf"(?:(?<!{WORD})(?!(?<=\\)[nrt])|(?<=\\[nrt])|(?<=%2[Bb0])|(?<=/bot))"
#: Nothing that begins before the end of this goes on after it, runs aside.
BREAK: Final = re.compile(
    rf"[\s，。！？；、…{UNSPACED}]"
    r"(?:(?<=\n)|(?<=[.,;!?]\s)|(?<=[，。！？；、…])|(?<=[^\W\d_A-Z]\s)(?=[^\W\d_])|(?<=[A-Z]\s)(?=[^\W\d_A-Z])"
    rf"|(?<=[{UNSPACED}])(?=[{UNSPACED}]{{7}}))"
)

Runs = tuple[re.Pattern[str], ...]


class Found(NamedTuple):
    """`kind` is at `start` to `end` and goes on with these runs, in turn; None: nothing begins before `end`."""

    kind: str | None
    start: int
    end: int
    goes_on: Runs = ()


def view_end(text: str, place: int) -> int:
    """Up to where a text is looked at from a place on."""
    found = BREAK.search(text, place, place + WINDOW)
    return min(place + WINDOW, len(text)) if found is None else found.end()


def run_end(run: re.Pattern[str], text: str, place: int) -> int:
    """Where a run that goes on from a place ends."""
    found = run.match(text, place)
    return place if found is None else found.end()


#: What a value may not have, in a character class.
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
        # PEM: the body, of which words are none, and the last line.
        "pem": (
            r"(?:[A-Za-z0-9+/=\\\r\n\t:,\"]|(?<!-)-|(?<=[A-Za-z0-9+/=]{16}) |(?<=[:,\s\\]) |(?<=-----) )*",
            r"-*",
            r"[A-Z0-9 ]*",
            r"-*",
        ),
    }.items()
}
