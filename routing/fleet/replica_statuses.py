"""The statuses of a fleet's replicas, which are made anew only where something has changed."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from routing.health.replica_status import GroupPlace, ReplicaStatus, State
from routing.prefix.prefix_directory import Accuracy
from routing.transports.replica_connection import ReplicaConnection

_UNKNOWN: Final[Mapping[str, float | None]] = {}


class Predictor(Protocol):
    """What predicts how many tokens of a prompt are cached."""

    def accuracy(self) -> Mapping[str, Accuracy]:
        """Return the accuracy by replica."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """How replicas stand in their fleet, by id; there is a new one after each change of any of these.

    `ready` take requests, `returning` ones only a part of them. Operators have `drained` some, and `leaving` ones are
    no longer among the wanted replicas.
    """

    ready: frozenset[str] = frozenset()
    returning: frozenset[ReplicaConnection] = frozenset()
    drained: Collection[str] = frozenset()
    leaving: Collection[str] = frozenset()

    def drains(self, connection: ReplicaConnection) -> bool:
        """Whether the replica gets no new requests, by its own, an operator's or the configuration's will."""
        id_ = connection.spec.id
        return connection.view.load.draining or id_ in self.drained or id_ in self.leaving

    def state(self, connection: ReplicaConnection) -> tuple[State, str]:
        """Return state and reason; draining, by operators or by the replica, overrides states that take requests."""
        health = connection.health
        if not connection.connected or not self.drains(connection):
            if connection.parked and connection.connected and health.serves:
                return State.PARKED, "its GPU belongs to a wider replica of its host group"
            if health.serves and connection.spec.id not in self.ready:
                return State.PROBING, "it must answer a probe first, as others have"
            return health.state, health.reason
        if connection.spec.id in self.leaving:
            return State.DRAINING, "it is no longer among the replicas of its pool"
        if connection.spec.id not in self.drained:
            return State.DRAINING, "the replica drains by itself"
        load = connection.view.load
        left = connection.in_flight or load.running + load.waiting
        return (State.DRAINING if left else State.DRAINED), "drained by an operator, or as its pool shrinks"

    def status(self, connection: ReplicaConnection, now: float, accuracy: float | None, longest: int) -> ReplicaStatus:
        """Return the replica's status; `accuracy` is that of the predicted cached tokens."""
        spec, load, health = connection.spec, connection.view.load, connection.health
        state, reason = self.state(connection)
        membership = connection.membership
        share = health.ramp.share(now) if connection in self.returning and health.ramp is not None else 1.0
        return ReplicaStatus(
            id=spec.id,
            pool=spec.pool,
            state=state,
            reason=reason,
            running=load.running,
            waiting=load.waiting,
            kv_blocks_used=load.kv_blocks_used,
            kv_blocks_total=load.kv_blocks_total,
            in_flight=connection.in_flight,
            share=share if spec.id in self.ready else 0.0,
            breaker_seconds=health.breaker.remaining(now),
            accuracy=accuracy,
            address=spec.address,
            # For a refused replica the version would be the configured one.
            version=connection.version if state is not State.REFUSED else "",
            faults=health.breaker.faults,
            ejections=health.ejections,
            shape=connection.view.shape,
            group=GroupPlace.of(membership) if membership is not None and connection.connected else None,
            longest=longest,
        )


class ReplicaStatuses:
    """The last statuses of a fleet, with what they were made of."""

    def __init__(self) -> None:
        self._roster = Roster()
        self._inputs: list[tuple[object, ...]] = []
        self.last: list[ReplicaStatus] = []
        #: Whether they change with nothing but what a connection's listener is told of: not with the time alone, with
        #: what requests find cached, or with what a session sends.
        self.hold = False

    def renew(
        self,
        connections: Iterable[ReplicaConnection],
        roster: Roster,
        now: float,
        prefixes: Predictor | None,
        wide_tokens: int,
    ) -> None:
        """Make `last` anew, unless it would be the same.

        What replicas' sequences may take is looked up, which costs as much as there are of these, where shapes change:
        the widest then holds `wide_tokens`.
        """
        accuracy = prefixes.accuracy() if prefixes is not None else None
        shares = {id_: _share(each) for id_, each in accuracy.items()} if accuracy else _UNKNOWN
        longest = [connection.longest if wide_tokens else 0 for connection in connections]
        inputs = [
            (most, *_inputs(connection, now, shares.get(connection.spec.id)))
            for connection, most in zip(connections, longest, strict=True)
        ]
        if roster is not self._roster or inputs != self._inputs:
            self._roster, self._inputs = roster, inputs
            self.last = [
                roster.status(connection, now, shares.get(connection.spec.id), most)
                for connection, most in zip(connections, longest, strict=True)
            ]
            self.hold = not shares and not any(
                c.reports_steps or c.health.ramp is not None or c.health.breaker.is_open for c in connections
            )


def _inputs(connection: ReplicaConnection, now: float, accuracy: float | None) -> tuple[object, ...]:
    """Return all that `Roster.status` reads of a connection."""
    health = connection.health
    breaker, ramp = health.breaker, health.ramp
    return (
        connection,
        connection.view.load,
        connection.connected,
        connection.in_flight,
        connection.version,
        connection.membership,
        health.state,
        health.reason,
        health.ejections,
        breaker.faults,
        breaker.remaining(now) if breaker.is_open else 0.0,
        None if ramp is None else ramp.share(now),
        accuracy,
    )


def _share(accuracy: Accuracy) -> float | None:
    """Return predicted over actual cached tokens, or the inverse, 0 to 1."""
    less, more = sorted((accuracy.predicted_tokens, accuracy.cached_tokens))
    return less / more if more > 0.0 else None
