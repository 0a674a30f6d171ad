"""What a cue is, and the small language that its expressions are written in.

An anchor that ends with `$` is a whole word. In an expression a space stands for what separates words (` ?` for that or
nothing), `~3` for up to three words of any kind and what follows them, and `{NAME}` for a class of words that the table
with the cue defines. The rest is Python's `re`, over folded text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from safety.injection.fold import plain
from safety.injection.needles import needles

#: Characters of a text, from the one where a cue begins, that decide whether it is there.
REACH: Final = 64
#: Shares that add up to a full score.
FULL: Final = 0.8
#: Characters before a cue that are looked at too.
BEHIND: Final = 64

_SEPARATOR: Final = r"[\W_]{1,4}"
_PERHAPS: Final = r"[\W_]{0,4}"
_WORD: Final = r"[^\W_]{1,18}"


@dataclass(frozen=True, eq=False)
class Cue:
    """Words that speak for an attempt, as an expression that begins at one of `anchors`.

    `behind` must be found in what stands before, if it is given, and each of `around` on either side. `share` is
    what the cue adds to a text's score.
    """

    name: str
    family: str
    share: float
    anchors: tuple[str, ...]
    ahead: str
    behind: str | None = None
    around: tuple[str, ...] = ()

    def compile(self) -> None:
        """Compiles the expressions, so that no text has to wait for that."""
        _ = self.here, self.before, self.sides

    @cached_property
    def needs(self) -> frozenset[str] | None:
        """Strings of which one is in all that `ahead` matches."""
        return needles(self.ahead, later=True)

    @cached_property
    def needs_before(self) -> frozenset[str] | None:
        """Strings of which one is in all that `behind` is found in."""
        return None if self.behind is None else needles(self.behind)

    @cached_property
    def needs_around(self) -> tuple[frozenset[str] | None, ...]:
        """For each of `around`, strings of which one is in all that it is found in."""
        return tuple(needles(each) for each in self.around)

    @cached_property
    def sides(self) -> tuple[re.Pattern[str], ...]:
        """What must be found before the anchor or after it."""
        return tuple(re.compile(each) for each in self.around)

    @cached_property
    def here(self) -> re.Pattern[str]:
        """What the text must match from the anchor on."""
        return re.compile(self.ahead)

    @cached_property
    def before(self) -> re.Pattern[str] | None:
        """What must be found in the text before the anchor."""
        return None if self.behind is None else re.compile(self.behind)


def expression(source: str, classes: Mapping[str, str]) -> str:
    """A cue's expression in the syntax of `re`."""
    for _ in range(3):
        source = re.sub(r"\{([A-Z_]+)\}", lambda name: f"(?:{classes[name[1]]})", source)
    source = re.sub(r"~(\d) ?", lambda most: f"(?:{_WORD}{_SEPARATOR}){{0,{most[1]}}}?", source)
    source = source.replace(" ?", _PERHAPS).replace(" ", _SEPARATOR)
    return re.sub(r"[^\x00-\x7f]+", lambda letters: plain(letters[0]), source)


class Table:
    """Cues of a language, with the classes of words that they are made of."""

    def __init__(self, name: str, **classes: str) -> None:
        self.cues: list[Cue] = []
        self._name = name
        self._classes = classes

    def add(
        self,
        family: str,
        share: float,
        anchors: str | tuple[str, ...],
        ahead: str = "",
        behind: str | None = None,
        around: tuple[str, ...] = (),
    ) -> None:
        """A cue; `anchors` are divided by `|`. Without `ahead` an anchor is all that it takes."""
        classes = self._classes
        before = None if behind is None else expression(behind, classes)
        sides = tuple(expression(each, classes) for each in around)
        name = f"{self._name} {len(self.cues)}"
        known = tuple(anchors.split("|")) if isinstance(anchors, str) else anchors
        self.cues.append(Cue(name, family, share, known, expression(ahead, classes), before, sides))
