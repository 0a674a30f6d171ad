"""Load, work, adapters and KV events: late, frozen, drained by reading, and lost in the middle."""

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protos.types import Adapter, KvCreated, KvRemoved, KvStored, Load, Work
from replicas.engines.tensorrt_llm import polling
from replicas.engines.tensorrt_llm.accounts import FRESH_SECONDS, Accounts, Holding
from replicas.engines.tensorrt_llm.cache_events import CacheEvents
from replicas.engines.tensorrt_llm.lora_adapters import Adapters
from replicas.kv_events import KvLedger
from tests.fake_tensorrt_llm.results import EmptyIterable, IterationResult
from tests.harness import submit_of
from tests.loops import until
from tests.trt_engines import started, trt_engine


def statistics(used: int = 0, active: int = 0, queued: int = 0, scheduled: int = 0) -> dict[str, Any]:
    return {
        "iterLatencyMS": 12.5,
        "numActiveRequests": active,
        "numQueuedRequests": queued,
        "kvCacheStats": {"maxNumBlocks": 100, "usedNumBlocks": used},
        "inflightBatchingStats": {
            "numScheduledRequests": scheduled,
            "numContextRequests": 2,
            "numGenRequests": 3,
            "numCtxTokens": 10,
        },
    }


def test_own_counts_say_what_runs_without_any_statistics() -> None:
    accounts = Accounts(32)
    one, two = Holding(64, 36), Holding(100, 28)
    accounts.opened(one)
    accounts.opened(two)
    assert accounts.load(0.0) == Load(
        waiting=2, prefill_tokens=164, prefill_pairs=64 * 65 // 2 + 100 * 101 // 2, kv_blocks_reserved=8
    )
    accounts.advanced(one, 4)
    load = accounts.load(0.0)
    assert (load.running, load.waiting, load.tokens_in_flight, load.kv_blocks_used) == (1, 1, 68, 3)
    assert (load.prefill_tokens, load.kv_blocks_reserved) == (100, 5)
    accounts.closed(two)
    accounts.closed(one)
    assert accounts.load(0.0) == Load()


def test_statistics_correct_the_counts_and_age() -> None:
    accounts = Accounts(32)
    one = Holding(64, 36)
    for holding in (one, Holding(64, 36), Holding(64, 36)):
        accounts.opened(holding)
    accounts.advanced(one, 1)
    # Prefixes are shared, so fewer blocks are in use than one would think; all three are in the batch.
    accounts.correct(statistics(used=2, active=3, scheduled=3), now=10.0)
    load = accounts.load(10.1)
    assert (load.running, load.waiting, load.kv_blocks_used, load.kv_blocks_total) == (3, 0, 2, 100)
    accounts.advanced(one, 32)  # a block more
    assert accounts.load(10.1).kv_blocks_used == 2
    accounts.advanced(one, 36)
    assert accounts.load(10.1).kv_blocks_used == 3
    accounts.opened(Holding(64, 36))
    assert accounts.load(10.1).waiting == 1
    assert accounts.load(10.1 + FRESH_SECONDS).waiting == 3  # too old to be believed


