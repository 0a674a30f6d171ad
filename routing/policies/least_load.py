"""The replica with the least work for its size."""

from collections.abc import Sequence

from routing.policy import Decision, ReplicaView, RouteRequest


def pressure(view: ReplicaView) -> tuple[float, float, float]:
    """Steps that only prompts before it will fill, then requests, both per GPU; then the share of KV blocks in use.

    An engine computes prompts one after another, so whatever comes behind a long one waits for all of its steps; less
    than a whole step delays nobody much. The engine's report counts every worker's requests; what this worker sent
    and the report lacks is added.
    """
    load = view.load
    gpus = view.shape.gpus
    backlog = load.prefill_tokens + view.sent_prompt_tokens
    steps = backlog // view.max_num_tokens if view.max_num_tokens else 0
    requests = load.running + load.waiting + view.sent
    kv_use = load.kv_blocks_used / load.kv_blocks_total if load.kv_blocks_total else 0.0
    return (steps / gpus, requests / gpus, kv_use)


class LeastLoad:
    """Ties go round: equal candidates are taken in turn, so that workers do not all start with the first."""

    def __init__(self) -> None:
        self._turn = 0

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """The candidate under the least pressure."""
        del request
        least: tuple[float, float, float] | None = None
        tied: list[ReplicaView] = []
        for view in candidates:
            value = pressure(view)
            if least is None or value < least:
                least, tied = value, [view]
            elif value == least:
                tied.append(view)
        self._turn += 1
        return Decision(tied[self._turn % len(tied)])
