"""Limits and an admission queue that count what is taken from them and how each ends, in front of real replicas."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from gateway.inference.request_context import RequestContext
from gateway.models.served_model import ServedModel
from gateway.scheduling.admission import AdmissionRequest
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.tenancy.limits.limiter import Ask, Rate, Usage
from protos.errors import PenstockError
from replicas.engine import Engine
from routing.contracts.policy import Decision
from routing.dispatch.dispatch import RequestHandle
from routing.dispatch.dispatch_context import DispatchContext
from routing.policies.round_robin import RoundRobin
from tests.harness import serving
from tests.models import model_of
from tests.routing.fleets import fleet_at

#: Made where no loop runs.
MODEL = model_of()


class Lease:
    """`ended`: each ending, a Usage or whether it was rejected."""

    def __init__(self, ask: Ask) -> None:
        self.output = ask.most
        self.ended: list[Usage | bool] = []

    def settle(self, usage: Usage) -> None:
        self.ended.append(usage)

    def release(self, *, rejected: bool = False) -> None:
        self.ended.append(rejected)


class Limits:
    """A `Limiter`; `refuses` is raised in place of a lease."""

    def __init__(self, refuses: PenstockError | None = None) -> None:
        self.asked: list[Ask] = []
        self.leases: list[Lease] = []
        self._refuses = refuses

    def last_rate(self, key_id: str) -> Rate | None:
        return None

    async def reserve(self, ask: Ask) -> Lease:
        self.asked.append(ask)
        if self._refuses is not None:
            raise self._refuses
        self.leases.append(Lease(ask))
        return self.leases[-1]

    @property
    def endings(self) -> list[list[Usage | bool]]:
        return [lease.ended for lease in self.leases]


class Admission:
    """`released`: the output tokens of each ending."""

    decision: Decision | None = None
    kv_tokens = 1
    waited_seconds = 0.0

    def __init__(self, request: AdmissionRequest) -> None:
        self.route = request.route
        self.sent = False
        self.released: list[int] = []

    def opened(self, replica_id: str, *, computes: bool) -> None:
        self.sent = True

    def started(self) -> None:
        """Nothing is counted by it."""

    def release(self, output_tokens: int) -> None:
        self.released.append(output_tokens)


class Place:
    """A place in the queue."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> bool:
        return self.future.done()

    def fail(self, error: PenstockError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Queue:
    """An admission queue that admits at once, or only what a test lets through."""

    def __init__(self, *, waits: bool = False) -> None:
        self.given: list[Admission] = []
        self.waiting: list[Place] = []
        self._waits = waits

    def try_enter(self, request: AdmissionRequest) -> Admission | None:
        return None if self._waits else self._give(request)

    async def enter(self, request: AdmissionRequest, handle: RequestHandle, gives_up: float = math.inf) -> Admission:
        place = Place()
        self.waiting.append(place)
        try:
            handle.follow(place)
            await place.future
        finally:
            self.waiting.remove(place)
        return self._give(request)

    def _give(self, request: AdmissionRequest) -> Admission:
        self.given.append(Admission(request))
        return self.given[-1]

    @property
    def endings(self) -> list[list[int]]:
        return [admission.released for admission in self.given]


@dataclass
class Bench:
    """A model with counted parts, and a context for requests to it."""

    limits: Limits = field(default_factory=Limits)
    queue: Queue = field(default_factory=Queue)
    model: ServedModel = MODEL
    handle: RequestHandle = field(default_factory=RequestHandle)
    encoding: EncodingQueue = field(default_factory=EncodingQueue)

    def __post_init__(self) -> None:
        self.model = replace(self.model, admission_queue=cast("Any", self.queue))

    @property
    def context(self) -> RequestContext:
        return RequestContext(self.limits, self.encoding, self.handle, float("inf"), float("inf"))


@contextlib.asynccontextmanager
async def bench_of(*engines: Engine, **parts: Any) -> AsyncIterator[Bench]:
    """A bench whose model has a replica of each engine."""
    async with contextlib.AsyncExitStack() as stack:
        addresses = [(await stack.enter_async_context(serving(engine)))[1] for engine in engines]
        fleet = await stack.enter_async_context(fleet_at(*addresses))
        policy = RoundRobin()
        bench = Bench(**parts)
        bench.model = replace(bench.model, fleet=fleet, policy=policy, dispatch_context=DispatchContext(fleet, policy))
        yield bench
        assert not any(connection.in_flight for connection in fleet._connections.values())