def test_work_is_told_once_and_only_of_steps_that_took_time() -> None:
    accounts = Accounts(32)
    accounts.correct({"iterLatencyMS": 0}, now=0.0)
    assert accounts.work() is None
    accounts.correct(statistics(), now=0.0)
    assert accounts.work() == Work(12_500, 10, 2 * 15, 3, 0)
    assert accounts.work() is None


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["open", "advance", "close", "stats"]), st.integers(0, 90)))
)
def test_the_counts_never_leave_what_is_possible(moves: list[tuple[int, str, int]]) -> None:
    accounts = Accounts(32)
    held: dict[int, Holding] = {}
    for key, move, amount in moves:
        if move == "open" and key not in held:
            held[key] = Holding(amount + 1, 90, transferred=amount % 2 == 0)
            accounts.opened(held[key])
        elif move == "advance" and key in held and amount:
            accounts.advanced(held[key], amount)
        elif move == "close" and key in held:
            accounts.closed(held.pop(key))
        elif move == "stats":
            accounts.correct(statistics(used=amount, active=amount, queued=key, scheduled=amount // 2), now=0.0)
        load = accounts.load(0.0)
        assert load.running + load.waiting == len(held)
        assert min(load.running, load.waiting, load.kv_blocks_used, load.prefill_tokens, load.prefill_pairs) >= 0
        assert load.kv_blocks_reserved >= 0
        assert load.tokens_in_flight == sum(h.prompt + h.produced for h in held.values() if h.started)
    for holding in held.values():
        accounts.closed(holding)
    assert accounts.load(0.0) == Load(kv_blocks_total=accounts.load(0.0).kv_blocks_total)


async def test_a_queue_that_ended_itself_is_read_on_while_something_runs() -> None:
    queue, got, busy, submitted = IterationResult(), list[Any](), [True], asyncio.Event()

    def opened(patience: float) -> IterationResult:
        assert patience > 0  # 0 raises what the library does not catch
        queue.set_timeout(0.01)
        return queue

    reader = asyncio.create_task(polling.follow(opened, got.append, busy=lambda: busy[0], submitted=submitted))
    await asyncio.sleep(0.05)  # it has ended itself, more than once
    queue.queue.put(json.dumps({"iter": 1}))
    await until(lambda: got)
    busy[0] = False
    await until(lambda: queue._done)
    queue.queue.put(json.dumps({"iter": 2}))
    await asyncio.sleep(0.05)
    assert len(got) == 1  # idle: nothing is asked for
    queue.mark_undone()  # as every submit does
    submitted.set()
    await until(lambda: len(got) == 2)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


async def test_a_reader_that_forgets_its_cancellation_is_ended_all_the_same() -> None:
    forgetting = 1

    async def stubborn() -> None:
        nonlocal forgetting
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if not forgetting:
                    raise
                forgetting -= 1

    task = asyncio.ensure_future(stubborn())
    await asyncio.sleep(0)
    await polling.end({task})
    assert task.cancelled()


async def test_before_the_first_request_there_is_nothing_to_read() -> None:
    def refuses(_: float) -> IterationResult:
        raise AssertionError("KV Event IterationResult is not properly instantiated.")

    got = list[Any]()
    assert await polling.drain(refuses, got.append) is None
    await polling.drain(lambda _: EmptyIterable(), got.append)
    assert not got


async def test_the_engine_reports_the_librarys_blocks_and_steps() -> None:
    engine = trt_engine()
    async with started(engine) as (_, heard, _task):
        assert engine.info.kv_blocks_total == 500
        engine.submit(1, submit_of(200, prompt=range(300)))
        await until(lambda: any(step.work for step in heard.steps))
        await until(lambda: heard.finishes)
        loads = [step.load for step in heard.steps if step.load.running]
        assert max(load.kv_blocks_used for load in loads) >= 300 // 32
        assert heard.steps[-1].load == Load(kv_blocks_total=500)


def stored(event_id: int, block: int, tokens: range, parent: int | None = None, **more: Any) -> dict[str, Any]:
    ids = [{"token_id": token, "token_extra_id": 0} for token in tokens]
    blocks = [{"block_hash": block, "tokens": ids, "cache_level": 0, "priority": 35}]
    data = {"type": "stored", "parent_hash": parent, "blocks": blocks}
    return {"event_id": event_id, "window_size": 4096, "data": data} | more


def test_events_keep_their_meaning() -> None:
    events = CacheEvents(4)
    created = {"event_id": 0, "data": {"type": "created", "num_blocks_per_cache_level": [9, 3]}, "window_size": 4096}
    first = events.take(created)
    assert first is not None
    assert first.data == KvCreated((9, 3))
    second = events.take(stored(1, 77, range(4)))
    assert second is not None
    assert second.data == KvStored(None, ((77, (0, 1, 2, 3)),))
    third = events.take(stored(2, 78, range(4, 8), parent=77))
    assert third is not None
    assert third.data == KvStored(77, ((78, (4, 5, 6, 7)),))
    change = {"type": "event_diff", "new_value": 1, "old_value": 0}
    updated = {"type": "updated", "block_hash": 78, "cache_level": change, "priority": None}
    assert events.take({"event_id": 3, "data": updated, "window_size": 4096}) is None
    gone = events.take({"event_id": 4, "data": {"type": "removed", "block_hashes": [78, 77]}, "window_size": 4096})
    assert gone is not None
    assert gone.data == KvRemoved((78, 77))
    assert [event.event_id for event in (first, second, third, gone)] == [0, 1, 2, 3]


def test_a_gap_voids_what_the_ledger_knows() -> None:
    events, ledger = CacheEvents(4), KvLedger(4, 100)
    for event in (stored(5, 1, range(4)), stored(6, 2, range(4, 8), parent=1)):
        taken = events.take(event)
        assert taken is not None
        ledger.take([taken])
    assert len(ledger.held) == 2
    after = events.take(stored(9, 3, range(8, 12)))
    assert after is not None
    ledger.take([after])
    assert len(ledger.held) == 1


def test_ranks_count_for_themselves_and_name_blocks_for_themselves() -> None:
    events = CacheEvents(4)
    taken = [
        events.take(stored(0, 1, range(4), attention_dp_rank=0)),
        events.take(stored(0, 1, range(4, 8), attention_dp_rank=1)),
        events.take(stored(1, 2, range(8, 12), parent=1, attention_dp_rank=1)),
    ]
    data = [event.data for event in taken if event is not None]
    assert [event.event_id for event in taken if event is not None] == [0, 1, 2]
    assert isinstance(data[0], KvStored)
    assert isinstance(data[1], KvStored)
    assert isinstance(data[2], KvStored)
    assert data[0].blocks[0][0] != data[1].blocks[0][0] == data[2].parent_hash


def test_blocks_of_a_narrow_window_are_left_out() -> None:
    events = CacheEvents(4)
    for number, window in enumerate((512, 4096)):
        data = {"type": "created", "num_blocks_per_cache_level": [9]}
        events.take({"event_id": number, "window_size": window, "data": data})
    assert events.take(stored(2, 1, range(4), window_size=512)) is None
    assert events.take(stored(3, 1, range(4))) is not None


def test_a_prompts_first_block_has_the_salt_of_its_request() -> None:
    events = CacheEvents(4)
    events.submitted([0, 1, 2, 3, 9], "acme")
    events.submitted([0, 1, 2, 3, 8], "initech")
    events.submitted([7, 7], "too short")

    def salt_of(number: int, block: int, tokens: range = range(4)) -> str:
        event = events.take(stored(number, block, tokens))
        assert event is not None
        assert isinstance(event.data, KvStored)
        return event.data.salt

    assert [salt_of(0, 10), salt_of(1, 11)] == ["acme", "initech"]
    events.take({"event_id": 2, "data": {"type": "removed", "block_hashes": [10]}})
    assert salt_of(3, 12) == "acme"
    assert salt_of(4, 13, range(50, 54)) == ""


def test_one_prompt_of_very_many_tenants_is_remembered_of_the_last_ones() -> None:
    events = CacheEvents(4)
    for tenant in range(10_000):
        events.submitted([0, 1, 2, 3], f"tenant-{tenant}")
    (salts,) = events._salts.values()
    assert len(salts) < 1000
    event = events.take(stored(0, 10, range(4)))
    assert event is not None
    assert isinstance(event.data, KvStored)
    assert event.data.salt in salts


async def test_a_report_that_cannot_be_read_is_not_the_last_one() -> None:
    engine = trt_engine(sleep=lambda _: asyncio.sleep(0))
    async with started(engine) as (llm, heard, _):
        assert llm.executor.events is not None
        llm.executor.events.queue.put(json.dumps({"event_id": 1, "data": {"type": "stored"}}))
        llm.lost_events = {1}  # in whose place that one comes
        engine.submit(1, submit_of(3, prompt=range(3, 80)))
        await until(lambda: heard.finishes)
        engine.submit(2, submit_of(3, prompt=range(200, 280)))
        await until(lambda: any(isinstance(event.data, KvStored) for event in heard.events))
        ids = [event.event_id for event in heard.events]
        assert ids != list(range(ids[0], ids[0] + len(ids)))  # so the ledger knows that something is missing


async def test_salts_reach_the_library_and_come_back_with_the_events() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, _):
        engine.submit(1, submit_of(3, prompt=range(3, 80), cache_salt="acme"))
        await until(lambda: len(heard.events) >= 3)
        assert llm.calls[-1]["salt"] == "acme"
        roots = [event.data for event in heard.events if isinstance(event.data, KvStored)]
        assert roots[0].salt == "acme"


async def test_lost_events_of_the_library_are_a_gap_in_ours() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, _):
        llm.lost_events = {1}
        engine.submit(1, submit_of(3, prompt=range(3, 80)))
        await until(lambda: len(heard.events) == 2)
        assert [event.event_id for event in heard.events] == [0, 2]


