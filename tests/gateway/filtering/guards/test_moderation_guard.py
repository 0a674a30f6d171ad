"""A moderation service as a guard, over real sockets: what it says, and all the ways in which it says nothing."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.config.safety.guards import HttpGuard
from gateway.config.secrets import SecretSource
from gateway.filtering.guards.bounded import BoundedGuard
from gateway.filtering.guards.moderation_guard import MAX_ANSWER_BYTES, ModerationGuard
from gateway.tenancy.providers.provider_keys import ProviderKeys
from safety.guard import GuardFailed
from safety.match import Match
from tests.certificates import Authority
from tests.fake_moderation import moderation, result
from tests.loops import until
from tests.timers import HeldTimers
from tests.upstreams import Behaviour, Caller, Heard, Upstream, plain, upstream

TEXT = "let us fight, or I hurt myself"
WHOLE = (0, len(TEXT))


class NoStore:
    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        return {}


@contextlib.asynccontextmanager
async def guard_at(service: Upstream, **settings: Any) -> AsyncIterator[tuple[BoundedGuard, ModerationGuard]]:
    fields: dict[str, Any] = {"url": f"{service.url}/moderations", "timeout_seconds": 10.0}
    asked = HttpGuard(**(fields | settings))
    guard = ModerationGuard(asked, ProviderKeys(NoStore(), None).key_of)
    bounded = BoundedGuard(guard, asked)
    try:
        yield bounded, guard
    finally:
        await bounded.aclose()
        assert guard.connections == 0
        await until(lambda: not service.open)


async def problem_of(bounded: BoundedGuard, text: str = TEXT) -> str:
    with pytest.raises(GuardFailed) as caught:
        await bounded.verdict(text)
    assert "fight" not in caught.value.problem
    return caught.value.problem


async def test_each_category_is_a_match_of_the_whole_text() -> None:
    async with moderation() as service, guard_at(service, model="theirs") as (bounded, guard):
        assert await bounded.verdict(TEXT) == [
            Match(*WHOLE, "self_harm_intent", 0.9),
            Match(*WHOLE, "violence", 0.9),
        ]
        assert await bounded.verdict("all is well") == []
        assert await bounded.verdict("a fight é \ud800") == [Match(0, 11, "violence", 0.9)]
        first = service.heard[0]
        assert (first.method, first.target) == ("POST", "/v1/moderations")
        assert orjson.loads(first.body) == {"input": TEXT, "model": "theirs"}
        assert first.headers["content-type"] == "application/json"
        assert "authorization" not in first.headers
        assert (service.accepted, guard.connections) == (1, 1), "the connection is kept"


async def test_the_model_is_left_out_where_none_is_configured() -> None:
    async with moderation() as service, guard_at(service) as (bounded, _):
        await bounded.verdict(TEXT)
        assert orjson.loads(service.heard[0].body) == {"input": TEXT}


@pytest.mark.parametrize(
    ("settings", "answer", "found"),
    [
        ({}, result({"hate": 0.2}), []),
        ({}, result({"hate": 0.2}, flagged=True), [("flagged", 1.0)]),
        ({}, result({}, flagged=True), [("flagged", 1.0)]),
        ({}, result({}), []),
        ({}, b'{"results":[{"flagged":true,"categories":{"hate":true}}]}', [("hate", 1.0)]),
        ({}, b'{"results":[{"flagged":false,"categories":{"hate":true}}]}', [("hate", 1.0)]),
        ({}, result({"hate": 0.6, "violence": 0.9, "illicit": None}), [("violence", 0.9), ("hate", 0.6)]),
        ({"threshold": 0.2}, result({"hate": 0.2, "violence": 0.1}), [("hate", 0.2)]),
        ({"threshold": 0.2}, result({"hate": 0.1}, flagged=True), []),
        ({"categories": ("hate",)}, result({"hate": 0.6, "violence": 0.9}), [("hate", 0.6)]),
        ({"categories": ("hate",)}, result({"hate": 0.1, "violence": 0.9}), []),
        ({"categories": ("hate",), "threshold": 0.7}, result({"hate": 0.6, "violence": 0.9}), []),
        ({"categories": ("hate", "violence"), "threshold": 0.7}, result({"hate": 0, "violence": 1}), [("violence", 1)]),
    ],
)
async def test_what_counts(settings: dict[str, Any], answer: bytes, found: list[tuple[str, float]]) -> None:
    async with moderation() as service, guard_at(service, **settings) as (bounded, _):
        service.behaves = plain(answer)
        assert await bounded.verdict(TEXT) == [Match(*WHOLE, label, score) for label, score in found]


@pytest.mark.parametrize(
    ("settings", "answer", "problem"),
    [
        ({}, plain(result({}), "500 Internal Server Error"), "it answered with status 500"),
        ({}, plain(result({}), "429 Too Many Requests"), "it answered with status 429"),
        ({}, plain(result({}), "201 Created"), "it answered with status 201"),
        ({}, plain(b"", "302 Found", location="http://127.0.0.1:1/"), "it answered with status 302"),
        ({}, plain(TEXT.encode()), "its answer is not the moderation API's"),
        ({}, plain(b""), "its answer is not the moderation API's"),
        ({}, plain(b'{"results":{}}'), "its answer is not the moderation API's"),
        ({}, plain(b'{"results":[{"categories":{"hate":true}}]}'), "its answer is not the moderation API's"),
        ({}, plain(b'{"results":[{"flagged":"fight"}]}'), "its answer is not the moderation API's"),
        ({}, plain(b'{"results":' + b"[" * 20_000), "its answer is not the moderation API's"),
        ({}, plain(b"\xff\xfe"), "its answer is not the moderation API's"),
        ({}, plain(b'{"results":[]}'), "its answer has 0 results for one text"),
        ({}, plain(b'{"results":[{"flagged":true},{"flagged":true}]}'), "its answer has 2 results for one text"),
        ({"threshold": 0.5}, plain(result({"hate": 1.5})), "a score that is not from 0 to 1"),
        ({"threshold": 0.5}, plain(b'{"results":[{"flagged":true}]}'), "its answer has no scores"),
        ({"threshold": 0.5, "categories": ("x",)}, plain(result({"hate": 1})), "it says nothing of the category x"),
        ({"categories": ("hate",)}, plain(b'{"results":[{"flagged":true}]}'), "its answer says nothing of"),
        ({}, plain(b" " * (MAX_ANSWER_BYTES + 1)), f"an answer of more than {MAX_ANSWER_BYTES} bytes"),
        ({}, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-encoding: gzip\r\n\r\n12345", "content coding"),
        ({}, b"SSH-2.0-OpenSSH_9.6\r\n", "its answer is not HTTP/1.1"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure(settings: dict[str, Any], answer: bytes, problem: str) -> None:
    async with moderation() as service, guard_at(service, **settings) as (bounded, _):
        service.behaves = answer
        assert problem.removeprefix("it says") in await problem_of(bounded)


async def _hangs_up(caller: Caller, heard: Heard) -> None:
    pass


async def _hangs_up_in_the_middle(caller: Caller, heard: Heard) -> None:
    await caller.say(plain(result({"hate": 0.9}))[:-10])


async def _resets(caller: Caller, heard: Heard) -> None:
    caller.writer.transport.abort()


@pytest.mark.parametrize("behaviour", [_hangs_up, _hangs_up_in_the_middle, _resets])
async def test_a_connection_that_is_lost_is_a_failure(behaviour: Behaviour) -> None:
    async with moderation() as service, guard_at(service) as (bounded, _):
        kept = service.behaves
        service.behaves = behaviour
        assert "the connection was closed" in await problem_of(bounded)
        service.behaves = kept
        assert await bounded.verdict("no fight")


async def test_nobody_there() -> None:
    async with upstream() as service:
        pass
    async with guard_at(service) as (bounded, _):
        assert "no connection" in await problem_of(bounded)


@pytest.mark.parametrize("said", [b"", plain(result({"hate": 0.9}))[:-10]])
async def test_a_slow_answer_is_given_up_with_its_connection(said: bytes) -> None:
    gone = asyncio.Event()

    async def stalls(caller: Caller, heard: Heard) -> None:
        await caller.say(said)
        await caller.gone()
        gone.set()

    async with moderation() as service, guard_at(service, timeout_seconds=60.0) as (bounded, guard):
        service.behaves = stalls
        with HeldTimers(60.0) as timers:
            asking = asyncio.create_task(problem_of(bounded))
            await until(lambda: service.heard)
            timers.go_off()
            assert await asking == "no verdict within 60 s"
        await gone.wait()
        await until(lambda: not guard.connections)


async def test_who_leaves_takes_the_connection_along() -> None:
    heard, gone = asyncio.Event(), asyncio.Event()

    async def stalls(caller: Caller, _: Heard) -> None:
        heard.set()
        await caller.gone()
        gone.set()

    async with moderation() as service, guard_at(service) as (bounded, guard):
        service.behaves = stalls
        asking = asyncio.ensure_future(bounded.verdict(TEXT))
        await heard.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await gone.wait()
        assert not guard.connections


async def test_no_more_connections_than_questions_at_once() -> None:
    async with moderation() as service, guard_at(service, concurrency=3) as (bounded, _):
        found = await asyncio.gather(*(bounded.verdict(f"fight {i}") for i in range(30)))
        assert [match.label for matches in found for match in matches] == ["violence"] * 30
        assert service.accepted == 3


async def test_a_key_from_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-first\n", encoding="utf-8")

    async with moderation() as service, guard_at(service, api_key=SecretSource(file=str(file))) as (bounded, guard):
        guard._key._renewed._check_seconds = 0.0  # type: ignore[attr-defined]
        await bounded.verdict("text 1")
        file.write_text("sk-the-second\n", encoding="utf-8")
        await bounded.verdict("text 2")
        keys = [heard.headers["authorization"] for heard in service.heard]
        assert keys == ["Bearer sk-first", "Bearer sk-the-second"]


async def test_a_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_MODERATION_KEY", "sk-env")
    source = SecretSource(env="PENSTOCK_TEST_MODERATION_KEY")

    async with moderation() as service, guard_at(service, api_key=source) as (bounded, _):
        await bounded.verdict(TEXT)
        assert service.heard[0].headers["authorization"] == "Bearer sk-env"


async def test_tls_is_checked_with_the_configured_authority(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    signed = authority.signed()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)

    async with upstream(context) as service:
        service.behaves = plain(result({"hate": 0.9}))
        async with guard_at(service, ca=str(authority.ca)) as (bounded, _):
            assert await bounded.verdict(TEXT) == [Match(*WHOLE, "hate", 0.9)]
        async with guard_at(service, ca=str(other.ca)) as (bounded, _):
            assert "its certificate is not accepted" in await problem_of(bounded)
        async with guard_at(service, ca=str(tmp_path / "absent")) as (bounded, _):
            assert "cannot be read" in await problem_of(bounded)
