"""What is known of a pool's replicas at one moment, from the launcher, from the replicas and from the workers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from gateway.fleets.discovery.registrations import Registration
from gateway.fleets.listing import UNREPORTED_LOAD
from gateway.fleets.reports import Report
from gateway.scaling.intents import Intent
from replicas.launchers.launcher import LaunchedReplica, LaunchStep
from routing.health.replica_status import State


class Announced(msgspec.Struct, frozen=True):
    """A replica as it registers itself: where it is reached, how far its start is, and the seconds of its steps."""

    address: str
    step: LaunchStep
    start_seconds: Mapping[str, float] = {}


#: States of a replica that gets no requests because it does not answer as it should.
_UNWELL: Final = (State.CONNECTING, State.PROBING, State.WEDGED, State.EJECTED)


class Use(msgspec.Struct, frozen=True):
    """What the workers say of one replica. `drained`: all of them have nothing there, and give it nothing.

    `unwell` is why none of them gives it requests, where health checks keep all of them from it; empty otherwise.
    """

    in_flight: int
    running: int
    waiting: int
    kv_used: float
    drained: bool
    unwell: str = ""


def announced(observed: Iterable[LaunchedReplica], registrations: Iterable[Registration]) -> dict[str, Announced]:
    """Return the registered replicas by their launch id; those without one are known by their address."""
    shown = list(observed)
    by_address = {replica.address: replica.id for replica in shown if replica.address}
    by_name = {replica.registers_as: replica.id for replica in shown if replica.registers_as}
    found = {}
    for registration in registrations:
        name = registration.launch_id
        id_ = by_name.get(name, name) or by_address.get(registration.address)
        if id_:
            found[id_] = Announced(registration.address, registration.step, registration.start_seconds)
    return found


def uses(reports: Sequence[Report]) -> dict[tuple[str, str], Use]:
    """Return what all workers together say of each replica, by model and address."""
    found: dict[tuple[str, str], Use] = {}
    for one in reports:
        for model, statuses in one.items():
            for status in statuses:
                if not status.address:
                    continue
                known = status.state not in UNREPORTED_LOAD
                total = status.kv_blocks_total
                use = Use(
                    in_flight=status.in_flight,
                    running=status.running if known else 0,
                    waiting=status.waiting if known else 0,
                    kv_used=status.kv_blocks_used / total if known and total else 0.0,
                    drained=status.state is State.DRAINED or (not known and not status.in_flight),
                    unwell=(status.reason or status.state.value) if status.state in _UNWELL else "",
                )
                place = (model, status.address)
                found[place] = _together(found[place], use) if place in found else use
    return found


def _together(one: Use, other: Use) -> Use:
    """Join the words of two workers: in flight is each one's own, the rest is the engine's."""
    return Use(
        in_flight=one.in_flight + other.in_flight,
        running=max(one.running, other.running),
        waiting=max(one.waiting, other.waiting),
        kv_used=max(one.kv_used, other.kv_used),
        drained=one.drained and other.drained,
        unwell=one.unwell if other.unwell else "",
    )


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A pool at `now`. `observed` is what its launcher shows of it, by id; `uses` are by address.

    `reported`: workers report on replicas, `all_heard`: all of them do. `mostly_unwell`: they cannot use most of all
    that they could use lately, of any model. `registers`: its replicas register themselves.
    Those at the addresses of `held` are neither stopped nor replaced.
    """

    now: float
    observed: Mapping[str, LaunchedReplica]
    announced: Mapping[str, Announced]
    uses: Mapping[str, Use]
    reported: bool = True
    all_heard: bool = True
    mostly_unwell: bool = False
    registers: bool = True
    held: Collection[str] = ()


def step_of(intent: Intent, facts: PoolFacts) -> LaunchStep:
    """Return how far a replica is: its own word goes over its launcher's, which may see processes alone.

    One that was ready is so while its launcher sees it run: after an outage of the store it has not said so yet.
    """
    seen, known = facts.observed.get(intent.id), facts.announced.get(intent.id)
    if seen is None:
        return known.step if known is not None else LaunchStep.ALLOCATE
    if seen.step in (LaunchStep.STOPPING, LaunchStep.FAILED):
        return seen.step
    if known is not None:
        return known.step
    return LaunchStep.READY if intent.ready else seen.step
