"""A model's host groups at one moment, as decisions about their shapes see them."""

from collections.abc import Mapping, Sequence

import msgspec

from protos.reshape import Span


class ShapedReplica(msgspec.Struct, frozen=True):
    """One replica of a group. `used` are the KV tokens that its requests hold or have reserved.

    `longest` is the KV need, in tokens, of the longest request that it runs or has queued; `fullest` the KV tokens that
    the fullest of the narrower replicas would get, were it split into replicas of a width.
    """

    id: str
    span: Span
    used: int
    longest: int = 0


class HostGroup(msgspec.Struct, frozen=True):
    """GPUs that replicas share. `since` is when its shape last changed, in seconds on the snapshot's clock.

    `held` names a change of it that is under way, which any other one waits for; `barred` is what keeps it alone from
    being changed, as a drain. Both are empty where there is nothing.
    """

    name: str
    gpus: int
    replicas: tuple[ShapedReplica, ...]
    since: float = float("-inf")
    held: str = ""
    barred: str = ""

    @property
    def spans(self) -> list[Span]:
        """The spans of its replicas."""
        return [replica.span for replica in self.replicas]


class Width(msgspec.Struct, frozen=True):
    """A TP degree: KV tokens that a replica of it holds, and requests per second and GPU that it serves.

    `rate` is of short requests, in any unit that all widths share.
    """

    kv_tokens: int
    rate: float


class ReshapeSnapshot(msgspec.Struct, frozen=True):
    """A model's groups and demand.

    `waiting` are the KV needs, in tokens, of long requests that wait since the times in `waiting_since` because no
    replica has room for them: the narrowest shape holds them alone, or not at all. `short_rate` are the other requests
    per second, in the unit of `Width.rate`; `queued`: some of these wait. `long_rate` are the long ones per second.
    `short_tokens` is the mean KV need of a short one, where a change that makes room must be worth its cost; 0: it is
    always worth it.
    """

    now: float
    groups: Sequence[HostGroup]
    widths: Mapping[int, Width]
    waiting: Sequence[int] = ()
    waiting_since: Sequence[float] = ()
    short_rate: float = 0.0
    queued: bool = False
    long_rate: float = 0.0
    short_tokens: float = 0.0

    @property
    def narrowest(self) -> int:
        """The least width that replicas may have."""
        return min(self.widths)

    def capacity(self, without: Sequence[Span] = (), group: str = "") -> float:
        """Return the short requests per second that all replicas serve, without those of a group on these spans.

        A replica that runs a long request is left out: its steps compute the long prompt.
        """
        most = self.widths[self.narrowest].kv_tokens
        return sum(
            replica.span.width * self.widths[replica.span.width].rate
            for one in self.groups
            for replica in one.replicas
            if replica.longest <= most and not (one.name == group and replica.span in without)
        )
