"""A turnstile before replicas of four slots, by hand: what tests of it share."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from gateway.config.admission import Admission
from gateway.scheduling.admission import Turn, TurnRequest
from gateway.scheduling.admission_queue import Turnstile
from protos.types import Load, Role, Shape
from routing.contracts.policy import ReplicaView, RouteRequest
from routing.dispatch.dispatch import Attempt
from routing.policies.least_load import LeastLoad
from tests.harness import bounded

LIMIT = 4


class FakeFleet:
    """Replicas of four slots; what is opened on them shows in their views at once, and ends when the test says so."""

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
    """A turnstile, its fleet and its clock."""

    def __init__(self, *names: str, kv_blocks: int = 10_000, max_waiting: int = 100) -> None:
        self.now = 0.0
        self.fleet = FakeFleet(*names, kv_blocks=kv_blocks)
        admission = Admission(watermark=1.0, max_waiting=max_waiting)
        self.turnstile = Turnstile(self.fleet, LeastLoad(), admission, lambda: self.now)

    def request(self, tenant: str = "a", **fields: Any) -> TurnRequest:
        prompt, output = fields.pop("prompt", 10), fields.pop("output", 10)
        fixed: dict[str, Any] = {"rank": 1, "weight": 1.0, "reserved": 0.0, "n": 1, "max_waiting": 100}
        fixed |= {"wait_until": self.now + 60.0, "expected_output": output}
        return TurnRequest("r", tenant, route=RouteRequest("r", prompt, output), **(fixed | fields))

    def enter(self, tenant: str = "a", **fields: Any) -> Turn | None:
        """Without waiting, and on its way to its replica at once."""
        turn = self.turnstile.try_enter(self.request(tenant, **fields))
        if turn is not None and turn.replica_id is not None:
            turn.opened(turn.replica_id)
            self.fleet.running(turn.replica_id, turn.request.n)
        return turn

    def fill(self, tenant: str = "a") -> list[Turn]:
        turns = []
        while (turn := self.enter(tenant)) is not None:
            turns.append(turn)
        return turns

    def end(self, turn: Turn, output: int = 10) -> None:
        assert turn.replica_id is not None
        self.fleet.running(turn.replica_id, -turn.request.n)
        turn.release(output)

    def wait(self, tenant: str = "a", attempt: Attempt | None = None, **fields: Any) -> "asyncio.Task[Turn]":
        request = self.request(tenant, **fields)
        assert self.turnstile.try_enter(request) is None
        return asyncio.create_task(self.turnstile.enter(request, attempt or Attempt()))

    def check_empty(self) -> None:
        turnstile = self.turnstile
        assert (turnstile.waiting, turnstile.depths()) == (0, {})
        assert not turnstile._by_rank
        assert not turnstile._deadlines
        assert not turnstile._promised
        assert turnstile._alarm is None
        for tenant in turnstile.divider._tenants.values():
            assert (tenant.cost, tenant.turns, tenant.waiting, tenant.prefill) == (0, 0, 0, {})


def run(main: Callable[[], Awaitable[None]]) -> None:
    bounded(main, 10)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
