import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from protos.types import Finish, FinishReason, Handoff, KvCreated, KvEvent, Sampling, Shape, Submit, TokenLogprobs
from replicas.engine import Engine, EngineStep
from replicas.engine_limits import CapacityPolicy
from replicas.engines.answer_lengths import LONGEST_TOKENS, Corpus, corpus_sentences
from replicas.engines.simulated import SimulatedEngine

CORPUS = Corpus(tuple(tuple(10 * i + j for j in range(3 + i % 7)) for i in range(1, 40)), eos=2)
SEEDED = Sampling(seed=7)
Key = tuple[int, int]


class FakeClock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Output:
    """What an engine emitted, by (handle, index)."""

    tokens: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    logprobs: dict[Key, list[TokenLogprobs]] = field(default_factory=lambda: defaultdict(list))
    finishes: dict[Key, Finish] = field(default_factory=dict)
    events: list[KvEvent] = field(default_factory=list)
    steps: list[EngineStep] = field(default_factory=list)

    def take(self, step: EngineStep) -> None:
        self.steps.append(step)
        self.events += step.kv_events
        for delta in step.deltas:
            key = (delta.handle, delta.index)
            assert key not in self.finishes
            assert delta.token_ids
            self.tokens[key] += delta.token_ids
            self.sizes[key].append(len(delta.token_ids))
            if delta.logprobs is not None:
                assert len(delta.logprobs) == len(delta.token_ids)
                self.logprobs[key] += delta.logprobs
        for handle, index, finish in step.finishes:
            assert (handle, index) not in self.finishes
            self.finishes[handle, index] = finish


def engine_of(clock: FakeClock | None = None, **options: Any) -> SimulatedEngine:
    clock = clock or FakeClock()
    settings: dict[str, Any] = {"model": "mixtral-8x7b", "corpus": CORPUS, "shape": Shape(tp=2), "pace_seconds": 0.01}
    return SimulatedEngine(**(settings | {"clock": clock, "sleep": clock.sleep} | options))


def run(
    engine: SimulatedEngine,
    *requests: Submit,
    at: dict[int, Callable[[], None]] | None = None,
) -> Output:
    """Submit all requests under handles 1, 2, ..., run until each sequence finished; then nothing may be left."""
    output = Output()
    expected = {(handle, k) for handle, r in enumerate(requests, 1) for k in range(max(1, r.sampling.n))}

    async def serve() -> None:
        for handle, request in enumerate(requests, 1):
            engine.submit(handle, request)
        task = asyncio.create_task(engine.run(output.take))
        for _ in range(200_000):
            await asyncio.sleep(0)
            action = (at or {}).pop(len(output.steps), None)
            if action:
                action()
            idle = output.steps and not output.steps[-1].load.running + output.steps[-1].load.waiting
            if (idle and expected <= output.finishes.keys()) or task.done():
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(serve())
    load = output.steps[-1].load
    assert load.running == load.waiting == load.tokens_in_flight == load.kv_blocks_used == 0
    return output


def ask(prompt: list[int] | None = None, max_tokens: int = 50, sampling: Sampling = SEEDED, **more: Any) -> Submit:
    return Submit("r", prompt or list(range(100)), max_tokens, sampling, **more)


def test_it_is_an_engine_and_says_that_it_is_simulated() -> None:
    engine: Engine = engine_of(shape=Shape(tp=8, ep=2))
    assert engine.info.engine == "simulated"
    assert engine.info.fingerprint == "simulated-mixtral-8x7b-tp8-ep2"
    assert engine.info.max_sequence_tokens == 32768
    with pytest.raises(ValueError, match="no profile"):
        engine_of(profile="gpt-5")
    assert engine_of(model="our-own").info.fingerprint == "simulated-mixtral-8x7b-tp2"
    with pytest.raises(ValueError, match="speed"):
        engine_of(speed=0)


def test_an_answer_is_whole_sentences_and_ends_by_itself() -> None:
    output = run(engine_of(), ask(max_tokens=5000))
    finish = output.finishes[1, 0]
    assert finish.reason is FinishReason.STOP
    assert finish.completion_tokens == len(output.tokens[1, 0])
    assert finish.prompt_tokens == 100
    rest = output.tokens[1, 0]
    starts = {sentence[0]: sentence for sentence in CORPUS.sentences}
    while rest:
        sentence = starts[rest[0]]
        assert rest[: len(sentence)] == list(sentence)
        rest = rest[len(sentence) :]


def test_length_is_log_normal_around_its_median_and_bounded() -> None:
    requests = [ask([i, i + 1, i + 2], 5000) for i in range(300)]
    output = run(engine_of(), *requests)
    lengths = sorted(finish.completion_tokens for finish in output.finishes.values())
    assert 140 < lengths[150] < 230
    assert lengths[-1] <= LONGEST_TOKENS
    assert lengths[0] < 180 / exp(1)


