import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from protos import codec
from protos.errors import ReplicaUnavailable
from protos.reshape import Membership, MemberState, Participant, ReshapeOrder, ReshapePhase, Span
from protos.types import PROTOCOL_VERSION, Load, Role, Shape
from routing.transports.control_link import ControlLink
from routing.transports.control_session import ControlSession
from routing.transports.replica_spec import ReplicaSpec
from tests.fakes import INFO, RawReplica, WrongVersion
from tests.loops import until
from tests.ordered_group import membership

ORDER = ReshapeOrder(3, ReshapePhase.PREPARE, "g", (Span(0, 1), Span(1, 1)), (Span(0, 2),), ())


class GroupReplica(RawReplica):
    """Says how it stands with its welcome, and answers orders by being prepared."""

    def __init__(self, *, answers: bool = True) -> None:
        super().__init__()
        self._answers = answers

    def welcome(self) -> codec.Welcome:
        return codec.Welcome(PROTOCOL_VERSION, 7, INFO, ack_window=8, membership=membership(0, Span(0, 1)))

    async def hear(self, context: Any, up: codec.Up) -> None:
        if up.reshape is not None and self._answers:
            await self.send_bytes(codec.encode_membership(prepared(up.reshape)))


def prepared(order: ReshapeOrder) -> Membership:
    return membership(0, Span(0, 1), MemberState.PREPARED, change=order.change)


def spec_of(address: str) -> ReplicaSpec:
    return ReplicaSpec("p/0", address, "p", "m", "simulated", Shape(), Role.BOTH, 1, 1)


class Links:
    """Links that count what changes."""

    def __init__(self) -> None:
        self.changes = 0

    def changed(self) -> None:
        self.changes += 1

    def to(self, address: str) -> ControlLink:
        return ControlLink(spec_of(address), "controller", self.changed)


async def test_a_replica_says_how_it_stands_and_heeds_orders() -> None:
    links, replica = Links(), GroupReplica()
    async with replica.listening() as address:
        link = links.to(address)
        await until(lambda: link.session is not None)
        session = link.session
        assert session is not None
        assert (session.epoch, session.membership) == (7, membership(0, Span(0, 1)))
        assert replica.hellos[0].watches
        link.order(ORDER)
        await until(lambda: session.membership is not None and session.membership.change == 3)
        assert session.membership == prepared(ORDER)
        assert links.changes == 2
        await link.aclose()


async def test_loads_are_heard_and_acknowledged() -> None:
    links, replica = Links(), GroupReplica()
    async with replica.listening() as address:
        link = links.to(address)
        await until(lambda: link.session is not None)
        await replica.send(*(codec.Step(seq=seq, load=Load(running=seq)) for seq in (1, 2)))
        await until(lambda: any(up.ack == 2 for up in replica.ups))
        assert link.session is not None
        assert link.session.load == Load(running=2)
        await link.aclose()


async def test_a_lost_replica_is_connected_again() -> None:
    links, replica = Links(), GroupReplica()
    async with replica.listening() as address:
        link = links.to(address)
        await until(lambda: link.session is not None)
    await until(lambda: link.session is None)
    with pytest.raises(ReplicaUnavailable, match="is not connected"):
        link.order(ORDER)
    async with GroupReplica().listening(address):
        await until(lambda: link.session is not None)
    await link.aclose()


class DeafReplica(GroupReplica):
    """Reads one message, and then none until it shall."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = asyncio.Event()

    async def hear(self, context: Any, up: codec.Up) -> None:
        await self.reads.wait()
        await super().hear(context, up)


#: Of an order that is longer than what a connection takes of what is not read.
MANY = tuple(Participant(f"replica-{number}:8000", number, number) for number in range(120_000))


def heard(session: ControlSession, load: Load) -> bool:
    return session.load == load


async def test_orders_that_a_replica_does_not_read_are_replaced_by_the_last_one() -> None:
    links, replica = Links(), DeafReplica()
    async with replica.listening() as address:
        link = links.to(address)
        await until(lambda: link.session is not None)
        session = link.session
        assert session is not None
        for change in range(3, 11):
            link.order(msgspec.structs.replace(ORDER, change=change, participants=MANY))
            await replica.send(codec.Step(seq=change, load=Load(running=change)))
            await until(partial(heard, session, Load(running=change)))
        assert len(replica.ups) <= 1
        replica.reads.set()
        await until(lambda: session.membership is not None and session.membership.change == 10)
        orders = [up.reshape.change for up in replica.ups if up.reshape is not None]
        assert (orders[0], orders[-1]) == (3, 10)
        assert len(orders) < 8
        assert link.session is session
        await link.aclose()


async def test_a_replica_that_reads_nothing_and_is_silent_is_connected_again() -> None:
    links, replica = Links(), DeafReplica()
    async with replica.listening() as address:
        link = links.to(address)
        await until(lambda: link.session is not None)
        for change in (3, 4):
            link.order(msgspec.structs.replace(ORDER, change=change, participants=MANY))
            await until(lambda: replica.ups != [])
        await until(lambda: "silent for" in link.problem)
        await until(lambda: replica.sessions == 2 and link.session is not None)
        replica.reads.set()
        await link.aclose()


async def test_a_replica_of_another_protocol_is_no_member() -> None:
    links, replica = Links(), WrongVersion()
    async with replica.listening() as address:
        link = links.to(address)
        await until(lambda: link.problem != "")
        assert (link.session, link.problem) == (None, "the first message is not a welcome of this protocol version")
        await link.aclose()


async def test_a_second_welcome_ends_the_session() -> None:
    links, replica = Links(), GroupReplica()
    async with replica.listening() as address:
        link = links.to(address)
        await until(lambda: link.session is not None)
        await replica.send_bytes(codec.encode_welcome(replica.welcome()))
        await until(lambda: "second welcome" in link.problem)
        await link.aclose()


async def test_silence_is_a_loss() -> None:
    links, replica = Links(), GroupReplica(answers=False)
    async with replica.listening() as address:
        link = links.to(address)
        await until(lambda: link.session is not None)
        await until(lambda: "silent for" in link.problem)
        await link.aclose()
