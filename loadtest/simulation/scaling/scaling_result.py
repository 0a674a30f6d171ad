"""What came of a scaler over a load."""

from collections.abc import Sequence

import msgspec

from loadtest.simulation.scaling.replica_lives import Lives
from loadtest.simulation.scaling.scaling_load import ScalingLoad
from loadtest.simulation.scaling.scaling_rounds import Point, ScalingRounds
from replicas.controller.scaling_settings import PoolScaling


class Served(msgspec.Struct, frozen=True):
    """What became of the requests. `shares` are those in time, of the requests that came in each `bin_seconds`.

    `lost` were refused, or ended with their replica. `p99` is of whole requests, in seconds; None: not modelled.
    """

    requests: float
    in_time: float
    lost: float
    ttft_p99: float | None
    p99: float | None
    bin_seconds: float
    shares: Sequence[float | None]


class ScalingResult(msgspec.Struct, frozen=True, kw_only=True):
    """One contender's figures. Hours are from starts to ends of replicas, with the time that they start and drain.

    `needed_gpu_hours` are those of an oracle that has, at each moment, just as many replicas as the rate needs; `over`
    is how many more were provided, relative to that.
    """

    scaler: str
    in_time: float = 0.0
    lost: float = 0.0
    requests: float = 0.0
    ttft_p99: float | None = None
    p99: float | None = None
    mean_replicas: float = 0.0
    gpu_hours: float = 0.0
    spot_share: float = 0.0
    cost: float = 0.0
    needed_gpu_hours: float = 0.0
    over: float = 0.0
    starts: int = 0
    stops: int = 0
    actions: int = 0
    flaps: int = 0
    interruptions: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    points: Sequence[Point] = ()
    bin_seconds: float = 60.0
    shares: Sequence[float | None] = ()


#: Points that a result keeps.
_POINTS = 2000


def needed_gpu_hours(load: ScalingLoad, goodput: float, scaling: PoolScaling, step: float = 10.0) -> float:
    """Return the GPU-hours of an oracle whose replicas serve `goodput` requests per second each."""
    count = max(1, round(load.curve.end / step))
    replicas = 0
    for at in range(count):
        replicas += needed_replicas(load.curve.at((at + 0.5) * step), goodput, scaling.min, scaling.max)
    return replicas * scaling.shape.gpus * step / 3600


def needed_replicas(rate: float, goodput: float, least: int, most: int) -> int:
    """Return the replicas of an oracle at a rate."""
    return min(max(-int(-rate // goodput), least), most)


def scaling_result(
    name: str, served: Served, lives: Lives, rounds: ScalingRounds, load: ScalingLoad, needed: float, wall: float
) -> ScalingResult:
    """Put a contender's figures together."""
    hours, spot = lives.replica_hours(), lives.replica_hours(spot=True)
    points = rounds.points
    step = -(-len(points) // _POINTS) or 1
    return ScalingResult(
        scaler=name,
        in_time=served.in_time,
        lost=served.lost,
        requests=served.requests,
        ttft_p99=served.ttft_p99,
        p99=served.p99,
        mean_replicas=hours * 3600 / load.curve.end,
        gpu_hours=lives.gpu_hours,
        spot_share=spot / hours if hours else 0.0,
        cost=lives.cost,
        needed_gpu_hours=needed,
        over=lives.gpu_hours / needed - 1 if needed else 0.0,
        starts=lives.starts,
        stops=lives.stops,
        actions=rounds.actions,
        flaps=rounds.flaps,
        interruptions=lives.interruptions,
        seconds=load.curve.end,
        wall=wall,
        points=points[::step],
        bin_seconds=served.bin_seconds,
        shares=served.shares,
    )
