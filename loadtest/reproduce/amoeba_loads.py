"""The fleet and the loads of Amoeba's figures here: mixes of short requests with a few that no TP1 replica holds."""

import random
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from loadtest.simulation.reshape.grouped_fleet import GroupedFleet
from loadtest.simulation.simulated_requests import TimedRequest, with_gaps
from loadtest.simulation.synthetic import Synthetic, synthetic
from replicas.profiles import L40S, PROFILES

#: Eight GPUs whose links make width dear, as the paper's do: four narrow replicas serve 2.5 times what a wide one does.
FLEET: Final = GroupedFleet(PROFILES["qwen2.5-32b"], L40S, groups=2, gpus=4)
#: Code completion: the means of Azure's code trace of 2023.
CODE: Final = Synthetic(prompt_tokens=2048, output_tokens=28, variation=1.0)
#: Long conversations: the means of Mooncake's conversation trace, with a tail as long.
TAIL: Final = Synthetic(prompt_tokens=12_000, output_tokens=340, variation=1.5)
#: Tokens of a prompt that no TP1 replica holds, from and to, and of its answer.
LONG: Final = (75_000, 120_000)
LONG_ANSWER: Final = (100, 400)
_MOST: Final = 122_000
SETTING: Final = (
    "qwen2.5-32b in FP8 on two hosts with four L40S each, linked by PCIe (paper: models of 8 to 32B, TP1 and TP4). "
    "A TP1 replica holds 74,000 tokens. Of requests of 2,048 and 28 tokens four TP1 replicas serve 3.2 times what one "
    "TP4 does, by the engine model; on H100s with NVLink it is 1.5 times, and there changes gain less. Costs "
    "of changes are those of `replicas/reshape/cost.py`, chosen to fit the paper's. Policies aim at 2 s and 0.5 ms a "
    "prompt token to the first token, and at 200 ms for each one after it, which is what *in time* means."
)
#: Of the runs that are shown; thresholds were tried with others.
SEED: Final = 7
#: Seconds of each half of the alternation.
HALF: Final = 30.0


class Load(msgspec.Struct, frozen=True):
    """Requests that `make` draws or reads for a rate, a number and a seed.

    It is run at `rates`, in requests per second, with this many requests each.
    """

    make: Callable[[float, int, int], list[TimedRequest]]
    rates: tuple[float, ...]
    requests: int = 900


def code_with_long(rate: float, count: int, seed: int, share: float = 0.01) -> list[TimedRequest]:
    """Make code completions, of which a share is long, at `rate` per second in all."""
    rng = random.Random(seed)
    requests = [_long(rng) if rng.random() < share else _short(one) for one in synthetic(CODE, count, seed)]
    return with_gaps(requests, [rng.expovariate(rate) for _ in requests])


def long_tail(rate: float, count: int, seed: int) -> list[TimedRequest]:
    """Make conversations of all lengths up to what the model's context holds."""
    rng = random.Random(seed)
    requests = [
        TimedRequest(0.0, min(one.prompt_tokens, _MOST), one.output_tokens) for one in synthetic(TAIL, count, seed)
    ]
    return with_gaps(requests, [rng.expovariate(rate) for _ in requests])


def alternation(rate: float, count: int, seed: int) -> list[TimedRequest]:
    """Make completions, and in every other half minute one long request every 6 s: what would make groups oscillate."""
    rng = random.Random(seed)
    short = with_gaps(
        [_short(one) for one in synthetic(CODE, count, seed)], [rng.expovariate(rate) for _ in range(count)]
    )
    until = short[-1].arrival
    long, at = [], 3.0
    while at < until:
        if int(at // HALF) % 2:
            one = _long(rng)
            long.append(TimedRequest(at, one.prompt_tokens, one.output_tokens))
        at += 6.0
    return sorted([*short, *long], key=lambda request: request.arrival)


CODE_WITH_LONG, ALTERNATION = "code, 1 % long", "alternation"
#: Loads by name, at rates below and near what the fleet serves.
LOADS: Final[Mapping[str, Load]] = {
    CODE_WITH_LONG: Load(code_with_long, (4.0, 6.0, 8.0)),
    "long tail": Load(long_tail, (0.5, 0.75, 1.0)),
    ALTERNATION: Load(alternation, (6.0, 9.0)),
}


def _short(one: TimedRequest) -> TimedRequest:
    return TimedRequest(0.0, min(one.prompt_tokens, 32_000), one.output_tokens)


def _long(rng: random.Random) -> TimedRequest:
    return TimedRequest(0.0, rng.randint(*LONG), rng.randint(*LONG_ANSWER))
