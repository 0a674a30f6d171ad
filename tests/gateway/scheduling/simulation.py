"""A fleet, its workers and their clients in virtual time: the pure engine model behind real admission queues."""

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gateway.config.admission import AdmissionSettings
from gateway.scheduling.admission import Admission, AdmissionRequest
from gateway.scheduling.admission_queue import AdmissionQueue
from protos.errors import Overloaded
from protos.types import Load, Role, Shape
from replicas import sequence as replica_sequence
from replicas.engine_limits import Limits
from replicas.model import ReplicaModel
from replicas.profiles import PROFILES
from replicas.replica_server import HEARTBEAT_SECONDS
from replicas.request_owner import LONG_PROMPT_TOKENS
from replicas.timing import RooflineTimer, kv_blocks
from routing.contracts.policy import ReplicaView, RouteRequest
from routing.dispatch.dispatch import RequestHandle
from routing.policies.least_load import LeastLoad
from routing.transports.unreported import Unreported

MODEL = "mixtral-8x7b"
#: The replicas of penstock.yaml.
FLEET = (
    *(("wide/0", Shape(tp=8, ep=2)),),
    *((f"middle/{i}", Shape(tp=4)) for i in range(2)),
    *((f"narrow/{i}", Shape(tp=2)) for i in range(4)),
)


class Virtual:
    """Time that passes from event to event, with every task run to its next wait in between."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()

    def at(self, when: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), event))

    async def sleep(self, seconds: float) -> None:
        done = asyncio.get_running_loop().create_future()
        self.at(self.now + seconds, partial(_set, done))
        await done

    def spawn(self, task: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(task))

    async def run(self, until: float) -> None:
        loop: Any = asyncio.get_running_loop()
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
            await asyncio.sleep(0)
            while loop._ready:  # noqa: ASYNC110 (until nothing is left to run at this moment)
                await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


@dataclass(slots=True, eq=False, kw_only=True)
class Running(replica_sequence.Sequence):
    """A request in an engine, as the worker that sent it follows it."""

    worker: "Worker | None" = None
    started: Callable[[], None] = lambda: None
    first: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    done: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Replica:
    """An engine that steps while it has work, and reports as replicas/replica_server.py does; perhaps a step late."""

    def __init__(self, time: Virtual, name: str, shape: Shape, *, late: bool, kv_part: float) -> None:
        profile = PROFILES[MODEL]
        limits = Limits(int(kv_part * kv_blocks(profile, shape)))
        self.name, self.shape = name, shape
        self.model: ReplicaModel[Running] = ReplicaModel(limits, RooflineTimer(profile, shape))
        self.workers: list[Worker] = []
        self._time, self._late = time, late
        self._computing: dict[Running, None] = {}
        self._seen: dict[Worker, int] = {}
        self._stepping = False
        self._pending: Callable[[], None] | None = None

    def submit(self, request: Running) -> None:
        assert request.worker is not None
        self._seen[request.worker] = self._seen.get(request.worker, 0) + 1
        self._computing[request] = None
        self.model.submit([request], self._time.now)
        if request.prompt >= LONG_PROMPT_TOKENS:
            self._report()
        if not self._stepping:
            self._stepping = True
            self._time.at(self._time.now, self._begin)

    def _begin(self) -> None:
        seconds = self.model.begin(self._time.now)
        self._stepping = seconds is not None
        if seconds is not None:
            self._time.at(self._time.now + seconds, self._end)

    def _end(self) -> None:
        ended = self.model.end(self._time.now)
        for request in [request for request in self._computing if request.first_token is not None]:
            del self._computing[request]
            request.started()
            _set(request.first)
        for request in ended:
            _set(request.done)
        self._report()
        self._begin()

    def _report(self) -> None:
        load = self.model.load
        prefill = sum(request.prompt for request in self._computing)
        load = Load(
            load.running,
            load.waiting,
            load.kv_blocks_used,
            load.kv_blocks_total,
            load.tokens_in_flight,
            False,
            prefill,
            len(self.workers),
            load.kv_blocks_reserved,
        )
        seen = dict(self._seen)

        def deliver() -> None:
            for worker in self.workers:
                worker.reported(self, load, seen.get(worker, 0))

        if not self._late:
            deliver()
            return
        before, self._pending = self._pending, deliver
        if before is not None:
            before()

        def heartbeat() -> None:
            if self._pending is deliver:
                self._pending = None
                deliver()

        self._time.at(self._time.now + HEARTBEAT_SECONDS, heartbeat)


class Worker:
    """A worker's fleet: what it knows of each replica, and its admission queue, if it has one."""

    narrow_tokens = wide_tokens = 0
    awaits_member = False

    def __init__(self, time: Virtual, replicas: list[Replica], *, admission: bool) -> None:
        self.on_load: Callable[[], None] = lambda: None
        self._time = time
        self._policy = LeastLoad()
        self._replicas = {replica.name: replica for replica in replicas}
        self._loads = {replica.name: Load(kv_blocks_total=replica.model.limits.kv_blocks) for replica in replicas}
        self._unreported = {replica.name: Unreported() for replica in replicas}
        self._numbers = itertools.count(1)
        self.admission_queue = (
            AdmissionQueue(self, self._policy, AdmissionSettings(), lambda: time.now) if admission else None
        )
        for replica in replicas:
            replica.workers.append(self)

    def candidates(self, exclude: Sequence[str] = (), needs: int = 0, adapter: str = "") -> list[ReplicaView]:
        del exclude, needs, adapter  # all are alike
        return [self._view(replica) for replica in self._replicas.values()]

    def _view(self, replica: Replica) -> ReplicaView:
        limits, mine = replica.model.limits, self._unreported[replica.name]
        return ReplicaView(
            replica.name,
            replica.name.split("/")[0],
            replica.shape,
            Role.BOTH,
            self._loads[replica.name],
            *mine.sums,
            limits.max_batch_size,
            limits.tokens_per_block,
            limits.max_num_tokens,
            True,
        )

    def reported(self, replica: Replica, load: Load, seen: int) -> None:
        self._loads[replica.name] = load
        self._unreported[replica.name].reported(seen)
        self.on_load()

    async def ask(self, tenant: str, prompt: int, output: int) -> tuple[float, float]:
        """One request to its end; seconds to its first token, and to its end."""
        arrived = self._time.now
        route = RouteRequest("r", prompt, output)
        admission: Admission | None = None
        if self.admission_queue is not None:
            request = AdmissionRequest("r", tenant, 0, 1.0, 0.0, route, output, 1, arrived + 1e6, 10_000)
            admission = self.admission_queue.try_enter(request) or await self.admission_queue.enter(
                request, RequestHandle()
            )
        name = admission.replica_id if admission else self._policy.pick(route, self.candidates()).replica.id
        assert name is not None
        running = Running(prompt=prompt, steps=output, limit=output, worker=self)
        self._unreported[name].add(next(self._numbers), 1, prompt, prompt + output)
        if admission is not None:
            running.started = admission.started
            admission.opened(name)
        self._replicas[name].submit(running)
        await running.first
        first = self._time.now
        await running.done
        if admission is not None:
            admission.release(output)
        return first - arrived, self._time.now - arrived


