"""A fleet that sizes itself, with real processes: to and from zero, a flash crowd, and what kills break."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.crowd import Crowd
from tests.e2e.raw import Stream, ask, error_of
from tests.e2e.scaled_site import AT_ZERO, MODEL, ScaledSite, shipped_config
from tests.e2e.stack import eventually

#: Gives back soon what is not needed: a test does not wait for minutes.
HASTY = {MODEL: {"down_seconds": 5, "budget_per_hour": 20}, AT_ZERO: {"idle_seconds": 5, "down_seconds": 5}}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ScaledSite]:
    made = ScaledSite(tmp_path, shipped_config(HASTY))
    try:
        made.start()
        made.wait_for(1)
        yield made
    finally:
        made.close()


def question(model: str = AT_ZERO, **fields: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 3, "messages": [{"role": "user", "content": "Hello!"}], **fields}


def readiness(site: ScaledSite) -> tuple[int, Any]:
    status, _, body = ask(site.stack, method="GET", path="/readyz")
    return status, json.loads(body)["models"][AT_ZERO]


def test_to_and_from_zero(site: ScaledSite) -> None:
    assert readiness(site) == (200, {"replicas": 0, "ready": 0, "at_zero": True})
    assert site.at_rest(0, AT_ZERO)
    stream = Stream(site.stack, question(stream=True))
    others = [Stream(site.stack, question()) for _ in range(3)]
    assert stream.begin() == 200
    assert stream.rest()[-1] == b"[DONE]"
    for other in others:
        assert other.begin() == 200
        assert json.loads(other.response.read())["usage"]["completion_tokens"] == 3
        other.close()
    assert readiness(site)[1]["ready"] == 1
    site.wait_for(0, AT_ZERO, 40)
    eventually(lambda: readiness(site)[1].get("at_zero", False), "the worker sees it", 10)
    assert ask(site.stack, question())[0] == 200
    site.wait_for(1)


def test_a_flash_crowd_and_back_without_a_failed_request(site: ScaledSite) -> None:
    crowd = Crowd(site.stack, MODEL, rate=1.0)
    crowd.start()
    eventually(lambda: crowd.answered >= 3, "answers come", 30)
    crowd.rate = 16.0
    eventually(lambda: site.pool().ready >= 4, "four replicas serve", 60)
    crowd.rate = 0.5
    site.wait_for(1, seconds=90)
    crowd.stop()
    assert crowd.failures == []
    assert crowd.answered > 50


def test_a_controller_that_is_killed_leaves_everything_as_it_was(site: ScaledSite) -> None:
    site.set(3)
    site.wait_for(3)
    before = site.replicas()
    crowd = Crowd(site.stack, MODEL, rate=2.0)
    crowd.start()
    (old,) = site.controllers()
    os.kill(old, signal.SIGKILL)
    eventually(
        lambda: len(site.stack.pids("gateway.cli.main controller")) == 1 and site.controller() != old, "restart", 20
    )
    site.set(4)
    site.wait_for(4)
    assert set(before) < set(site.replicas()), "the new one has taken over what ran"
    crowd.stop()
    assert crowd.failures == []


def test_a_replica_that_dies_while_it_starts_is_started_again(site: ScaledSite) -> None:
    before = set(site.replicas())
    site.set(3)
    eventually(lambda: len(set(site.replicas()) - before) >= 1, "a process begins", 20)
    for pid in set(site.replicas()) - before:
        os.kill(pid, signal.SIGKILL)
    site.wait_for(3)


def test_a_replica_that_dies_while_it_drains_breaks_no_stream(site: ScaledSite) -> None:
    site.set(3)
    site.wait_for(3)
    crowd = Crowd(site.stack, MODEL, rate=6.0, tokens=300)
    crowd.start()
    eventually(lambda: crowd.open >= 12, "streams are open", 30)
    running = site.replicas()
    site.set(2)
    eventually(lambda: len(site.pool().stopping) == 1, "one drains", 20)
    (leaving,) = site.pool().stopping
    (pid,) = [pid for pid in running if leaving.id in site.stack.processes().get(pid, "")]
    os.kill(pid, signal.SIGKILL)
    site.wait_for(2)
    crowd.stop(90)
    assert crowd.failures == []


def test_a_store_that_stands_still_in_the_middle_of_a_start(site: ScaledSite) -> None:
    crowd = Crowd(site.stack, MODEL, rate=2.0)
    crowd.start()
    eventually(lambda: crowd.answered >= 2, "answers come", 30)
    before = set(site.replicas())
    site.set(4)
    eventually(lambda: len(set(site.replicas()) - before) >= 1, "a process begins", 20)
    (store,) = site.stack.stores
    os.kill(store, signal.SIGSTOP)
    try:
        time.sleep(8)
        assert len(site.replicas()) <= 4
    finally:
        os.kill(store, signal.SIGCONT)
    site.wait_for(4)
    crowd.stop(90)
    assert crowd.failures == []
    site.set(None)
    site.wait_for(1, seconds=90)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScaledSite]:
    """A model whose first replica takes longer than its requests wait, and keep-alive comments each second."""
    models = HASTY | {AT_ZERO: {"wait_seconds": 4}}
    text = shipped_config(models, listen={"host": "127.0.0.1", "stream_keep_alive_seconds": 1})
    made = ScaledSite(
        tmp_path_factory.mktemp("slow"), text.replace("profile: mixtral-8x7b", "profile: mixtral-8x7b\n      start: []")
    )
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_whole_answers_are_refused_with_the_time_that_is_left(slow: ScaledSite) -> None:
    began = time.monotonic()
    answer = ask(slow.stack, question())
    assert time.monotonic() - began >= 4.0
    error = error_of(answer, 503)
    assert error["code"] == "replica_unavailable"
    assert 0 < int(answer[1]["retry-after"]) <= 600


@pytest.mark.parametrize(
    ("path", "fields", "ending"),
    [
        ("/v1/chat/completions", {}, b'data: {"error":'),
        ("/v1/messages", {}, b"event: error"),
        ("/v1/responses", {"messages": None, "max_tokens": None, "input": "Hello!"}, b"event: error"),
    ],
)
def test_streams_are_kept_alive_and_end_with_an_error(
    slow: ScaledSite, path: str, fields: dict[str, Any], ending: bytes
) -> None:
    body = {name: value for name, value in (question(stream=True) | fields).items() if value is not None}
    status, headers, answer = ask(slow.stack, body, path=path)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.startswith(b": keep-alive\n\n: keep-alive\n\n")
    assert answer.removeprefix(b": keep-alive\n\n" * answer.count(b": keep-alive")).startswith(ending), answer
    assert b"[DONE]" not in answer
    assert b"Try again in" in answer
