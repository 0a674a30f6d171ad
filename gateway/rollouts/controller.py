"""The controller of rollouts: it reads what there is, lets each rollout go on, and writes what workers follow.

One controller acts at a time, by a lease of its own beside the one of sizes, and all it does follows from what the
store has: a rollout and its split are written together, or not at all. While the store is away, splits stay as they
are. Whoever takes over goes on from the last step; what ran outside the store, warm-ups and gates, runs anew.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.fleets.reports import Report, reports
from gateway.rollouts.declared import digest_of, has_version, stable_now
from gateway.rollouts.errands import Errands
from gateway.rollouts.orders import FILE, begun, is_stale, is_under_way, order_of_model
from gateway.rollouts.rollout_records import MOST_STORED, Records, read_records
from gateway.rollouts.rollout_registry import RolloutRegistry
from gateway.rollouts.sizes import sizes_of
from gateway.rollouts.unreadable import said
from gateway.rollouts.versions import version_facts
from gateway.rollouts.webhooks import RETOLD_SECONDS, Webhooks
from gateway.scaling.leasing.lease import Holder, Lease, Write
from gateway.scaling.leasing.leased_rounds import LeasedRounds
from gateway.scaling.leasing.steady_clock import SteadyClock
from gateway.scaling.status import ModelStatus, read_status
from gateway.scaling.version_sizes import SIZES, VersionSizes, version_sizes
from gateway.tenancy.tenants.transactions import ROLLOUT_ORDERS, Storage
from protos.errors import PenstockError, StoreUnavailable
from routing.rollouts.facts import Compared, Facts
from routing.rollouts.rollout import (
    DECLARED,
    ENDED,
    HISTORY,
    HURRY,
    PREFIX,
    ROLLOUTS,
    STATUS,
    TOTALS,
    Event,
    Rollout,
    Told,
    Totals,
    Wish,
)
from routing.rollouts.split import CHANGED, SPLITS, Split
from routing.rollouts.split_of import split_of
from routing.rollouts.stages import advance, lacking, told
from routing.rollouts.verdicts.still_needed import with_needed
from routing.rollouts.verdicts.verdict import Verdict

log = logging.getLogger(__name__)


class Comparer(Protocol):
    """Compares a rollout's two versions by what workers have measured."""

    async def compare(self, rollout: Rollout, now: float) -> tuple[Compared, Verdict] | None:
        """Return what they compare as; None: nothing has been measured. Raises StoreUnavailable."""
        ...


