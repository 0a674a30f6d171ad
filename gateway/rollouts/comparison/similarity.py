"""How alike two texts are, from 0 to 1: by the words that they share, or by embeddings of both."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

#: Words, and single characters of scripts that put no space between words.
_WORDS: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff]+|[^\w\s]"
)
#: Of longer texts the beginning counts.
MOST_CHARACTERS: Final = 1 << 18


def overlap(first: str, second: str) -> float:
    """Give the F1 of the words and pairs of neighbours that two texts share, so that their order counts as well.

    The words alone are the token F1 of SQuAD's evaluation (Rajpurkar et al., 2016); case makes no difference.
    """
    one, other = _units(first), _units(second)
    total = one.total() + other.total()
    return 1.0 if not total else 2.0 * (one & other).total() / total


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Give the cosine of two vectors, 0 where it is negative or a vector is nothing. Raises ValueError for lengths that
    differ.
    """
    product = sum(a * b for a, b in zip(first, second, strict=True))
    size = math.sqrt(sum(a * a for a in first) * sum(b * b for b in second))
    value = product / size if size > 0.0 and math.isfinite(size) else 0.0
    return min(1.0, max(0.0, value))


def _units(text: str) -> Counter[tuple[str, ...]]:
    words = _WORDS.findall(text[:MOST_CHARACTERS].casefold())
    units: Counter[tuple[str, ...]] = Counter((word,) for word in words)
    units.update(pairwise(words))
    return units
