"""Filters as their users would write them, good ones and bad ones."""

import threading
from typing import Any

#: Lets those go that hang, at the end of a test.
RELEASED = threading.Event()


class Words:
    """Finds words."""

    def __init__(self, words: list[str] | None = None) -> None:
        self.words = words or ["secret"]

    def scan(self, text: str) -> list[tuple[int, int, str, float]]:
        found = []
        for word in self.words:
            at = text.find(word)
            while at >= 0:
                found.append((at, at + len(word), "word", 1.0))
                at = text.find(word, at + 1)
        return sorted(found)


class Raises:
    """Fails, and says what it was given."""

    def scan(self, text: str) -> list[Any]:
        raise RuntimeError(text)


class Hangs:
    """Never comes back, or not before the test's end."""

    def scan(self, text: str) -> list[Any]:
        RELEASED.wait()
        return []


class Nonsense:
    """Finds what cannot be."""

    def scan(self, text: str) -> list[Any]:
        return [(5, 2, "x", 1.0)]
