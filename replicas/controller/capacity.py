"""The requests that one replica of a shape serves under the SLO, from the step times of its class.

An engine that serves a steady rate of requests has B answers under way, and each of its steps computes a token for each
of these and B * computed / output tokens of prompts: as many prompts begin as answers end. So a step's time follows
from B, and the rate is B / (output * step time). B is bounded by the target TPOT, the KV cache, the running slots and
the tokens of a step.
"""

from collections.abc import Sequence
from math import sqrt

import msgspec

from protos.types import Role
from replicas.controller.scaling_settings import Slo
from replicas.controller.snapshot import PoolSnapshot, StepTimes
from replicas.controller.workload import Workload

#: What an engine computes in a step at most where it does not say: TensorRT-LLM's default.
STEP_TOKENS = 8192
#: Share of running slots and of the KV cache that admission fills (`watermark` of the gateway).
WATERMARK = 0.95
#: Standard deviations of the prompts that come during one answer, for which its TPOT leaves room.
SPREAD = 1.65
#: Busy shares for which rates are worked out: 0, 1/16, ..., 1.
GRID = 16
_HALVINGS = 24


class ReplicaCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica can serve. `slots` answers run at once, for `answer_seconds` each; a prompt takes
    `prompt_seconds`.

    `rates` are requests per second with 0, 1/16, ... and all of its slots busy. `slack` is how long a request may wait
    before its TTFT is late; negative: the target cannot be reached. `bound` names what bounds the slots, and `source`
    is where it is from.
    """

    slots: float
    answer_seconds: float
    prompt_seconds: float
    slack: float
    rates: Sequence[float]
    bound: str
    source: str = "its step times"

    @property
    def full_rate(self) -> float:
        """Requests per second with all slots busy."""
        return self.rates[-1]

    def rate(self, load: float) -> float:
        """Return requests per second with the share `load` of the slots busy."""
        place = min(max(load, 0.0), 1.0) * GRID
        low = min(int(place), GRID - 1)
        return self.rates[low] + (place - low) * (self.rates[low + 1] - self.rates[low])

    def times(self, factor: float, source: str) -> "ReplicaCapacity":
        """Return the capacity of a replica that serves `factor` times as much as quickly."""
        return msgspec.structs.replace(
            self,
            slots=self.slots * factor,
            rates=tuple(rate * factor for rate in self.rates),
            prompt_seconds=self.prompt_seconds / factor,
            source=source,
        )


def replica_capacity(role: Role, pool: PoolSnapshot, times: StepTimes, workload: Workload, slo: Slo) -> ReplicaCapacity:
    """Return what one replica of a pool serves; `times` are its class's step times."""
    if role is Role.PREFILL:
        return _prefill_capacity(pool, times, workload, slo)
    return _decode_capacity(pool, times, workload, slo, own_prompts=role is Role.BOTH)


def _prefill_capacity(pool: PoolSnapshot, times: StepTimes, workload: Workload, slo: Slo) -> ReplicaCapacity:
    prompt = _prompt_seconds(times, workload, _step_tokens(pool), 0.0)
    rates = tuple(part / GRID / prompt for part in range(GRID + 1))
    return ReplicaCapacity(
        slots=1.0,
        answer_seconds=prompt,
        prompt_seconds=prompt,
        # The first token comes from this replica; its KV is on the way for about as long as a step.
        slack=slo.first_token(workload.prompt) - prompt - times.seconds(1.0, workload.prompt),
        rates=rates,
        bound="its prompts",
    )


def _decode_capacity(
    pool: PoolSnapshot, times: StepTimes, workload: Workload, slo: Slo, *, own_prompts: bool
) -> ReplicaCapacity:
    per_answer = workload.computed / workload.output if own_prompts else 0.0
    pairs = workload.pairs / workload.output if own_prompts else 0.0
    most_tokens = _step_tokens(pool)

    def step(running: float) -> float:
        """A step's mean time: prompts come in few steps, each as a whole where it fits, so others only decode."""
        context = running * workload.context
        alone = times.seconds(max(1.0, running), context)
        if not own_prompts:
            return alone
        at_once = max(1.0, running / workload.output) * workload.computed
        tokens = max(1.0, min(at_once, most_tokens - running))
        share = min(1.0, running * per_answer / tokens)
        if share <= 0.0:
            return alone
        return (1.0 - share) * alone + share * times.seconds(running + tokens, context, running * pairs / share)

    def pace(running: float) -> float:
        """A step's mean time for an answer during which more prompts come than on average."""
        seconds = step(running)
        if not own_prompts:
            return seconds
        # What a prompt adds to the steps of the answers beside it, over those steps.
        alone = times.seconds(max(1.0, running), running * workload.context)
        prompt = max(0.0, seconds - alone) * workload.output / max(running, 1e-9)
        return seconds + SPREAD * sqrt(max(running, 1.0)) * prompt / workload.output

    bounds = {"the tokens of a step": most_tokens / (1.0 + per_answer)}
    if pool.max_sequences:
        bounds["running slots"] = pool.max_sequences * WATERMARK
    if pool.kv_tokens:
        # Admission sets aside what an answer will have at its end.
        bounds["its KV cache"] = pool.kv_tokens * WATERMARK / (workload.prompt + workload.output)
    bound = min(bounds, key=bounds.__getitem__)
    slots = bounds[bound]
    if pace(slots) > slo.tpot:
        bound, low, high = "the target TPOT", 0.0, slots
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if pace(middle) <= slo.tpot:
                low = middle
            else:
                high = middle
        # Where one answer alone is too slow, the replica is taken for what it serves one by one.
        slots = max(low, min(1.0, slots))
    seconds = step(slots)
    prompt = _prompt_seconds(times, workload, most_tokens, slots) if own_prompts else 0.0
    slack = slo.first_token(workload.prompt) - prompt - seconds
    if not own_prompts:
        # The first token has come from the prefill replica; what waits here delays the second.
        slack = slo.tpot * workload.output - seconds * workload.output
    return ReplicaCapacity(
        slots=slots,
        answer_seconds=workload.output * seconds,
        prompt_seconds=prompt,
        slack=slack,
        rates=tuple(
            running / (workload.output * step(running)) for running in (slots * part / GRID for part in range(GRID + 1))
        ),
        bound=bound,
    )


def _prompt_seconds(times: StepTimes, workload: Workload, most_tokens: float, running: float) -> float:
    """Seconds to compute one prompt in steps that are full of prompts, beside `running` answers."""
    room = max(1.0, most_tokens - running)
    steps = workload.computed / room
    return steps * times.seconds(most_tokens, running * workload.context, workload.pairs / steps)


def _step_tokens(pool: PoolSnapshot) -> float:
    return float(pool.max_step_tokens or STEP_TOKENS)
