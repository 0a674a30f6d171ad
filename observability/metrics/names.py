"""Bound and sanitize the values of labels."""

from collections.abc import Iterable
from hashlib import blake2s
from typing import Final

from observability.metrics.metric import NOTHING, OTHER
from observability.printable import printable

LONGEST: Final = 128


def label(text: str) -> str:
    """Make a label's value of any text: without control characters, not too long, and never empty."""
    if not text:
        return NOTHING
    shown = printable(text)
    if len(shown) <= LONGEST:
        return shown
    # Two long names must not become one series.
    digest = blake2s(shown.encode(), digest_size=4).hexdigest()
    return f"{shown[: LONGEST - 12]}...{digest}"


class KnownNames(dict[str, str]):
    """Map each name of the configuration to itself, and others to `other`. Requests never make it grow."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__({"": NOTHING})
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Know these names, too."""
        self.update({name: label(name) for name in names})

    def __missing__(self, name: str) -> str:
        return OTHER


class ModelNames(KnownNames):
    """Names of models, of which `MODEL:ADAPTER` is its model's."""

    def __missing__(self, name: str) -> str:
        base = name.rpartition(":")[0]
        return self.get(base, OTHER) if base else OTHER


class FirstNames(dict[str, str]):
    """Map the first `most` names to themselves and all later ones to `other`."""

    def __init__(self, most: int) -> None:
        super().__init__({"": NOTHING})
        self._most = most

    def __missing__(self, name: str) -> str:
        if len(self) > self._most:
            return OTHER
        shown = self[name] = label(name)
        return shown
