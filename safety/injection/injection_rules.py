"""Load and compile the injection rules: the table `rules.toml`, and obfuscated words."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import re2

from safety.expression_syntax import parse
from safety.injection.disguises import disguises
from safety.injection.fold import BLANK, LETTER, fold
from safety.patterns import ANY_CASE, Sign
from safety.plain_text import plain_bytes

#: A match depends on this many characters from its begin on, and on as many before it.
REACH: Final = 64
EVASION: Final = "evasion"
#: The tokens of a pattern, and their expressions.
_TOKEN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|~(\d) |[ *#]|[^\x00-\x7f]|.", re.DOTALL)
_NAME: Final = re.compile(r"\{([A-Z_]+)\}")
_STANDS_FOR: Final = {" ": f"(?:{BLANK}{{1,4}})", "*": f"{LETTER}{{0,12}}", "#": BLANK}
_WORDS_BETWEEN: Final = f"(?:{LETTER}{{1,18}}{BLANK}{{1,4}}){{0,%s}}?"
_NO_WORD: Final = "[^A-Za-z0-9]"
_MEMORY: Final = 64 << 20


class Rule(NamedTuple):
    """A rule: `here` must match at the anchor; `before` must match at the end of the text before the anchor.

    `begin` matches each prefix of a match of `here`.
    """

    name: str
    family: str
    weight: float
    here: re.Pattern[str]
    begin: Any = None
    before: re.Pattern[str] | None = None
    about: str = ""
    example: str = ""


class Excuse(NamedTuple):
    """A pattern that, before a match, reduces the match's weight to a share."""

    share: float
    pattern: re.Pattern[str]
    about: str
    example: str


class Rules(NamedTuple):
    """All rules, compiled.

    `anchors` matches the begin of a rule in folded UTF-8; `begin` matches every prefix of an anchor at the text's end.
    `of_anchor` has the rules of each anchor; `words` are the anchors that must be whole words.
    """

    anchors: Any
    begin: Any
    of_anchor: Mapping[str, tuple[Rule, ...]]
    words: frozenset[str]
    disguises: tuple[Rule, ...]
    excuses: tuple[Excuse, ...]
    signs: tuple[Sign, ...]


@cache
def rules() -> Rules:
    """Load and compile the shipped rules, once."""
    table = tomllib.loads(files("safety.injection").joinpath("rules.toml").read_text(encoding="utf-8"))
    words = {name: source.replace("\n", "") for name, source in table["words"].items()}
    of_anchor: dict[str, tuple[Rule, ...]] = {}
    #: Anchors that are whole words for every rule.
    whole: dict[str, bool] = {}
    for number, fields in enumerate(table["rule"]):
        anchors = fields.pop("anchor")
        before, here = (_expanded(fields.pop(name, ""), words) for name in ("before", "pattern"))
        ending = re.compile(rf"(?:{before})\Z") if before else None
        begin = _compiled(parse(here).head.begin)
        rule = Rule(f"rule {number}", here=re.compile(here), begin=begin, before=ending, **fields)
        for anchor in _spellings(_named(anchors, words) if isinstance(anchors, str) else anchors):
            name = anchor.removesuffix("$")
            of_anchor[name] = (*of_anchor.get(name, ()), rule)
            whole[name] = whole.get(name, True) and anchor != name
    hidden = tuple(disguises())
    sources = [
        *(pattern for _, _, pattern in hidden),
        *(_edge(anchor) + re.escape(anchor) for anchor in sorted(of_anchor, key=len, reverse=True)),
    ]
    nodes = [parse(source.encode().decode("latin-1")).head for source in sources]
    signs = [
        *(_sign(anchor, ends=ends) for anchor, ends in whole.items() if plain_bytes(anchor) is not None),
        *(pattern.replace(r"\b", _NO_WORD) for _, _, pattern in hidden),
    ]
    return Rules(
        _compiled("|".join(f"(?:{node.source})" for node in nodes), of_bytes=True),
        _compiled(rf"(?:{'|'.join(f'(?:{node.begin})' for node in nodes)})\z", of_bytes=True),
        {it: tuple(rule for end in range(len(it)) for rule in of_anchor.get(it[: end + 1], ())) for it in of_anchor},
        frozenset(anchor for anchor, ends in whole.items() if ends),
        tuple(Rule(f"{name} {weight:.2f}", EVASION, weight, re.compile(pattern)) for name, weight, pattern in hidden),
        tuple(
            Excuse(pattern=re.compile(_expanded(fields.pop("pattern"), words)), **fields) for fields in table["excuse"]
        ),
        tuple(Sign(sign.encode(), ANY_CASE) for sign in signs),
    )


def _expanded(pattern: str, words: Mapping[str, str]) -> str:
    return "".join(map(_in_text, _TOKEN.finditer(_named(pattern, words))))


def _named(source: str, words: Mapping[str, str]) -> str:
    return _NAME.sub(lambda name: words[name[1]], source)


def _in_text(token: re.Match[str]) -> str:
    part = token[0]
    if token[1]:
        return _WORDS_BETWEEN % token[1]
    return _STANDS_FOR.get(part, part) if part.isascii() else f"[{''.join(_letters(part))}]"


def _letters(letter: str) -> tuple[str, ...]:
    """The folds of a letter: itself, and without its accent if that is an ASCII letter."""
    folded, bare = fold(letter).text, unicodedata.normalize("NFD", letter)[0]
    return (folded, bare) if bare.isascii() and bare != folded else (folded,)


def _spellings(anchors: str | list[str]) -> Iterator[str]:
    """Yield the anchors of a rule in folded form, with accents and without."""
    for anchor in anchors.split("|") if isinstance(anchors, str) else anchors:
        letters = [_letters(each) for each in anchor]
        yield from dict.fromkeys("".join(each[which] for each in letters) for which in (0, -1))


def _sign(anchor: str, *, ends: bool) -> str:
    """The expression of an anchor in plain text, with ASCII letters in any case."""
    letters = (f"(?:{each}|{each.upper()})" if not each.isascii() else re.escape(each) for each in anchor)
    return _NO_WORD * bool(_edge(anchor)) + "".join(letters) + _NO_WORD * ends


def _edge(anchor: str) -> str:
    """The word boundary before an anchor that begins with an ASCII letter or digit."""
    return r"\b" if anchor[0].isascii() and anchor[0].isalnum() else ""


def _compiled(source: str, *, of_bytes: bool = False) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    if not of_bytes:
        return re2.compile(source, options)
    # An expression of bytes takes a tenth of the states that one of characters takes.
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(source.encode("latin-1"), options)
