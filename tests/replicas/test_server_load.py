import asyncio

import pytest

from protos import codec
from protos.types import PROTOCOL_VERSION, Finish, FinishReason, Handoff, Load, Work
from replicas.engine import Delta, EngineStep
from replicas.request_owner import LONG_PROMPT_TOKENS
from tests.fakes import SilentEngine
from tests.harness import Worker, engine_of, gated_engine, serving, submit_of, worker_at
from tests.loops import until

HEARTBEAT = 0.005
DONE = Finish(FinishReason.STOP)


@pytest.fixture(autouse=True)
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicas.replica_server.HEARTBEAT_SECONDS", HEARTBEAT)


async def load_where(worker: Worker, **fields: int) -> codec.Step:
    """The next step whose load has these values."""
    while True:
        step = await worker.step()
        if step.load is not None and all(getattr(step.load, name) == value for name, value in fields.items()):
            return step


async def test_prompts_count_until_the_engine_reports_them_itself() -> None:
    engine = SilentEngine()
    async with serving(engine) as (_, address), worker_at(address) as worker:
        await worker.hello()
        await worker.send((1, submit_of(prompt=range(100))), (2, submit_of(prompt=range(50), n=2)))
        await worker.send((4, submit_of(prompt=range(9), handoff=Handoff(b"", (1,)))))
        step = await load_where(worker, prefill_tokens=150, waiting=4)
        assert step.load is not None
        assert step.load.prefill_pairs == 5050 + 1275
        engine.say(load=Load(waiting=4, prefill_tokens=110, prefill_pairs=900))
        step = await load_where(worker, prefill_tokens=110, waiting=4)
        await worker.send((5, submit_of(prompt=range(7))))
        step = await load_where(worker, prefill_tokens=117, waiting=5)
        assert step.load is not None
        assert step.load.prefill_pairs == 928


async def test_adapters_are_told_when_they_change_and_to_whoever_comes_later() -> None:
    async def adapters_told(worker: Worker) -> tuple[str, ...]:
        while True:
            step = await worker.step()
            if step.adapters is not None:
                return step.adapters

    engine = SilentEngine()
    async with serving(engine) as (_, address), worker_at(address) as one, worker_at(address) as two:
        await one.hello()
        engine.say(adapters=("a",))
        assert await adapters_told(one) == ("a",)
        await two.hello()
        assert await adapters_told(two) == ("a",)
        engine.say(adapters=("a", "b"))
        engine.say(adapters=())  # before anybody could read the one before
        for worker in (one, two):
            while await adapters_told(worker):
                pass
        before = len(one.steps)
        engine.say()
        await load_where(one, steps=4)
        assert all(step.adapters is None for step in one.steps[before:])


async def test_the_work_of_a_step_is_told_once_to_every_worker() -> None:
    engine = SilentEngine()
    async with serving(engine) as (_, address), worker_at(address) as one, worker_at(address) as two:
        await one.hello()
        await two.hello()
        for number in range(1, 4):
            engine.say(work=Work(us=number, sequences=2))
            for worker in (one, two):
                step = await load_where(worker, steps=number)
                assert step.work == Work(us=number, sequences=2)
            await one.send((number, submit_of()))
            for worker in (one, two):
                await load_where(worker, waiting=1)
        engine.say()
        assert (await load_where(one, steps=4)).work is None
        assert [step.work.us for step in one.steps if step.work is not None] == [1, 2, 3]


async def test_workers_are_counted_by_name_and_not_by_session() -> None:
    async with serving(SilentEngine()) as (_, address), worker_at(address) as watching:
        await watching.hello()
        await load_where(watching, workers=1)
        async with worker_at(address) as same, worker_at(address) as other:
            await same.hello()
            await other.write(codec.encode_hello(codec.Hello(PROTOCOL_VERSION, "another", False)))
            await load_where(watching, workers=2)
        await load_where(watching, workers=1)


async def test_who_only_watches_is_no_worker() -> None:
    async with serving(SilentEngine()) as (_, address), worker_at(address) as one, worker_at(address) as watching:
        await one.hello()
        await watching.write(codec.encode_hello(codec.Hello(PROTOCOL_VERSION, "controller", False, watches=True)))
        await watching.read()
        await load_where(watching, workers=1)


async def test_a_load_says_how_many_submits_of_its_session_it_knows_of() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (server, address), worker_at(address) as one, worker_at(address) as two:
        await one.hello()
        await two.hello()
        await one.send((1, submit_of(20)), (2, submit_of(20, n=3)))
        await two.send((1, submit_of(20)))
        await until(lambda: server._handles == 3)
        # Before the engine has said a word of them, they count as waiting.
        step = await load_where(one, waiting=5)
        assert step.submits_seen == 4
        gate.let(3)
        step = await load_where(one, running=5)
        assert step.submits_seen == 4
        step = await load_where(two, running=5)
        assert step.submits_seen == 1
        await one.send((9, submit_of(20)), cancels=[9])
        gate.open()
        await one.finished(1, 2, 3, 4, 9)
        await two.finished(1)
        step = await load_where(one, running=0, waiting=0)
        assert step.submits_seen == 5


async def test_every_worker_hears_at_once_of_a_long_prompt_and_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicas.replica_server.HEARTBEAT_SECONDS", 60.0)

    engine = SilentEngine()
    async with serving(engine) as (_, address), worker_at(address) as one, worker_at(address) as two:
        await one.hello()
        await two.hello()
        await two.step()
        await one.send((1, submit_of(prompt=range(LONG_PROMPT_TOKENS - 1))))
        await until(lambda: len(engine.submitted) == 1)
        await one.send((2, submit_of(prompt=range(LONG_PROMPT_TOKENS))))
        load = (await two.step()).load
        assert load is not None
        assert (load.waiting, load.prefill_tokens, load.steps) == (2, 2 * LONG_PROMPT_TOKENS - 1, 0)
        engine.say(Delta(1, 0, [5], cached_tokens=0))
        engine.say(Delta(2, 0, [5], cached_tokens=0), load=Load(running=2))
        assert (await two.step()).load == Load(running=2, workers=1, steps=2)


async def test_an_engine_says_what_its_requests_will_need_of_the_cache() -> None:
    engine, gate = gated_engine(max_sequence_tokens=2000)
    async with serving(engine) as (_, address), worker_at(address) as worker:
        welcome = await worker.hello()
        assert (welcome.info.max_num_tokens, welcome.info.reserves_output) == (8192, True)
        await worker.send((1, submit_of(320, prompt=range(64))))
        gate.let(2)
        step = await load_where(worker, running=1)
        assert step.load is not None
        assert step.load.kv_blocks_used + step.load.kv_blocks_reserved == 12
        gate.open()
        await worker.finished(1)
        assert engine._model.load.kv_blocks_reserved == 0


async def test_a_gathering_request_starts_once() -> None:
    engine, steps = engine_of(), list[EngineStep]()
    task = asyncio.create_task(engine.run(steps.append))
    engine.submit(1, submit_of(40, n=2, delta_interval=0))
    engine.submit(2, submit_of(40, n=2, delta_interval=16))
    engine.submit(3, submit_of(40))
    engine.submit(4, submit_of(1, delta_interval=0))
    await until(lambda: sum(len(step.finishes) for step in steps) == 6)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sorted(start for step in steps for start in step.started) == [(1, 0), (2, 0)]
