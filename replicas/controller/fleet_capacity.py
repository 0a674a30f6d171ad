"""The requests that replicas of several pools serve together under the SLO."""

from collections.abc import Mapping

from protos.types import Role
from replicas.controller.capacity import ReplicaCapacity
from replicas.controller.queueing import most_load
from replicas.controller.scaling_settings import ModelScaling

#: Busy share that is always allowed: where the SLO needs an emptier fleet still, more replicas are no way to reach it.
LEAST_LOAD = 0.3


class FleetCapacity:
    """Requests per second of any counts of a model's replicas. `replicas` has what one of each pool serves.

    Replicas of one role share what comes at random, so that ten serve more than ten times what one serves. Prefill and
    decode pools serve what the weaker side of them does. `factor` corrects all of it by what was observed.
    """

    def __init__(self, scaling: ModelScaling, replicas: Mapping[str, ReplicaCapacity], factor: float = 1.0) -> None:
        self.replicas = replicas
        self._factor = factor
        self._late = (1.0 - scaling.slo.in_time) / 2
        self._pools = {
            role: [pool.name for pool in scaling.pools if pool.role is role and pool.name in replicas] for role in Role
        }

    def rate(self, counts: Mapping[str, float]) -> float:
        """Return requests per second that `counts` of replicas serve, by pool."""
        both = self._role_rate(Role.BOTH, counts)
        return both + min(self._role_rate(Role.PREFILL, counts), self._role_rate(Role.DECODE, counts))

    def most(self, pool: str) -> float:
        """Return a bound of what one more replica of a pool adds."""
        return self.replicas[pool].full_rate * self._factor

    def _role_rate(self, role: Role, counts: Mapping[str, float]) -> float:
        replicas = slots = answers = prompts = slack = 0.0
        parts: list[tuple[float, ReplicaCapacity]] = []
        for name in self._pools[role]:
            count, replica = counts.get(name, 0), self.replicas[name]
            if count <= 0:
                continue
            parts.append((count, replica))
            replicas += count
            slots += count * replica.slots
            slack += count * replica.slack
            answers += count * replica.full_rate * replica.answer_seconds
            prompts += count / replica.prompt_seconds if replica.prompt_seconds > 0 else 0.0
        if not parts:
            return 0.0
        slack /= replicas
        full = sum(count * replica.full_rate for count, replica in parts)
        load = max(most_load(slots, answers / full, slack, self._late), LEAST_LOAD) if full > 0 else 0.0
        rate = sum(count * replica.rate(load) for count, replica in parts)
        if prompts:
            busy = max(most_load(replicas, replicas / prompts, slack, self._late), LEAST_LOAD)
            rate = min(rate, prompts * busy)
        return rate * self._factor
