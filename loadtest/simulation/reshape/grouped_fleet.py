"""A fleet of host groups: GPUs of one kind, and the shapes that a model's replicas have on them."""

from collections.abc import Sequence
from functools import cached_property

import msgspec

from loadtest.simulation.simulated_replica import Replica
from protos.reshape import Span
from protos.types import Role, Shape
from replicas.engine_limits import CapacityPolicy, Limits
from replicas.profiles import Gpu, ModelProfile
from replicas.reshape.width_limits import reshaped_kv_blocks
from replicas.timing import RooflineTimer, StepTimer, kv_blocks


class GroupedFleet(msgspec.Struct, frozen=True, dict=True):
    """A model on `groups` hosts of `gpus` each. `most_num_tokens` are computed in one step."""

    model: ModelProfile
    gpu: Gpu
    groups: int
    gpus: int
    most_num_tokens: int = 8192

    @cached_property
    def timers(self) -> dict[int, RooflineTimer]:
        """Step times by width."""
        widths = [1 << power for power in range(self.gpus.bit_length())]
        return {width: RooflineTimer(self.model, Shape(width), gpu=self.gpu) for width in widths}

    @cached_property
    def limits(self) -> dict[int, Limits]:
        """Limits by width, of replicas that never change."""
        return {width: self._limits(kv_blocks(self.model, Shape(width), gpu=self.gpu)) for width in self.timers}

    @cached_property
    def reshaped_limits(self) -> dict[int, Limits]:
        """Limits by width, of replicas that may change: each GPU keeps what is not repartitioned whole."""
        return {width: self._limits(reshaped_kv_blocks(self.model, self.gpu, width)) for width in self.timers}

    def replica(self, name: str, span: Span, *, may_change: bool = True, timer: StepTimer | None = None) -> Replica:
        """Make a replica on the GPUs of a span."""
        limits = (self.reshaped_limits if may_change else self.limits)[span.width]
        pool = f"tp{span.width}"
        return Replica(name, pool, Shape(span.width), Role.BOTH, limits, timer or self.timers[span.width])

    def _limits(self, blocks: int) -> Limits:
        # Replicas that a change has to move what they have admit by what requests need now.
        return Limits(blocks, max_num_tokens=self.most_num_tokens, policy=CapacityPolicy.GUARANTEED_NO_EVICT)


def static(fleet: GroupedFleet, shapes: Sequence[Sequence[int]]) -> list[Replica]:
    """Make the replicas of a fleet that never changes: the widths of each group, from its first GPU on."""
    replicas = []
    for group, widths in enumerate(shapes):
        start = 0
        for width in widths:
            replicas.append(fleet.replica(f"g{group}-{start}-tp{width}", Span(start, width), may_change=False))
            start += width
    return replicas
