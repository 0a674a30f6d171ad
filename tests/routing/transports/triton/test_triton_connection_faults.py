"""The transport to Triton, against a real gRPC server with tritonclient's servicer: what goes wrong."""

from collections.abc import Callable
from typing import Any

import grpc.aio
import pytest

import routing.transports.polled_transport
from protos.errors import ReplicaUnavailable
from protos.types import Failure
from routing.health.replica_status import State
from tests.fake_triton import FakeTriton
from tests.fakes import DiesAfter, RefusesWith, SilentEngine
from tests.harness import drained, engine_of, submit_of
from tests.loops import until
from tests.triton_transports import connected, settings_of, transport_to


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.polled_transport, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(routing.transports.polled_transport, "LAST_RETRY_SECONDS", 0.01)


async def refused(fake: FakeTriton, **options: Any) -> str:
    """Why the transport takes nothing there."""
    async with fake.serving() as address:
        transport = transport_to(address, settings_of(fake.kind, **options))
        transport.start()
        await until(lambda: transport.health.state is State.REFUSED, lambda: transport.health.reason)
        assert not transport.connected
        with pytest.raises(ReplicaUnavailable):
            transport.open(submit_of())
        await transport.aclose()
        return transport.health.reason


def change(**fields: Any) -> Callable[[FakeTriton], None]:
    return lambda fake: fake.__dict__.update(fields)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (change(model="other"), "model tensorrt_llm is not ready, or not there"),
        (change(model_ready=False), "model tensorrt_llm is not ready, or not there"),
        (change(decoupled=False), "model tensorrt_llm cannot stream: its transaction policy is not decoupled"),
        (
            change(inputs={"text_input": ("BYTES", (1,), False)}),
            "model tensorrt_llm is no tensorrt_llm: it has no input_ids, no input_lengths, no request_output_len, "
            "no streaming",
        ),
    ],
)
async def test_what_is_not_the_configured_model_is_refused_with_a_reason(
    broken: Callable[[FakeTriton], None], reason: str
) -> None:
    fake = FakeTriton(SilentEngine())
    broken(fake)
    assert await refused(fake) == reason


async def test_a_server_that_is_not_ready_yet_is_waited_for() -> None:
    fake = FakeTriton(SilentEngine())
    fake.server_ready = False
    async with fake.serving() as address:
        transport = transport_to(address, settings_of())
        transport.start()
        await until(lambda: transport.health.reason == "the server is not ready")
        fake.server_ready = True
        await until(lambda: transport.connected)
        fake.model_ready = False
        await until(lambda: not transport.connected)
        await transport.aclose()


async def test_a_model_that_comes_back_otherwise_is_looked_at_anew() -> None:
    fake = FakeTriton(SilentEngine())
    async with connected(fake) as transport:
        fake.model_ready = False
        await until(lambda: not transport.connected)
        fake.max_batch_size = 0
        fake.model_ready = True
        await until(lambda: transport.connected)
        stream = transport.open(submit_of(prompt=[1, 2], name="later"))
        await until(lambda: fake.asked and fake.asked[-1].id == "later")
        assert fake.asked[-1].shapes["input_ids"] == (2,)
        stream.close()


async def test_the_configuration_may_say_whether_there_is_a_batch_dimension() -> None:
    fake = FakeTriton(SilentEngine())
    async with connected(fake, batch_dimension=False) as transport:
        stream = transport.open(submit_of(prompt=[1, 2]))
        _, (finish,) = await drained(stream)
        assert finish.failure is not None
        assert finish.failure.code == "engine_error"
        stream.close()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("CUDA error in /opt/secret", "engine_error"),
        ("Prompt length (9) exceeds maximum input length (8).", "context_length_exceeded"),
    ],
)
async def test_an_error_ends_its_request_alone(message: str, code: str) -> None:
    fake = FakeTriton(RefusesWith(Failure("engine_error", message)))
    async with connected(fake) as transport:
        stream = transport.open(submit_of())
        _, (finish,) = await drained(stream)
        assert finish.failure is not None
        assert finish.failure.code == code
        assert message not in finish.failure.message and "not shown" in finish.failure.message
        stream.close()
        assert transport.connected
        assert transport.in_flight == 0


async def test_a_full_queue_is_no_failure_of_the_engine() -> None:
    async with connected(FakeTriton(RefusesWith(Failure("engine_error", "Exceeds maximum queue size")))) as transport:
        with pytest.raises(ReplicaUnavailable):
            await transport.open(submit_of()).receive()
        assert transport.in_flight == 0


async def test_several_answers_to_one_prompt_are_refused() -> None:
    fake = FakeTriton(SilentEngine())
    async with connected(fake) as transport:
        stream = transport.open(submit_of(n=3))
        _, finishes = await drained(stream, 3)
        assert {finish.failure and finish.failure.code for finish in finishes} == {"unsupported_parameter"}
        stream.close()
        assert not fake.asked


@pytest.mark.parametrize("responses", [0, 3])
async def test_a_stream_that_stops_before_its_end_is_lost(responses: int) -> None:
    fake = FakeTriton(engine_of())
    fake.breaks_after = responses
    async with connected(fake) as transport:
        with pytest.raises(ReplicaUnavailable):
            await drained(transport.open(submit_of(10)))
        assert transport.in_flight == 0


async def test_a_dead_engine_fails_what_it_had() -> None:
    async with connected(FakeTriton(DiesAfter(2))) as transport:
        _, (finish,) = await drained(transport.open(submit_of()))
        assert finish.failure is not None
        assert finish.failure.code == "engine_error"


async def test_a_client_that_leaves_cancels_the_request_there() -> None:
    silent = SilentEngine()
    async with connected(FakeTriton(silent)) as transport:
        stream = transport.open(submit_of())
        await until(lambda: silent.submitted)
        stream.close()
        await until(lambda: silent.cancelled == [1])
        assert transport.in_flight == 0


async def test_a_peer_that_is_no_triton_is_refused() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    transport = transport_to(f"127.0.0.1:{port}", settings_of())
    transport.start()
    await until(lambda: transport.health.reason.startswith("no Triton"))
    assert transport.health.state is State.REFUSED
    await transport.aclose()
    await server.stop(None)


async def test_a_peer_that_babbles_is_refused_and_one_that_is_not_there_is_away() -> None:
    class Babbler(grpc.GenericRpcHandler):
        def service(self, details: object) -> Any:
            async def babble(request: bytes, context: object) -> bytes:
                return b"\\xff\\xff\\xff"

            return grpc.unary_unary_rpc_method_handler(babble)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Babbler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    transport = transport_to(f"127.0.0.1:{port}", settings_of())
    transport.start()
    await until(lambda: transport.health.reason.startswith("no Triton: not a ServerReadyResponse"))
    await server.stop(None)
    await until(lambda: transport.health.state is State.CONNECTING, lambda: str(transport.health.state))
    await transport.aclose()


async def test_closing_the_transport_ends_everything() -> None:
    engine = SilentEngine()
    async with connected(FakeTriton(engine)) as transport:
        streams = [transport.open(submit_of(name=f"r{i}")) for i in range(3)]
        await until(lambda: len(engine.submitted) == 3)
        await transport.aclose()
        for stream in streams:
            with pytest.raises(ReplicaUnavailable):
                await stream.receive()
        await until(lambda: sorted(engine.cancelled) == [1, 2, 3])
