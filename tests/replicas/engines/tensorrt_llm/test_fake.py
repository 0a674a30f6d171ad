"""The fake does what the real library does where that surprises: else the other tests would prove nothing."""

import asyncio
from typing import Any

import pytest

from tests.fake_tensorrt_llm.configuration import CacheTransceiverConfig, KvCacheConfig
from tests.fake_tensorrt_llm.llm import LLM
from tests.fake_tensorrt_llm.parameters import DisaggregatedParams, LoRARequest, SamplingParams
from tests.fake_tensorrt_llm.results import RequestError, RequestOutput


def sampling(**given: Any) -> SamplingParams:
    return SamplingParams(**({"end_id": 2, "max_tokens": 4, "temperature": 1.0, "seed": 1} | given))


async def seen(result: RequestOutput) -> list[tuple[int, list[list[int]]]]:
    """The identity of what was yielded, and copies of its outputs' tokens at that time."""
    return [(id(each), [list(output.token_ids) for output in each.outputs]) async for each in result]


async def test_one_object_is_yielded_again_and_its_tokens_grow() -> None:
    looks = await seen(LLM("m").generate_async([5, 6], sampling_params=sampling(), streaming=True))
    assert len({identity for identity, _ in looks}) == 1
    assert [len(tokens[0]) for _, tokens in looks] == [1, 2, 3, 4]


async def test_of_several_answers_the_difference_lags_and_only_the_last_says_why_it_ended() -> None:
    result = LLM("m").generate_async([5, 6], sampling_params=sampling(n=2), streaming=True)
    lags = False
    async for each in result:
        fresh = [len(output.token_ids_diff) for output in each.outputs]
        lags |= fresh == [1, 1]  # although each update is of one of them
    assert lags
    assert [output.finish_reason for output in result.outputs] == [None, "length"]


async def test_the_best_of_several_are_sorted_anew() -> None:
    result = LLM("m").generate_async([5, 6], sampling_params=sampling(n=1, best_of=2), streaming=True)
    result._outputs[0].cumulative_logprob, result._outputs[1].cumulative_logprob = -9.0, -1.0
    second = result._outputs[1]
    assert result.outputs == [second]
    assert second.index == 0
    await seen(result)


async def test_a_stop_token_is_there_and_then_taken_off() -> None:
    llm = LLM("m")
    llm.script = {2: 99}
    result = llm.generate_async([5, 6], sampling_params=sampling(stop_token_ids=[99]), streaming=True)
    await seen(result)
    assert len(result.outputs[0].token_ids) == 2
    assert (result.outputs[0].finish_reason, result.outputs[0].stop_reason) == ("stop", 99)


async def test_parameters_that_are_refused() -> None:
    with pytest.raises(ValueError, match="Greedy"):
        SamplingParams(n=2)
    with pytest.raises(TypeError):
        SamplingParams(prioritie=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="does not exist"):
        LoRARequest("a", 1, "/nowhere")

    llm = LLM("m", skip_tokenizer_init=True, max_num_tokens=4, max_batch_size=2)
    with pytest.raises(ValueError, match="tokenizer is required"):
        llm.generate_async([5], sampling_params=SamplingParams(max_tokens=1))
    with pytest.raises(ValueError, match="max_num_tokens"):
        llm.generate_async([5] * 5, sampling_params=sampling())
    with pytest.raises(TypeError):
        llm.generate_async([5], sampling())  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="invalid argument"):
        LLM("m", tp=2)
    llm.shutdown()
    with pytest.raises(RuntimeError, match="shutting down"):
        llm.generate_async([5], sampling_params=sampling())


async def test_statistics_and_events_before_and_after_the_first_request() -> None:
    llm = LLM("m", enable_iter_perf_stats=True, kv_cache_config=KvCacheConfig(event_buffer_max_size=10))
    assert [each async for each in llm.get_stats_async(0.01)] == []
    with pytest.raises(AssertionError):
        llm.get_kv_cache_events_async(0.01)
    await seen(llm.generate_async([5, 6], sampling_params=sampling(), streaming=True))
    first = [each async for each in llm.get_stats_async(0.01)]
    assert len(first) == 4
    assert [each async for each in llm.get_stats_async(0.01)] == []  # reading drains
    llm.executor.stats.queue.put('{"iter": 99}')  # type: ignore[union-attr]
    assert [each async for each in llm.get_stats_async(0.01)] == []  # ended, until the next submit
    await seen(llm.generate_async([5, 6], sampling_params=sampling(), streaming=True))
    assert len([each async for each in llm.get_stats_async(0.01)]) == 5
    llm.executor.stats.mark_undone()  # type: ignore[union-attr]
    with pytest.raises(asyncio.QueueEmpty):
        [each async for each in llm.get_stats_async(0)]


async def test_hand_over_needs_a_transceiver_and_a_scheduler_that_does_not_overlap() -> None:
    context = DisaggregatedParams(request_type="context_only")
    with pytest.raises(AssertionError, match="kv_cache_transceiver"):
        LLM("m").generate_async([5], sampling_params=sampling(), disaggregated_params=context)
    transceiver = CacheTransceiverConfig(backend="UCX")
    with pytest.raises(RequestError, match="overlap"):
        LLM("m", cache_transceiver_config=transceiver).generate_async(
            [5], sampling_params=sampling(), disaggregated_params=context
        )
    llm = LLM("m", cache_transceiver_config=transceiver, disable_overlap_scheduler=True)
    given = sampling(max_tokens=50)
    result = llm.generate_async([5], sampling_params=given, disaggregated_params=context)
    await seen(result)
    assert given.max_tokens == 1  # changed under the caller's hands
    state = result.outputs[0].disaggregated_params
    assert state is not None
    assert state.first_gen_tokens == result.outputs[0].token_ids
    llm.transfer_steps = 9
    state.request_type = "generation_only"
    decode = llm.generate_async([5], sampling_params=sampling(), disaggregated_params=state, streaming=True)
    llm.executor.step()
    decode.abort()
    assert llm.executor.stranded == [decode.request_id]
    await seen(decode)


async def test_a_dead_executor_is_told_to_one_and_the_others_wait() -> None:
    llm = LLM("m")
    llm.held = True
    results = [llm.generate_async([5], sampling_params=sampling(), streaming=True) for _ in range(2)]
    tasks = [asyncio.ensure_future(seen(result)) for result in results]
    llm.executor.step()
    llm.die()
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    assert len(done) == 1
    assert llm.executor.is_shutdown()
    await asyncio.sleep(0.02)
    assert not next(iter(waiting)).done()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_outside_of_an_event_loop_nothing_can_be_awaited() -> None:
    result = await asyncio.to_thread(RequestOutput, 1, [5], sampling(), lambda error=None: None)

    with pytest.raises(AssertionError, match="event loop"):
        await result.__anext__()
