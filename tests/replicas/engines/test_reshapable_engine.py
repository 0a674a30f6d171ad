"""A simulated engine that becomes wider and narrower in virtual time."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from protos.types import Adapter, FinishReason, Guide, GuideKind, KvRemoved, KvStored, Sampling, Shape, Submit
from replicas.engine import EngineStep
from replicas.engines.kv_contents import Block, blocks_in
from replicas.engines.reshapable_engine import ReshapableEngine
from replicas.kv_cache import PIECE_BLOCKS
from replicas.profiles import H20, L40S, PROFILES
from replicas.reshape.cost import LAYERS_A_STEP, Method, cost_of
from replicas.reshape.reshapable import Share
from tests.harness import CORPUS, answers_of, readable_corpus, readable_vocabulary, submit_of
from tests.loops import until

LARGE = "qwen2.5-32b-bf16"


class Clock:
    """Time passes only while somebody sleeps, and not at all while `held`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.held = asyncio.Event()
        self.held.set()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await self.held.wait()
        self.now += seconds
        await asyncio.sleep(0)


class Running:
    """An engine that runs, what it has emitted, and when."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        fixed: dict[str, Any] = {"model": "mixtral-8x7b", "corpus": CORPUS, "shape": Shape(), "gpus": 4}
        fixed |= {"clock": self.clock, "sleep": self.clock.sleep}
        self.engine = ReshapableEngine(**(fixed | options))
        self.steps: list[EngineStep] = []
        self.times: list[float] = []
        self.tokens: dict[int, list[int]] = {}
        self.cached: dict[int, int] = {}
        self.finishes: dict[int, Any] = {}

    def take(self, step: EngineStep) -> None:
        self.steps.append(step)
        self.times.append(self.clock.now)
        for delta in step.deltas:
            self.tokens.setdefault(delta.handle, []).extend(delta.token_ids)
            if delta.cached_tokens is not None:
                self.cached[delta.handle] = delta.cached_tokens
        for handle, _, finish in step.finishes:
            self.finishes[handle] = finish

    @property
    def load(self) -> Any:
        return self.steps[-1].load


@contextlib.asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Running]:
    one = Running(**options)
    task = asyncio.create_task(one.engine.run(one.take))
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def is_idle(one: Running) -> bool:
    load = one.load
    return not (load.kv_blocks_used or load.running or load.waiting or load.kv_blocks_reserved)


def has_begun(one: Running, count: int) -> bool:
    return len(one.tokens) == count


def opened(share: Share) -> list[list[Block]]:
    return [blocks_in(part) for part in share.parts]


async def held_up(method: Method) -> tuple[float, float]:
    """Seconds by which a change holds a full large engine up, in all and the most at a step."""
    async with running(model=LARGE, gpu=H20, method=method) as one:
        for handle in range(8):
            one.engine.submit(handle, submit_of(2000, prompt=range(handle, 11_000 + handle)))
        await until(lambda: len(one.tokens) == 8 and len(one.tokens[7]) > 5)
        first = len(one.steps)
        await one.engine.reach(4)
        last = len(one.steps)
        one.engine.resume()
        await until(lambda: len(one.steps) > last + 2)
        gaps = [b - a for a, b in itertools.pairwise(one.times)]
        longer = [gap - gaps[last + 1] for gap in gaps[first - 1 : last - 1]]
        return sum(longer), max(longer)


async def test_methods_hold_running_sequences_up_as_the_paper_says() -> None:
    naive, paged, padded, overlapped = [await held_up(method) for method in Method]
    full = cost_of(PROFILES[LARGE], H20, 1, 4, 8 * 11_000, Method.NAIVE).seconds
    assert naive[0] == pytest.approx(full, rel=0.05)
    assert 0.522 <= naive[0] <= 2.24 + 0.70
    assert 0.189 <= 1 - padded[0] / paged[0] <= 0.422
    assert 0.5 <= 1 - overlapped[0] / paged[0] <= 0.676
    # One step waits for all of it, or many for a little each.
    assert padded[1] == pytest.approx(padded[0], rel=0.02)
    assert overlapped[1] < 2 * overlapped[0] * LAYERS_A_STEP / PROFILES[LARGE].layers


async def test_where_nothing_runs_the_move_takes_its_time_all_the_same() -> None:
    async with running(model=LARGE, gpu=H20) as one:
        before = one.clock.now
        await one.engine.reach(4)
        assert one.clock.now - before == pytest.approx(one.engine.widths[2].change_ms / 1000, abs=0.001)


async def test_steps_that_a_change_holds_up_tell_of_no_work() -> None:
    async with running() as one:
        one.engine.submit(1, submit_of(4000))
        await until(lambda: 1 in one.tokens)
        assert one.steps[-1].work is not None
        first = len(one.steps)
        await one.engine.reach(4)
        assert {step.work for step in one.steps[first:-1]} == {None}
        one.engine.resume()
        seen = len(one.steps)
        await until(lambda: len(one.steps) > seen)
        assert one.steps[-1].work is not None


async def test_a_change_that_is_given_up_leaves_everything_as_it_was() -> None:
    async with running() as one:
        one.engine.submit(1, submit_of(300))
        await until(lambda: 1 in one.tokens)
        change = asyncio.create_task(one.engine.reach(4))
        await asyncio.sleep(0)
        change.cancel()
        await asyncio.gather(change, return_exceptions=True)
        await until(lambda: 1 in one.finishes)
        assert [one.tokens[1]] == await answers_of(submit_of(300))
        assert one.engine.info.shape == Shape()


async def test_a_wide_engine_goes_on_with_its_own_and_finds_what_it_was_given() -> None:
    kept, given = submit_of(300), submit_of(300, prompt=range(1, 700))
    async with running() as wide, running() as narrow:
        wide.engine.submit(1, kept)
        narrow.engine.submit(1, given)
        await until(lambda: len(narrow.tokens.get(1, ())) > 100 and len(wide.tokens.get(1, ())) > 10)
        for one in (wide, narrow):
            await one.engine.reach(4)
        so_far = list(narrow.tokens[1])
        (share,) = await narrow.engine.deal((4,), None)
        assert share.handles == {1}
        wide.engine.become(4, (), opened(share))
        narrow.engine.become(0, None)
        assert wide.engine.info.shape == Shape(4)
        assert wide.engine.info.kv_blocks_total > 4 * narrow.engine.info.kv_blocks_total
        wide.engine.submit(2, submit_of(300 - len(so_far), prompt=[*range(1, 700), *so_far], generated=len(so_far)))
        await until(lambda: {1, 2} <= wide.finishes.keys())
        assert [wide.tokens[1], so_far + wide.tokens[2]] == await answers_of(kept, given)
        assert wide.cached[2] == (699 + len(so_far) - 1) // 32 * 32
        for one in (wide, narrow):
            await until(partial(is_idle, one))
        assert 1 not in narrow.finishes


async def test_a_narrow_engine_keeps_its_share_in_place_and_drops_the_rest() -> None:
    submits = [submit_of(400, prompt=range(number, 300 + 40 * number)) for number in range(6)]
    async with running(shape=Shape(1)) as one:
        one.engine.reset(4)
        for handle, submit in enumerate(submits):
            one.engine.submit(handle, submit)
        await until(lambda: len(one.tokens) == 6)
        await one.engine.reach(1)
        shares = await one.engine.deal((1, 1, 1, 1), 0)
        assert sorted(handle for share in shares for handle in share.handles) == list(range(6))
        assert all(share.handles for share in shares)
        gone = {handle for share in shares[1:] for handle in share.handles}
        one.engine.submit(6, submit_of(5))  # comes meanwhile, and stays
        first = len(one.steps)
        one.engine.become(1, gone)
        await until(lambda: shares[0].handles | {6} <= one.finishes.keys())
        assert one.engine.info.shape == Shape(1)
        whole = await answers_of(*submits)
        assert all(one.tokens[handle] == whole[handle] for handle in shares[0].handles)
        # Nothing was computed again.
        computed = [step.work.prefill_tokens for step in one.steps[first:] if step.work is not None]
        assert sum(computed) == 3
        assert gone.isdisjoint(one.finishes)
        await until(lambda: one.load.kv_blocks_used == one.load.kv_blocks_reserved == 0)


async def test_what_is_dealt_is_found_by_its_heir() -> None:
    async with running() as dealer, running() as heir:
        dealer.engine.reset(4)
        prompts = [[7, *range(number, 200 + number)] for number in range(4)]
        for handle, prompt in enumerate(prompts):
            dealer.engine.submit(handle, submit_of(40, prompt=prompt))
        await until(lambda: len(dealer.finishes) == 4)
        await dealer.engine.reach(1)
        shares = await dealer.engine.deal((1, 1, 1, 1), 0)
        heir.engine.become(0, None)
        heir.engine.reset(1, opened(shares[1]))
        for handle, prompt in enumerate(prompts):
            heir.engine.submit(handle, submit_of(1, prompt=prompt))
        await until(lambda: len(heir.finishes) == 4)
        # Idle blocks are dealt by whole chains, each to one.
        assert sorted(heir.cached.values())[-1] == 192


def blocks_told(step: EngineStep) -> int:
    stored = sum(len(event.data.blocks) for event in step.kv_events if isinstance(event.data, KvStored))
    return stored + sum(len(event.data.block_hashes) for event in step.kv_events if isinstance(event.data, KvRemoved))


async def test_much_is_dealt_taken_and_told_in_pieces_between_which_the_loop_goes_on() -> None:
    async with running(max_num_tokens=1 << 20) as dealer, running() as heir:
        dealer.engine.reset(4)
        for handle in range(4):
            dealer.engine.submit(handle, submit_of(40, prompt=[handle, *range(20_000)]))
        await until(lambda: len(dealer.finishes) == 4)
        blocks, turns, first = 4 * 625, 0, len(dealer.steps)

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        await dealer.engine.reach(1)
        other = asyncio.create_task(others())
        shares = await dealer.engine.deal((1, 1, 1, 1), 0)
        # Each block is looked at where it is dealt, and where it is written down.
        assert turns >= 2 * (blocks // PIECE_BLOCKS)
        heir.engine.become(0, None)
        other.cancel()
        parts = opened(shares[1])
        assert shares[0].parts == ()
        assert max(map(len, parts)) <= PIECE_BLOCKS
        before = len(heir.steps)
        heir.engine.reset(1, parts)
        dealer.engine.become(1, ())
        (owner, *_) = parts[0][0].ids
        heir.engine.submit(1, submit_of(1, prompt=[owner, *range(20_000)]))
        dealer.engine.submit(9, submit_of(1))
        await until(lambda: 1 in heir.finishes and 9 in dealer.finishes)
        # What came is there before a step begins.
        assert heir.cached[1] == 20_000
        for steps, least in ((dealer.steps[first:], 3 * 625), (heir.steps[before:], 625)):
            told = [blocks_told(step) for step in steps]
            assert max(told) <= PIECE_BLOCKS
            assert sum(told) >= least


async def test_a_request_that_came_meanwhile_and_is_too_long_now_moves_on() -> None:
    async with running(kv_blocks_total=64) as one:
        one.engine.reset(4)
        await one.engine.reach(1)
        one.engine.submit(1, submit_of(3000))
        await one.engine.deal((4,), 0)
        one.engine.become(1, ())
        await until(lambda: 1 in one.finishes)
        failure = one.finishes[1].failure
        assert (one.finishes[1].reason, failure.code, failure.moved_to) == (FinishReason.ERROR, "moved", 0)


async def test_a_guided_request_that_is_too_long_before_it_is_composed_moves_on() -> None:
    options: dict[str, Any] = {"corpus": readable_corpus(), "vocabulary": readable_vocabulary()}
    async with running(kv_blocks_total=64, **options) as one:
        one.engine.reset(4)
        await one.engine.reach(1)
        await one.engine.deal((1, 1, 1, 1), 0)
        guide = Guide(GuideKind.JSON_OBJECT)
        one.engine.submit(1, Submit("r", 3000 * [1], 8, Sampling(seed=1), guide=guide))
        one.engine.submit(2, Submit("r", [1, 2, 3], 8, Sampling(seed=1), guide=guide))
        assert one.engine.problem_of((1, 1, 1, 1)) == "memory: a request of 3008 tokens runs, and TP1 holds 2048"
        one.engine.become(1, ())
        await until(lambda: {1, 2} <= one.finishes.keys())
        assert one.finishes[1].failure.code == "moved"
        assert one.finishes[2].failure is None


async def test_requests_that_wait_for_adapters_or_guides_are_dropped_too() -> None:
    options: dict[str, Any] = {"corpus": readable_corpus(), "vocabulary": readable_vocabulary()}
    async with running(adapters=("a", "b"), max_adapters=1, adapter_load_seconds=1e6, **options) as one:
        one.clock.held.clear()
        one.engine.submit(1, Submit("r", [1, 2, 3], 8, Sampling(seed=1), adapter=Adapter("a")))
        one.engine.submit(2, Submit("r", [1, 2, 3], 8, Sampling(seed=1), guide=Guide(GuideKind.JSON_OBJECT)))
        one.engine.become(0, None)
        one.clock.held.set()
        await until(lambda: one.steps)
        assert one.load.waiting == 0
        assert not one.finishes


async def test_an_engine_that_is_parked_in_mid_prompt_says_that_nothing_is_left() -> None:
    async with running() as one:
        for handle in range(4):
            one.engine.submit(handle, submit_of(200, prompt=[5, 6, handle]))
        await until(lambda: len(one.tokens) == 4)
        await one.engine.reach(4)
        one.engine.become(0, None)
        await until(lambda: not one.load.running)
        assert (one.load.kv_blocks_used, one.load.kv_blocks_reserved) == (0, 0)


@pytest.mark.parametrize(
    ("submit", "method", "widths", "said"),
    [
        (submit_of(20_000), Method.OVERLAPPED, (8,), "the engine can be TP1, TP2, TP4, not TP8"),
        (submit_of(20_000), Method.OVERLAPPED, (3, 1), "the engine can be TP1, TP2, TP4, not TP3"),
        (submit_of(200_000, prompt=range(100)), Method.OVERLAPPED, (1, 1, 1, 1), "memory: a request of 131072 tokens"),
        (submit_of(20_000, prompt=range(50_000)), Method.NAIVE, (1, 1), ""),
    ],
)
async def test_what_cannot_go_on_is_refused_by_name(
    submit: Submit, method: Method, widths: tuple[int, ...], said: str
) -> None:
    async with running(model=LARGE, gpu=H20, method=method) as one:
        one.engine.reset(4)
        one.engine.submit(1, submit)
        await until(lambda: one.steps and one.load.running)
        problem = one.engine.problem_of(widths)
        assert said in problem
        assert bool(said) == bool(problem)


async def test_a_move_that_memory_has_no_room_for_is_refused() -> None:
    # Nine tenths of the cache in use, and what goes head by head is twice in memory while it goes.
    for method, said in ((Method.NAIVE, "memory: the move needs"), (Method.OVERLAPPED, "")):
        async with running(model=LARGE, gpu=H20, method=method) as one:
            for handle in range(4):
                one.engine.submit(handle, submit_of(2000, prompt=range(handle, 26_000)))
            await until(partial(has_begun, one, 4))
            problem = one.engine.problem_of((4,))
            assert said in problem
            assert bool(said) == bool(problem)


async def test_more_than_all_narrow_ones_hold_is_refused() -> None:
    async with running(kv_blocks_total=64) as one:
        one.engine.reset(4)
        for handle in range(8):
            one.engine.submit(handle, submit_of(900, prompt=range(handle, 100)))
        await until(lambda: one.steps and one.load.running == 8)
        assert one.engine.problem_of((1, 1, 1, 1)) == ""
        assert "memory: running requests need" in one.engine.problem_of((1, 1))


def test_shapes_that_cannot_change_are_refused() -> None:
    with pytest.raises(ValueError, match="no expert and no pipeline"):
        Running(shape=Shape(2, ep=2))
    with pytest.raises(ValueError, match=r"does not fit|no room"):
        Running(model="qwen2.5-32b-bf16", gpu=L40S)


def test_widths_say_what_each_is_worth() -> None:
    narrow, middle, wide = Running().engine.widths
    assert (narrow.width, middle.width, wide.width) == (1, 2, 4)
    assert (narrow.relative_rate, narrow.change_ms) == (1.0, 0)
    assert wide.relative_rate < 1.0
    assert wide.kv_tokens > 4 * narrow.kv_tokens
    assert 0 == narrow.change_ms <= middle.change_ms