@dataclass
class Outcome:
    """Times to first token by tenant, and how many requests were shed."""

    ttft: dict[str, list[float]] = field(default_factory=dict)
    shed: dict[str, int] = field(default_factory=dict)

    def percentile(self, tenant: str, part: float) -> float:
        ordered = sorted(self.ttft[tenant])
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


Clients = Callable[[Virtual, list[Worker], Outcome], None]


def poisson(tenant: str, rate: float, prompt: int, output: int, *, start: float = 0.0) -> Clients:
    """Requests at random moments, at any worker."""

    def clients(time: Virtual, workers: list[Worker], outcome: Outcome) -> None:
        rng = random.Random(f"{tenant}")
        found = outcome.ttft.setdefault(tenant, [])

        async def one() -> None:
            found.append((await rng.choice(workers).ask(tenant, prompt, output))[0])

        async def arrive() -> None:
            await time.sleep(start)
            while True:
                await time.sleep(rng.expovariate(rate))
                time.spawn(one())

        time.spawn(arrive())

    return clients


def closed_loop(tenant: str, clients_number: int, prompt: int, output: int, *, start: float = 0.0) -> Clients:
    """Clients that each ask again as soon as they are answered."""

    def clients(time: Virtual, workers: list[Worker], outcome: Outcome) -> None:
        found = outcome.ttft.setdefault(tenant, [])

        async def one(worker: Worker) -> None:
            await time.sleep(start)
            while True:
                try:
                    found.append((await worker.ask(tenant, prompt, output))[0])
                except Overloaded as error:
                    outcome.shed[tenant] = outcome.shed.get(tenant, 0) + 1
                    await time.sleep(error.retry_after or 1.0)

        for number in range(clients_number):
            time.spawn(one(workers[number % len(workers)]))

    return clients


def simulate(
    *clients: Clients,
    seconds: float,
    workers: int = 1,
    admission: bool = True,
    fleet: tuple[tuple[str, Shape], ...] = FLEET,
    kv_part: float = 1.0,
) -> Outcome:
    """What the clients see in so many seconds. More than one worker: reports come a step late."""
    outcome = Outcome()

    async def main() -> None:
        time = Virtual()
        replicas = [Replica(time, name, shape, late=workers > 1, kv_part=kv_part) for name, shape in fleet]
        gates = [Worker(time, replicas, admission=admission) for _ in range(workers)]

        def exchange() -> None:
            for gate in gates:
                others = [g.admission_queue.active_here() for g in gates if g.admission_queue is not None]
                if gate.admission_queue is not None:
                    gate.admission_queue.active_elsewhere = [tenant for some in others for tenant in some]
            time.at(time.now + 0.5, exchange)

        exchange()
        for run in clients:
            run(time, gates, outcome)
        time.at(0.0, lambda: None)
        await time.run(seconds)

    asyncio.run(main())
    return outcome
