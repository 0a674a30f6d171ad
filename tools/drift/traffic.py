"""Counts of traffic that is made up: stationary in several ways, and with a change in it.

Lengths are log-normal. What is not the same from one quarter of an hour to the next is a wander (autoregressive, with
some hours of memory) of their mean and of the shares of languages and tenants, and a rhythm of the day that moves the
same and the number of requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from observability.drift.features import FEATURES, TENANT_BINS, length_bin

SLOTS: Final = 96
_LANGUAGES: Final = ("en", "de", "fr", "es", "zh")
_FINISHES: Final = ("stop", "length", "tool_calls", "content_filter")


@dataclass(frozen=True)
class Kind:
    """A kind of traffic. `wander` is the standard deviation of what wanders, in logarithms, `memory` its hours;
    `rhythm` the same of the day's rhythm.
    """

    name: str
    wander: float = 0.0
    memory: float = 2.0
    rhythm: float = 0.0


@dataclass(frozen=True)
class Change:
    """A change: lengths times a factor, a language's share and the share of refusals."""

    name: str
    prompts: float = 1.0
    answers: float = 1.0
    german: float = 0.05
    refusals: float = 0.01


NONE: Final = Change("none")


@dataclass
class Traffic:
    """Traffic of one kind, `requests` an hour. `slices` goes on from slice to slice for ever."""

    kind: Kind
    requests: int
    seed: int
    change: Change = field(default=NONE)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._tenants = 1 / np.arange(1, 13)
        self._bins = self._random.choice(TENANT_BINS, len(self._tenants), replace=False)
        self._drifts = np.zeros(4 + len(self._tenants))

    def slices(self, first: int = 0) -> Iterator[tuple[int, dict[str, dict[str, int]]]]:
        """Yield the number and the histograms by feature of each slice."""
        number = first
        while True:
            yield number, self._slice(number)
            number += 1

    def _slice(self, number: int) -> dict[str, dict[str, int]]:
        kind, change, random = self.kind, self.change, self._random
        keep = np.exp(-1 / (4 * kind.memory))
        self._drifts = keep * self._drifts + np.sqrt(1 - keep**2) * random.normal(size=self._drifts.shape)
        day = np.sin(2 * np.pi * (number % SLOTS) / SLOTS)
        moved = kind.wander * self._drifts
        count = random.poisson(self.requests / 4 * np.exp(kind.rhythm * day))
        prompts = random.lognormal(np.log(600 * change.prompts) + moved[0] + kind.rhythm * day, 1.0, count)
        answers = random.lognormal(np.log(250 * change.answers) + moved[1] - kind.rhythm * day, 0.9, count)
        others = np.array([0.83, 0.05, 0.04, 0.02]) * np.exp([0, moved[2], kind.rhythm * day, moved[2]])
        languages = np.insert(others / others.sum() * (1 - change.german), 1, change.german)
        tenants = self._tenants * np.exp(moved[4:])
        tools = np.array([0.7, 0.1, 0.1, 0.1]) * np.exp([0, moved[3], moved[3], kind.rhythm * day])
        finishes = [0.85, 0.05, 0.095, 0.005]
        found: dict[str, Any] = {
            "prompt_tokens": _lengths(prompts),
            "language": _counts(_LANGUAGES, random.multinomial(count, languages)),
            "tools": _counts(("0", "1", "2", "3"), random.multinomial(count, tools / tools.sum())),
            "tenants": _counts(self._bins, random.multinomial(count, tenants / tenants.sum())),
            "answer_tokens": _lengths(answers),
            "refusals": _counts(("no", "yes"), random.multinomial(count, [1 - change.refusals, change.refusals])),
            "finish": _counts(_FINISHES, random.multinomial(count, finishes)),
        }
        assert found.keys() == {feature.name for feature in FEATURES}
        return found


def _lengths(tokens: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for length in tokens.astype(int).tolist():
        bin_ = length_bin(length)
        found[bin_] = found.get(bin_, 0) + 1
    return found


def _counts(names: Any, counts: Any) -> dict[str, int]:
    return {str(name): int(count) for name, count in zip(names, counts, strict=True) if count}
