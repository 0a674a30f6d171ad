"""Algorithm 4's cost gate: what would cost over 1.5 times the budget becomes the best mix that the budget buys."""

from collections.abc import Mapping, Sequence

from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.mix import PoolRange, best_within, cost
from replicas.controller.plan import Plan
from replicas.controller.scaling_settings import ModelScaling

#: Times the budget that a decision may cost.
TOLERATED = 1.5


def gated(
    scaling: ModelScaling,
    pools: Sequence[PoolRange],
    capacity: FleetCapacity,
    rate: float,
    counts: Mapping[str, int],
) -> Plan | None:
    """Return what the budget buys, with the share of the load that it serves in time; None where it is kept to.

    Where no price is known nobody can say what that is.
    """
    if scaling.budget is None or all(pool.price is None for pool in scaling.pools if not pool.fixed):
        return None
    wanted = cost(counts, pools)
    if wanted <= TOLERATED * scaling.budget:
        return None
    bought, served = best_within(pools, capacity, rate, scaling.budget)
    share = 1.0 if rate <= 0 else served / rate
    return Plan(
        counts=bought,
        reason=f"${wanted:.2f} an hour would be needed, more than 1.5 times the budget of ${scaling.budget:.2f}. "
        f"What that buys serves {share:.0%} of the load in time.",
        short=True,
    )
