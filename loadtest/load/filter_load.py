"""The load of the filter benchmark: a prompt and a blocklist, chosen so that nothing matches."""

import random
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

#: 1,000 characters with what filters must examine closely: figures, a date, non-ASCII quotes.
LONG_PROMPT: Final = (
    "I’m preparing a very short talk for our local history society about the lighthouse at Gull Point, and I’d like "
    "your help with a draft. What we know so far: the tower was finished on 14 March 1871, it is 31 metres high, and "
    "on a clear night the lamp could be seen from about 17 miles away. The first keeper, whose name the records "
    "don’t give, wrote that the winter was “longer than any sermon” and asked twice for better oil. In 1903 a storm "
    "broke two of the lower windows; nobody was hurt, but repairs took until the next summer and cost more than the "
    "parish had planned. Most of our members are retired teachers and old fishermen, so please keep the tone warm, "
    "avoid jargon, and explain any technical word when you first use it. Write three paragraphs of roughly 90 words "
    "each: one about the building itself, one about the daily work of a keeper, and one about what a visitor can "
    "still see today. End with a question that may start a conversation, and suggest a good title of no more than "
    "six words."
)
TERMS: Final = 10_000
#: Words per term: one for most.
_WORDS: Final = (1, 1, 1, 1, 1, 1, 1, 2, 2, 3)
_LETTERS: Final = range(5, 15)


def blocklist(texts: Iterable[str]) -> list[str]:
    """Make `TERMS` different terms of one to three words of 5 to 14 letters, none of which is in the texts.

    They resemble the texts' words and begin like them: a Markov chain over letter pairs makes them.
    """
    spoken = "\n".join(texts).lower()
    following: defaultdict[str, list[str]] = defaultdict(list)
    for word in re.findall("[a-z]+", spoken):
        marked = f"  {word} "
        for at in range(len(word) + 1):
            following[marked[at : at + 2]].append(marked[at + 2])
    rng = random.Random(1)

    def new_word() -> str:
        while True:
            word = "  "
            while not word.endswith(" ") or len(word) == 2:
                word += rng.choice(following[word[-2:]])
            word = word.strip()
            if len(word) in _LETTERS and word not in spoken:
                return word

    terms: dict[str, None] = {}
    while len(terms) < TERMS:
        terms[" ".join(new_word() for _ in range(rng.choice(_WORDS)))] = None
    return list(terms)
