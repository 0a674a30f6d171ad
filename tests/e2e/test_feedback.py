"""Feedback on answers under real workers: it reaches the measures of the version that has answered, once."""

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from gateway.rollouts.measures.stored_measures import read_measures
from routing.rollouts.measures.measures import Measures
from routing.rollouts.split import CHANGED, SPLITS, Split
from tests.e2e.raw import Answer, ask, chat, error_of
from tests.e2e.stack import MODEL, Stack, config_text, eventually
from tests.ports import free_port
from tests.stores import running

FEEDBACK = "/v1/feedback"
OLD, NEW = "2026-10", "2026-11"
ALL = Split(model=MODEL, stable=OLD, candidate=NEW, share=1.0, salt="r1", epoch=1, configured=OLD)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Two workers and a replica of each version; the candidate answers everything."""
    text = config_text(free_port(), more="tenants: [{name: other}]\n")
    (pool,) = [line for line in text.splitlines() if "name: narrow" in line]
    pools = [
        pool.replace("name: narrow", f'name: {name}, version: "{version}"')
        for name, version in zip("ab", (OLD, NEW), strict=True)
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name), text.replace(pool, "\n".join(pools)))
        try:
            stack.start()
            with redis.Redis(unix_socket_path=store_path(stack)) as store:
                store.hset(SPLITS, MODEL, msgspec.json.encode(ALL))
                store.publish(CHANGED, b"")
            eventually(lambda: stack.errors.count("a share of 1") >= len(stack.workers), "both workers follow")
            yield stack
        finally:
            stack.close()


def store_path(stack: Stack) -> str:
    return str(stack.state_dir / "store.sock")


def measured(stack: Stack) -> dict[str, Measures]:
    async def read() -> dict[str, Measures]:
        async with running(f"unix://{store_path(stack)}") as store:
            return (await read_measures(store, "r1", time.time())).by_version

    return asyncio.run(read())


def total(stack: Stack, event: str) -> int:
    return measured(stack).get(NEW, Measures()).total(event)


def tell(stack: Stack, body: dict[str, Any], **request: Any) -> Answer:
    return ask(stack, body, path=FEEDBACK, **request)


def test_what_is_told_of_an_answer_counts_once_for_its_version(stack: Stack) -> None:
    """At once after the answer, at whichever worker, and again."""
    status, headers, body = ask(stack, chat(max_tokens=3))
    assert status == 200
    answer = json.loads(body)["id"]
    for _ in range(3):
        told = tell(stack, {"id": answer, "rating": "down", "regenerated": True})
        assert json.loads(told[2]) == {"object": "feedback", "id": answer, "model": MODEL, "version": NEW}
    # The header names the same answer, of which something else is told now.
    assert tell(stack, {"id": headers["x-request-id"], "accepted": True})[0] == 200
    # Each worker reports by itself.
    told_events = ("accepted", "thumbs", "regenerated")
    eventually(lambda: all(total(stack, event) == 1 for event in told_events), "what was told is reported")
    found = measured(stack)[NEW]
    assert [found.total(event) for event in ("requests", "answers", "thumbs", "thumbs_down", "regenerated")] == [1] * 5
    assert found.total("output_tokens") == 3
    assert found.histograms("ttft")


def test_feedback_that_cannot_be_taken_is_refused_by_name(stack: Stack) -> None:
    answer = json.loads(ask(stack, chat(max_tokens=1))[2])["id"]
    made = stack.run("keys", "create", "--tenant", "other", "--name", "other", "--json")
    other = {"Authorization": f"Bearer {json.loads(made.stdout)['key']}"}
    theirs = error_of(tell(stack, {"id": answer, "rating": "up"}, headers=other), 404)
    assert (theirs["code"], theirs["param"]) == ("answer_not_found", "id")
    assert error_of(tell(stack, {"id": "chatcmpl-1", "rating": "up"}), 404)["code"] == "answer_not_found"
    assert error_of(tell(stack, {"id": answer}), 400)["param"] == "rating"
    assert error_of(tell(stack, {"id": answer, "rating": "good"}), 400)["param"] == "rating"
    assert error_of(tell(stack, {"id": answer, "comment": "Good!", "rating": "up"}), 400)["param"] == "comment"
    assert tell(stack, {"id": answer, "rating": "up"})[0] == 200
