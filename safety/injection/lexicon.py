"""All cues and disguises in one automaton, which says in one pass over a text where any of them may begin."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, reduce
from operator import or_
from typing import Final, NamedTuple

from safety.injection.asian import ASIAN
from safety.injection.cues import Cue
from safety.injection.disguise import KEYWORDS, OPENING, Disguise, disguises
from safety.injection.english import ENGLISH
from safety.injection.english_agents import AGENTS
from safety.injection.english_around import AROUND
from safety.injection.english_hints import HINTS
from safety.injection.english_nearby import NEARBY
from safety.injection.english_personas import PERSONAS
from safety.injection.european import GERMAN, ROMANCE, SLAVIC, TURKISH
from safety.injection.fold import INVISIBLE, LOOKALIKES, plain
from safety.injection.more_languages import MORE
from safety.injection.phrases import phrases
from safety.injection.plain_anchors import PlainAnchors
from safety.literals import Literals
from safety.patterns import ONCE, Patterns

TABLES: Final = (ENGLISH, PERSONAS, AGENTS, HINTS, AROUND, NEARBY, MORE, GERMAN, ROMANCE, SLAVIC, TURKISH, ASIAN)
_LATIN: Final = "abcdefghijklmnopqrstuvwxyz"
#: Letters in forms that only a trick, or an ornament, writes words in.
_ORNAMENTS: Final = (
    (0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0x24B6, 0x24E9), (0x249C, 0x24B5), (0x1D00, 0x1D22), (0xE0020, 0xE007E),
    (0x1D400, 0x1D7FF), (0x1F110, 0x1F189), (0x1F1E6, 0x1F1FF), (0x2100, 0x2188), (0x1D2C, 0x1D6A), (0xA730, 0xA731),
)  # fmt: skip
#: Greek, Cyrillic and Armenian.
_OTHER_SCRIPTS: Final = (0x0370, 0x058F)
_BLOCK: Final = 63
_TELLING: Final = 4
#: Cues with less than this share need no weighing: alone they never count.
WEAK: Final = 0.25
#: By so many last characters beginnings are found.
LAST: Final = 3
#: Anchors that are the end of a word.
_ENDINGS: Final = ("n't", "n’t", "nt ")
#: Anchors that harmless texts are full of.
_IDLE: Final = frozenset(
    (
        *("act", "before", "bot", "break", "call", "call ", "change", "clear", "client", "code", "command", "commands"),
        *("context", "conversation", "customer", "end", "fill", "follow", "here", "imagine", "instead", "key", "laws"),
        *("limit", "limits", "lives", "message", "meth", "mode", "model", "named", "nothing", "order", "output"),
        *("points", "print", "reset", "respect", "run", "say", "talk", "task", "text", "user", "word", "words"),
        "write",
    )
)
#: Anchors that say little of an answer alone. Of prompts they say more, where how they are worded is weighed, too.
_WEAK: Final = _IDLE | frozenset(
    (
        *("@", "act as", "admin", "agent", "agents", "answer as", "apolog", "call the", "can't", "cancel", "chatbot"),
        *("complete", "dan", "def ", "delete", "developer", "disable", "disregard", "don't tell", "drop", "employee"),
        *("ethic", "evil", "fictional", "filter", "flag", "forget", "from now on", "grandmother", "hypothetical"),
        *("i can't", "ignor", "ignore", "in your", "jailbreak", "join", "leave the", "lectur", "merge", "n't use"),
        *("no longer", "patient", "permission", "persona", "play the", "poison", "polic", "pretend", "refus"),
        *("replace", "reply with", "rule", "run ", "safety", "secret", "settings", "simulate", "sorry", "throw"),
        *("training", "use the", "warning", 'word "', "you play", "you were", "об", "اب", "لم", "充当", "扮演"),
    )
)
_BOUNDED: Final = frozenset(
    "".join(chr(code) for code in (*range(0x61, 0x7B), *range(0xC0, 0x250), *range(0x400, 0x530)))
)


class Watched(NamedTuple):
    """A cue, and the bits of the words that must be ahead of, behind and around its anchor; 0 if it can do without.

    `near` has them all: without them on one side or the other the cue is not there.
    """

    cue: Cue
    ahead: int
    behind: int
    around: tuple[int, ...]
    near: int


class Anchor(NamedTuple):
    """What a string of the automaton stands for. `length` counts characters.

    `opens`, `closes`: only where no letter or digit stands before it, or after it. `ahead`: bits of words of which one
    must follow, 0 if nothing must. `hints`: cues that take no more than the anchor and say little. `trick`: letters
    that are disguised one by one. `idle`: a word of everyday language, which few attempts do with alone; `weak`: nor
    does what makes an attempt of an answer. `bare`: no cue and no disguise begins with it, but it is telling how a
    prompt is worded.
    """

    length: int
    opens: bool
    closes: bool
    cues: tuple[Watched, ...]
    ahead: int
    hints: tuple[Cue, ...]
    disguises: tuple[Disguise, ...]
    trick: bool
    idle: bool
    weak: bool
    bare: bool


class Words:
    """Words that cues need around their anchors."""

    def __init__(self, bits: Mapping[str, int]) -> None:
        """`bits` are those of each word."""
        self._bits = tuple(bits.values())
        self._patterns = Patterns([word.encode() for word in bits], ONCE, literal=True)

    def within(self, text: str) -> int:
        """Bits of the words that are in a folded text."""
        found = 0
        bits = self._bits
        for number, _ in self._patterns.ends(text.encode("utf-8", "surrogatepass")):
            found |= bits[number]
        return found


class Lexicon(NamedTuple):
    """The automaton over a text's bytes in lower case, what is quicker for plain ones, and what its strings stand for.

    `idle` and `weak` are the places of those that are. `beginnings`: all that an anchor may begin with. `longest`: the
    characters of the longest anchor. `endings`: how long beginnings are that end with these `LAST` characters, the
    longest first.
    """

    automaton: Literals
    anchors: tuple[Anchor, ...]
    in_plain: PlainAnchors
    idle: frozenset[int]
    weak: frozenset[int]
    words: Words
    by_keyword: dict[str, tuple[Watched, ...]]
    beginnings: frozenset[str]
    longest: int
    endings: dict[str, tuple[int, ...]]


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


def tricks() -> Iterator[tuple[bytes, int]]:
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
    cues = [cue for table in TABLES for cue in table.cues]
    for cue in cues:
        cue.compile()
    words, watched = _words(cues)
    found: dict[bytes, _Entry] = {}
    for each in watched:
        for anchor in dict.fromkeys(each.cue.anchors):
            name = anchor.removesuffix("$")
            for spelling in _written(name):
                entry = found.setdefault(encoded(spelling), _Entry(len(spelling), spelling))
                entry.opens = plain(name)[:1] in _BOUNDED and not name.startswith(_ENDINGS)
                entry.closes = name != anchor
                if each not in entry.cues:
                    entry.cues.append(each)
    for spelling, disguise in disguises():
        entry = found.setdefault(encoded(spelling), _Entry(len(spelling)))
        entry.disguises.append(disguise)
        if not entry.cues:
            entry.opens = all(each.technique in OPENING for each in entry.disguises)
    said = [key.decode("utf-8", "surrogatepass") for key in found]
    for phrase in phrases().telling:
        found.setdefault(encoded(phrase.strip()), _Entry.of_phrase(phrase))
    for key, length in tricks():
        found.setdefault(key, _Entry(length)).trick = True
    beginnings = frozenset(text[:length] for text in said for length in range(1, len(text) + 1))
    endings: dict[str, set[int]] = {}
    for beginning in beginnings:
        if len(beginning) >= LAST:
            endings.setdefault(beginning[-LAST:], set()).add(len(beginning))
    anchors = tuple(entry.anchor() for entry in found.values())
    return Lexicon(
        Literals(list(found)),
        anchors,
        PlainAnchors((key, each.opens, each.closes) for key, each in zip(found, anchors, strict=True)),
        frozenset(number for number, each in enumerate(anchors) if each.idle),
        frozenset(number for number, each in enumerate(anchors) if each.weak),
        words,
        {
            keyword: tuple(each for each in watched if any(keyword.startswith(anchor) for anchor in each.cue.anchors))
            for keyword in KEYWORDS
        },
        beginnings,
        max(map(len, said)),
        {ending: tuple(sorted(lengths, reverse=True)) for ending, lengths in endings.items()},
    )


class _Entry:
    """An anchor in the making."""

    def __init__(self, length: int, spelling: str = "") -> None:
        self.length = length
        self.spelling = spelling.lower()
        self.opens = self.closes = self.trick = False
        self.cues: list[Watched] = []
        self.disguises: list[Disguise] = []

    @classmethod
    def of_phrase(cls, phrase: str) -> "_Entry":
        """A phrase in its normal form, which is no other anchor."""
        entry = cls(len(phrase.strip()))
        entry.opens, entry.closes = phrase.startswith(" "), phrase.endswith(" ")
        return entry

    def anchor(self) -> Anchor:
        hints = tuple(
            each.cue
            for each in self.cues
            if not each.cue.ahead and each.cue.behind is None and not each.cue.around and each.cue.share < WEAK
        )
        cues = tuple(each for each in self.cues if each.cue not in hints)
        ahead = 0
        for each in cues:
            ahead |= each.ahead
        if not all(each.ahead for each in cues):
            ahead = 0
        words = " ".join(self.spelling.split()) + " " * self.spelling.endswith(" ")
        idle, weak = (words in those and not self.disguises for those in (_IDLE, _WEAK))
        bare = not (self.cues or self.disguises or self.trick)
        return Anchor(
            *(
                self.length,
                self.opens,
                self.closes,
                cues,
                ahead,
                hints,
                tuple(self.disguises),
                self.trick,
                idle,
                weak,
                bare,
            )
        )


def _words(cues: Iterable[Cue]) -> tuple[Words, tuple[Watched, ...]]:
    """The words that cues need, and the cues with their bits."""
    bits: dict[str, int] = {}
    watched = []
    known: dict[frozenset[str], int] = {}
    for cue in cues:
        masks = []
        for needed in (cue.needs, cue.needs_before, *cue.needs_around):
            mask = known.setdefault(needed, 1 << len(known)) if needed else 0
            for word in needed or ():
                bits[word] = bits.get(word, 0) | mask
            masks.append(mask)
        watched.append(Watched(cue, masks[0], masks[1], tuple(masks[2:]), reduce(or_, masks)))
    for word in sorted(bits, key=len, reverse=True):
        # Where a word is, its beginning is too, and one of the two is enough to look for.
        short = next((word[:length] for length in range(_TELLING, len(word)) if word[:length] in bits), None)
        if short is not None:
            bits[short] |= bits.pop(word)
    return Words(bits), tuple(watched)
