"""Host groups as their replicas describe them, and what is wrong with what they say."""

from collections.abc import Iterable, Sequence

import msgspec

from protos.reshape import Membership, MemberState, Span
from replicas.reshape.host_group import problem_of
from replicas.reshape.snapshot import ShapedReplica


class Member(msgspec.Struct, frozen=True):
    """A replica of a group as it describes itself. `used` are the KV tokens that its requests hold or have reserved.

    `longest` is the KV need, in tokens, of the longest request there; `queued`: some wait in its engine.
    """

    address: str
    epoch: int
    membership: Membership
    used: int = 0
    longest: int = 0
    queued: bool = False
    draining: bool = False

    @property
    def gpu(self) -> int:
        """Its own first GPU."""
        return self.membership.gpu

    @property
    def leads(self) -> bool:
        """Whether it serves the span that it is on."""
        membership = self.membership
        return membership.state is not MemberState.PARKED and membership.gpu == membership.span.start

    @property
    def settled(self) -> bool:
        """Whether no change is under way as far as it knows."""
        return self.membership.state in (MemberState.SERVING, MemberState.PARKED)


class GroupView(msgspec.Struct, frozen=True):
    """A group of `gpus`, with its known replicas in the order of their GPUs."""

    name: str
    gpus: int
    members: Sequence[Member]

    @property
    def leaders(self) -> list[Member]:
        """The replicas that serve."""
        return [member for member in self.members if member.leads]

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans that are served, in order."""
        return tuple(sorted(member.membership.span for member in self.leaders))

    @property
    def replicas(self) -> tuple[ShapedReplica, ...]:
        """The spans that are served, in order."""
        return tuple(
            ShapedReplica(member.address, member.membership.span, member.used, member.longest)
            for member in sorted(self.leaders, key=lambda member: member.membership.span)
        )

    @property
    def problem(self) -> str:
        """Why its replicas stand in no legal shape, or disagree; empty where all is well."""
        sizes = {member.membership.gpus for member in self.members}
        if len(sizes) > 1:
            return f"its replicas say that it has {' and '.join(map(str, sorted(sizes)))} GPUs"
        for one, other in zip(self.members, self.members[1:], strict=False):
            if one.gpu == other.gpu:
                return f"{one.address} and {other.address} both have GPU {one.gpu}"
        if problem := problem_of(self.spans, self.gpus):
            return problem
        leaders = {member.membership.span: member for member in self.leaders}
        for member in self.members:
            if problem := _problem_of(member, leaders.get(member.membership.span)):
                return problem
        return ""

    @property
    def change(self) -> int:
        """The newest change that any of its replicas was ordered."""
        return max((member.membership.change for member in self.members), default=0)


def groups_of(members: Iterable[Member]) -> dict[str, GroupView]:
    """Return the groups that some replicas form, by name."""
    found: dict[str, list[Member]] = {}
    for member in members:
        found.setdefault(member.membership.group, []).append(member)
    return {
        name: GroupView(
            name,
            max(member.membership.gpus for member in of_group),
            sorted(of_group, key=lambda member: (member.gpu, member.address)),
        )
        for name, of_group in sorted(found.items())
    }


def _problem_of(member: Member, leader: Member | None) -> str:
    """Why a member's word does not fit its leader's, or itself; `leader` serves the span that it is on, if one does."""
    membership = member.membership
    if leader is None:
        span = membership.span
        return f"{member.address} is parked on TP{span.width} at GPU {span.start}, which nobody serves"
    if member is leader:
        width = membership.info.shape.tp
        if width != membership.span.width:
            return f"{member.address} serves TP{membership.span.width} and describes itself as TP{width}"
    elif membership.state is MemberState.PARKED and membership.served_by != leader.epoch:
        return f"{member.address} is parked for another replica than {leader.address}"
    return ""
