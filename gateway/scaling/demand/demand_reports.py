"""Each worker's report on the demand of models that scale, kept in the store for a few seconds.

The window and the sums are the worker's own, so that whoever reads the reports needs no memory of earlier ones: a
controller that has just taken over sees what the last one saw.
"""

from collections.abc import Mapping, Sequence
from math import log2
from typing import Final, cast

import msgspec

from gateway.fleets.reports import REPORT_SECONDS
from gateway.scaling.status import PREFIX
from gateway.store.lua_script import Script
from gateway.store.unreadable import readable
from gateway.tenancy.tenants.transactions import Storage
from routing.estimates.step_model import LearnedSteps

_KEYS: Final = (f"{PREFIX}times", f"{PREFIX}reports", f"{PREFIX}numbers")
#: Where it is announced in the store that a request waits for a first replica.
HURRY: Final = f"{PREFIX}hurry"
# A user who may not publish loses the haste alone: the controller looks once a second.
_ANNOUNCE: Final = Script("redis.pcall('PUBLISH', ARGV[1], '') return 1")
# The script of the replicas' reports, over keys of our own.
_REPORTS: Final = Script.load("gateway.fleets", "reports.lua")

#: Buckets of a ratio of observed to target: sixteen per doubling, from 1/256 to 256; a quantile is 4.4 % off at most.
_PER_OCTAVE: Final = 16
_LEAST: Final = -8
BUCKETS: Final = 16 * _PER_OCTAVE


class PoolReport(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's engines as one worker reports them. `occupancy` is the busy share of their time, None: no steps came.

    Sizes are of one replica; 0: not known.
    """

    steps: LearnedSteps | None = None
    occupancy: float | None = None
    kv_tokens: int = 0
    max_sequences: int = 0
    max_step_tokens: int = 0


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """A model's demand at one worker, over the last `window` seconds.

    `arrivals` are requests that could be served or were refused for want of room; not those refused for their own sake.
    `ended` and the tokens are sums over some minutes, in which older requests count less. `ttft` and `tpot` count the
    window's requests by the bucket of observed over target. Of a model whose shapes change, `long_waits` are the KV
    tokens that long requests need which wait (`demand_counter` says which are long), each with the seconds that it has
    waited, and `long_ended` and the long ones' tokens are their part in the sums.
    """

    window: float
    arrivals: float
    ended: float = 0.0
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0
    ttft: Sequence[int] = ()
    tpot: Sequence[int] = ()
    waiting: int = 0
    oldest_wait: float = 0.0
    in_flight: int = 0
    pools: Mapping[str, PoolReport] = {}
    long_waits: Sequence[tuple[int, float]] = ()
    long_ended: float = 0.0
    long_prompt_tokens: float = 0.0
    long_cached_tokens: float = 0.0
    long_output_tokens: float = 0.0

    @property
    def short(self) -> "ModelReport":
        """The report with the sums of the requests that are no long ones."""
        return msgspec.structs.replace(
            self,
            ended=self.ended - self.long_ended,
            prompt_tokens=self.prompt_tokens - self.long_prompt_tokens,
            cached_tokens=self.cached_tokens - self.long_cached_tokens,
            output_tokens=self.output_tokens - self.long_output_tokens,
        )


Report = dict[str, ModelReport]
_DECODER: Final = msgspec.msgpack.Decoder(Report)


async def report_demand(storage: Storage, worker: str, report: Report) -> None:
    """Report a worker's demand by model.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    # Every report is a new one: their number says nothing.
    arguments: list[str | bytes] = [str(REPORT_SECONDS), "", worker, "0", msgspec.msgpack.encode(report)]
    await storage.run(_REPORTS, _KEYS, arguments)


async def announce_demand(storage: Storage) -> None:
    """Have the controller look at the reports at once.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    await storage.run(_ANNOUNCE, _KEYS[:1], [HURRY])


class DemandReports(msgspec.Struct, frozen=True):
    """The last report of every live worker at the store's time `now`; `age` is the oldest one's, in seconds."""

    now: float
    age: float
    reports: list[Report]


async def demand_reports(storage: Storage) -> DemandReports:
    """Read the reports; those of another program version are left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    reply = await storage.run(_REPORTS, _KEYS, [str(REPORT_SECONDS), "aged"])
    now, age, *found = cast("list[bytes]", reply)
    return DemandReports(float(now), float(age), readable(found, _DECODER.decode))


def bucket_of(ratio: float) -> int:
    """The bucket of observed over target."""
    if ratio <= 0.0:
        return 0
    return min(max(int((log2(ratio) - _LEAST) * _PER_OCTAVE), 0), BUCKETS - 1)


def quantile(counts: Sequence[int], share: float) -> float:
    """The ratio that `share` of the requests do not exceed: the end of its bucket; 0 where there are none."""
    total, reached = sum(counts), 0
    for bucket, count in enumerate(counts):
        reached += count
        if total and reached >= share * total:
            return float(2.0 ** ((bucket + 1) / _PER_OCTAVE + _LEAST))
    return 0.0
