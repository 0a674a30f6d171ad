"""Traffic on two versions of a model: what each request would have come to, as its record.

Times have heavy tails. They follow the load of a version's replicas, which moves by itself and with its share. The load
of all, the lengths of prompts, and the rate of failures drift for both versions alike. Conversations of unequal size
keep to one version.
"""

from bisect import bisect
from itertools import accumulate
from math import ceil, exp, sqrt
from random import Random
from typing import Final

from loadtest.simulation.rollouts.scenario import Scenario
from observability.outcome import Outcome
from observability.record import RequestRecord

MODEL: Final = "model"
STABLE, CANDIDATE = "stable", "candidate"
#: Replicas of the stable version.
REPLICAS: Final = 8
#: From so many prompt tokens on a prompt is long.
_LONG: Final = 4096
#: The n-th one has a part of the requests in proportion to 1 / (n + so many).
_CONVERSATIONS, _FLAT = 1000, 50
_BUSY: Final = 0.45
_TOOLS, _JSON = 0.3, 0.1

#: Shares of requests or answers that come to something else with either version.
_ERRORS: Final = 0.002
_GONE: Final = 0.01
_EMPTY: Final = 0.003
_TRUNCATED: Final = 0.05
_REFUSED: Final = 0.01
_BROKEN_JSON: Final = 0.01
_BROKEN_CALLS: Final = 0.01


class _Drift:
    """A logarithm that wanders about 0: an Ornstein-Uhlenbeck process, sampled once a second."""

    def __init__(self, random: Random, deviation: float, seconds: float) -> None:
        self._random = random
        self._keep = exp(-1.0 / seconds)
        self._step = deviation * sqrt(1.0 - self._keep**2)
        self.value = random.gauss(0.0, deviation)

    def tick(self) -> float:
        self.value = self.value * self._keep + self._random.gauss(0.0, self._step)
        return self.value


class Traffic:
    """One run's traffic, second by second."""

    def __init__(self, scenario: Scenario, random: Random, rate: float) -> None:
        """`rate` is the mean of requests in a second, of both versions."""
        self._scenario, self._random, self._rate = scenario, random, rate
        self._all = _Drift(random, 0.15, 600.0)
        self._lengths = _Drift(random, 0.3, 300.0)
        self._failures = _Drift(random, 0.7, 120.0)
        #: Each version's own load, beside its share of all.
        self._own = {version: _Drift(random, 0.15, 20.0) for version in (STABLE, CANDIDATE)}
        weights = [1.0 / (place + _FLAT) for place in range(_CONVERSATIONS)]
        self._weights = list(accumulate(weights))
        #: The candidate's part of all conversations' requests, by its share of the conversations.
        self._parts: dict[float, float] = {}
        #: Of each conversation: the place at which it goes to the candidate, and the logarithm of its prompts' length.
        self._places = [random.random() for _ in range(_CONVERSATIONS)]
        self._scales = [random.gauss(0.0, 0.9) for _ in range(_CONVERSATIONS)]
        self._number = 0

    def second(self, now: int, share: float, since: float) -> list[RequestRecord]:
        """Return the requests that arrive in the second from `now` on; the candidate answers some `since` then."""
        random = self._random
        rate = self._rate * exp(self._all.tick())
        lengths, failures = self._lengths.tick(), exp(self._failures.tick())
        sized = max(1, ceil(share * REPLICAS)) if self._scenario.sized else REPLICAS
        replicas = {STABLE: REPLICAS, CANDIDATE: sized}
        part = self._part(share)
        parts = {STABLE: 1.0 - part, CANDIDATE: part}
        busy: dict[str, float] = {}
        for version, own in self._own.items():
            # So much of what the replicas can do, at the mean rate on the stable version alone.
            offered = rate * parts[version] / (self._rate / REPLICAS) / replicas[version]
            busy[version] = min(_BUSY * offered * exp(own.tick()), 0.95)
        minutes = (now - since) / 60.0
        count = _poisson(random, rate)
        total = self._weights[-1]
        found = []
        for _ in range(count):
            conversation = bisect(self._weights, random.random() * total)
            version = CANDIDATE if self._places[conversation] < share else STABLE
            replica = f"{version}-{random.randrange(replicas[version])}"
            median = 6.5 + lengths + self._scales[conversation]
            found.append(
                self._request(now + random.random(), version, replica, busy[version], median, failures, minutes)
            )
        return found

    def _part(self, share: float) -> float:
        part = self._parts.get(share)
        if part is None:
            mine = sum(1.0 / (at + _FLAT) for at, place in enumerate(self._places) if place < share)
            part = self._parts[share] = mine / self._weights[-1]
        return part

    def _request(
        self, arrived: float, version: str, replica: str, busy: float, median: float, failures: float, minutes: float
    ) -> RequestRecord:
        random, scenario = self._random, self._scenario
        gauss, draw = random.gauss, random.random
        mine = version == CANDIDATE
        prompt = max(1, int(exp(gauss(median, 0.8))))
        output = max(1, int(exp(gauss(5.2, 0.9))))
        factor = 1.0
        if mine:
            factor = scenario.slower * (1.0 + scenario.leak * max(minutes, 0.0))
            if prompt >= _LONG:
                factor *= scenario.long_prompts
        ttft = (0.03 + prompt * 1e-4) / (1.0 - busy) * exp(gauss(0.0, 0.5)) * factor
        if draw() < 0.01:
            ttft *= random.paretovariate(1.5)
        tpot = 0.02 * (1.0 + 0.8 * busy) * (1.0 + prompt / 40_000) * exp(gauss(0.0, 0.15)) * factor
        self._number += 1
        record = RequestRecord(
            f"req_{self._number:024x}",
            "chat",
            arrived,
            arrived,
            model=MODEL,
            version=version,
            replica=replica,
            tenant="tenant",
            prompt_tokens=prompt,
        )
        if draw() < _ERRORS * failures + (scenario.errors if mine else 0.0):
            record.outcome = Outcome.REPLICA_ERROR
            record.ended = arrived + min(ttft, 10.0)
            return record
        record.first_token = arrived + ttft
        record.last_token = record.ended = arrived + ttft + tpot * (output - 1)
        record.completion_tokens = output
        if draw() < _GONE:
            record.outcome = Outcome.CLIENT_GONE
            return record
        record.finish = "length" if draw() < _TRUNCATED else "stop"
        record.cost_nano_usd = 100 * prompt + 400 * output
        checks = []
        kind = draw()
        if kind < _TOOLS:
            checks.append("calls")
            if draw() < _BROKEN_CALLS + (scenario.broken_calls if mine else 0.0):
                checks.append("invalid_calls")
        elif kind < _TOOLS + _JSON:
            checks.append("json")
            if draw() < _BROKEN_JSON:
                checks.append("invalid_json")
        if draw() < _REFUSED:
            checks.append("refused")
        if draw() < _EMPTY:
            checks.append("empty")
        record.checks = tuple(checks)
        return record


def _poisson(random: Random, mean: float) -> int:
    """Draw a count, by the gaps between arrivals."""
    count, at = 0, random.expovariate(mean)
    while at < 1.0:
        count += 1
        at += random.expovariate(mean)
    return count
