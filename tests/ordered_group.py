"""A host group whose replicas heed orders as the protocol has it, or fall into one of its traps."""

from collections.abc import Mapping

import msgspec

from protos.reshape import Membership, MemberState, MemberWidth, ReshapeOrder, ReshapePhase, Span
from protos.types import ReplicaInfo, Role, Shape
from replicas.reshape.group_view import Member

WIDTHS = (
    MemberWidth(1, 74_000, 1.0, 300),
    MemberWidth(2, 200_000, 0.5, 300),
    MemberWidth(4, 450_000, 0.31, 300),
)


def info_of_width(width: int) -> ReplicaInfo:
    return ReplicaInfo("m", "simulated", "fake", Shape(width), Role.BOTH, 64, 400_000, 32, 2000 * width)


def membership(
    gpu: int,
    span: Span,
    state: MemberState = MemberState.SERVING,
    *,
    group: str = "g",
    gpus: int = 4,
    served_by: int = 0,
    widths: tuple[MemberWidth, ...] = WIDTHS,
    change: int = 0,
) -> Membership:
    """How a replica stands."""
    return Membership(
        group, gpus, gpu, state, span, info_of_width(span.width), change, served_by=served_by, widths=widths
    )


def members_on(spans: list[Span], gpus: int = 4, group: str = "g", *, form: str = "r{}") -> list[Member]:
    """The replicas of a group that stands on these spans, one a GPU; epochs are 100 more than GPUs."""
    found = []
    for gpu in range(gpus):
        span = next(span for span in spans if span.start <= gpu < span.end)
        state = MemberState.SERVING if gpu == span.start else MemberState.PARKED
        served = 0 if gpu == span.start else 100 + span.start
        found.append(
            Member(form.format(gpu), 100 + gpu, membership(gpu, span, state, group=group, gpus=gpus, served_by=served))
        )
    return found


class OrderedGroup:
    """Replicas `r0`, `r1`, ... on one GPU each. `traps` are by address.

    `silent` heeds nothing, `refuses` prepares nothing, `lies` says done and is not, `fails` undoes it in the middle,
    `stuck` never ends it, `dies` ends when it is to transform, `stays_prepared` ignores ABORT until its time is over.
    """

    def __init__(
        self,
        gpus: int = 4,
        spans: list[Span] | None = None,
        timeout: float = 5.0,
        *,
        group: str = "g",
        form: str = "r{}",
    ) -> None:
        self.group, self.gpus = group, gpus
        found = members_on(spans or list(Span(0, gpus).halves(1)), gpus, group, form=form)
        self.members: dict[str, Member] = {member.address: member for member in found}
        self.traps: dict[str, str] = {}
        self.orders: list[tuple[str, ReshapeOrder]] = []
        self._order: ReshapeOrder | None = None
        self._told: set[str] = set()
        self._prepared_at: dict[str, float] = {}
        self._timeout = timeout

    def seen(self) -> Mapping[str, Member]:
        """The replicas that can be reached."""
        return dict(self.members)

    def restart(self, address: str) -> None:
        """Start a replica anew, alone on its GPU, and have the others of its span fall back."""
        lost = self.members[address]
        span = lost.membership.span
        for other in list(self.members.values()):
            if other.membership.span == span:
                epoch = other.epoch + 1000 * (other.address == address)
                change = 0 if other.address == address else other.membership.change
                alone = membership(other.gpu, Span(other.gpu, 1), group=self.group, gpus=self.gpus, change=change)
                self.members[other.address] = msgspec.structs.replace(other, epoch=epoch, membership=alone)

    def hear(self, address: str, order: ReshapeOrder, now: float) -> None:
        """Let one replica hear an order."""
        self.orders.append((address, order))
        member, trap = self.members[address], self.traps.get(address, "")
        known = member.membership
        if trap == "silent":
            return
        if order.change < known.change:
            self._say(address, failure=f"change {order.change} is older than {known.change}")
        elif order.phase is ReshapePhase.PREPARE and order.change > known.change:
            self._prepare(address, order, now)
        elif order.phase is ReshapePhase.TRANSFORM and known.state is MemberState.PREPARED:
            self._transform(address, order)
        elif trap != "stays_prepared" or known.state is not MemberState.PREPARED:
            self._back(address, order, "it was ordered back")

    def tick(self, now: float) -> None:
        """Let time pass."""
        for address, at in list(self._prepared_at.items()):
            member = self.members[address]
            if member.membership.state is MemberState.PREPARED and now - at >= self._timeout:
                assert self._order is not None
                self._back(address, self._order, "nobody ordered the next phase in time")
        order = self._order
        if order is not None and self._told >= set(self._taking_part(order)):
            self._finish(order)

    def _taking_part(self, order: ReshapeOrder) -> list[str]:
        gpus = {one.gpu for one in order.participants}
        return [address for address, member in self.members.items() if member.gpu in gpus]

    def _prepare(self, address: str, order: ReshapeOrder, now: float) -> None:
        if self.traps.get(address) == "refuses":
            self._say(address, change=order.change, failure="its memory does not hold it")
            return
        self._order, self._told = order, set() if order != self._order else self._told
        self._prepared_at[address] = now
        self._say(address, change=order.change, state=MemberState.PREPARED, failure="")

    def _transform(self, address: str, order: ReshapeOrder) -> None:
        trap = self.traps.get(address)
        self._prepared_at.pop(address, None)
        if trap == "dies":
            self.restart(address)
            return
        if trap == "fails":
            self._back(address, order, "its memory ran out")
            return
        if trap == "lies":
            span = next(span for span in order.after if span.start <= self.members[address].gpu < span.end)
            self._say(address, state=MemberState.SERVING, span=span)
            return
        self._say(address, state=MemberState.CHANGING)
        if trap != "stuck":
            self._told.add(address)

    def _finish(self, order: ReshapeOrder) -> None:
        changing = [
            address
            for address in self._taking_part(order)
            if self.members[address].membership.state is MemberState.CHANGING
        ]
        if len(changing) < len(order.participants):
            return
        self._order, self._told = None, set()
        for address in changing:
            member = self.members[address]
            span = next(span for span in order.after if span.start <= member.gpu < span.end)
            leads = member.gpu == span.start
            self._say(
                address,
                state=MemberState.SERVING if leads else MemberState.PARKED,
                span=span,
                served_by=0 if leads else next(m.epoch for m in self.members.values() if m.gpu == span.start),
                info=info_of_width(span.width),
            )

    def _back(self, address: str, order: ReshapeOrder, failure: str) -> None:
        member = self.members[address]
        if member.settled and member.membership.change == order.change:
            return
        span = next((span for span in order.before if span.start <= member.gpu < span.end), Span(member.gpu, 1))
        self._prepared_at.pop(address, None)
        leads = member.gpu == span.start
        self._say(
            address,
            change=order.change,
            state=MemberState.SERVING if leads else MemberState.PARKED,
            span=span,
            served_by=0 if leads else next(m.epoch for m in self.members.values() if m.gpu == span.start),
            info=info_of_width(span.width),
            failure=failure,
        )

    def _say(self, address: str, **fields: object) -> None:
        member = self.members[address]
        said = msgspec.structs.replace(
            member.membership,
            revision=member.membership.revision + 1,
            **fields,
        )
        self.members[address] = msgspec.structs.replace(member, membership=said)
