"""Versions of a model under real workers: each goes by the split in the store, soon after it is written."""

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import orjson
import pytest
import redis

from routing.rollouts.split import CHANGED, SPLITS, Split
from tests.e2e.raw import ask, begun, chat, connect, error_of, read_answer, request_bytes
from tests.e2e.stack import MODEL, Stack, config_text, eventually
from tests.ports import free_port

HEADER = "x-penstock-version"
OLD, NEW = "2026-10", "2026-11"
RUNNING = Split(model=MODEL, stable=OLD, candidate=NEW, salt="r1", epoch=1, configured=OLD)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Two workers and a replica of each version; only keys without a tenant's name may name a version."""
    text = config_text(free_port(), more="tenants: [{name: default, chooses_version: true}, {name: other}]\n")
    (pool,) = [line for line in text.splitlines() if "name: narrow" in line]
    pools = [
        pool.replace("name: narrow", f'name: {name}, version: "{version}"')
        for name, version in zip("ab", (OLD, NEW), strict=True)
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name), text.replace(pool, "\n".join(pools)))
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


@pytest.fixture
def store(stack: Stack) -> Iterator[redis.Redis]:
    client = redis.Redis(unix_socket_path=str(stack.state_dir / "store.sock"))
    yield client
    client.delete(SPLITS)
    client.publish(CHANGED, b"")
    eventually(lambda: versions_by_worker(stack) == dict.fromkeys(stack.workers, OLD), "the stable version alone")
    client.close()


def put(store: redis.Redis, split: Split) -> None:
    store.hset(SPLITS, split.model, msgspec.json.encode(split))
    store.publish(CHANGED, b"")


def versions_by_worker(stack: Stack, content: str = "Hello!") -> dict[int, str]:
    """The version that answers at each worker, or the status of what is no answer."""
    found: dict[int, str] = {}
    for _ in range(64):
        with connect(stack) as connection:
            connection.sendall(request_bytes(stack, orjson.dumps(chat(content, max_tokens=1))))
            status, headers, _ = read_answer(connection)
            found[stack.worker_of(connection)] = headers[HEADER] if status == 200 else str(status)
        if len(found) == len(stack.workers):
            break
    return found


def test_without_a_split_the_stable_version_answers_alone(stack: Stack) -> None:
    assert versions_by_worker(stack) == dict.fromkeys(stack.workers, OLD)


def test_all_workers_follow_a_split_and_an_abort(stack: Stack, store: redis.Redis) -> None:
    """A stream that the candidate has begun goes on there to its end."""
    for split, version in [(RUNNING, OLD), (msgspec.structs.replace(RUNNING, share=1.0, epoch=2), NEW)]:
        put(store, split)
        eventually(
            lambda version=version: versions_by_worker(stack) == dict.fromkeys(stack.workers, version),  # type: ignore[misc]
            f"{version} answers",
        )
    stream = begun(stack, max_tokens=200)
    put(store, Split(model=MODEL, stable=OLD, epoch=3, configured=OLD))
    eventually(lambda: versions_by_worker(stack) == dict.fromkeys(stack.workers, OLD), "the abort")
    rest = stream.rest()
    assert rest[-1] == b"[DONE]"
    assert dict(stream.response.getheaders())[HEADER] == NEW
    stream.close()


def test_workers_divide_conversations_alike(stack: Stack, store: redis.Redis) -> None:
    put(store, msgspec.structs.replace(RUNNING, share=0.5))
    texts = [f"conversation {number}" for number in range(12)]

    def divided() -> bool:
        return len({version for text in texts for version in versions_by_worker(stack, text).values()}) == 2

    eventually(divided, "both versions answer")
    for text in texts:
        assert len(set(versions_by_worker(stack, text).values())) == 1, text


def test_an_explanation_speaks_of_versions(stack: Stack) -> None:
    made = stack.run("keys", "create", "--name", "explain", "--explain", "--json")
    key = {"Authorization": f"Bearer {json.loads(made.stdout)['key']}", "x-penstock-explain": "1"}
    _, headers, _ = ask(stack, chat(max_tokens=1), headers=key)
    route = json.loads(headers["x-penstock-route"])
    assert (route["version"], headers[HEADER]) == (OLD, OLD)
    (other,) = [candidate for candidate in route["candidates"] if "excluded" in candidate]
    assert other == {"replica": "b/0", "excluded": f"is of version {NEW}, the request of {OLD}"}


def test_a_request_may_name_a_version_where_its_tenant_may(stack: Stack) -> None:
    named = ask(stack, chat(max_tokens=1), headers={HEADER: NEW})
    assert (named[0], named[1][HEADER]) == (200, NEW)
    unknown = error_of(ask(stack, chat(max_tokens=1), headers={HEADER: "v9"}), 400)
    assert unknown["param"] == HEADER
    assert f"it has {OLD}, {NEW}" in unknown["message"]
    made = stack.run("keys", "create", "--tenant", "other", "--name", "other", "--json")
    key = json.loads(made.stdout)["key"]
    refused = error_of(ask(stack, chat(max_tokens=1), headers={HEADER: NEW, "Authorization": f"Bearer {key}"}), 403)
    assert (refused["code"], refused["param"]) == ("version_not_allowed", HEADER)


def test_a_candidate_that_is_not_there_is_not_waited_for(stack: Stack, store: redis.Redis) -> None:
    put(store, msgspec.structs.replace(RUNNING, candidate="2026-12", share=1.0))
    eventually(lambda: stack.errors.count("2026-12 a share of 1") >= len(stack.workers), "both workers follow")
    assert versions_by_worker(stack) == dict.fromkeys(stack.workers, OLD)


def test_a_candidate_that_is_lost_takes_nobody_with_it(stack: Stack, store: redis.Redis) -> None:
    """Its stream ends with an error, as no other version may go on with it; the next requests are stable's."""
    put(store, msgspec.structs.replace(RUNNING, share=1.0, epoch=9))
    eventually(lambda: versions_by_worker(stack) == dict.fromkeys(stack.workers, NEW), "the candidate answers")
    stream = begun(stack)
    assert dict(stream.response.getheaders())[HEADER] == NEW
    (replica,) = stack.pids(f"--model-version {NEW}")
    os.kill(replica, signal.SIGKILL)
    rest = stream.rest()
    assert b"[DONE]" not in rest
    assert "error" in json.loads(rest[-1])
    stream.close()
    eventually(lambda: set(versions_by_worker(stack).values()) <= {OLD, NEW}, "the stable version answers")
    eventually(lambda: versions_by_worker(stack) == dict.fromkeys(stack.workers, NEW), "the candidate is back")
