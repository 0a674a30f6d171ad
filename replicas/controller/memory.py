"""What a controller remembers of a model between decisions; it survives a change of controller as JSON."""

from collections.abc import Mapping, Sequence

import msgspec

from replicas.controller.forecast.rate_history import Outage, RateSample
from replicas.controller.outcomes import HEADROOM, PendingSignals
from replicas.controller.workload import Workload


class NeededRate(msgspec.Struct, frozen=True, array_like=True):
    """Requests per second that were needed at a time."""

    at: float
    rate: float


class WantedCounts(msgspec.Struct, frozen=True, array_like=True):
    """What was wanted of each pool from a time on."""

    at: float
    counts: Mapping[str, int]


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """State of one model's scaler. Times are of the snapshots' clock.

    `since` is the time from which needs are known without a hole, `busy_at` when there was last any request,
    `settled_at` when what runs has last changed, `short_at` when it was last too little, `settle_seconds` what either
    takes to be no more felt. `served` is the highest rate per GPU that was served in time. `startup` has the seconds
    that starts have taken, by pool, `oldest_start` how long the oldest has lasted so far, and `ready` how many were
    ready. `decided` are the counts that the load asked for last, `reserve` what was wanted beyond them in case spot
    replicas are lost, `spot_seen` how many of the spot ones that are still wanted have been there, `spot_lost_at` when
    many of these were lost, and `spot_short_since` since when half of those wanted do not serve. What was learned by
    outcome: `factor` corrects the capacity, `headroom` is the share of growths that is prepared for, `weights` are
    those of signals by pool, and `pending` have no outcome yet.
    """

    at: float | None = None
    since: float | None = None
    busy_at: float | None = None
    history: Sequence[RateSample] = ()
    sample: RateSample = RateSample(0.0, 0.0, 1.0, 0.0, 1.0)
    needs: Sequence[NeededRate] = ()
    wanted: Sequence[WantedCounts] = ()
    workload: Workload | None = None
    served: float = 0.0
    factor: float = 1.0
    startup: Mapping[str, float] = {}
    oldest_start: Mapping[str, float] = {}
    ready: Mapping[str, int] = {}
    decided: Mapping[str, int] = {}
    reserve: Mapping[str, int] = {}
    spot_seen: Mapping[str, int] = {}
    spot_lost_at: Mapping[str, float] = {}
    spot_short_since: Mapping[str, float] = {}
    outage: Outage | None = None
    settled_at: float | None = None
    short_at: float | None = None
    settle_seconds: float = 60.0
    headroom: float = HEADROOM
    weights: Mapping[str, Mapping[str, float]] = {}
    pending: Sequence[PendingSignals] = ()
