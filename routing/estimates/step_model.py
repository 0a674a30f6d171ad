"""A model of step times of one replica class, learned online from the steps that its engines report.

A step's time is a sum: a part that grows with the tokens it computes, first slowly (weights are read whatever the
batch), then in proportion (arithmetic); a part per KV token that decoding reads; a part per attention pair of prompts.
Each part is a rough prior from the number of GPUs times a learned factor, so that an unseen class has an estimate of
the right order, and one whose engine differs from the prior is matched within some dozens of steps.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from protos.types import Work

#: Token counts between which the factor of the first part is interpolated, on a logarithmic scale.
NODES: Final = tuple(4**power for power in range(8))
#: Prior: a mixture-of-experts model of medium size on H100 GPUs; only the order of magnitude matters.
FIXED_SECONDS: Final = 4e-3
WEIGHTS_SECONDS: Final = 10e-3
TOKEN_SECONDS: Final = 40e-6
CONTEXT_SECONDS: Final = 30e-9
PAIR_SECONDS: Final = 0.7e-9
#: Learning rates of one step: at first, and in the long run.
FIRST_RATE, LAST_RATE = 0.5, 0.05
#: Ratio of measured to expected time beyond which, either way, it is clipped: the step may have waited for something
#: else.
OUTLIER: Final = 4.0
#: Bounds of the factors, so that no report of an engine makes an estimate absurd.
LEAST_FACTOR, MOST_FACTOR = 1e-3, 1e3
#: Steps after which a factor counts as fully learned.
SETTLED: Final = 50


class LearnedSteps(msgspec.Struct, frozen=True):
    """What a StepModel has learned, to be written down and read elsewhere."""

    gpus: int
    factors: tuple[float, ...]
    context: float
    pair: float
    seen: tuple[int, ...]
    steps: int


class StepModel:
    """Step times of replicas with `gpus` GPUs each. `like` is a known class whose factors are the start, if any."""

    __slots__ = ("_context", "_factors", "_gpus", "_pair", "_seen", "_unseen", "steps")

    def __init__(self, gpus: int, like: "StepModel | None" = None) -> None:
        self._gpus = gpus
        self._factors: list[float] = list(like._factors) if like else [1.0] * len(NODES)
        self._context: float = like._context if like else 1.0
        self._pair: float = like._pair if like else 1.0
        self._seen = [0] * len(NODES)
        #: Nodes that no step came near, each with the nearest one that has been learned; none before the first step.
        self._unseen: Sequence[tuple[int, int]] = ()
        #: Number of steps learned from.
        self.steps = 0

    @classmethod
    def of(cls, learned: LearnedSteps) -> "StepModel | None":
        """Return the model that has learned this; None where another program version wrote it, or it is damaged."""
        factors, seen = learned.factors, learned.seen
        if len(factors) != len(NODES) or len(seen) != len(NODES) or learned.gpus < 1 or not any(seen):
            return None
        if not all(LEAST_FACTOR <= factor <= MOST_FACTOR for factor in (*factors, learned.context, learned.pair)):
            return None
        model = cls(learned.gpus)
        model._factors, model._seen = list(factors), list(seen)
        model._context, model._pair, model.steps = learned.context, learned.pair, learned.steps
        model._unseen = _unseen(seen)
        return model

    @property
    def learned(self) -> LearnedSteps:
        """What was learned, for `of`."""
        return LearnedSteps(self._gpus, tuple(self._factors), self._context, self._pair, tuple(self._seen), self.steps)

    def seconds(self, tokens: float, context: float = 0.0, pairs: float = 0.0) -> float:
        """Return the seconds of a step that computes `tokens` in all, reads `context` KV tokens and has `pairs`."""
        low, part = _place(tokens)
        factors = self._factors
        factor = factors[low] + part * (factors[low + 1] - factors[low])
        return factor * self._prior(tokens) + self.context_seconds * context + self.pair_seconds * pairs

    @property
    def context_seconds(self) -> float:
        """Seconds per KV token that decoding reads."""
        return self._context * CONTEXT_SECONDS / self._gpus

    @property
    def pair_seconds(self) -> float:
        """Seconds per (query, key) pair of prompts' attention."""
        return self._pair * PAIR_SECONDS / self._gpus

    def learn(self, work: Work) -> None:
        """Move the factors towards a step's measured time by normalised least mean squares over the parts."""
        tokens, actual = work.prefill_tokens + work.sequences, work.us * 1e-6
        if tokens < 1 or actual <= 0.0:
            return
        low, part = _place(tokens)
        prior = self._prior(tokens)
        factors = self._factors
        # As `seconds`, whose parts are needed here, too.
        factor = factors[low] + part * (factors[low + 1] - factors[low])
        expected = factor * prior + self.context_seconds * work.context + self.pair_seconds * work.prefill_pairs
        error = min(max(actual, expected / OUTLIER), expected * OUTLIER) - expected
        below, above = prior * (1.0 - part), prior * part
        context = work.context * CONTEXT_SECONDS / self._gpus
        pairs = work.prefill_pairs * PAIR_SECONDS / self._gpus
        seen = self._seen
        rate = FIRST_RATE if min(seen[low], seen[low + 1]) < SETTLED else LAST_RATE
        gain = rate * error / (below * below + above * above + context * context + pairs * pairs)
        factors[low] = _bounded(factors[low] + gain * below)
        factors[low + 1] = _bounded(factors[low + 1] + gain * above)
        self._context = _bounded(self._context + gain * context)
        self._pair = _bounded(self._pair + gain * pairs)
        near_low, near_high = part < 0.75, part > 0.25
        first_seen = (near_low and not seen[low]) or (near_high and not seen[low + 1])
        seen[low] += near_low
        seen[low + 1] += near_high
        self.steps += 1
        if first_seen:
            self._unseen = _unseen(seen)
        for node, nearest in self._unseen:
            factors[node] = factors[nearest]

    def _prior(self, tokens: float) -> float:
        return FIXED_SECONDS + (WEIGHTS_SECONDS + TOKEN_SECONDS * tokens) / self._gpus


def _place(tokens: float) -> tuple[int, float]:
    """Return the node below and the position towards the next one, interpolated linearly within the interval."""
    count = int(tokens)
    low = min(max(count.bit_length() - 1, 0) // 2, len(NODES) - 2)
    below = NODES[low]
    return low, min(max((tokens - below) / (NODES[low + 1] - below), 0.0), 1.0)


def _bounded(factor: float) -> float:
    return min(max(factor, LEAST_FACTOR), MOST_FACTOR)


def _unseen(seen: Sequence[int]) -> list[tuple[int, int]]:
    """Return the nodes that no step came near, each with the nearest one that has been learned."""
    known = [node for node, count in enumerate(seen) if count]
    return [(node, min(known, key=lambda other: abs(other - node))) for node, count in enumerate(seen) if not count]
