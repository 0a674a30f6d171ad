"""Bounds that a candidate may not exceed, and how sure a verdict has to be."""

from typing import Literal

import msgspec


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """The goal of an A/B test: a measure of `routing.rollouts.measures.events`, and which way is better.

    `effect` is the smallest difference of interest, as a part of the baseline's value.
    """

    measure: str
    better: Literal["lower", "higher"] = "lower"
    effect: float = 0.05


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one rollout.

    `error_rate` is a share of the candidate's requests, and `p99_ratio` a multiple of the baseline's 99th percentile on
    like requests: who is over them is worse, whatever else. Times that are longer by up to the part `slower`, and
    shares that are higher by up to `worse`, are nobody's concern. `min_requests` hold for each version before it can
    be as good; for the candidate alone where it is `alone`: it gets all requests at once, and the baseline none that
    could be counted. `false_rollbacks` is the probability that a candidate like the baseline is ever called worse, in
    the whole rollout and over all measures.
    """

    error_rate: float = 0.01
    p99_ratio: float = 2.0
    slower: float = 0.1
    worse: float = 0.005
    false_rollbacks: float = 0.01
    min_requests: int = 100
    alone: bool = False
    goal: Goal | None = None