def test_max_tokens_cuts_and_ignore_eos_goes_on() -> None:
    cut, more = ask(max_tokens=5), ask(max_tokens=2000, sampling=replace(SEEDED, ignore_eos=True))
    output = run(engine_of(), cut, more)
    assert output.finishes[1, 0].reason is output.finishes[2, 0].reason is FinishReason.LENGTH
    assert (len(output.tokens[1, 0]), len(output.tokens[2, 0])) == (5, 2000)
    assert output.tokens[2, 0][:5] == output.tokens[1, 0]


def test_min_tokens_holds_the_end_back() -> None:
    output = run(engine_of(output_tokens=10), ask(), ask(sampling=replace(SEEDED, min_tokens=30)), ask(max_tokens=10))
    assert [output.finishes[h, 0].completion_tokens for h in (1, 2, 3)] == [10, 30, 10]
    assert [output.finishes[h, 0].reason.value for h in (1, 2, 3)] == ["stop", "stop", "length"]


def test_a_stop_token_ends_the_answer_and_is_not_emitted() -> None:
    plain = run(engine_of(), ask(max_tokens=40)).tokens[1, 0]
    stop = plain[17]
    where = plain.index(stop)
    sampling = replace(SEEDED, stop_token_ids=(stop,))
    output = run(engine_of(), ask(sampling=sampling), ask(sampling=replace(sampling, min_tokens=where + 1)))
    assert output.tokens[1, 0] == plain[:where]
    assert output.finishes[1, 0].reason is FinishReason.STOP
    assert len(output.tokens[2, 0]) > where


def test_first_token_as_stop_gives_an_empty_answer() -> None:
    first = run(engine_of(), ask(max_tokens=1)).tokens[1, 0][0]
    output = run(engine_of(), ask(sampling=replace(SEEDED, stop_token_ids=(first,))))
    assert output.tokens.get((1, 0)) is None
    assert (output.finishes[1, 0].reason, output.finishes[1, 0].completion_tokens) == (FinishReason.STOP, 0)


def test_seeds_choose_the_text() -> None:
    other = replace(SEEDED, seed=8)
    greedy, free = Sampling(temperature=0.0), Sampling()
    requests = [ask(), ask(sampling=other), ask(sampling=greedy), ask(sampling=greedy), ask(sampling=free)]
    output = run(engine_of(rng=random.Random(1)), *requests, ask(sampling=free))
    a, b, c, d, e, f = (tuple(output.tokens[h, 0]) for h in range(1, 7))
    assert c == d
    assert len({a, b, c, e, f}) == 5
    again = run(engine_of(rng=random.Random(1)), *requests, ask(sampling=free))
    assert again.tokens == output.tokens


@pytest.mark.parametrize(("interval", "sizes"), [(1, [1] * 10), (4, [4, 4, 2]), (0, [10]), (50, [10])])
def test_delta_interval_groups_tokens(interval: int, sizes: list[int]) -> None:
    output = run(engine_of(), ask(max_tokens=10, delta_interval=interval))
    assert output.sizes[1, 0] == sizes
    assert output.tokens[1, 0] == run(engine_of(), ask(max_tokens=10)).tokens[1, 0]


@pytest.mark.parametrize("cut", [1, 7, 30, 44])
def test_a_resubmitted_request_continues_token_for_token(cut: int) -> None:
    engine = engine_of(output_tokens=44)
    sampling = replace(SEEDED, n=2)
    whole = run(engine, ask(sampling=sampling))
    for index in (0, 1):
        tokens = whole.tokens[1, index]
        assert len(tokens) == 44
        again = ask([*range(100), *tokens[:cut]], 50 - cut, sampling, generated=cut)
        rest = run(engine_of(output_tokens=44), again)
        assert rest.tokens.get((1, index), []) == tokens[cut:]
        assert rest.finishes[1, index].reason is FinishReason.STOP


def test_one_of_several_sequences_continues_alone() -> None:
    sampling = Sampling(n=3, seed=7, ignore_eos=True)
    together = run(engine_of(), ask(max_tokens=30, sampling=sampling)).tokens
    prompt = list(range(100))
    for k in range(3):
        so_far = together[1, k][:11]
        rest = ask(prompt + so_far, 19, replace(sampling, n=1), generated=11, sequence=k)
        assert so_far + run(engine_of(), rest).tokens[1, 0] == together[1, k]


