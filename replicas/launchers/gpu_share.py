"""GPUs that are kept for replicas which form host groups on them."""

from collections.abc import Sequence

import msgspec


class GpuShare(msgspec.Struct, frozen=True):
    """GPUs that only replicas of a pool are given, one each; the replicas on each `group_gpus` of them form a group."""

    pool: str
    gpus: Sequence[int]
    group_gpus: int

    def options(self, gpus: Sequence[int]) -> list[str]:
        """Return the options of `penstock replica` on these GPUs; none on others, as from an earlier configuration."""
        if len(gpus) != 1 or gpus[0] not in self.gpus:
            return []
        group, place = divmod(self.gpus.index(gpus[0]), self.group_gpus)
        return ["--group", f"{self.pool}-{group}", "--group-gpus", str(self.group_gpus), "--gpu", str(place)]
