"""Derive the holds on sizes from a model's shapes and changes. Pure."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from gateway.reshaping.change import Change
from gateway.reshaping.model_facts import ModelFacts
from gateway.reshaping.relaunch_round import relaunch_sizes
from gateway.scaling.shape_holds import ShapeHolds
from replicas.reshape.group_view import GroupView, Member
from replicas.reshape.ordered_change import ENDED


def holds_of(facts: ModelFacts, changes: Mapping[str, Change]) -> ShapeHolds:
    """Return what is held of a model, whose groups' last changes are given; the same object where that is as it was."""
    addresses: set[str] = set()
    lost: Counter[str] = Counter()
    under_way = [change for change in changes.values() if change.phase not in ENDED]
    for change in under_way:
        addresses |= {one.address for one in change.participants}
    for view in facts.views.values():
        # Whoever says so: a wide replica that one of its members is on is there, though another one is not heard.
        addresses |= {one.address for one in view.members if one.membership.span.width > 1}
        for leader in view.leaders:
            others = _parked_on(leader, view)
            if others:
                lost[facts.pools[leader.address]] += _lost(leader, 1 + len(others), facts)
    if facts.unheard:
        addresses |= set(facts.holds.addresses)
        lost |= Counter(dict(facts.holds.lost))
    set_, most = _sizes(facts, changes)
    held = ShapeHolds(
        version=facts.holds.version,
        addresses=sorted(addresses),
        lost={pool: count for pool, count in sorted(lost.items()) if count},
        set=set_,
        most=most,
    )
    # Read from the store, lists are tuples, or the other way round.
    before = msgspec.structs.replace(facts.holds, addresses=sorted(facts.holds.addresses))
    return facts.holds if held == before else msgspec.structs.replace(held, version=facts.holds.version + 1)


def _sizes(facts: ModelFacts, changes: Mapping[str, Change]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes of pools whose replicas take each other's GPUs, and the bounds of such pools."""
    relaunch = facts.relaunch
    if relaunch is None:
        return {}, {}
    sizes = relaunch_sizes(relaunch, changes.get(relaunch.group), facts.settings)
    if sizes is None:
        return {}, {}
    if sizes.exactly:
        return {relaunch.wide: sizes.wide, relaunch.narrow: sizes.narrow}, {}
    return {relaunch.wide: sizes.wide}, {relaunch.narrow: sizes.narrow}


def _parked_on(leader: Member, view: GroupView) -> list[Member]:
    span = leader.membership.span
    return [one for one in view.members if one is not leader and not one.leads and one.membership.span == span]


def _lost(leader: Member, members: int, facts: ModelFacts) -> int:
    """Return how many fewer replicas a wide one is than is counted.

    Of launched replicas all its members are counted, as their processes run; of others only the leader, which workers
    send requests to.
    """
    span, counted = leader.membership.span, members if leader.address in facts.intents else 1
    rate = next((one.relative_rate for one in leader.membership.widths if one.width == span.width), 0.0)
    return counted - round(members * (rate or 1.0))