def test_a_step_says_what_it_computed() -> None:
    steps = run(engine_of(), ask(max_tokens=3)).steps
    assert [(s.work.us, s.work.prefill_tokens, s.work.sequences, s.work.context) for s in steps if s.work] == [
        (10_000, 100, 0, 0),
        (10_000, 0, 1, 101),
        (10_000, 0, 1, 102),
    ]
    assert not any(step.work for step in run(engine_of(instant=True), ask()).steps)


def test_prefill_and_decode_replicas_give_the_text_of_one() -> None:
    sampling = Sampling(n=2)
    whole = run(engine_of(rng=random.Random(5)), ask(sampling=sampling))
    prefill = run(engine_of(rng=random.Random(5)), ask(sampling=sampling, prefill_only=True))
    finish = prefill.finishes[1, 0]
    assert finish.reason is FinishReason.LENGTH
    assert finish.handoff is not None
    assert finish.handoff.first_tokens == tuple(whole.tokens[1, k][0] for k in (0, 1))
    decode = run(engine_of(rng=random.Random(99)), ask(sampling=sampling, handoff=finish.handoff))
    for k in (0, 1):
        assert prefill.tokens[1, k] + decode.tokens[1, k] == whole.tokens[1, k]
        assert decode.finishes[1, k].completion_tokens == whole.finishes[1, k].completion_tokens
        assert decode.finishes[1, k].reason is whole.finishes[1, k].reason


def test_a_prefill_that_the_first_token_ends_hands_nothing_over() -> None:
    first = run(engine_of(), ask(max_tokens=1)).tokens[1, 0][0]
    output = run(engine_of(), ask(sampling=replace(SEEDED, stop_token_ids=(first,)), prefill_only=True))
    assert output.finishes[1, 0].reason is FinishReason.STOP
    assert output.finishes[1, 0].handoff is None


def test_the_kv_transfer_takes_its_time() -> None:
    handoff = run(engine_of(), ask(prefill_only=True)).finishes[1, 0].handoff
    output = run(engine_of(pace_seconds=None), ask(handoff=handoff, max_tokens=3))
    assert output.finishes[1, 0].timing.prefill_us == round(100 * 65536 / 64e9 * 1e6)


def test_logprobs_are_plausible_and_reproducible() -> None:
    requests = [ask(sampling=replace(SEEDED, logprobs=k)) for k in (0, 3, 20)]
    output = run(engine_of(), *requests, ask(sampling=replace(SEEDED, logprobs=20), delta_interval=7))
    assert all(p.top == () for p in output.logprobs[1, 0])
    assert output.logprobs[3, 0] == output.logprobs[4, 0]
    for width, handle in ((3, 2), (20, 3)):
        assert len(output.logprobs[handle, 0]) == len(output.tokens[handle, 0])
        for token, p in zip(output.tokens[handle, 0], output.logprobs[handle, 0], strict=True):
            assert p.top[0] == (token, p.chosen)
            values = [value for _, value in p.top]
            assert len({other for other, _ in p.top}) == width
            assert values == sorted(values, reverse=True)
            assert sum(map(exp, values)) <= 1


@pytest.mark.parametrize(
    ("request_", "code", "param"),
    [
        (ask(list(range(64))), "context_length_exceeded", None),
        (ask(max_tokens=0), "unsupported_parameter", "max_tokens"),
        (ask([1], sampling=Sampling(logprobs=21)), "unsupported_parameter", "top_logprobs"),
        (ask([1], sampling=Sampling(n=0)), "unsupported_parameter", "n"),
        (ask([1], sampling=Sampling(n=3000)), "unsupported_parameter", "n"),
        (ask([1], generated=1), "unsupported_parameter", "generated"),
        (replace(ask(), prompt_ids=[]), "unsupported_parameter", "prompt"),
        (ask([1], handoff=Handoff(b"not ours", (5,))), "unsupported_parameter", "handoff"),
        (ask([1], handoff=Handoff(b"x" * 12, (5,))), "unsupported_parameter", "handoff"),
    ],
)
def test_refusals_are_finishes(request_: Submit, code: str, param: str | None) -> None:
    options: dict[str, Any] = {"max_sequence_tokens": 64} if code.startswith("context") else {}
    output = run(engine_of(**options), request_)
    for finish in output.finishes.values():
        assert finish.reason is FinishReason.ERROR
        assert finish.failure is not None
        assert (finish.failure.code, finish.failure.param) == (code, param)


def test_a_prompt_that_can_never_fit_the_cache_is_refused_and_a_long_answer_is_cut_by_it() -> None:
    engine = engine_of(kv_blocks_total=4)
    assert engine.info.max_sequence_tokens == 128
    output = run(engine, ask(list(range(128))), ask(max_tokens=1000, sampling=replace(SEEDED, ignore_eos=True)))
    assert output.finishes[1, 0].reason is FinishReason.ERROR
    assert (output.finishes[2, 0].reason, output.finishes[2, 0].completion_tokens) == (FinishReason.LENGTH, 28)


