"""The external scaler, by the definition that KEDA publishes: its messages, and a client that is generated from it."""

from typing import Any

import grpc.aio

from gateway.rpc.rpc_server import RpcServer
from gateway.scaling.external.external_scaler import METRIC, ExternalScaler
from protos import external_scaler_pb2
from tests.gateway.scaling.external.test_external_scaler import POOLS, Store, status
from tests.published_scaler import published


def fields(message: Any) -> dict[str, tuple[int, int, bool, str]]:
    """Name -> number, type, whether it is repeated, and the message that it is of."""
    return {
        one.camelcase_name: (one.number, one.type, one.is_repeated, (one.message_type and one.message_type.name) or "")
        for one in message.fields
    }


def test_the_messages_are_kedas() -> None:
    theirs, ours = (module.DESCRIPTOR.message_types_by_name for module in (published().messages, external_scaler_pb2))
    assert {name: fields(message) for name, message in theirs.items()} == {
        name: fields(message) for name, message in ours.items()
    }
    methods = [
        {
            (one.name, one.input_type.name, one.output_type.name, one.server_streaming)
            for one in module.DESCRIPTOR.services_by_name["ExternalScaler"].methods
        }
        for module in (published().messages, external_scaler_pb2)
    ]
    assert methods[0] == methods[1]


async def test_kedas_client_is_answered() -> None:
    pb, stubs = published()
    store = Store()
    store.status = status(p=3, a=0, b=7)
    server = RpcServer([ExternalScaler(store.read, POOLS, lambda: store.now).service])
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = stubs.ExternalScalerStub(channel)
            metadata = {"scalerAddress": "penstock:9004", "model": "n", "pool": "b"}
            asked = pb.ScaledObjectRef(name="object", namespace="space", scalerMetadata=metadata)
            assert (await stub.IsActive(asked, timeout=5)).result
            assert (await stub.StreamIsActive(asked, timeout=5).read()).result
            (spec,) = (await stub.GetMetricSpec(asked, timeout=5)).metricSpecs
            assert (spec.metricName, spec.targetSizeFloat) == (METRIC, 1.0)
            # What is streamed first is what is asked for, as the definition demands.
            assert list((await stub.StreamMetricSpec(asked, timeout=5).read()).metricSpecs) == [spec]
            request = pb.GetMetricsRequest(scaledObjectRef=asked, metricName=spec.metricName)
            (value,) = (await stub.GetMetrics(request, timeout=5)).metricValues
            assert (value.metricName, value.metricValue, value.metricValueFloat) == (METRIC, 7, 7.0)
    finally:
        await server.aclose(0.0)
