"""The picker's process: health, leaders and followers, metrics, TLS, and what keeps it from starting."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.endpoint_picker.picker_checks import picker_problems
from gateway.endpoint_picker.picker_process import PickerProcess
from gateway.rpc.rpc_server import AddressInUse
from tests.certificates import Authority
from tests.gateway.endpoint_picker.pickers import picker, picker_config, vllm
from tests.loops import until
from tests.proxies import DUPLEX, Proxy, headers, proxy_to
from tests.upstreams import upstream

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
BODY = b'{"model": "m", "prompt": "hello"}'


async def health(port: int, name: str) -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
        return int(answer.status)


@pytest.mark.parametrize("name", ["", "liveness", "readiness", SERVICE])
async def test_its_health_is_told_beside_the_service_and_on_a_port_for_probes(state_dir: Path, name: str) -> None:
    async with picker(state_dir, 1) as running:
        epp = running.config.epp
        assert await health(epp.port, name) == SERVING
        assert await health(epp.health_port, name) == SERVING


@asynccontextmanager
async def follower(folder: Path, store_url: str, url: str) -> AsyncIterator[PickerProcess]:
    config = picker_config(folder, [url], epp={"leader_election": True}, store={"url": store_url})
    process = PickerProcess(config)
    try:
        await process.start()
        yield process
    finally:
        await process.aclose(0.0)


async def test_one_of_two_leads_and_the_other_takes_over(state_dir: Path, store_url: str) -> None:
    async with picker(state_dir, 1, epp={"leader_election": True}, store={"url": store_url}) as running:
        await until(lambda: running.process.metrics.leads)
        (upstream,) = running.upstreams.values()
        async with follower(state_dir / "other", store_url, upstream.url) as other:
            port = other._config.epp.health_port
            assert await health(port, SERVICE) == NOT_SERVING
            assert await health(port, "liveness") == SERVING
            assert await health(running.config.epp.health_port, SERVICE) == SERVING
            await running.process.aclose(0.0)
            await until(lambda: other.metrics.leads)
            assert await health(port, SERVICE) == SERVING


async def test_its_metrics_say_what_became_of_requests(state_dir: Path) -> None:
    async with picker(state_dir) as running:
        stream = running.proxy.stream()
        await stream.request(BODY)
        await stream.picked()
        await stream.passed_on()
        await stream.end()
        reader, writer = await asyncio.open_connection("127.0.0.1", running.config.epp.metrics_port)
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        page = (await reader.readexactly(length)).decode()
        writer.close()
        await writer.wait_closed()
        assert 'penstock_epp_requests_total{outcome="picked"} 1.0' in page
        assert "penstock_epp_pick_seconds_count 1" in page
        assert 'penstock_epp_ready_endpoints{model="m"} 2.0' in page
        assert "penstock_epp_leader 1.0" in page


async def test_one_that_stands_down_still_takes_what_comes(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        await running.process.stand_down()
        assert await health(running.config.epp.health_port, "readiness") == NOT_SERVING
        stream = running.proxy.stream()
        await stream.request(BODY)
        await stream.picked()
        await stream.passed_on()
        await stream.end()
        running.nothing_is_left()


async def test_streams_get_time_to_end_when_it_stops(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        stream = running.proxy.stream()
        await stream.request(BODY)
        await stream.picked()
        await stream.passed_on()
        stopping = asyncio.create_task(running.process.aclose(30.0))
        await until(lambda: not running.process.metrics.leads)
        await stream.respond(b"data: {}\n\n", b"data: [DONE]\n\n")
        await stream.end()
        await stopping
        running.nothing_is_left()


async def test_streams_that_take_too_long_are_ended_and_leave_nothing(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        stream = running.proxy.stream()
        await stream.request(BODY)
        await stream.picked()
        await stream.passed_on()
        await running.process.aclose(0.0)
        code, _ = await stream.failed()
        assert code is not grpc.StatusCode.OK
        running.nothing_is_left()


async def test_proxies_are_served_with_tls_and_may_have_to_show_a_certificate(state_dir: Path) -> None:
    authority = Authority(state_dir)
    server, client = authority.signed(), authority.signed("client", hosts=("proxy",))
    tls = {"certificate": str(server.certificate), "key": str(server.key), "client_ca": str(authority.ca)}
    async with picker(state_dir, 1, epp={"tls": tls}) as running:
        epp = running.config.epp
        trusted = authority.ca.read_bytes()
        known = grpc.ssl_channel_credentials(trusted, client.key.read_bytes(), client.certificate.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{epp.port}", known) as channel:
            stream = Proxy(channel).stream()
            await stream.request(BODY)
            assert await stream.picked() == [*running.upstreams]
            await stream.passed_on()
            await stream.end()
        unknown = grpc.ssl_channel_credentials(trusted)
        async with grpc.aio.secure_channel(f"127.0.0.1:{epp.port}", unknown) as channel:
            stream = Proxy(channel).stream()
            with contextlib.suppress(grpc.aio.AioRpcError):
                await stream.send(request_headers=headers({}), protocol_config=DUPLEX)
            assert (await stream.failed())[0] is grpc.StatusCode.UNAVAILABLE
        # Probes have no certificates.
        assert await health(epp.health_port, "readiness") == SERVING


async def test_a_port_that_is_taken_is_named(state_dir: Path) -> None:
    async with picker(state_dir, 1) as running:
        port = running.config.epp.port
        config = picker_config(state_dir / "other", ["http://127.0.0.1:9/v1"], epp={"port": port})
        process = PickerProcess(config)
        with pytest.raises(AddressInUse, match=f"127.0.0.1:{port}"):
            await process.start()
        await process.aclose(0.0)


@pytest.mark.parametrize(
    ("pool", "where", "problem"),
    [
        ({"replicas": ["http://example.com/v1"]}, "replicas[0]", "needs an IP address"),
        ({"engine": "trtllm_grpc", "replicas": ["grpc://127.0.0.1:1"]}, "engine", "needs openai"),
    ],
)
def test_what_no_proxy_could_be_sent_to_is_refused(
    state_dir: Path, pool: dict[str, object], where: str, problem: str
) -> None:
    config = picker_config(state_dir, ["http://127.0.0.1:1/v1"], pool=pool, model={"tokenizer": "mistral-tekken"})
    ((path, said),) = picker_problems(config)
    assert path == f"models[0].pools[0].{where}"
    assert problem in said


def test_the_command_says_what_is_wrong_in_one_line(state_dir: Path) -> None:
    pool = {"name": "p", "engine": "openai", "replicas": ["http://example.com/v1"]}
    path = state_dir / "penstock.yaml"
    path.write_text(yaml.safe_dump({"models": [{"name": "m", "context": 100, "pools": [pool]}]}))
    command = [sys.executable, "-m", "gateway.cli.main", "epp", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "models[0].pools[0].replicas[0]" in done.stderr


@pytest.mark.slow
async def test_the_command_serves_until_it_is_told_to_end(state_dir: Path) -> None:
    async with upstream() as endpoint:
        endpoint.pages["/metrics"] = vllm()
        config = picker_config(state_dir, [endpoint.url], listen={"grace_seconds": 0})
        command = [sys.executable, "-m", "gateway.cli.main", "epp", "--config", str(state_dir / "penstock.yaml")]
        process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
        try:
            async with proxy_to(config.epp.port) as proxy:
                await proxy.channel.channel_ready()
                stream = proxy.stream()
                await stream.request(BODY)
                assert await stream.picked() == [endpoint.url.removeprefix("http://").removesuffix("/v1")]
                await stream.passed_on()
                await stream.end()
            process.terminate()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
