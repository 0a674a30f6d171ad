"""The external scaler beside a real controller and its store."""

from pathlib import Path

import grpc.aio
import msgspec
import pytest

from gateway.config.network.rpc import ExternalScaler
from gateway.rpc.rpc_server import AddressInUse
from gateway.scaling.external.serve_external_scaler import external_scaler
from protos import external_scaler_pb2 as pb
from tests.gateway.scaling.scaled import scaled_world, want
from tests.ports import free_port


async def test_it_tells_what_the_controller_has_decided(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        controller = world.controller()
        want(controller, 4)
        await world.round(controller)
        listen = ExternalScaler(port=free_port())
        config = msgspec.structs.replace(world.config, external_scaler=listen)
        async with (
            external_scaler(config, world.store),
            grpc.aio.insecure_channel(f"127.0.0.1:{listen.port}") as channel,
        ):
            call = channel.unary_unary(
                "/externalscaler.ExternalScaler/GetMetrics",
                request_serializer=pb.GetMetricsRequest.SerializeToString,
                response_deserializer=pb.GetMetricsResponse.FromString,
            )
            answer = await call(pb.GetMetricsRequest(metric_name="penstock-wanted-replicas"), timeout=5)
            assert [value.metric_value_float for value in answer.metric_values] == [4.0]
            with pytest.raises(AddressInUse, match=str(listen.port)):
                async with external_scaler(config, world.store):
                    pass
        await controller.aclose()


async def test_nothing_listens_where_it_is_not_configured(store_url: str, tmp_path: Path) -> None:
    async with scaled_world(store_url) as world, external_scaler(world.config, world.store):
        pass
