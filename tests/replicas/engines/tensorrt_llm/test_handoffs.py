"""Prefill here, decode there: opaque bytes in between, and aborts that wait for the KV cache."""

from typing import Any

import pytest

from protos.types import Finish, FinishReason, Handoff, Role, Submit
from replicas.engines.tensorrt_llm.handoff import ForeignHandoff, pack, unpack
from tests.fake_tensorrt_llm.parameters import DisaggregatedParams
from tests.harness import submit_of
from tests.loops import until
from tests.trt_engines import END, started, trt_engine


async def ends_of(role: Role, request: Submit, **attributes: Any) -> tuple[dict[tuple[int, int], Finish], Any]:
    """How one request ends on an engine of its own, and what was said."""
    engine = trt_engine(role=role)
    async with started(engine) as (llm, heard, _):
        for name, value in attributes.items():
            setattr(llm, name, value)
        engine.submit(1, request)
        await until(lambda: len(heard.finishes) == request.sampling.n)
        return heard.finishes, (heard, llm)


@pytest.mark.parametrize("sequences", [1, 3])
@pytest.mark.parametrize("not_finished", [False, True])
async def test_a_handoff_goes_on_where_the_prefill_ended(sequences: int, not_finished: bool) -> None:
    request = submit_of(12, n=sequences, prompt=range(40))
    whole, (at_once, _) = await ends_of(Role.BOTH, request)
    prefill = submit_of(12, n=sequences, prompt=range(40), prefill_only=True)
    first, (said, llm) = await ends_of(Role.PREFILL, prefill, says_not_finished=not_finished)
    assert all(not call["streaming"] for call in llm.calls[1:])
    handoffs = {finish.handoff for finish in first.values()}
    assert len(handoffs) == 1  # of all sequences together
    handoff = handoffs.pop()
    assert handoff is not None
    assert handoff.first_tokens == tuple(said.tokens[1, k][0] for k in range(sequences))
    decode = submit_of(12, n=sequences, prompt=range(40), handoff=handoff)
    rest, (heard, _) = await ends_of(Role.DECODE, decode)
    for k in range(sequences):
        assert first[1, k].reason is FinishReason.LENGTH
        assert first[1, k].completion_tokens == 1
        # The library repeats the prefill's token, which is not said again but counts.
        assert said.tokens[1, k] + heard.tokens[1, k] == at_once.tokens[1, k]
        assert rest[1, k].completion_tokens == whole[1, k].completion_tokens == 12


async def test_a_prefill_whose_first_token_ends_the_answer_is_done() -> None:
    request = submit_of(12, prefill_only=True, ignore_eos=False)
    finishes, (heard, _) = await ends_of(Role.PREFILL, request, script={0: END})
    assert finishes[1, 0].reason is FinishReason.STOP
    assert finishes[1, 0].handoff is None
    assert not heard.tokens


async def test_logprobs_of_a_handoff_are_of_the_right_tokens() -> None:
    prefill, (said, _) = await ends_of(Role.PREFILL, submit_of(5, logprobs=2, prefill_only=True))
    assert len(said.logprobs[1, 0]) == 1
    _, (heard, _) = await ends_of(Role.DECODE, submit_of(5, logprobs=2, handoff=prefill[1, 0].handoff))
    assert len(heard.logprobs[1, 0]) == 4
    assert {each.chosen for each in heard.logprobs[1, 0]} == {-50.0}


@pytest.mark.parametrize(
    "opaque",
    [b"", b"sim1\x00\x00", b"trtllm-2:abc", b"trtllm-1:", b"trtllm-1:\xff\xff", pack([]).opaque_state],
)
async def test_foreign_bytes_are_refused(opaque: bytes) -> None:
    with pytest.raises(ForeignHandoff):
        unpack(Handoff(opaque, (5,)), 1)

    finishes, _ = await ends_of(Role.DECODE, submit_of(5, handoff=Handoff(opaque, (5,))))
    failure = finishes[1, 0].failure
    assert failure is not None
    assert failure.code == "unsupported_parameter"


def test_a_handoff_of_other_sequences_is_refused() -> None:
    handoff = pack([DisaggregatedParams(request_type="context_only", first_gen_tokens=[4], ctx_request_id=9)])
    assert unpack(handoff, 1) == [{"request_type": "generation_only", "first_gen_tokens": [4], "ctx_request_id": 9}]
    with pytest.raises(ForeignHandoff):
        unpack(handoff, 2)


async def test_an_abort_before_the_kv_cache_has_arrived_waits_for_it() -> None:
    prefill, _ = await ends_of(Role.PREFILL, submit_of(50, prefill_only=True))
    engine = trt_engine(role=Role.DECODE)
    async with started(engine) as (llm, heard, _):
        llm.held, llm.transfer_steps = True, 3
        engine.submit(1, submit_of(50, handoff=prefill[1, 0].handoff))
        llm.executor.step()
        engine.cancel(1)
        await until(lambda: heard.finishes)
        assert heard.finishes[1, 0].reason is FinishReason.CANCELLED
        assert not llm.executor.active[0].cancelled
        llm.held = False
        llm.executor.kick()
        await until(lambda: not llm.executor.active)
        assert not llm.executor.stranded
        assert len(llm.executor.loaded) == 0
        assert llm.executor.steps < 20  # it did not run to its end


async def test_a_cancelled_prefill_ends_every_sequence_once() -> None:
    engine = trt_engine(role=Role.PREFILL)
    async with started(engine) as (llm, heard, _):
        llm.held = True
        engine.submit(1, submit_of(50, n=3, prefill_only=True))
        engine.cancel(1)
        llm.held = False
        llm.executor.kick()
        await until(lambda: len(heard.finishes) == 3)
        assert {finish.reason for finish in heard.finishes.values()} == {FinishReason.CANCELLED}
        await until(lambda: not llm.executor.active)


async def test_a_cancel_reaches_the_library() -> None:
    engine = trt_engine()
    async with started(engine) as (llm, heard, _):
        llm.held = True
        engine.submit(1, submit_of(900, n=2))
        llm.executor.step()
        await until(lambda: len(heard.tokens) == 2)
        engine.cancel(1)
        llm.executor.step()
        await until(lambda: not llm.executor.active and len(heard.finishes) == 2)
        assert max(len(tokens) for tokens in heard.tokens.values()) < 900
