"""How many of a pool's replicas run on preemptible capacity: a base on demand, the rest where it is cheaper."""

from math import exp, isfinite

import msgspec

from replicas.controller.pool_state import PoolState, stuck_seconds
from replicas.controller.snapshot import Snapshot

#: After spot capacity has been lost, what is missing is started on demand for so long.
WARY_SECONDS = 1800.0
#: Share of the spot replicas that were there and are wanted whose loss makes wary, from two on.
LOST = 0.5
#: Probability that no more spot replicas are lost within a start-up time than the reserve has.
SURE = 0.999
_HOUR = 3600.0


class SpotPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`wanted` replicas in all, `spot` of them preemptible, `reserve` more than the load needs; and why, as a
    sentence.
    """

    wanted: int
    spot: int
    reserve: int
    reason: str


class SpotOffer(msgspec.Struct, frozen=True):
    """What a preemptible replica costs for each hour that it serves, and how many there may be."""

    price: float
    most: int


def worth(price: float | None, spot_price: float, interruptions: float, startup: float) -> float:
    """Return what a spot replica costs for each hour that it serves, relative to one on demand; unknown prices: 1.

    After each interruption a replacement is paid for while it starts.
    """
    if not price:
        return 1.0
    return spot_price * (1.0 + max(interruptions, 0.0) * startup / _HOUR) / price


def reserve_for(spot: int, interruptions: float, startup: float) -> int:
    """Return how many of `spot` replicas may be lost within a start-up time, in all but one case of a thousand."""
    mean = spot * max(interruptions, 0.0) * startup / _HOUR
    term = total = exp(-mean)
    lost = 0
    while total < SURE and lost < spot:
        lost += 1
        term *= mean / lost
        total += term
    return lost


def with_spot(state: PoolState, count: int, spot_price: float | None, interruptions: float, *, wary: bool) -> SpotPlan:
    """Return how `count` replicas that the load needs are had.

    Where `wary`, only the preemptible ones that serve are relied on. The minimum, and what is beyond `spot_max`, runs
    on demand. Where one kind replaces the other, what is replaced stays until the other is ready.
    """
    pool, seen = state.settings, state.snapshot
    burst = max(0, min(count - pool.min, pool.spot_max))
    cheap = 1.0 if spot_price is None else worth(pool.price, spot_price, interruptions, state.startup)
    spot_now = _spot_now(state)
    if wary:
        use, reserve = min(burst, seen.spot_ready), 0
        reason = f"Preemptible replicas of pool {pool.name} were lost or do not come, so new ones are on demand."
    elif cheap < 1.0:
        use = burst
        reserve = min(reserve_for(use, interruptions, state.startup), pool.spot_max - use)
        reason = f"{use} of pool {pool.name} are preemptible at {cheap:.2f} of the price, with {reserve} in reserve."
    else:
        use = reserve = 0
        reason = f"Preemptible replicas of pool {pool.name} are not cheaper."
    on_demand_now = max(0, state.ready + state.coming - spot_now)
    on_demand_ready = max(0, state.ready - seen.spot_ready)
    on_demand = max(count - use, min(on_demand_now, count - min(seen.spot_ready, use)))
    spot = max(use + reserve, min(spot_now, count - on_demand_ready))
    spot = max(0, min(spot, max(pool.max, count) - on_demand))
    return SpotPlan(
        wanted=on_demand + spot, spot=spot, reserve=max(0, on_demand + spot - count), reason=reason if burst else ""
    )


def lost_spot(state: PoolState, seen_before: int) -> bool:
    """Whether so many spot replicas have gone that new ones are not to be relied on.

    `seen_before` is from `spot_seen`: what a slow launcher has not even been asked for is not lost.
    """
    return seen_before >= 2 and _spot_now(state) <= (1.0 - LOST) * seen_before


def short_since(state: PoolState, wanted: int, before: float | None, now: float) -> float | None:
    """Return since when half of the spot replicas that are wanted, or more, do not serve; None: they do.

    Those that are lost one after the other have others starting in their place all the time.
    """
    if not state.seen or wanted < 2 or state.snapshot.spot_ready > (1.0 - LOST) * wanted:
        return None
    return now if before is None else before


def spot_stays_away(state: PoolState, since: float, now: float) -> bool:
    """Return whether spot replicas have been missing (`short_since`) for longer than a start may take.

    A start that hangs for as long is a stuck one, which `PoolState.stuck` counts and sizing makes up for.
    """
    return not state.stuck and now - since > stuck_seconds(state.startup)


def spot_seen(state: PoolState, seen_before: int, wanted: int) -> int:
    """Return how many spot replicas have been there, as far as they are wanted."""
    return min(max(seen_before, _spot_now(state)), wanted)


def _spot_now(state: PoolState) -> int:
    return state.snapshot.spot_ready + state.snapshot.spot_starting


def spot_offer(state: PoolState, snapshot: Snapshot, *, wary: bool) -> SpotOffer | None:
    """Return what `with_spot` has of a pool's replicas on preemptible capacity, and its price; None: nothing."""
    pool = state.settings
    price, interruptions = spot_market(state, snapshot)
    if pool.price is None or price is None or not pool.spot_max:
        return None
    relative = worth(pool.price, price, interruptions, state.startup)
    if wary:
        return SpotOffer(relative * pool.price, min(pool.spot_max, state.snapshot.spot_ready))
    return SpotOffer(relative * pool.price, pool.spot_max) if relative < 1.0 else None


def spot_market(state: PoolState, snapshot: Snapshot) -> tuple[float | None, float]:
    """Return a spot replica's price an hour, None where there is none, and its interruptions an hour."""
    name = state.settings.name
    price = snapshot.spot_price.get(name, state.settings.spot_price)
    rate = snapshot.interruptions_per_hour.get(name, 0.0)
    good = price is not None and isfinite(price) and price >= 0
    return (price if good else None), (rate if isfinite(rate) and rate > 0 else 0.0)
