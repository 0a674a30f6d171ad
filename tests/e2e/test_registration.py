"""Replicas that register themselves, and a gateway that knows no others."""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from gateway.config.load import load_config
from gateway.fleets.discovery.registrations import Registration, registered
from gateway.fleets.listing import ReplicaView
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.store.configured_store import store_url
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from tests.e2e.raw import ask
from tests.e2e.registered_replica import RegisteredReplica, registered_text
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack, eventually
from tests.ports import free_port

VERSION = "x-penstock-version"
#: Of an answer that takes five seconds: clients that a busy machine starts one after the other are there together.
TOKENS = 1000


class Site:
    """A gateway of two workers, and the replicas that were started for it."""

    def __init__(self, folder: Path) -> None:
        self.stack = Stack(folder, registered_text(free_port()))
        self._started: list[RegisteredReplica] = []

    def replica(self, *options: str) -> RegisteredReplica:
        made = RegisteredReplica(self.stack.folder, f"replica{len(self._started)}", *options)
        self._started.append(made)
        return made

    def rows(self) -> dict[str, ReplicaView]:
        """What `penstock replicas list` shows, by id; nothing while the store is away."""

        async def read() -> list[ReplicaView]:
            config = load_config(self.stack.config)
            store = Store(store_url(config))
            try:
                return await ReplicaRegistry(store, config).replicas()
            except StoreUnavailable:
                return []
            finally:
                await store.aclose()

        return {row.id: row for row in asyncio.run(read())}

    def registered(self) -> set[str]:
        """The addresses of all that have said lately that they are there."""

        async def read() -> list[Registration]:
            store = Store(store_url(load_config(self.stack.config)))
            try:
                return await registered(store)
            finally:
                await store.aclose()

        return {replica.address for replica in asyncio.run(read())}

    def serves(self, replica: RegisteredReplica) -> bool:
        """Whether both workers give it requests."""
        row = self.rows().get(replica.id) if replica.is_registered else None
        return row is not None and (row.workers, row.state, row.share) == (2, "ready", 1.0)

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.stack.base_url, api_key=self.stack.key, max_retries=0, timeout=HANGS_SECONDS)

    def close(self) -> None:
        self.stack.close()
        for replica in self._started:
            with contextlib.suppress(ProcessLookupError):
                replica.kill()


@pytest.fixture
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        made = Site(Path(name))
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def start(site: Site) -> Callable[[], RegisteredReplica]:
    """Start the gateway with one replica, which registers before or after the store is there."""

    def begin() -> RegisteredReplica:
        first = site.replica("--model-version", "v1")
        site.stack.start()
        return first

    return begin


def answer_of(client: openai.OpenAI, tokens: int = 20) -> str:
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    stream = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=tokens, stream=True, seed=1, extra_body={"ignore_eos": True}
    )
    chunks = list(stream)
    assert chunks[-1].choices[0].finish_reason == "length"
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_replicas_come_soon_and_go_unnoticed(site: Site, start: Callable[[], RegisteredReplica]) -> None:
    first = start()
    second = site.replica("--model-version", "v1")
    eventually(lambda: second.is_registered, "the second one registers")
    eventually(lambda: site.serves(second), "it gets requests")
    eventually(lambda: site.serves(first), "so does the first one")
    assert {row.source for row in site.rows().values()} == {"registered"}
    with site.client() as client, ThreadPoolExecutor(16) as threads:
        expected = answer_of(client, TOKENS)
        with second.observer() as observer:
            running = [threads.submit(answer_of, client, TOKENS) for _ in range(16)]
            eventually(lambda: observer.load().running >= 1, "some run there")
            second.kill()
        assert [answer.result() for answer in running] == [expected] * 16
        eventually(lambda: second.id not in site.rows(), "it is forgotten")
        assert answer_of(client, TOKENS) == expected
    # In order, it says so itself, and nothing is left of it at once.
    third = site.replica("--model-version", "v1")
    eventually(lambda: third.is_registered and site.serves(third), "the third one serves")
    assert third.terminate() == 0
    assert third.address not in site.registered(), "it has not waited for its record to end"
    eventually(lambda: third.id not in site.rows(), "it is gone")


def test_an_outage_of_the_store_loses_no_replica(site: Site, start: Callable[[], RegisteredReplica]) -> None:
    first = start()
    eventually(lambda: site.serves(first), "it serves")
    (store,) = site.stack.stores
    signals = (signal.SIGSTOP, signal.SIGCONT)
    for number in signals:
        os.kill(store, number)
        # Longer than its record lasts.
        time.sleep(3.0 if number is signal.SIGSTOP else 0.0)
    with site.client() as client:

        def answers() -> bool:
            try:
                return bool(answer_of(client))
            except openai.InternalServerError as error:
                assert "store" in str(error)
                return False

        eventually(answers, "requests are served")
    os.kill(store, signal.SIGKILL)
    eventually(lambda: site.stack.stores not in ([], [store]), "the store is restarted")
    eventually(lambda: site.serves(first), "it serves still")
    assert "no longer among the replicas" not in site.stack.errors


def test_another_version_is_refused_and_the_right_one_is_said(
    site: Site, start: Callable[[], RegisteredReplica]
) -> None:
    start()
    other = site.replica("--model-version", "v2")
    eventually(lambda: other.is_registered, "it registers")
    said = "version is v2, configured v1"
    eventually(lambda: other.id in site.rows() and site.rows()[other.id].state == "refused", "it is refused")
    assert said in site.rows()[other.id].reason
    assert said in site.stack.errors
    listed = site.stack.run("replicas", "list")
    assert said in " ".join(listed.stdout.split())
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    with site.client() as client:
        for _ in range(10):
            whole = client.chat.completions.with_raw_response.create(model=MODEL, messages=messages, max_tokens=3)
            assert whole.headers[VERSION] == "v1"
            assert (whole.parse().system_fingerprint or "").endswith("@v1")
        with client.chat.completions.with_streaming_response.create(
            model=MODEL, messages=messages, max_tokens=3, stream=True
        ) as streamed:
            assert streamed.headers[VERSION] == "v1"
            streamed.read()
    status, _, body = ask(site.stack, method="GET", path="/readyz")
    counts = {"replicas": 2, "ready": 1, "refused": 1}
    assert (status, json.loads(body)["models"][MODEL]) == (200, counts)
