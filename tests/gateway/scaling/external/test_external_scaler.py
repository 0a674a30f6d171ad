"""KEDA's external scaler, asked over a real channel as KEDA asks."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from gateway.rpc.rpc_server import RpcServer
from gateway.scaling.external import external_scaler
from gateway.scaling.external.external_scaler import METRIC, ExternalScaler
from gateway.scaling.status import (
    FRESH_SECONDS,
    ControllerStatus,
    DecisionRecord,
    Mode,
    ModelStatus,
    PoolDecided,
    PoolStatus,
    ScalingStatus,
)
from protos import external_scaler_pb2 as pb
from protos.errors import StoreUnavailable
from tests.loops import until

POOLS = {"m": ["p"], "n": ["a", "b"]}


def status(at: float = 100.0, mode: Mode = "advise", **wanted: int) -> ScalingStatus:
    """A status with decisions about these pools; without any it has none yet."""
    models = []
    for model, pools in POOLS.items():
        decided = {pool: PoolDecided(wanted=wanted[pool]) for pool in pools if pool in wanted}
        records = (
            [DecisionRecord(at=at, model=model, mode=mode, pools=decided, inputs={}, reasons=["r"])] if decided else []
        )
        shown = [
            PoolStatus(name=pool, launcher="local", shape="tp1", min=0, max=9, wanted=0, needed=0, ready=0)
            for pool in pools
        ]
        models.append(ModelStatus(model=model, mode=mode, pools=shown, decisions=records))
    return ScalingStatus(at=at, controller=ControllerStatus(name="c", since=0.0, token=1), models=models)


class Store:
    """What the scaler reads; `now` is the store's time, and the scaler's own clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.status: ScalingStatus | None = None
        self.away = False
        self.reads = 0

    async def read(self) -> tuple[float, ScalingStatus | None]:
        self.reads += 1
        if self.away:
            raise StoreUnavailable("The store does not answer.")
        return self.now, self.status


