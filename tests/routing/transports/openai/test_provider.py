"""One provider with several models: who looks at it, and what its refusals mean for all of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from routing.health.refusals import CLEAR_REFUSALS
from routing.health.replica_status import State
from routing.transports.shared_parts import SharedParts
from tests.loops import until
from tests.routing_transports import OpenAITransport
from tests.upstreams import END, EVENT, Upstream, plain, streamed, upstream

METRICS = plain(b"vllm:num_requests_running 4.0\n", kind="text/plain")


@contextlib.asynccontextmanager
async def models(fake: Upstream, count: int, **settings: Any) -> AsyncIterator[list[OpenAITransport]]:
    """Transports of so many models at one provider, connected."""
    shared = SharedParts()
    found = [OpenAITransport(fake, id_=f"p/{n}", shared=shared, **settings) for n in range(count)]
    try:
        for transport in found:
            transport.connection.start()
        await until(lambda: all(transport.connection.connected for transport in found))
        yield found
    finally:
        await asyncio.gather(*(transport.connection.aclose() for transport in found))
    await until(lambda: fake.open == 0)


async def test_all_models_of_a_provider_are_looked_at_once() -> None:
    async with upstream() as fake, models(fake, 20, health_seconds=3600.0):
        assert len(fake.looks) == 1


async def test_other_keys_are_other_providers() -> None:
    async with upstream() as fake:
        shared = SharedParts()
        found = [OpenAITransport(fake, id_=key, shared=shared, key=lambda key=key: key) for key in ("one", "two")]
        for transport in found:
            transport.connection.start()
        await until(lambda: {look.headers["authorization"] for look in fake.looks} == {"Bearer one", "Bearer two"})
        for transport in found:
            await transport.connection.aclose()


async def test_a_load_that_it_reports_is_read_for_all() -> None:
    async with upstream() as fake:
        fake.pages["/metrics"] = METRICS
        async with models(fake, 3, metrics_of="auto", health_seconds=3600.0) as found:
            assert [transport.connection.view.load.running for transport in found] == [4, 4, 4]
            assert [look.target for look in fake.looks] == ["/v1/models", "/metrics"]


async def test_an_answer_is_a_look() -> None:
    async with upstream() as fake, models(fake, 2, health_seconds=5.0) as (one, other):
        fake.behaves = streamed(EVENT % b"a", END)
        one.clock.now += 4.0
        await other.ask().answer()
        assert one.connection._provider._next_look == one.clock.now + 5.0
        assert len(fake.looks) == 1


async def test_a_failed_request_makes_it_look_and_all_models_learn() -> None:
    async with upstream() as fake, models(fake, 3, health_seconds=3600.0) as found:
        fake.health = plain(b"", "503 Service Unavailable")
        fake.behaves = plain(b"<html>", kind="text/html")
        await found[0].ask().begun()
        await until(lambda: not any(transport.is_connected() for transport in found))
        fake.health = plain(b"{}")
        await until(lambda: all(transport.connection.health.serves for transport in found))


async def test_an_account_that_cannot_pay_is_so_for_all_its_models() -> None:
    async with upstream() as fake, models(fake, 3, health_seconds=3600.0) as found:
        fake.behaves = plain(b"{}", "402 Payment Required")
        await found[0].ask().begun()
        assert [transport.is_connected() for transport in found] == [False] * 3
        assert len(fake.heard) == 1


async def test_a_key_that_is_refused_is_so_for_all_its_models_and_one_models_refusals_are_its_own() -> None:
    async with upstream() as fake, models(fake, 2, health_seconds=3600.0) as (one, other):
        fake.behaves = plain(b'{"error":{"code":"model_not_found"}}', "404 Not Found")
        for _ in range(CLEAR_REFUSALS):
            await one.ask().begun()
        assert one.failing and not other.failing
        fake.behaves = plain(b"", "401 Unauthorized")
        for transport in (one, other, one):
            await transport.ask().begun()
        assert other.failing == ["status 401: it refuses our key, again and again"]


async def test_probes_of_idle_models_are_content_with_the_last_look() -> None:
    async with upstream() as fake, models(fake, 3, health_seconds=3600.0) as found:
        for transport in found:
            probe = transport.connection._ask()
            assert probe is not None and await probe.problem() == ""
        assert len(fake.looks) == 1


async def test_a_look_that_is_refused_is_proof() -> None:
    async with upstream() as fake, models(fake, 2, health_seconds=3600.0) as found:
        fake.behaves = fake.health = plain(b"", "403 Forbidden")
        await found[0].ask().begun()
        await until(lambda: all(transport.connection.health.state is State.REFUSED for transport in found))


async def test_a_key_that_may_not_list_models_may_use_them() -> None:
    async with upstream() as fake:
        fake.health = plain(b'{"error":{"message":"Missing scopes: api.model.read"}}', "403 Forbidden")
        async with models(fake, 1):
            pass
