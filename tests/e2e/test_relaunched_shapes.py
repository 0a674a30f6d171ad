"""Shapes of engines that cannot change in place: what waits has processes end and others start, and go back."""

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.e2e.raw import Answer, chat, connect, read_answer, request_bytes
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_admin import admin, up
from tests.harness import MODEL
from tests.ports import free_port

GPUS = 4
#: Tokens that a narrow replica of the profile does not hold.
LONG = 60_000
#: In which a change is decided, and what goes has drained, and what comes has started.
CHANGE_SECONDS = 240.0


def text() -> str:
    """Up to four narrow replicas, or a wide one; each serves few requests at a time, slowly, so that width is dear."""

    def pool(name: str, tp: int, least: int, most: int) -> dict[str, Any]:
        return {
            "name": name,
            "engine": "simulated",
            "replicas": "registered",
            "shape": {"tp": tp},
            "launcher": "local",
            "scaling": {"min": least, "max": most, "price_per_hour": 2.0 * tp, "start_timeout_seconds": 60},
            "simulated": {"profile": "llama-3.1-70b", "pace_ms": 100},
            "replica_arguments": ["--slots", "3"],
        }

    model = {
        "name": MODEL,
        "tokenizer": "mistral-tekken",
        "context": 131_072,
        "pools": [pool("tp1", 1, 2, GPUS), pool("tp4", 4, 0, 1)],
        # No target is missed: capacity is what slots bound.
        "routing": {"targets": {"ttft_ms": 60_000, "tpot_ms": 1000}},
        "reshape": {
            "mode": "apply",
            "cool_down_seconds": 5,
            "margin": 1,
            # What narrow ones hold is learned; none of the others has run yet.
            "relaunch": {"narrow": "tp1", "wide": "tp4", "wide_kv_tokens": 1_200_000},
        },
    }
    config = {
        "listen": {"host": "127.0.0.1", "workers": 1, "grace_seconds": 0, "drain_seconds": 5, "port": free_port()},
        "admin": {"port": free_port()},
        "state": "./state",
        "store": {"url": "embedded", "timeout_seconds": 5},
        "launchers": {"local": {"gpus": list(range(GPUS))}},
        "models": [model],
    }
    return yaml.safe_dump(config, sort_keys=False)


class Client(threading.Thread):
    """Asks again and again until it is told to end, or with `once` until it is answered."""

    def __init__(self, stack: Stack, body: Callable[[int], dict[str, Any]], *, once: bool = False) -> None:
        super().__init__()
        self.answers: list[Answer] = []
        self._stack, self._body, self._once, self._over = stack, body, once, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._over.is_set():
            with connect(self._stack, timeout=300.0) as connection:
                body = orjson.dumps(self._body(len(self.answers)))
                connection.sendall(request_bytes(self._stack, body))
                self.answers.append(read_answer(connection))
            if self._once and self.answers[-1][0] == 200:
                break

    def end(self) -> list[Answer]:
        self._over.set()
        self.join()
        return self.answers


def short(client: int, turn: int) -> dict[str, Any]:
    return chat(f"client {client}, question {turn}" + " word" * 20, max_tokens=20, ignore_eos=True)


def long(turn: int) -> dict[str, Any]:
    return chat(f"question {turn}" + " word" * LONG, max_tokens=4)


def group(stack: Stack) -> dict[str, Any]:
    status, _, body = admin(stack, "GET", "/admin/reshape")
    assert status == 200, body
    groups = json.loads(body)["models"][0]["groups"]
    return groups[0] if groups else {}


def stands(stack: Stack, shape: list[int]) -> bool:
    found = group(stack)
    return found["shape"] == shape and found["change"] is not None and found["change"]["phase"] == "done"


@pytest.mark.drill
def test_long_requests_that_wait_have_a_wide_replica_start_and_short_ones_have_it_go(tmp_path: Path) -> None:
    stack = Stack(tmp_path, text())
    clients: list[Client] = []
    try:
        stack.start()
        eventually(lambda: up(stack), "the admin API is up")
        clients = [Client(stack, partial(short, number)) for number in range(10)]
        eventually(lambda: group(stack).get("undecided") == "", "what narrow ones hold and serve is learned", 90)
        clients.append(asks_long := Client(stack, long, once=True))
        eventually(lambda: stands(stack, [4]), "the wide one serves", CHANGE_SECONDS)
        asks_long.join(CHANGE_SECONDS)
        assert json.loads(clients.pop().answers[-1][2])["usage"]["prompt_tokens"] > LONG
        eventually(lambda: stands(stack, [1] * GPUS), "the narrow ones serve again", CHANGE_SECONDS)
        eventually(lambda: not stack.pids("--tp 4"), "the wide one has ended", 30)
        answers = [answer for client in clients for answer in client.end()]
        assert [answer for answer in answers if answer[0] != 200] == []
    except AssertionError as error:
        error.add_note(f"{group(stack)}\n{stack.run('reshape', 'history').stdout}")
        error.add_note(stack.errors[-3000:])
        raise
    finally:
        for client in clients:
            client.end()
        stack.close()
