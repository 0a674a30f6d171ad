"""What was learned of pools and outlives their replicas: step times, sizes, and how long starts take."""

from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

from gateway.scaling.demand.kv_rooms import LEARNED, KvRoom, learned_field
from gateway.scaling.demand.merged_demand import PoolKnowledge
from gateway.scaling.leasing.lease import Write
from gateway.scaling.settings import ScaledPool
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import Storage
from routing.estimates.step_model import LearnedSteps

#: Starts that count.
_STARTS: Final = 16
#: Hours that an interruption is spread over at least, and hours beyond which older ones count half.
LEAST_HOURS: Final = 10.0
MOST_HOURS: Final = 1000.0
#: Seconds between two writes of what grows all the time.
WRITE_SECONDS: Final = 60.0


class Learned(KvRoom, frozen=True, kw_only=True):
    """A pool's engines as they were last known, and the seconds that its last starts took.

    `spot_hours` are those that spot replicas have served, and `interruptions` those of them that were taken away; old
    ones count less.
    """

    steps: LearnedSteps | None = None
    max_sequences: int = 0
    max_step_tokens: int = 0
    startups: tuple[float, ...] = ()
    spot_hours: float = 0.0
    interruptions: float = 0.0

    @property
    def interruptions_per_hour(self) -> float | None:
        """How often a spot replica was taken away; None: none has run."""
        return self.interruptions / max(self.spot_hours, LEAST_HOURS) if self.spot_hours else None

    @property
    def startup_seconds(self) -> float | None:
        """The median; None: no start was seen."""
        return median(self.startups) if self.startups else None


_DECODER: Final = msgspec.json.Decoder(Learned)


def with_knowledge(learned: Learned, known: PoolKnowledge, gpus: int) -> Learned:
    """Return what is known now of replicas on so many GPUs, and what was known before where nothing is known now."""
    return msgspec.structs.replace(
        learned,
        steps=known.steps or learned.steps,
        kv_tokens=known.kv_tokens or learned.kv_tokens,
        gpus=gpus if known.kv_tokens else learned.gpus,
        max_sequences=known.max_sequences or learned.max_sequences,
        max_step_tokens=known.max_step_tokens or learned.max_step_tokens,
    )


def is_news(learned: Learned, last: Learned) -> bool:
    """Whether others are to know at once what was learned: what replicas hold, starts, times of twice the steps."""
    return _news(learned) != _news(last)


def _news(learned: Learned) -> object:
    steps = learned.steps.steps.bit_length() if learned.steps is not None else -1
    return learned.kv_tokens, learned.gpus, learned.startups, steps


def with_spot(learned: Learned, hours: float, interruptions: int) -> Learned:
    """Return it with further hours and interruptions of spot replicas."""
    share = 0.5 if learned.spot_hours > MOST_HOURS else 1.0
    return msgspec.structs.replace(
        learned,
        spot_hours=share * learned.spot_hours + hours,
        interruptions=share * learned.interruptions + interruptions,
    )


def with_startups(learned: Learned, seconds: Sequence[float]) -> Learned:
    """Return it with further starts."""
    return msgspec.structs.replace(learned, startups=(*learned.startups, *seconds)[-_STARTS:])


async def read_learned(storage: Storage) -> dict[str, Learned]:
    """What was learned, by `learned_field`; what cannot be read is left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = {}
    for field, raw in (await storage.hgetall(LEARNED)).items():
        try:
            found[field.decode()] = _DECODER.decode(raw)
        except UNREADABLE:
            continue
    return found


def field_of(pool: ScaledPool) -> str:
    """The field of a pool that scales."""
    return learned_field(pool.model, pool.name, pool.launcher)


def write_of(pool: ScaledPool, learned: Learned) -> Write:
    """The write that keeps it."""
    return Write("put", LEARNED, field_of(pool), msgspec.json.encode(learned))
