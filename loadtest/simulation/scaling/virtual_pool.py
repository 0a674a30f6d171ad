"""A pool of a virtual fleet: its bounds and prices, and what its replicas are."""

import msgspec

from loadtest.simulation.simulated_fleet import Pool
from replicas.controller.scaling_settings import PoolScaling
from replicas.engine_limits import Limits
from replicas.kv_cache import TOKENS_PER_BLOCK
from replicas.profiles import PROFILES
from replicas.timing import RooflineTimer, kv_blocks


class VirtualPool(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas of `profile` that compute `speed` times as fast as the engine model says.

    The time from a start to readiness is `scaling.startup_seconds`. Each spot replica gets a notice after a time that
    is drawn with the mean of an hour over `interruptions_per_hour`; all of them at `spot_lost_at` seconds.
    """

    scaling: PoolScaling
    profile: str
    speed: float = 1.0
    interruptions_per_hour: float = 0.0
    spot_lost_at: float = float("inf")

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.scaling.name

    @property
    def limits(self) -> Limits:
        """The limits of each engine. Raises ValueError when the model does not fit."""
        blocks = kv_blocks(PROFILES[self.profile], self.scaling.shape)
        engine = Pool(self.name)
        return Limits(
            blocks,
            tokens_per_block=TOKENS_PER_BLOCK,
            max_batch_size=engine.max_batch_size,
            max_num_tokens=engine.max_num_tokens,
        )

    @property
    def timer(self) -> RooflineTimer:
        """The step times."""
        return RooflineTimer(PROFILES[self.profile], self.scaling.shape, speed=self.speed)
