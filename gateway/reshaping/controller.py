"""The controller of shapes: it hears how replicas stand, decides, writes down what shall be, and orders it.

One controller acts at a time, by a lease of its own beside those of sizes and of rollouts. Each step of a change is in
the store before the orders that follow from it are sent, and orders may be repeated: one that takes over, after any
write or order of the last one, goes on with the change by what its replicas say. While the store is away nothing is
ordered: prepared replicas go back by themselves.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.reshaping.change import (
    CHANGES,
    HISTORY,
    HURRY,
    MOST_STORED,
    PREFIX,
    STATUS,
    TAKEN,
    TOTALS,
    Advice,
    Change,
    Event,
    Told,
    Totals,
    place_of,
    shape_name,
)
from gateway.reshaping.model_facts import ModelFacts
from gateway.reshaping.model_round import Outcome, event_of, model_round
from gateway.reshaping.relaunch_facts import relaunch_facts
from gateway.reshaping.replica_links import Replicas
from gateway.reshaping.shape_inputs import ShapeInputs, read_shape_inputs, specs_of
from gateway.reshaping.shape_records import ShapeRecords, read_shape_records
from gateway.rollouts.webhooks import RETOLD_SECONDS, Webhooks
from gateway.scaling.leasing.lease import Holder, Lease, Write
from gateway.scaling.leasing.leased_rounds import LeasedRounds
from gateway.scaling.leasing.steady_clock import SteadyClock
from gateway.scaling.settings import slo_of
from gateway.scaling.shape_holds import HOLDS, NO_HOLDS
from gateway.tenancy.tenants.transactions import Storage
from protos.errors import ReplicaUnavailable, StoreUnavailable
from protos.reshape import ReshapeOrder
from replicas.reshape.ordered_change import ENDED, order_of, to_tell

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Seconds that a controller that takes over gives replicas to be heard.
HEAR_SECONDS: Final = 3.0
#: Seconds for which a replica that is not heard any more is not taken for gone by what is held of sizes.
UNHEARD_SECONDS: Final = 10.0
_BAD: Final = frozenset({"aborting", "failed", "refused"})


class ShapeController(LeasedRounds):
    """One controller process's part for shapes; `run` it once."""

    def __init__(
        self,
        storage: Storage,
        config: Config,
        replicas: Replicas,
        webhooks: Webhooks,
        name: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` is this process's, and no other one's; `clock` never goes back."""
        super().__init__(Lease(storage, name, clock, PREFIX), "controller of shapes")
        self._storage = storage
        self._replicas, self._webhooks = replicas, webhooks
        self._monotonic = clock
        self._clock = SteadyClock(clock)
        self._token: int | None = None
        self._acting_since = 0.0
        #: By how many seconds stored times are to be set, where a jump of the store's clock is followed.
        self._jump = 0.0
        #: What may have been written though the store did not answer: changes by place, and what no webhook has heard.
        self._tried: Mapping[str, Change] = {}
        self._unsure: list[Event] = []
        #: When replicas were heard last, by model and address.
        self._heard: dict[tuple[str, str], float] = {}
        #: The last advice that was told and not followed, by model.
        self._advised: dict[str, Advice | None] = {}
        self.use(config)

    def use(self, config: Config) -> None:
        """Go on by another configuration, from the next round on."""
        self._config = config
        self._models = [model for model in config.models if model.reshape is not None]
        self._hurry.set()

    def hurry(self) -> None:
        """Look again at once: a replica has said something."""
        self._hurry.set()

    async def aclose(self) -> None:
        """End the sessions to replicas, and give up what waits for webhooks."""
        await self._replicas.aclose()
        await self._webhooks.aclose()

    def _hurry_channel(self) -> tuple[str, str]:
        return HURRY, "orders for shapes are noticed up to a second later"

    async def _act(self, holder: Holder) -> None:
        records = await read_shape_records(self._storage)
        if holder.token != self._token:
            if self._token is not None:
                # Another one has acted since, and has followed the jumps of the store's clock.
                self._clock = SteadyClock(self._monotonic)
            self._token, self._acting_since = holder.token, self._monotonic()
            self._jump, self._tried, self._unsure, self._heard = 0.0, {}, [], {}
            # Webhooks hear again what they may have missed.
            self._announce(event_of(one) for one in records.changes.values() if _ended_lately(one, records.now))
        self._announce(event for event in self._unsure if _is_written(event, records))
        if any(records.changes.get(place) == one for place, one in self._tried.items()):
            self._jump = 0.0
        self._tried, self._unsure = {}, []
        self._jump += self._clock.heard(records.now)
        inputs = await read_shape_inputs(self._storage, self._config)
        specs = specs_of(self._config, inputs)
        self._replicas.use(specs)
        if len(self._replicas.seen()) < len(specs) and self._monotonic() - self._acting_since < HEAR_SECONDS:
            # What is not heard yet is not gone: nothing is told or decided by that.
            return
        self._note_heard()
        now = self._clock.now()
        outcomes = {}
        changes: dict[str, Change] = {}
        writes: list[Write] = []
        models = self._models
        for model in models:
            facts = self._facts(model, records, inputs, now)
            outcome = outcomes[model.name] = model_round(facts, self._advised.get(model.name))
            writes += _writes(facts, outcome)
            changes |= {one.place: one for one in {**facts.changes, **outcome.changes}.values()}
        writes += [
            Write("put", CHANGES, place, msgspec.json.encode(one))
            for place, one in changes.items()
            if one != records.changes.get(place)
        ]
        told = Told(
            at=self._clock.store_now(),
            controller=holder.name,
            models=[one.status for one in outcomes.values()],
            lost=self._webhooks.lost,
        )
        writes.append(Write("set", STATUS, "", msgspec.json.encode(told)))
        try:
            await self.lease.write(writes)
        except StoreUnavailable:
            self._tried = changes
            self._unsure = [event for outcome in outcomes.values() for event in outcome.events]
            raise
        self._jump = 0.0
        for name, outcome in outcomes.items():
            self._advised[name] = outcome.status.advice
            for event in outcome.events:
                _log(event)
            self._announce(outcome.events)
        if any(outcome.changes for outcome in outcomes.values()):
            # The next step need not wait for a second.
            self._hurry.set()
        self._order(models, records, outcomes)

    def _note_heard(self) -> None:
        now = self._monotonic()
        self._heard = {place: at for place, at in self._heard.items() if now - at < UNHEARD_SECONDS}
        self._heard.update({(one.spec.model, one.spec.address): now for one in self._replicas.seen()})

    def _unheard(self, model: str, held: Iterable[str]) -> bool:
        """Whether one of the replicas that are held is not heard just now: it may be what it was all the same."""
        now, seen = self._monotonic(), {(one.spec.model, one.spec.address) for one in self._replicas.seen()}
        return any(
            now - self._heard.get((model, address), self._acting_since) < UNHEARD_SECONDS
            for address in held
            if (model, address) not in seen
        )

    def _facts(self, model: Model, records: ShapeRecords, inputs: ShapeInputs, now: float) -> ModelFacts:
        assert model.reshape is not None, "others are not looked at"
        # Orders are by the store's clock, whose jumps are not followed at once.
        ahead = self._clock.store_now() - now
        orders = _of_model(model.name, records.orders)
        return ModelFacts(
            now=now,
            model=model.name,
            settings=model.reshape,
            slo=slo_of(model),
            seen=[one for one in self._replicas.seen() if one.spec.model == model.name],
            inputs=inputs,
            changes={
                group: _as_of(change, self._jump, now)
                for group, change in _of_model(model.name, records.changes).items()
            },
            orders={group: msgspec.structs.replace(one, at=one.at - ahead) for group, one in orders.items()},
            taken=_of_model(model.name, records.taken),
            totals=records.totals.get(model.name, Totals()),
            unheard=self._unheard(model.name, inputs.holds.get(model.name, NO_HOLDS).addresses),
            relaunch=relaunch_facts(model, inputs),
        )

    def _announce(self, events: Iterable[Event]) -> None:
        webhooks = {model.name: model.reshape.webhook for model in self._models if model.reshape is not None}
        for event in events:
            if event.phase in ENDED:
                self._webhooks.announce(webhooks.get(event.model), event)

    def _order(self, models: Sequence[Model], records: ShapeRecords, outcomes: Mapping[str, Outcome]) -> None:
        """Send what follows from the changes as they are written down now."""
        for model in models:
            assert model.reshape is not None, "others are not looked at"
            name = model.name
            changes = {**_of_model(name, records.changes), **outcomes[name].changes}
            members = {
                one.member.address: one.member
                for one in self._replicas.seen()
                if one.spec.model == name and one.member is not None
            }
            for change in changes.values():
                if change.method != "in_place":
                    continue
                ordered = change.ordered()
                order = order_of(ordered, model.reshape.transform_seconds)
                if order is not None:
                    order = _for_replicas(order)
                    for address in to_tell(ordered, members):
                        self._tell(name, address, order)

    def _tell(self, model: str, address: str, order: ReshapeOrder) -> None:
        held = self.lease.held
        if held is None or held.token != self._token:
            return
        try:
            self._replicas.order(model, address, order)
        except ReplicaUnavailable as error:
            # It is told again in the next round, or the change ends for want of its answer.
            log.info("change %d of %s: %s at %s: %s", order.change, order.group, order.phase.value, address, error)


def _ended_lately(change: Change, now: float) -> bool:
    return change.ended is not None and now - change.ended <= RETOLD_SECONDS


def _for_replicas(order: ReshapeOrder) -> ReshapeOrder:
    """Return an order with addresses as replicas reach each other by: HOST:PORT, or `unix:/PATH`."""
    participants = tuple(
        msgspec.structs.replace(one, address=one.address.removeprefix("grpc://").removeprefix("grpcs://"))
        for one in order.participants
    )
    return msgspec.structs.replace(order, participants=participants)


def _of_model(model: str, places: Mapping[str, T]) -> dict[str, T]:
    """Return what is stored of a model, by group."""
    prefix = place_of(model, "")
    return {place.removeprefix(prefix): found for place, found in places.items() if place.startswith(prefix)}


def _as_of(change: Change, jump: float, now: float) -> Change:
    """Return a change as old as before, where a jump of the store's clock is followed, and no younger than now."""

    def moved(at: float) -> float:
        return min(at + jump, now)

    return msgspec.structs.replace(
        change,
        since=moved(change.since),
        started=moved(change.started),
        ended=None if change.ended is None else moved(change.ended),
        lacks_since=None if change.lacks_since is None else moved(change.lacks_since),
    )


def _is_written(event: Event, records: ShapeRecords) -> bool:
    change = records.changes.get(place_of(event.model, event.group))
    if change is None or change.id < event.change:
        return False
    return change.id > event.change or change.phase == event.phase


def _writes(facts: ModelFacts, outcome: Outcome) -> list[Write]:
    writes = [Write("put", TAKEN, facts.place(group), id_.encode()) for group, id_ in outcome.taken.items()]
    writes += [Write("put", CHANGES, facts.place(group), b"") for group in outcome.gone]
    writes += [Write("add", HISTORY, str(MOST_STORED), msgspec.json.encode(event)) for event in outcome.events]
    if outcome.totals != facts.totals:
        writes.append(Write("put", TOTALS, facts.model, msgspec.json.encode(outcome.totals)))
    if outcome.holds is not facts.holds:
        writes.append(Write("put", HOLDS, facts.model, msgspec.json.encode(outcome.holds)))
    return writes


def _log(event: Event) -> None:
    level = logging.WARNING if event.phase in _BAD else logging.INFO
    shapes = f"{shape_name(event.before)} to {shape_name(event.after)}"
    log.log(
        level, "group %s of %s, change %d from %s: %s: %s", event.group, event.model, event.change, shapes,
        event.phase, event.reason,
    )  # fmt: skip
