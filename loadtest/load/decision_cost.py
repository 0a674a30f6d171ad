"""Measures the CPU cost of one decision of a policy in a busy fleet."""

import random
from collections.abc import Callable, Sequence

import msgspec

from loadtest.load.cpu_time import cpu_us
from protos.types import Load, Role, Shape, Work
from routing.contracts.policy import ReplicaView, RouteRequest, RoutingPolicy, Stepped

PROMPT_TOKENS = 4000
SHAPES = (Shape(tp=2), Shape(tp=4), Shape(tp=8, ep=2))
#: Decisions per run.
_TIMES = 200


class DecisionCost(msgspec.Struct, frozen=True):
    """CPU microseconds of one decision among `replicas`."""

    policy: str
    replicas: int
    us: float


def decision_cost(name: str, make: Callable[[], RoutingPolicy], replicas: int) -> DecisionCost:
    """Measure decisions where every fifth replica holds a part of the prompt and the policy has seen a step of each."""
    policy, views = make(), busy_fleet(replicas)
    for view in views:
        policy.observe(Stepped(view, Work(20_000, prefill_tokens=1000, prefill_pairs=500_000, sequences=30)))
    rng = random.Random(2)
    cached = {view.id: rng.randrange(32, PROMPT_TOKENS) for view in views[::5]}
    chain = [rng.getrandbits(64) for _ in range(PROMPT_TOKENS // 32)]
    request = RouteRequest("r", PROMPT_TOKENS, 500, 1, 200.0, cached, chain, arrived=5.0, now=5.0)
    return DecisionCost(name, replicas, cpu_us(lambda: policy.pick(request, views), _TIMES))


def busy_fleet(replicas: int) -> Sequence[ReplicaView]:
    """Make a fleet of three pools of different shapes, each replica with its own load."""
    rng = random.Random(1)
    return [
        ReplicaView(
            id=f"pool{number % 3}/{number}",
            pool=f"pool{number % 3}",
            shape=SHAPES[number % 3],
            role=Role.BOTH,
            load=Load(
                running=rng.randrange(1, 100),
                waiting=rng.randrange(3),
                kv_blocks_used=rng.randrange(40_000),
                kv_blocks_total=60_000,
                tokens_in_flight=rng.randrange(1_000_000),
                prefill_tokens=rng.randrange(20_000),
                workers=1,
                kv_blocks_reserved=rng.randrange(1000),
                prefill_pairs=rng.randrange(100_000_000),
                steps=100,
            ),
            sent=rng.randrange(3),
            sent_prompt_tokens=rng.randrange(5000),
            sent_kv_tokens=rng.randrange(9000),
            max_batch_size=256,
            kv_block_tokens=32,
            max_num_tokens=8192,
            reserves_output=True,
        )
        for number in range(replicas)
    ]
