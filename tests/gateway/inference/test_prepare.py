"""What a request gets before it may run, and that it holds nothing when that comes to nothing."""

from typing import Any

import pytest

from gateway.config.tenants import DEFAULT_TIERS, Tenant
from gateway.config.tenants import Limits as Bounds
from gateway.inference.generate_request import scratch_record
from gateway.inference.prepare import prepare
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.tenants.caller import Caller
from protos.errors import (
    ContextLengthExceeded,
    RateLimited,
    TokenLimitExceeded,
    UnsupportedParameter,
)
from protos.features import Feature
from protos.types import Sampling
from routing.fleet.fleet import Fleet
from tests.gateway.inference.counted import MODEL, Bench, Limits
from tests.models import request_of

FOREIGN = UnsupportedParameter("no", param="tools")


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no replica here, which is no reason to refuse what a request needs of one."""
    monkeypatch.setattr(Fleet, "lacks", lambda *_: [])


def bench_with(**parts: Any) -> Bench:
    return Bench(**parts)


async def test_one_reservation_for_all_sequences() -> None:
    bench, stages = bench_with(), scratch_record()
    request = request_of(bench.model, [5] * 40, 7, sampling=Sampling(n=3))
    prepared = await prepare(request, bench.context, stages)
    (ask,) = bench.limits.asked
    assert (ask.plan, ask.input, ask.most, ask.sequences) == (bench.model.plans.of(request.caller), 40, 21, 3)
    assert (prepared.prompt.tokens, prepared.bounds, prepared.reserved_tokens) == (40, [7], 61)
    route = prepared.route
    assert (route.prompt_tokens, route.max_tokens, route.n, route.deadline) == (40, 7, 3, float("inf"))
    assert 0.0 < stages.encoded <= stages.reserved
    assert bench.limits.endings == [[]], "its owner ends it"


async def test_several_prompts_have_one_reservation() -> None:
    bench, stages = bench_with(), scratch_record()
    prompts = ([1] * 10, [2] * 30, [3] * 5)
    request = request_of(bench.model, "", None, prompts=prompts, sampling=Sampling(n=2))
    prepared = await prepare(request, bench.context, stages)
    (ask,) = bench.limits.asked
    assert prepared.bounds == [990, 970, 995]
    assert (ask.input, ask.most, ask.sequences) == (45, 2 * (990 + 970 + 995), 6)
    assert [prompt.ids for prompt in prepared.prompts] == list(prompts)
    assert (prepared.request.sampling.n, prepared.route.n, prepared.route.max_tokens) == (6, 6, 995)


async def test_forwarded_bodies_have_one_reservation_and_no_output() -> None:
    bench = bench_with()
    request = request_of(bench.model, "", 0, parts=(100, 11), foreign=FOREIGN)
    prepared = await prepare(request, bench.context, scratch_record())
    (ask,) = bench.limits.asked
    assert (ask.input, ask.most, ask.sequences) == (111, 0, 1)
    assert (prepared.prompt.tokens, prepared.bounds, prepared.reserved_tokens) == (111, [0, 0], 111)


async def test_limits_that_refuse_are_in_the_record() -> None:
    for request, tokens in (
        (request_of(MODEL, [5] * 40, 7), 40),
        (request_of(MODEL, "", 7, prompts=([1] * 10, [2] * 30)), 40),
    ):
        bench, stages = bench_with(limits=Limits(RateLimited("slowly", retry_after=1.0))), scratch_record()
        with pytest.raises(RateLimited):
            await prepare(request, bench.context, stages)
        assert request.record.rejected_tokens == tokens
        assert (bool(stages.encoded), stages.reserved) == (True, 0.0)
        request.record.rejected_tokens = 0


async def test_what_is_too_long_reserves_nothing() -> None:
    tenant = Tenant(name="acme", limits=Bounds(max_input_tokens=50))
    bounded = Caller(ApiKey(key_id="k", name="k", created_at=0.0), tenant, DEFAULT_TIERS[0], 0)
    for request, error, param in (
        (request_of(MODEL, [5] * 1000, 7), ContextLengthExceeded, "prompt"),
        (request_of(MODEL, "", 7, prompts=([1], [5] * 1000)), ContextLengthExceeded, "prompt"),
        (request_of(MODEL, "", 7, prompts=([1] * 30, [2] * 30), caller=bounded), TokenLimitExceeded, "prompt"),
        (request_of(MODEL, "", 0, parts=(40, 40), foreign=None, prompt_param="input", caller=bounded),
         TokenLimitExceeded, "input"),
    ):  # fmt: skip
        bench = bench_with()
        with pytest.raises(error) as caught:
            await prepare(request, bench.context, scratch_record())
        assert caught.value.param == param
        assert bench.limits.asked == []
        assert request.record.rejected_tokens == 0


async def test_a_route_that_cannot_be_described_gives_the_lease_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a defect of the index")

    bench = bench_with()
    monkeypatch.setattr(bench.model.lengths, "expected", broken)
    with pytest.raises(RuntimeError):
        await prepare(request_of(bench.model, [5], 7), bench.context, scratch_record())
    assert bench.limits.endings == [[False]]


async def test_what_no_engine_has_reserves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fleet, "lacks", lambda *_: [Feature.SEVERAL])
    bench = bench_with()
    with pytest.raises(UnsupportedParameter) as caught:
        await prepare(request_of(bench.model, [5], 7, sampling=Sampling(n=2)), bench.context, scratch_record())
    assert (caught.value.param, bench.limits.asked) == ("n", [])
