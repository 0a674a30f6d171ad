"""Warm-ups over real transports: a session with a replica server, and HTTP with an upstream."""

import itertools
import json
import time
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.rollouts.warmup import replica_warmer
from gateway.rollouts.warmup.replica_warmer import ReplicaWarmer
from gateway.tenancy.providers.provider_keys import keyless
from routing.rollouts.facts import ReplicaFacts, VersionFacts
from routing.rollouts.rollout import Rollout
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.settings import Warmup, WarmupShape
from tests.harness import MODEL, engine_of, serving
from tests.routing.rollouts.test_stages import begun
from tests.upstreams import END, EVENT, plain, streamed, upstream

SHAPES = (WarmupShape(prompt_tokens=8, output_tokens=4), WarmupShape(prompt_tokens=9000, output_tokens=2))


def config_of(engine: str, address: str, **model: Any) -> Config:
    pool = {"name": "new", "engine": engine, "replicas": [address], "version": "v2", "shape": {"tp": 2}}
    fields = {"name": MODEL, "tokenizer": "mistral-tekken", "context": 8192, "pools": [pool]} | model
    return msgspec.convert({"models": [fields]}, Config)


def rollout(**warmup: Any) -> Rollout:
    settings = Settings(model=MODEL, to="v2", warmup=Warmup(requests=4, shapes=SHAPES, **warmup))
    return msgspec.structs.replace(begun(), model=MODEL, settings=settings, phase="warming")


def replica(address: str) -> ReplicaFacts:
    return ReplicaFacts(id="new/0", pool="new", address=address, ready=True)


async def test_a_replica_answers_prompts_of_each_shape_within_its_context() -> None:
    async with serving(engine_of(version="v2")) as (_, bound):
        address = f"grpc://{bound}"
        warmer = ReplicaWarmer(config_of("simulated", address), keyless, "test")
        result = await warmer.warm_up(rollout(), replica(address))
        assert result.warmed is not None, result.problem
        assert (result.warmed.requests, result.replica) == (4, "new/0")
        assert 0 < result.warmed.ttft_seconds < 10
        passed = await warmer.smoke(rollout(), VersionFacts(replicas=[replica(address)]))
        assert (passed.passing, passed.reason) == ("passed", "20 requests were answered without an error")


@pytest.mark.parametrize("targets", [{"ttft_ms": 100, "ttft_per_token_ms": 0, "tpot_ms": 900}, None])
async def test_one_that_is_later_than_the_targets_is_slow(targets: dict[str, Any] | None) -> None:
    ticks = itertools.count(0.0, 0.5)
    async with serving(engine_of(version="v2")) as (_, bound):
        address = f"grpc://{bound}"
        config = config_of("simulated", address, routing={"targets": targets} if targets else {})
        warmer = ReplicaWarmer(config, keyless, "test", clock=lambda: next(ticks))
        result = await warmer.warm_up(rollout(), replica(address))
        if targets is None:
            # Nothing is promised to anybody.
            assert result.warmed is not None
            result = await warmer.warm_up(rollout(ttft_ms=100), replica(address))
        assert (result.warmed, result.slow) == (None, True)
        assert "took 500 ms to the first token of 8 prompt tokens, and may take 100 ms" in result.problem


async def test_one_that_cannot_be_reached_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_warmer, "CONNECT_SECONDS", 0.3)
    address = "grpc://127.0.0.1:1"
    warmer = ReplicaWarmer(config_of("simulated", address), keyless, "test")
    result = await warmer.warm_up(rollout(), replica(address))
    assert (result.warmed, result.slow) == (None, False)
    assert result.problem.startswith("warm-up of new/0: it cannot be reached")
    gone = msgspec.structs.replace(replica(address), pool="none")
    assert "no such pool" in (await warmer.warm_up(rollout(), gone)).problem


async def test_an_upstream_is_asked_in_its_own_words() -> None:
    async with upstream() as fake:
        fake.behaves = streamed(EVENT % b"one", EVENT % b"two", END)
        warmer = ReplicaWarmer(config_of("openai", fake.url), keyless, "test", clock=time.monotonic)
        result = await warmer.warm_up(rollout(), replica(fake.url))
        assert result.warmed is not None, result.problem
        body = json.loads(fake.heard[0].body)
        assert (body["max_tokens"], body["stream"]) == (4, True)
        assert len(body["messages"][0]["content"]) == 40
        fake.behaves = plain(b'{"error":{"message":"no"}}', "500 Internal Server Error")
        result = await warmer.warm_up(rollout(), replica(fake.url))
        assert (result.warmed, result.slow) == (None, False)
        assert result.problem.startswith("warm-up of new/0: ")
