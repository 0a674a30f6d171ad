"""All cues and disguises in one automaton, which says in one pass over a text where any of them may begin."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from safety.injection.asian import ASIAN
from safety.injection.cues import Cue
from safety.injection.disguise import Disguise, disguises
from safety.injection.english import ENGLISH
from safety.injection.english_agents import AGENTS
from safety.injection.english_personas import PERSONAS
from safety.injection.european import GERMAN, ROMANCE, SLAVIC, TURKISH
from safety.injection.fold import INVISIBLE, LOOKALIKES, plain

_TABLES: Final = (ENGLISH, PERSONAS, AGENTS, GERMAN, ROMANCE, SLAVIC, TURKISH, ASIAN)
_LATIN: Final = "abcdefghijklmnopqrstuvwxyz"
#: Letters in forms that only a trick, or an ornament, writes words in.
_ORNAMENTS: Final = (
    (0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0x24B6, 0x24E9), (0x249C, 0x24B5), (0x1D00, 0x1D22), (0xE0020, 0xE007E),
    (0x1D400, 0x1D7FF), (0x1F110, 0x1F189), (0x1F1E6, 0x1F1FF), (0x2100, 0x214F), (0x1D2C, 0x1D6A), (0xA730, 0xA731),
)  # fmt: skip
#: Greek, Cyrillic and Armenian.
_OTHER_SCRIPTS: Final = (0x0370, 0x058F)
_BLOCK: Final = 63
_BOUNDED: Final = frozenset(
    "".join(chr(code) for code in (*range(0x61, 0x7B), *range(0xC0, 0x250), *range(0x400, 0x530)))
)


class Anchor(NamedTuple):
    """What a string of the automaton stands for. `length` counts characters.

    `whole`: only where no letter or digit stands before it. `trick`: letters that are disguised one by one.
    """

    length: int
    whole: bool
    cues: tuple[Cue, ...]
    disguises: tuple[Disguise, ...]
    trick: bool


class Lexicon(NamedTuple):
    """The automaton over a text's bytes in lower case, and what its strings stand for."""

    automaton: BytesAhoCorasick
    anchors: tuple[Anchor, ...]
    cues: tuple[Cue, ...]
    by_keyword: dict[str, tuple[Cue, ...]]
    beginnings: frozenset[str]
    longest: int


def encoded(text: str) -> bytes:
    """The text as the automaton takes it."""
    return text.encode("utf-8", "surrogatepass").lower()


def _written(anchor: str) -> Iterator[str]:
    """An anchor as texts write it: in any case, with or without accents, its words on one line or two."""
    for spelling in {anchor, plain(anchor)}:
        for cased in {spelling, spelling.capitalize(), spelling.upper()}:
            yield cased
            if " " in cased:
                yield cased.replace(" ", "\n")
                yield cased.replace(" ", "  ")


def _tricks() -> Iterator[tuple[bytes, int]]:
    """Bytes that betray disguised letters, and how many characters they touch: ornaments, and what no word mixes."""
    for first, last in _ORNAMENTS:
        yield from ((chr(code).encode(), 1) for code in range(first, last + 1))
    strangers = {
        chr(code).encode() for first, last in INVISIBLE if last - first < _BLOCK for code in range(first, last + 1)
    }
    strangers |= {
        chr(code).encode()[:-1]
        for first, last in INVISIBLE
        if last - first >= _BLOCK
        for code in range(first, last + 1)
    }
    others = [
        character.encode() for character in LOOKALIKES if _OTHER_SCRIPTS[0] <= ord(character) <= _OTHER_SCRIPTS[1]
    ]
    for letter in _LATIN.encode():
        yield from ((bytes((letter,)) + stranger, 2) for stranger in (*strangers, *{other[:1] for other in others}))
        yield from ((other + bytes((letter,)), 2) for other in others)


@cache
def lexicon() -> Lexicon:
    """The lexicon, which is built once."""
    cues: dict[bytes, list[Cue]] = {}
    hidden: dict[bytes, list[Disguise]] = {}
    lengths: dict[bytes, int] = {}
    whole: dict[bytes, bool] = {}
    every = tuple(cue for table in _TABLES for cue in table.cues)
    for cue in every:
        for anchor in dict.fromkeys(cue.anchors):
            for spelling in _written(anchor):
                key = encoded(spelling)
                lengths[key] = len(spelling)
                whole[key] = plain(spelling)[:1] in _BOUNDED and not spelling.startswith(("n't", "n’t", "nt "))
                found = cues.setdefault(key, [])
                if cue not in found:
                    found.append(cue)
    for spelling, disguise in disguises():
        key = encoded(spelling)
        lengths[key] = len(spelling)
        whole.setdefault(key, False)
        hidden.setdefault(key, []).append(disguise)
    tricks = dict(_tricks())
    strings = list(dict.fromkeys((*cues, *hidden, *tricks)))
    anchors = tuple(
        Anchor(
            lengths.get(key) or tricks[key],
            whole.get(key, False),
            tuple(cues.get(key, ())),
            tuple(hidden.get(key, ())),
            key in tricks,
        )
        for key in strings
    )
    return Lexicon(
        BytesAhoCorasick(strings, matchkind=MatchKind.Standard, implementation=Implementation.DFA),
        anchors,
        every,
        _by_keyword(every, (disguise for found in hidden.values() for disguise in found)),
        frozenset(
            text[:length]
            for text in (key.decode("utf-8", "ignore") for key in (*cues, *hidden))
            for length in range(1, len(text) + 1)
        ),
        max(lengths.values()),
    )


def _by_keyword(cues: Iterable[Cue], hidden: Iterable[Disguise]) -> dict[str, tuple[Cue, ...]]:
    """The cues that may begin with each keyword that is disguised."""
    known = tuple(cues)
    return {
        keyword: tuple(cue for cue in known if any(keyword.startswith(anchor) for anchor in cue.anchors))
        for keyword in {disguise.keyword for disguise in hidden}
    }
