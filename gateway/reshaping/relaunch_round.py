"""Changes that launchers make: one kind of replicas drains and stops where the other one starts. Pure."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from gateway.config.models.reshape.settings import Reshape
from gateway.reshaping.change import POLICY, Advice, Change, GroupStatus, WidthStatus, failed_lately, rests_until
from gateway.reshaping.relaunch_facts import RelaunchFacts
from gateway.reshaping.wanted import Wanted, snapshot_of
from gateway.scaling.reconcile import DRAIN_SECONDS
from replicas.reshape.decide import ReshapeSettings, decide
from replicas.reshape.ordered_change import ENDED
from replicas.reshape.relaunch import Going, Relaunch, Sizes, given_up, gone_on, gpu_seconds, groups_of_places, sizes_of
from replicas.reshape.snapshot import HostGroup, ShapedReplica

_SHOWN_MS: Final = 1000


def relaunched(change: Change, relaunch: RelaunchFacts, now: float) -> Change:
    """Return a change as it is by what runs."""
    phase, failure = gone_on(_going(change, relaunch.pools), relaunch.pools, now)
    return change if phase == change.phase else change.moved(phase, now, failure)


def relaunch_begun(
    model: str, relaunch: RelaunchFacts, last: Change | None, shape: Sequence[int], reason: str, now: float,
    actor: str = POLICY, order: str = "", *, falls_back: bool = False,
) -> Change:  # fmt: skip
    """Return a change to a shape that the places can have."""
    wide = relaunch.pools.wide_in(shape)
    assert wide is not None, "it was checked"
    before = _wide_now(last, relaunch)
    return Change(
        id=(last.id if last is not None else 0) + 1,
        model=model,
        group=relaunch.group,
        method="relaunch",
        before=relaunch.pools.shape(before),
        after=relaunch.pools.shape(wide),
        phase="preparing",
        reason=reason,
        actor=actor,
        order=order,
        # One that stops while another one takes its place is beyond what there are places for.
        narrow=min(relaunch.pools.narrow.exist, relaunch.pools.narrow_beside(before)),
        started=now,
        since=now,
        failed=last.failed if last is not None else 0,
        falls_back=falls_back,
    )


def with_lack(change: Change, relaunch: RelaunchFacts, now: float) -> Change:
    """Return a change that has ended with since when wide replicas are missing, where somebody is to start them."""
    lacks = not relaunch.barred and relaunch.pools.wide.ready < _wide_now(change, relaunch)
    since = (now if change.lacks_since is None else change.lacks_since) if lacks else None
    return change if since == change.lacks_since else msgspec.structs.replace(change, lacks_since=since)


def falling_back(last: Change, relaunch: RelaunchFacts, now: float) -> Change | None:
    """Return the change back from wide replicas that do not come up any more; None: none is due."""
    wide = relaunch.pools.wide
    problem = "" if last.lacks_since is None else given_up(wide, last.lacks_since, now)
    if not problem:
        return None
    reason = f"{_lack(last, relaunch)}: {problem}"
    shape = relaunch.pools.shape(wide.ready)
    return relaunch_begun(last.model, relaunch, last, shape, reason, now, falls_back=True)


def relaunch_refusal(relaunch: RelaunchFacts, last: Change | None, shape: Sequence[int]) -> str:
    """Say why the places are not brought to a shape; empty: they are."""
    if last is not None and last.phase not in ENDED:
        return f"change {last.id} of it is under way"
    if relaunch.barred:
        return relaunch.barred
    wide, pools = relaunch.pools.wide_in(shape), relaunch.pools
    if wide is None:
        return (
            f"its {pools.narrow.most} places of {pools.narrow.gpus} GPUs hold up to {pools.most_wide} replicas of "
            f"{pools.wide.gpus}, and nothing else"
        )
    return "it has that shape" if wide == _wide_now(last, relaunch) else ""


def relaunch_advice(
    relaunch: RelaunchFacts, last: Change | None, wanted: Wanted, settings: ReshapeSettings, now: float
) -> Advice | None:
    """Return the change that is worth a start of other replicas; None: none is."""
    if relaunch.unknown or relaunch.barred or (last is not None and last.phase not in ENDED):
        return None
    if last is not None and failed_lately(last, settings.cool_down, now):
        return None
    pools, wide = relaunch.pools, _wide_now(last, relaunch)
    since = last.ended if last is not None and last.ended is not None else float("-inf")
    groups = [
        msgspec.structs.replace(group, since=since)
        for group in groups_of_places(pools, relaunch.narrow_serving, relaunch.wide_serving)
    ]
    if not groups:
        return None
    told = msgspec.structs.replace(
        wanted,
        narrow_rate=relaunch.widths[pools.narrow.gpus].rate,
        short_tokens=wanted.short_tokens or float(relaunch.widths[pools.narrow.gpus].kv_tokens),
    )
    snapshot = snapshot_of(groups, relaunch.widths, told, now, must_pay=True)
    cost_of = partial(_cost_of, pools)
    for decided in decide(snapshot, settings, cost_of):
        after = wide + 1 if decided.widens else wide - 1
        if not 0 <= after <= pools.most_wide:
            return None
        group = next(one for one in groups if one.name == decided.group)
        return Advice(
            group=relaunch.group,
            before=pools.shape(wide),
            after=pools.shape(after),
            reason=decided.reason,
            gpu_seconds=round(cost_of(group, group.replicas, decided.after[0].width), 1),
        )
    return None


def relaunch_sizes(relaunch: RelaunchFacts, last: Change | None, settings: Reshape) -> Sizes | None:
    """Return how many replicas of both pools may run; None: nothing is said of that."""
    if last is not None:
        return sizes_of(_going(last, relaunch.pools), relaunch.pools)
    if settings.mode != "apply":
        return None
    wide = min(relaunch.least_wide, relaunch.pools.most_wide)
    return Sizes(wide=wide, narrow=relaunch.pools.narrow_beside(wide))


def relaunch_status(relaunch: RelaunchFacts, last: Change | None, cool_down: float, now: float) -> GroupStatus:
    """Return the places as a group."""
    pools, held = relaunch.pools, relaunch.barred
    if last is not None:
        under_way = f"change {last.id} is {last.phase}" if last.phase not in ENDED else ""
        held = under_way or held or failed_lately(last, cool_down, now)
    narrowest = relaunch.widths[pools.narrow.gpus].rate
    return GroupStatus(
        group=relaunch.group,
        gpus=pools.narrow.most * pools.narrow.gpus,
        method="relaunch",
        shape=pools.shape(_wide_now(last, relaunch)),
        widths=[
            WidthStatus(
                width=kind.gpus,
                kv_tokens=relaunch.widths[kind.gpus].kv_tokens,
                relative_rate=round(relaunch.widths[kind.gpus].rate / narrowest, 4) if not relaunch.unknown else 0.0,
                change_ms=round(_SHOWN_MS * (kind.start_seconds or 0.0)),
            )
            for kind in (pools.narrow, pools.wide)
        ],
        held=held,
        problem="" if last is None or last.lacks_since is None else _lack(last, relaunch),
        undecided=relaunch.unknown,
        rests_until=rests_until(last, cool_down, now),
        change=last,
    )


def _wide_now(last: Change | None, relaunch: RelaunchFacts) -> int:
    """Return how many replicas are wide by what was decided last, or where nothing was, by what runs."""
    pools = relaunch.pools
    if last is None:
        return min(pools.wide.exist, pools.most_wide)
    shape = last.after if last.phase == "done" else last.before
    return min(sum(width == pools.wide.gpus for width in shape), pools.most_wide)


def _lack(last: Change, relaunch: RelaunchFacts) -> str:
    return f"{relaunch.pools.wide.ready} of {_wide_now(last, relaunch)} replicas of pool {relaunch.wide} are ready"


def _going(change: Change, pools: Relaunch) -> Going:
    before, after = (sum(width == pools.wide.gpus for width in shape) for shape in (change.before, change.after))
    return Going(
        before=before,
        after=after,
        narrow=change.narrow,
        phase=change.phase,
        since=change.since,
        falls_back=change.falls_back,
    )


def _cost_of(pools: Relaunch, group: HostGroup, replicas: Sequence[ShapedReplica], width: int) -> float:
    del group
    return gpu_seconds(pools, replicas, width, DRAIN_SECONDS)