class Keda:
    """A client as KEDA is one."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def _method(self, kind: Any, name: str, request: Any, answer: Any) -> Any:
        return kind(
            f"/externalscaler.ExternalScaler/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )

    async def active(self, **metadata: str) -> bool:
        method = self._method(self._channel.unary_unary, "IsActive", pb.ScaledObjectRef, pb.IsActiveResponse)
        return bool((await method(reference(metadata), timeout=5)).result)

    def activity(self, **metadata: str) -> Any:
        method = self._method(self._channel.unary_stream, "StreamIsActive", pb.ScaledObjectRef, pb.IsActiveResponse)
        return method(reference(metadata))

    async def spec(self, **metadata: str) -> Any:
        method = self._method(self._channel.unary_unary, "GetMetricSpec", pb.ScaledObjectRef, pb.GetMetricSpecResponse)
        (spec,) = (await method(reference(metadata), timeout=5)).metric_specs
        return spec

    def specs(self, **metadata: str) -> Any:
        method = self._method(
            self._channel.unary_stream, "StreamMetricSpec", pb.ScaledObjectRef, pb.GetMetricSpecResponse
        )
        return method(reference(metadata))

    async def value(self, metric: str = METRIC, **metadata: str) -> Any:
        method = self._method(self._channel.unary_unary, "GetMetrics", pb.GetMetricsRequest, pb.GetMetricsResponse)
        request = pb.GetMetricsRequest(scaled_object_ref=reference(metadata), metric_name=metric)
        (value,) = (await method(request, timeout=5)).metric_values
        return value


def reference(metadata: Mapping[str, str]) -> pb.ScaledObjectRef:
    both = {"scalerAddress": "penstock:9004", **metadata}
    return pb.ScaledObjectRef(name="object", namespace="space", scaler_metadata=both)


@asynccontextmanager
async def keda(store: Store, pools: Mapping[str, Sequence[str]] = POOLS) -> AsyncIterator[Keda]:
    server = RpcServer([ExternalScaler(store.read, pools, lambda: store.now).service])
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Keda(channel)
    finally:
        await server.aclose(0.0)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


@pytest.mark.parametrize("mode", ["act", "advise"])
async def test_it_tells_what_is_wanted_of_a_pool(mode: Mode) -> None:
    store = Store()
    store.status = status(mode=mode, p=3, a=0, b=7)
    async with keda(store) as client:
        spec = await client.spec(model="n", pool="b")
        assert (spec.metric_name, spec.target_size, spec.target_size_float) == (METRIC, 1, 1.0)
        value = await client.value(model="n", pool="b")
        assert (value.metric_name, value.metric_value, value.metric_value_float) == (METRIC, 7, 7.0)
        assert await client.active(model="n", pool="b")
        assert not await client.active(model="n", pool="a")
        assert (await client.value(model="n", pool="a")).metric_value == 0
        # An only pool need not be named.
        assert (await client.value(model="m")).metric_value == 3


async def test_an_only_model_need_not_be_named() -> None:
    store = Store()
    store.status = status(p=3)
    async with keda(store, {"m": ["p"]}) as client:
        assert (await client.value()).metric_value == 3


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({}, "metadata.model is missing; there are m, n"),
        ({"model": "?", "pool": "p"}, "metadata.model: there is no model with a pool that scales by the name '?'"),
        ({"model": "n"}, "metadata.pool is missing; there are a, b"),
        ({"model": "m", "pool": "a"}, "metadata.pool: there is no pool of the model m that scales by the name 'a'"),
    ],
)
async def test_metadata_that_name_no_pool_are_refused_by_key(metadata: dict[str, str], said: str) -> None:
    store = Store()
    store.status = status(p=3, a=1, b=1)
    async with keda(store) as client:
        for call in (client.active(**metadata), client.spec(**metadata), client.value(**metadata)):
            code, details = await refusal(call)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert said in details
            assert details.startswith("space/object: ")
        for stream in (client.activity(**metadata), client.specs(**metadata)):
            assert await refusal(stream.read()) == (code, details)


async def test_another_metric_is_refused() -> None:
    store = Store()
    store.status = status(p=3)
    async with keda(store) as client:
        code, details = await refusal(client.value("s0-other", model="m"))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert details.startswith("metricName: ")


async def test_it_is_never_zero_because_nobody_knows() -> None:
    """An error makes KEDA and the HPA leave the number as it is."""
    store = Store()
    async with keda(store) as client:

        async def unknown(what: str) -> None:
            for call in (client.active(model="m"), client.value(model="m")):
                code, details = await refusal(call)
                assert code is grpc.StatusCode.UNAVAILABLE
                assert what in details
            store.now += 1

        await unknown("no controller has told anything")
        store.status = status(at=store.now)
        await unknown("has decided nothing yet about the pool p")
        store.status = status(at=store.now - FRESH_SECONDS - 1, p=3)
        await unknown("no controller has told anything lately")
        store.away = True
        await unknown("the store does not answer")
        store.away, store.status = False, status(at=store.now, p=3)
        assert (await client.value(model="m")).metric_value == 3


async def test_all_who_ask_at_once_share_a_look() -> None:
    store = Store()
    store.status = status(p=3)
    async with keda(store) as client:
        await asyncio.gather(*(client.value(model="m") for _ in range(20)))
        assert store.reads == 1


async def test_those_who_ask_while_the_store_is_away_share_a_look() -> None:
    store = Store()
    store.away = True
    async with keda(store) as client:
        told = await asyncio.gather(*(client.value(model="m") for _ in range(20)), return_exceptions=True)
        assert {str(one.details()) for one in told if isinstance(one, grpc.aio.AioRpcError)} == {
            "the store does not answer: The store does not answer."
        }
        assert (len(told), store.reads) == (20, 1)
        store.away, store.status = False, status(p=3)
        store.now += 1.0
        assert (await client.value(model="m")).metric_value == 3


async def test_changes_of_activity_are_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_scaler, "LOOK_SECONDS", 0.01)
    store = Store()
    store.status = status(p=3)
    async with keda(store) as client:
        stream = client.activity(model="m")

        async def told() -> bool:
            return bool((await stream.read()).result)

        assert await told()
        store.now += 1
        store.status = None  # nobody knows: what was told holds
        for _ in range(3):
            before = store.reads
            store.now += 1
            await until(lambda before=before: store.reads > before)  # type: ignore[misc]
        store.now += 1
        store.status = status(at=store.now, p=0)
        assert not await told()
        store.now += 1
        store.status = status(at=store.now, p=1)
        assert await told()
        stream.cancel()


async def test_the_metrics_are_pushed_at_once() -> None:
    async with keda(Store()) as client:
        stream = client.specs(model="m")
        (spec,) = (await stream.read()).metric_specs
        assert spec == await client.spec(model="m")
        stream.cancel()