def test_cancel_ends_every_sequence_and_is_harmless_twice() -> None:
    engine = engine_of()

    def stop() -> None:
        engine.cancel(1)
        engine.cancel(1)
        engine.cancel(77)

    request = ask(max_tokens=5000, sampling=replace(SEEDED, n=3, ignore_eos=True))
    output = run(engine, request, at={5: stop})
    assert {f.reason for f in output.finishes.values()} == {FinishReason.CANCELLED}
    finish = output.finishes[1, 0]
    assert 0 < finish.completion_tokens < 10
    assert finish.completion_tokens == len(output.tokens[1, 0])


def test_a_cancel_before_the_first_step_finishes_too() -> None:
    engine = engine_of()
    engine.submit(9, ask())
    engine.cancel(9)
    output = run(engine, ask(max_tokens=2))
    assert output.finishes[9, 0].reason is FinishReason.CANCELLED


def test_timing_adds_up_on_the_engines_clock() -> None:
    clock = FakeClock()
    output = run(engine_of(clock, pace_seconds=0.5, max_batch_size=1), ask(max_tokens=4), ask(max_tokens=4))
    first, second = output.finishes[1, 0].timing, output.finishes[2, 0].timing
    assert (first.queue_us, first.prefill_us, first.decode_us) == (0, 500_000, 1_500_000)
    assert (second.queue_us, second.prefill_us, second.decode_us) == (2_000_000, 500_000, 1_500_000)


def test_a_late_sleep_is_caught_up() -> None:
    clock = FakeClock()

    async def oversleep(seconds: float) -> None:
        await clock.sleep(seconds + 0.003)

    run(engine_of(clock, sleep=oversleep), ask(max_tokens=41))
    assert clock.now - 100.0 == pytest.approx(0.41, abs=0.004)


def test_speed_shortens_steps() -> None:
    spans = []
    for speed in (1, 10):
        clock = FakeClock()
        run(engine_of(clock, pace_seconds=None, speed=speed), ask(max_tokens=20))
        spans.append(clock.now - 100.0)
    assert spans[0] == pytest.approx(10 * spans[1])
    assert 0.02 < spans[0] < 1


async def test_an_idle_engine_says_what_it_is_once_and_sleeps_without_polling() -> None:
    clock = FakeClock()
    engine = engine_of(clock)
    output = Output()

    task = asyncio.create_task(engine.run(output.take))
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.now == 100.0
    assert len(output.steps) == 1
    assert output.events == [KvEvent(0, KvCreated((engine.info.kv_blocks_total, 0)))]


def test_cached_tokens_are_reported_and_salt_keeps_tenants_apart() -> None:
    requests = [ask(cache_salt="a"), ask(cache_salt="a"), ask(cache_salt="b"), ask(list(range(90)), cache_salt="a")]
    output = run(engine_of(max_batch_size=1), *requests)
    assert [output.finishes[h, 0].cached_tokens for h in (1, 2, 3, 4)] == [0, 96, 0, 64]


def test_the_shipped_sentences_are_readable_and_exercise_utf8() -> None:
    sentences = corpus_sentences()
    assert len(sentences) >= 60
    assert len(set(sentences)) == len(sentences)
    assert sum(not s.isascii() for s in sentences) >= 5
    assert all(s == s.strip() for s in sentences)
    with pytest.raises(ValueError, match="corpus"):
        Corpus((), eos=2)


REQUESTS = st.lists(
    st.builds(
        lambda prompt, first, n, most, interval: ask(
            [first + i for i in range(prompt)], most, replace(SEEDED, n=n), delta_interval=interval
        ),
        st.integers(1, 200),
        st.sampled_from([0, 0, 300]),
        st.integers(1, 3),
        st.integers(1, 60),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(
    REQUESTS,
    st.sampled_from(CapacityPolicy),
    st.integers(9, 40),
    st.integers(8, 300),
)
def test_tokens_depend_on_nothing_but_the_request(
    requests: list[Submit], policy: CapacityPolicy, blocks: int, budget: int
) -> None:
    plain = run(engine_of(), *(replace(r, delta_interval=1) for r in requests))
    tight = run(engine_of(policy=policy, kv_blocks_total=blocks, max_num_tokens=budget, max_batch_size=4), *requests)
    assert tight.tokens == plain.tokens
    for key, finish in plain.finishes.items():
        assert tight.finishes[key].reason is finish.reason
        assert tight.finishes[key].completion_tokens == finish.completion_tokens
