"""Rollouts for real: workers, a controller, a store, replicas of three versions, and clients' streams."""

import collections
import http.client
import json
import math
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from routing.rollouts.rollout import ENDED, Rollout
from tests.e2e.raw import Stream, chat
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack, config_text, eventually
from tests.ports import free_port

HEADER = "x-penstock-version"
PACES = {"v1": 2, "v2": 2, "slow": 40}


class Traffic:
    """Clients that stream one short answer after the other; `answers` are versions, or what went wrong."""

    def __init__(self, stack: Stack, clients: int, *, tokens: int = 12) -> None:
        self.answers: list[str] = []
        self._stack, self._tokens = stack, tokens
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(client,)) for client in range(clients)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def counts(self) -> dict[str, int]:
        return dict(collections.Counter(self.answers))

    @property
    def broken(self) -> list[str]:
        return [answer for answer in self.answers if answer not in PACES]

    def _ask(self, client: int) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            body = chat(f"conversation {client} {number}", stream=True, max_tokens=self._tokens, ignore_eos=True)
            try:
                self.answers.append(self._answer(body))
            except (OSError, http.client.HTTPException) as error:
                self.answers.append(f"{type(error).__name__}: {error}")

    def _answer(self, body: dict[str, Any]) -> str:
        stream = Stream(self._stack, body)
        try:
            status = stream.begin()
            events = stream.rest()
            if status != 200 or events[-1:] != [b"[DONE]"]:
                return f"{status}: {events[-1:]}"
            return dict(stream.response.getheaders())[HEADER]
        finally:
            stream.close()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    text = config_text(free_port(), workers=2)
    (pool,) = [line for line in text.splitlines() if "name: narrow" in line]
    pools = [
        pool.replace("name: narrow", f"name: {version}, version: {version}").replace("pace_ms: 2", f"pace_ms: {pace}")
        for version, pace in PACES.items()
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name), text.replace(pool, "\n".join(pools)))
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


def rollout(stack: Stack, action: str, *arguments: str) -> str:
    done = stack.run("rollout", action, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def last(stack: Stack) -> Rollout | None:
    """Return the last rollout; None: no controller has begun with one yet."""
    found = json.loads(rollout(stack, "status", MODEL, "--json"))["rollout"]
    return None if found is None else msgspec.convert(found["rollout"], Rollout)


def state(stack: Stack) -> Rollout:
    found = last(stack)
    assert found is not None
    return found


def reached(stack: Stack, *phases: str, seconds: float = HANGS_SECONDS) -> Rollout:
    def there() -> bool:
        found = last(stack)
        return found is not None and found.phase in phases

    eventually(there, f"the rollout is {phases}", seconds)
    return state(stack)


def under_way(stack: Stack) -> Rollout | None:
    found = last(stack)
    return found if found is not None and found.phase not in ENDED else None


def begin(stack: Stack, to: str, *arguments: str) -> None:
    rollout(stack, "start", MODEL, "--to", to, *arguments)


def test_a_good_candidate_is_promoted_and_a_slow_one_rolled_back_with_no_stream_broken(stack: Stack) -> None:
    with Traffic(stack, 6) as traffic:
        # By time alone: a comparison of times takes half a minute at least.
        begin(stack, "v2", "--stages", "0.5,1", "--hold-seconds", "3", "--min-requests", "0")
        good = reached(stack, "done", "rolled_back")
        assert good.promoted, rollout(stack, "status", MODEL)
        assert list(dict.fromkeys(event.share for event in good.history)) == [0.0, 0.5, 1.0]
        # Workers report measures once a second: a short stage may be over before all of its own have come.
        assert any(event.requests for event in good.history if event.cause == "held")
        before = len(traffic.answers)
        begin(stack, "slow", "--stages", "0.25,1", "--hold-seconds", "1", "--min-requests", "40")
        bad = reached(stack, "done", "rolling_back", "rolled_back")
        (why,) = [event for event in bad.history if event.phase == "rolling_back"]
        assert (why.cause, why.verdict) == ("bounds", "worse"), rollout(stack, "status", MODEL)
    assert set(traffic.counts) == {"v1", "v2", "slow"}, traffic.counts
    # It never came to its second stage, and had a quarter of the requests at most, each by chance.
    since = traffic.answers[before:]
    assert max(event.share for event in bad.history) == 0.25
    assert since.count("slow") <= 0.25 * len(since) + 5 * math.sqrt(0.25 * 0.75 * len(since))


@pytest.mark.drill
def test_rollouts_with_128_streams_through_kills_of_the_controller_and_of_a_worker(stack: Stack) -> None:
    """Through all stages, with the verdicts of real measures; only streams of the worker that dies are cut."""
    eventually(lambda: under_way(stack) is None, "the last rollout's end")
    stable = json.loads(rollout(stack, "status", MODEL, "--json"))["stable"]
    to = "v1" if stable == "v2" else "v2"
    with Traffic(stack, 128, tokens=40) as traffic:
        begin(stack, to, "--hold-seconds", "5", "--min-requests", "200")
        for stage in (1, 3):
            eventually(lambda stage=stage: state(stack).stage >= stage, f"stage {stage}")  # type: ignore[misc]
            (controller,) = stack.pids("gateway.cli.main controller")
            os.kill(controller, signal.SIGKILL)
        before = traffic.broken
        os.kill(stack.workers[0], signal.SIGKILL)
        done = reached(stack, "done", "rolled_back", seconds=240.0)
        assert done.promoted, rollout(stack, "status", MODEL)
        assert [event.share for event in done.history if event.cause in ("warm", "held")][:5] == [
            0.1,
            0.25,
            0.5,
            0.75,
            1.0,
        ]
    assert before == []
    assert len(traffic.broken) <= 128, traffic.broken
    assert {"v1", "v2"} <= set(traffic.counts)