async def test_without_block_reuse_no_events_are_asked_for() -> None:
    engine = trt_engine(block_reuse=False)
    async with started(engine) as (llm, heard, _):
        engine.submit(1, submit_of(3, prompt=range(3, 80)))
        await until(lambda: heard.finishes)
        assert llm.arguments["kv_cache_config"].event_buffer_max_size == 0
        assert not heard.events


def test_numbers_of_adapters_are_stable_and_never_given_twice() -> None:
    adapters = Adapters({"a": "/a", "b": "/b"}, capacity=2)
    assert adapters.changes() == ()
    assert adapters.find(Adapter("a")) == (1, "/a")
    assert adapters.find(Adapter("b")) == (2, "/b")
    assert adapters.find(Adapter("a", "/a")) == (1, "/a")
    assert adapters.find(Adapter("a", "/new")) == (3, "/new")
    for name in ("a", "b", "a", "c"):
        adapters.used(name)
    assert adapters.changes() == ("a", "c")  # b was used longest ago
    assert adapters.changes() is None


async def test_adapters_are_requested_by_number_and_told_once_loaded(tmp_path: Path) -> None:
    from replicas.engines.tensorrt_llm.options import LoraOptions

    engine = trt_engine(lora=LoraOptions({"known": str(tmp_path)}))
    async with started(engine) as (llm, heard, _):
        engine.submit(1, submit_of(3, adapter=Adapter("known")))
        engine.submit(2, submit_of(3, adapter=Adapter("given", str(tmp_path))))
        engine.submit(3, submit_of(3, adapter=Adapter("unheard-of")))
        engine.submit(4, submit_of(3, adapter=Adapter("nowhere", str(tmp_path / "no"))))
        await until(lambda: len(heard.finishes) == 4)
        assert [call["lora"].lora_int_id for call in llm.calls[1:]] == [1, 2]
        assert heard.adapters[0] == ()
        assert heard.adapters[-1] == ("given", "known")
        for handle in (3, 4):
            failure = heard.finishes[handle, 0].failure
            assert failure is not None
            assert failure.code == "unsupported_parameter"
        assert engine.info.adapters == ("known",)
