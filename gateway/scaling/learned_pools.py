"""What was learned of pools and outlives their replicas: step times, sizes, and how long starts take."""

from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

from gateway.scaling.demand.merged_demand import PoolKnowledge
from gateway.scaling.lease import Write
from gateway.scaling.settings import ScaledPool
from gateway.scaling.status import PREFIX
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import Storage
from routing.estimates.step_model import LearnedSteps

_KEY: Final = f"{PREFIX}learned"
#: Starts that count.
_STARTS: Final = 16
#: Seconds between two writes of what grows all the time.
WRITE_SECONDS: Final = 60.0


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's engines as they were last known, and the seconds that its last starts took."""

    steps: LearnedSteps | None = None
    kv_tokens: int = 0
    max_sequences: int = 0
    max_step_tokens: int = 0
    startups: tuple[float, ...] = ()

    @property
    def startup_seconds(self) -> float | None:
        """The median; None: no start was seen."""
        return median(self.startups) if self.startups else None


_DECODER: Final = msgspec.json.Decoder(Learned)


def with_knowledge(learned: Learned, known: PoolKnowledge) -> Learned:
    """Return what is known now, and what was known before where nothing is known now."""
    return msgspec.structs.replace(
        learned,
        steps=known.steps or learned.steps,
        kv_tokens=known.kv_tokens or learned.kv_tokens,
        max_sequences=known.max_sequences or learned.max_sequences,
        max_step_tokens=known.max_step_tokens or learned.max_step_tokens,
    )


def with_startups(learned: Learned, seconds: Sequence[float]) -> Learned:
    """Return it with further starts."""
    return msgspec.structs.replace(learned, startups=(*learned.startups, *seconds)[-_STARTS:])


async def read_learned(storage: Storage) -> dict[str, Learned]:
    """What was learned, by `field_of`; what cannot be read is left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = {}
    for field, raw in (await storage.hgetall(_KEY)).items():
        try:
            found[field.decode()] = _DECODER.decode(raw)
        except UNREADABLE:
            continue
    return found


def field_of(pool: ScaledPool) -> str:
    """The field of a pool and its launcher: other launchers start otherwise."""
    return f"{pool.model} {pool.name} {pool.launcher}"


def write_of(pool: ScaledPool, learned: Learned) -> Write:
    """The write that keeps it."""
    return Write("put", _KEY, field_of(pool), msgspec.json.encode(learned))
