"""A admission queue before replicas of four slots, by hand: what tests of it share."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from gateway.config.admission import AdmissionSettings
from gateway.scheduling.admission import Admission, AdmissionRequest
from gateway.scheduling.admission_queue import AdmissionQueue
from protos.types import Load, Role, Shape
from routing.contracts.policy import ReplicaView, RouteRequest
from routing.dispatch.dispatch import RequestHandle
from routing.policies.least_load import LeastLoad

LIMIT = 4


class FakeFleet:
    """Replicas of four slots; what is opened on them shows in their views at once, and ends when the test says so."""

    narrow_tokens = wide_tokens = 0
    awaits_member = False

    def __init__(self, *names: str, kv_blocks: int = 10_000) -> None:
        self.on_load: Callable[[], None] = lambda: None
        load = Load(kv_blocks_total=kv_blocks, workers=1)
        self.views = {
            name: ReplicaView(
                name, "p", Shape(), Role.BOTH, load, max_batch_size=LIMIT, kv_block_tokens=32, max_num_tokens=8192
            )
            for name in names
        }

    def candidates(self, exclude: Sequence[str] = (), needs: int = 0, adapter: str = "") -> list[ReplicaView]:
        return [view for view in self.views.values() if view.id not in exclude and not needs & ~view.features]

    def join(self, name: str) -> None:
        """One more replica."""
        self.views |= FakeFleet(name).views
        self.on_load()

    def report(self, name: str, **load: int) -> None:
        view = self.views[name]
        self.views[name] = replace(
            view, load=replace(view.load, **load), sent=0, sent_prompt_tokens=0, sent_kv_tokens=0
        )
        self.on_load()

    def running(self, name: str, more: int) -> None:
        """So many sequences more, of ten KV blocks each."""
        running = self.views[name].load.running + more
        self.report(name, running=running, kv_blocks_used=10 * running)


class Bench:
    """A admission queue, its fleet and its clock."""

    admission_queue: AdmissionQueue

    def __init__(self, *names: str, kv_blocks: int = 10_000, max_waiting: int = 100) -> None:
        self.now = 0.0
        self.fleet = FakeFleet(*names, kv_blocks=kv_blocks)
        admission = AdmissionSettings(watermark=1.0, max_waiting=max_waiting)
        self.admission_queue = AdmissionQueue(self.fleet, LeastLoad(), admission, lambda: self.now)

    def request(self, tenant: str = "a", **fields: Any) -> AdmissionRequest:
        prompt, output = fields.pop("prompt", 10), fields.pop("output", 10)
        fixed: dict[str, Any] = {"rank": 1, "weight": 1.0, "reserved": 0.0, "n": 1, "max_waiting": 100}
        fixed |= {"wait_until": self.now + 60.0, "expected_output": output}
        return AdmissionRequest("r", tenant, route=RouteRequest("r", prompt, output), **(fixed | fields))

    def enter(self, tenant: str = "a", **fields: Any) -> Admission | None:
        """Without waiting, and on its way to its replica at once."""
        admission = self.admission_queue.try_enter(self.request(tenant, **fields))
        if admission is not None and admission.replica_id is not None:
            admission.opened(admission.replica_id)
            self.fleet.running(admission.replica_id, admission.request.n)
        return admission

    def fill(self, tenant: str = "a") -> list[Admission]:
        admitted = []
        while (admission := self.enter(tenant)) is not None:
            admitted.append(admission)
        return admitted

    def end(self, admission: Admission, output: int = 10) -> None:
        assert admission.replica_id is not None
        self.fleet.running(admission.replica_id, -admission.request.n)
        admission.release(output)

    def wait(self, tenant: str = "a", handle: RequestHandle | None = None, **fields: Any) -> "asyncio.Task[Admission]":
        request = self.request(tenant, **fields)
        assert self.admission_queue.try_enter(request) is None
        return asyncio.create_task(self.admission_queue.enter(request, handle or RequestHandle()))

    def check_empty(self) -> None:
        admission_queue = self.admission_queue
        assert (admission_queue.waiting, admission_queue.depths()) == (0, {})
        assert not admission_queue._by_rank
        assert not admission_queue.deadlines._heap
        assert not admission_queue._promised
        assert admission_queue.deadlines._alarm is None
        for tenant in admission_queue.divider._tenants.values():
            assert (tenant.cost, tenant.admitted, tenant.waiting, tenant.prefill) == (0, 0, 0, {})


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
