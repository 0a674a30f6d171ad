"""Extract the phrases of a text: words, pairs and triples; in scripts without spaces, runs of characters."""

import re
from collections.abc import Iterator
from typing import Final

from safety.injection.phrases import normalised

#: Scripts without spaces between words: Han, kana, folded Hangul, Thai.
_UNSPACED: Final = re.compile("[\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff]+")
_WORDS: Final = 3
_CHARACTERS: Final = (2, 3, 4, 6, 8)
#: Hangul is folded to its parts, 2 or 3 characters a syllable: runs of two are frequent and mean nothing.
_OF_HANGUL: Final = _CHARACTERS[1:]
_PARTS: Final = ("\u1100", "\u11ff")


def windows(text: str, reach: int) -> list[str]:
    """Cut the normal form of a text into stretches of about `reach` characters, each overlapping half of the last."""
    plain = normalised(text).decode("utf-8", "replace").strip()
    if len(plain) <= reach:
        return [plain]
    cut = []
    begin = 0
    while True:
        end = plain.find(" ", begin + reach)
        cut.append(plain[begin : end if end > 0 else len(plain)].strip())
        if end < 0:
            return cut
        begin = plain.find(" ", begin + reach // 2) + 1 or begin + reach // 2


def phrases_of(plain: str) -> Iterator[str]:
    """Yield every phrase of a stretch in the automaton's form; some repeat."""
    words = plain.split()
    for length in range(1, _WORDS + 1):
        for index in range(len(words) - length + 1):
            yield f" {' '.join(words[index : index + length])} "
    for run in _UNSPACED.findall(plain):
        for length in _OF_HANGUL if _PARTS[0] <= run[0] <= _PARTS[1] else _CHARACTERS:
            for index in range(len(run) - length + 1):
                yield run[index : index + length]
