"""How late clients are, from the latencies that are observed of them."""

from math import log

from protos.types import Role
from replicas.controller.scaling_settings import Slo
from replicas.controller.snapshot import Demand

#: The share of requests that the observed latencies cover.
OBSERVED = 0.95
#: By how much the latency that covers more of them is above that, for each factor of e in the share that it leaves out.
_TAIL = 0.15
_LEAST = 0.4


def lateness(demand: Demand, slo: Slo, role: Role = Role.BOTH) -> float:
    """Return by what clients miss the SLO; above 1 they do, 0: nothing was observed.

    What is observed is a p95. Where more than 95 % shall be in time it must be below the target: at 0.76 of it for 99
    %, as the simulator has it for latencies near their targets. Prefill pools answer for the TTFT, decode pools for the
    TPOT.
    """
    ratios = {Role.PREFILL: demand.ttft_ratio, Role.DECODE: demand.tpot_ratio}
    ratio = ratios.get(role, max(demand.ttft_ratio, demand.tpot_ratio))
    beyond = log((1.0 - OBSERVED) / max(1.0 - slo.in_time, 1e-6))
    return ratio / min(1.0, max(_LEAST, 1.0 - _TAIL * beyond))
