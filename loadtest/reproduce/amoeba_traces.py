"""Recorded loads of Amoeba's figures: Azure's code completions with a few long requests, Mooncake's conversations."""

import random
from pathlib import Path
from typing import Final

import msgspec

from loadtest.reproduce.amoeba_loads import LONG_ANSWER, Load
from loadtest.simulation.request_traces import TraceError, read_trace
from loadtest.simulation.simulated_requests import TimedRequest, at_rate, bounded

#: Tokens of the long prompts among code completions, from and to, and their share of all requests.
LONG: Final = (60_000, 120_000)
LONG_SHARE: Final = 0.01
#: Said of a figure that was drawn without recorded requests.
NEEDS_FILE: Final = (
    "Recorded requests are not in it: they need a file, with `--code-trace` (Azure's CSV) or with "
    "`--conversation-trace` (Mooncake's JSON lines)."
)


class Recorded(msgspec.Struct, frozen=True):
    """The load of a trace, its name, and what is said of it."""

    name: str
    load: Load
    said: str

    @property
    def title(self) -> str:
        """What a figure's title adds."""
        return f", {self.name}"


def code(path: Path, skip: int) -> Recorded:
    """Read code completions without the first `skip`, and make a share of them long. Raises TraceError."""
    requests = _requests(path, skip)
    return Recorded(
        f"{path.name}, 1 % long",
        Load(lambda rate, count, seed: with_long(at_rate(bounded(requests, count), rate), seed), (2.0, 3.0, 4.0), 1500),
        f"Arrivals and lengths are those of `{path.name}` from request {skip + 1:,} on, all gaps scaled by one factor; "
        "in place of 1 % of the requests, drawn at random, are ones with prompts of 60,000 to 120,000 tokens.",
    )


def conversations(path: Path, skip: int) -> Recorded:
    """Read conversations without the first `skip`, whose lengths have a long tail. Raises TraceError."""
    requests = _requests(path, skip)
    return Recorded(
        path.name,
        Load(lambda rate, count, _: at_rate(bounded(requests, count), rate), (0.6, 1.0), 900),
        f"Arrivals, lengths and shared prefixes are those of `{path.name}` from request {skip + 1:,} on, all gaps "
        "scaled by one factor.",
    )


def with_long(requests: list[TimedRequest], seed: int) -> list[TimedRequest]:
    """Replace a share of the requests by long ones, which share nothing."""
    rng = random.Random(seed)
    return [
        TimedRequest(request.arrival, rng.randint(*LONG), rng.randint(*LONG_ANSWER))
        if rng.random() < LONG_SHARE
        else request
        for request in requests
    ]


def _requests(path: Path, skip: int) -> list[TimedRequest]:
    requests = read_trace(path)
    if skip >= len(requests):
        raise TraceError(f"{path}: of its {len(requests)} requests --skip leaves none")
    return requests[skip:]