class RolloutController(LeasedRounds):
    """One controller process's part for rollouts; `run` it once."""

    def __init__(
        self,
        storage: Storage,
        config: Config,
        comparer: Comparer,
        errands: Errands,
        webhooks: Webhooks,
        name: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` is this process's, and no other one's; `clock` never goes back."""
        super().__init__(Lease(storage, name, clock, PREFIX), "controller of rollouts")
        self._storage = storage
        self._comparer, self._errands, self._webhooks = comparer, errands, webhooks
        self._monotonic = clock
        self._clock = SteadyClock(clock)
        errands.changed = self._hurry.set
        self._token: int | None = None
        #: By how many seconds the store's clock was set that is not known to be written down.
        self._jump = 0.0
        #: By rollout: its times as they may have been written, and how much of that is in them.
        self._moved_to: dict[str, tuple[float, float | None, float]] = {}
        #: Since when no replica of a rollout's candidate is ready, by rollout and by the process's clock.
        self._away: dict[str, float] = {}
        #: Since when it lacks replicas that the next stage needs, in the same way.
        self._lacks: dict[str, float] = {}
        #: Digests of declarations that start nothing, by model, until that is written down.
        self._passed: dict[str, str] = {}
        #: The last problem with what the file declares, by model, so that each is told once.
        self._refused: dict[str, str] = {}
        #: Keys of the store that something cannot be read of, by model.
        self._unreadable: dict[str, frozenset[str]] = {}
        self.use(config)

    def use(self, config: Config) -> None:
        """Go on by another configuration, from the next round on."""
        self._config = config
        self._models = {model.name: model for model in config.models if model.names_versions}
        self._declared = {settings.model: settings for settings in config.rollouts}
        self._registry = RolloutRegistry(self._storage, config)
        self._hurry.set()

    async def aclose(self) -> None:
        """Abandon what is under way outside the store."""
        await self._errands.aclose()
        await self._webhooks.aclose()

    def _hurry_channel(self) -> tuple[str, str]:
        return HURRY, "orders for rollouts are noticed up to a second later"

    # ---- a round

    async def _act(self, holder: Holder) -> None:
        records = await read_records(self._storage)
        self._jump += self._clock.heard(records.now)
        if holder.token != self._token:
            await self._take_over(holder, records)
        await self._take_declared(records)
        await self._go_on(holder, records)

    async def _take_over(self, holder: Holder, records: Records) -> None:
        """Begin anew with all that is only in this process. Webhooks hear again what they may have missed."""
        await self._errands.aclose()
        self._away.clear()
        self._lacks.clear()
        self._moved_to.clear()
        self._jump = 0.0
        if self._token is not None:
            self._clock = SteadyClock(self._monotonic)
            self._clock.heard(records.now)
        self._token = holder.token
        for rollout in records.rollouts.values():
            for event in rollout.history:
                if records.now - event.at <= RETOLD_SECONDS:
                    self._webhooks.announce(self._webhook_of(rollout), event)

    async def _take_declared(self, records: Records) -> None:
        """Order what the file declares and was not taken yet, where no other rollout of the model is under way."""
        for name, settings in self._declared.items():
            model, rollout, digest = self._models.get(name), records.rollouts.get(name), digest_of(settings)
            order = order_of_model(records.orders.get(name), rollout)
            known = (records.taken.get(name), order.declared if order is not None else "")
            if model is None or digest in known or name in records.unreadable:
                continue
            if settings.to == stable_now(model, records.splits.get(name)):
                # It has been rolled out already.
                self._passed[name] = digest
                continue
            if order is not None and is_under_way(order, rollout):
                if order.settings.to == settings.to:
                    self._passed[name] = digest
                    log.info("the rollout of %s to %s is under way: its new settings come too late", name, settings.to)
                    continue
                self._refuse(name, f"waits until the rollout to {order.settings.to} has ended")
                continue
            try:
                await self._registry.start(msgspec.structs.replace(settings, webhook=None), FILE, digest)
            except StoreUnavailable:
                raise
            except PenstockError as error:
                self._refuse(name, error.message)
            else:
                self._refused.pop(name, None)
                self._hurry.set()

    async def _go_on(self, holder: Holder, records: Records) -> None:
        fleets = await reports(self._storage)
        scaling = await self._scaling(records)
        sized = await version_sizes(self._storage) if self._sizes_matter(records) else {}
        now = self._clock.now()
        writes: list[Write] = []
        verdicts: dict[str, Verdict] = {}
        steps: list[tuple[Rollout, list[Event]]] = []
        self._tell_unreadable(records)
        for name in sorted(self._models.keys() | records.rollouts.keys()):
            if ROLLOUTS in records.unreadable.get(name, ()):
                # Its workers go on by the last split, until an abort clears it.
                continue
            before = records.rollouts.get(name)
            rollout = self._current(name, records, now)
            if rollout is not None and rollout.phase not in ENDED:
                rollout, verdict = await self._look(rollout, records, fleets, scaling, now)
                if verdict is not None:
                    verdicts[name] = verdict
            writes += self._writes(name, before, rollout, records, fleets, sized)
            if rollout is not None and self._jump:
                self._moved_to[rollout.id] = (rollout.since, rollout.paused, self._jump)
            if rollout is not None and (news := _news(before, rollout)):
                writes += [Write("add", HISTORY, str(MOST_STORED), msgspec.json.encode(event)) for event in news]
                steps.append((rollout, news))
        status = Told(
            at=self._clock.store_now(),
            controller=holder.name,
            verdicts=verdicts,
            lost=self._webhooks.lost,
            unreadable={name: sorted(keys) for name, keys in records.unreadable.items()},
        )
        writes.append(Write("set", STATUS, "", msgspec.json.encode(status)))
        await self.lease.write(writes)
        self._jump = 0.0
        self._moved_to.clear()
        self._passed.clear()
        for rollout, news in steps:
            # The next step need not wait for a second.
            self._hurry.set()
            for event in news:
                level = logging.WARNING if event.phase == "rolling_back" and event.cause != "reported" else logging.INFO
                log.log(
                    level, "rollout of %s to %s is %s: %s", *(event.model, event.candidate, event.phase, event.reason)
                )
                self._webhooks.announce(self._webhook_of(rollout), event)
            if rollout.phase in ENDED:
                self._errands.forget(rollout)
                self._away.pop(rollout.id, None)
                self._lacks.pop(rollout.id, None)

    def _current(self, name: str, records: Records, now: float) -> Rollout | None:
        """Return a model's rollout: the one that is stored, or that a new order begins."""
        rollout, order, model = records.rollouts.get(name), records.orders.get(name), self._models.get(name)
        goes_on = rollout is not None and rollout.phase not in ENDED
        # Orders are elsewhere in the store, which may have lost the last one: one that is older begins nothing, then
        # or later.
        if goes_on or order is None or (rollout is not None and (rollout.id == order.id or is_stale(order, rollout))):
            return self._moved(rollout)
        if model is None:
            return rollout
        stored = records.splits.get(name)
        stable = stable_now(model, stored)
        epoch = max(rollout.epoch if rollout is not None else 0, stored.epoch if stored is not None else 0)
        return told(begun(order, model, stable, epoch, now), now, "started", f"{order.actor} has started it")

    def _moved(self, rollout: Rollout | None) -> Rollout | None:
        """Return a rollout as old as before, where a jump of the store's clock is followed. Once: a write that nobody
        has confirmed may have been done.
        """
        if rollout is None or not self._jump or rollout.phase in ENDED:
            return rollout
        since, paused, part = self._moved_to.get(rollout.id, (0.0, None, 0.0))
        moved = self._jump - (part if (rollout.since, rollout.paused) == (since, paused) else 0.0)
        paused = None if rollout.paused is None else rollout.paused + moved
        return msgspec.structs.replace(rollout, since=rollout.since + moved, paused=paused)

    async def _look(
        self,
        rollout: Rollout,
        records: Records,
        fleets: Sequence[Report],
        scaling: Mapping[str, ModelStatus],
        now: float,
    ) -> tuple[Rollout, Verdict | None]:
        """Let a rollout go on by one step at most."""
        model = self._models.get(rollout.model)
        found = await self._compare(rollout, now)
        warmups, gate = self._errands.results(rollout)
        facts = Facts(
            wish=_wish(rollout, records),
            heard=bool(fleets),
            compared=found[0] if found is not None else None,
            warmups=warmups,
            gate=gate,
            gate_waits=self._errands.waits(rollout),
            superseded=_superseded(rollout, model),
        )
        if model is not None:
            of_model = scaling.get(rollout.model)
            candidate = version_facts(model, rollout.candidate, fleets, of_model)
            stable = version_facts(model, rollout.stable, fleets, of_model)
            facts = msgspec.structs.replace(facts, candidate=candidate, stable=stable)
            facts = msgspec.structs.replace(
                facts,
                away_seconds=self._seconds(self._away, rollout, bool(fleets) and not candidate.ready),
                lacking_seconds=self._seconds(self._lacks, rollout, bool(lacking(rollout, facts))),
            )
        after, actions = advance(rollout, facts, now)
        self._errands.look(after, actions, facts, now)
        return after, found[1] if found is not None else None

    def _seconds(self, since: dict[str, float], rollout: Rollout, holds: bool) -> float:
        """Return for how long something holds of a rollout, and note that it does, or does not any more."""
        if not holds:
            since.pop(rollout.id, None)
            return 0.0
        now = self._monotonic()
        return now - since.setdefault(rollout.id, now)

    async def _compare(self, rollout: Rollout, now: float) -> tuple[Compared, Verdict] | None:
        """Return what the versions compare as. Raises StoreUnavailable."""
        try:
            return await self._comparer.compare(rollout, now)
        except StoreUnavailable:
            raise
        except Exception:
            # Any error: it must keep neither an abort nor other models' rollouts from going on. This stage stays.
            log.exception("comparing the versions of %s", rollout.model)
            reason = "its versions cannot be compared: the log of its controller says why"
            compared = Compared(kind="inconclusive", reason=reason, requests=rollout.counted + rollout.requests)
            return compared, with_needed(Verdict(kind="inconclusive", reason=reason), None)

    def _writes(
        self,
        name: str,
        before: Rollout | None,
        rollout: Rollout | None,
        records: Records,
        fleets: Sequence[Report],
        sized: Mapping[str, VersionSizes],
    ) -> list[Write]:
        """Return what is to be written of one model; `sized` is what the controller of sizes reads now, by model."""
        writes: list[Write] = []
        model, stored = self._models.get(name), records.splits.get(name)
        if rollout is not None and rollout != before:
            writes.append(Write("put", ROLLOUTS, name, msgspec.json.encode(rollout)))
            if rollout.phase in ENDED and (before is None or before.phase != rollout.phase):
                totals = _counted(records.totals.get(name, Totals()), rollout)
                writes.append(Write("put", TOTALS, name, msgspec.json.encode(totals)))
        split = stored
        lost = SPLITS in records.unreadable.get(name, ())
        if rollout is not None and (rollout.phase not in ENDED or rollout != before or lost):
            split = split_of(rollout)
        if split is not None and split != stored:
            writes.append(Write("put", SPLITS, name, msgspec.json.encode(split)))
            writes.append(Write("tell", CHANGED, "", name.encode()))
        begins = rollout is not None and (before is None or before.id != rollout.id)
        digest = self._passed.get(name, rollout.declared if rollout is not None and begins else "")
        if digest and digest != records.taken.get(name):
            writes.append(Write("put", DECLARED, name, digest.encode()))
        if model is None or model.scales:
            writes.append(Write("put", SIZES, name, self._sizes(model, split, rollout, fleets, sized.get(name))))
        return writes

    def _sizes(
        self,
        model: Model | None,
        split: Split | None,
        rollout: Rollout | None,
        fleets: Sequence[Report],
        last: VersionSizes | None,
    ) -> bytes:
        """Return what the controller of sizes is to read of a model after the `last`; empty: nothing."""
        if model is None:
            return b""
        stable = stable_now(model, split)
        versions = (rollout.stable, rollout.candidate) if rollout is not None else (stable, "")
        facts = [version_facts(model, version, fleets) for version in versions]
        sizes = sizes_of(model, stable, rollout, *facts)
        goes_on = rollout is not None and rollout.phase not in ENDED
        if last is not None and goes_on and not any(one.ready for one in facts):
            # Workers that are silent, or begin anew, say of no replica that it is there: none is stopped for that.
            kept = {pool: max(count, last.set.get(pool, 0)) for pool, count in sizes.set.items()}
            sizes = msgspec.structs.replace(sizes, set=kept)
        return msgspec.json.encode(sizes) if sizes.set else b""

    def _sizes_matter(self, records: Records) -> bool:
        """Whether a rollout is under way where launchers start replicas."""
        return self._config.scales and any(one.phase not in ENDED for one in records.rollouts.values())

    async def _scaling(self, records: Records) -> dict[str, ModelStatus]:
        if not self._sizes_matter(records):
            return {}
        _, status = await read_status(self._storage)
        return {} if status is None else {one.model: one for one in status.models}

    def _webhook_of(self, rollout: Rollout) -> str | None:
        declared = self._declared.get(rollout.model)
        return declared.webhook if declared is not None else None

    def _tell_unreadable(self, records: Records) -> None:
        """Log what cannot be read once, and again when it is something else."""
        found = {name: frozenset(keys) for name, keys in records.unreadable.items()}
        for name, keys in found.items():
            if self._unreadable.get(name) != keys:
                log.error("rollouts: %s", said(name, records.unreadable[name]))
        self._unreadable = found

    def _refuse(self, model: str, problem: str) -> None:
        if self._refused.get(model) != problem:
            self._refused[model] = problem
            log.warning("the rollout that the configuration declares of %s: %s", model, problem)


def _news(before: Rollout | None, rollout: Rollout) -> list[Event]:
    """Return the events that a rollout had since."""
    last = before.steps if before is not None and before.id == rollout.id else 0
    return [event for event in rollout.history if event.number > last]


def _wish(rollout: Rollout, records: Records) -> Wish | None:
    """Return what is wanted of a rollout; None: it cannot be read."""
    if ROLLOUT_ORDERS in records.unreadable.get(rollout.model, ()):
        return None
    order = records.orders.get(rollout.model)
    return order.wish if order is not None and order.id == rollout.id else "run"


def _superseded(rollout: Rollout, model: Model | None) -> str:
    if model is None:
        return f"the configuration has no versions of {rollout.model} any more"
    if not has_version(model, rollout.candidate):
        return f"the configuration has no version {rollout.candidate} any more"
    if rollout.candidate == rollout.stable:
        return f"{rollout.candidate} is the stable version already"
    if model.stable_version != rollout.configured:
        return f"the configuration makes {model.stable_version} the stable version"
    return ""


def _counted(totals: Totals, rollout: Rollout) -> Totals:
    """Count how a rollout has ended."""
    if rollout.promoted:
        return msgspec.structs.replace(totals, promoted=totals.promoted + 1)
    if rollout.phase == "done":
        return msgspec.structs.replace(totals, reported=totals.reported + 1)
    cause = next((event.cause for event in reversed(rollout.history) if event.phase == "rolling_back"), "aborted")
    causes = dict(totals.rolled_back)
    causes[cause] = causes.get(cause, 0) + 1
    return msgspec.structs.replace(totals, rolled_back=causes)
