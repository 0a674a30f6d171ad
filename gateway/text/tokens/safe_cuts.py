"""Places at which a text may be cut so that the encodings of its parts are, one after the other, that of the text.

A byte-level vocabulary splits text by an expression into words and encodes each on its own. A place is safe if every
expression splits there whatever stands around it: after a letter, and before a line feed or before a blank that a
letter follows. This is shown for the alternatives listed here, of which published expressions are made: none matches a
blank or a line feed after a letter, looks further than the text that it matches where that ends with a letter, or
looks at what stands before. So the match that ends at the place ends there too when the text does, and what follows is
matched as if the text began there.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

#: Letters in every version of Unicode that anybody uses: Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai,
#: kana, Chinese characters, Korean syllables.
_LETTER: Final = (
    "[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e\u0391-\u03a1\u03a3-\u03c9\u0400-\u0481\u05d0-\u05ea\u0621-\u063a"
    "\u0641-\u064a\u0904-\u0939\u0e01-\u0e30\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3]"
)
_CUT: Final = re.compile(rf"{_LETTER}(?= {_LETTER}|\n)")
_ACROSS: Final = re.compile(rf"{_LETTER}[ \n]")
#: From the tokenizer files of GPT-2, cl100k, o200k, Llama 3, Qwen 2 and later, and Mistral's tekken.
_KNOWN: Final = frozenset(
    (
        r"'(?:[sdmt]|ll|ve|re)",
        r"'(?i:[sdmt]|ll|ve|re)",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"'s",
        r"'t",
        r"'re",
        r"'ve",
        r"'m",
        r"'ll",
        r"'d",
        r" ?\p{L}+",
        r" ?\p{N}+",
        r" ?[^\s\p{L}\p{N}]+",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r" ?[^\s\p{L}\p{N}]++[\r\n]*",
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"[^\r\n\p{L}\p{N}]?+\p{L}+",
        r"[^\r\n\p{L}\p{N}]?+\p{L}++",
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
        *(
            rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]{words}{end}"
            for words in (
                r"*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
                r"+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            )
            for end in ("", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?")
        ),
        r"\p{N}",
        r"\p{N}{1,3}",
        r"\p{N}{1,3}+",
        r"\s*[\r\n]",
        r"\s*[\r\n]+",
        r"\s*[\r\n]++",
        r"\s+(?!\S)",
        r"\s+",
        r"\s",
        r"\s+$",
        r"\s++$",
    )
)


class SafeCuts:
    """The safe places of texts of one vocabulary."""

    @classmethod
    def of(cls, pattern: str, words: Collection[str]) -> "SafeCuts | None":
        """Return the safe places for an expression and for words that are found before it; None: there are none."""
        known = all(alternative in _KNOWN for alternative in alternatives(pattern))
        return cls() if known and not any(map(_ACROSS.search, words)) else None

    def cut(self, text: str, least: int) -> list[str]:
        """Cut a text into parts of at least `least` characters, each at the next safe place; the last has the rest."""
        parts, start = [], 0
        while (found := _CUT.search(text, start + least - 1)) is not None:
            parts.append(text[start : found.end()])
            start = found.end()
        return [*parts, text[start:]]


def alternatives(pattern: str) -> Iterator[str]:
    """Yield the alternatives of an expression, without those within groups."""
    start = depth = at = 0
    in_class = False
    while at < len(pattern):
        match pattern[at]:
            case "\\":
                at += 1
            case "[":
                in_class = True
            case "]":
                in_class = False
            case "(" if not in_class:
                depth += 1
            case ")" if not in_class:
                depth -= 1
            case "|" if not in_class and not depth:
                yield pattern[start:at]
                start = at + 1
        at += 1
    yield pattern[start:]
