"""Host groups of replicas that the local launcher starts: they find each other, and change their shape."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.raw import ask, chat
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_admin import admin, up
from tests.harness import MODEL
from tests.ports import free_port

GPUS = [4, 5, 6, 7]


def text() -> str:
    pool = {
        "name": "p",
        "engine": "simulated",
        "replicas": "registered",
        "launcher": "local",
        "group_gpus": 4,
        "scaling": {"min": 4, "max": 4},
        "simulated": {"profile": "llama-3.1-70b", "pace_ms": 5},
    }
    model = {
        "name": MODEL,
        "tokenizer": "mistral-tekken",
        "context": 131_072,
        "pools": [pool],
        "reshape": {"mode": "off"},
    }
    config = {
        "listen": {"host": "127.0.0.1", "workers": 1, "grace_seconds": 0, "drain_seconds": 5, "port": free_port()},
        "admin": {"port": free_port()},
        "state": "./state",
        "store": {"url": "embedded", "timeout_seconds": 5},
        "launchers": {"local": {"gpus": GPUS}},
        "models": [model],
    }
    return yaml.safe_dump(config, sort_keys=False)


def groups(stack: Stack) -> dict[str, dict[str, Any]]:
    status, _, body = admin(stack, "GET", "/admin/reshape")
    assert status == 200, body
    return {group["group"]: group for group in json.loads(body)["models"][0]["groups"]}


def whole(stack: Stack) -> bool:
    found = groups(stack)
    return "p-0" in found and not found["p-0"]["held"] and not found["p-0"]["problem"]


@pytest.mark.drill
def test_replicas_of_the_local_launcher_form_groups_that_change(tmp_path: Path) -> None:
    stack = Stack(tmp_path, text())
    try:
        stack.start()
        eventually(lambda: up(stack), "the admin API is up")
        eventually(lambda: whole(stack), "the group is whole", 90)
        for shape, name in (("2,2", "2 x TP2"), ("1,1,1,1", "4 x TP1"), ("4", "TP4"), ("1,1,1,1", "4 x TP1")):
            done = stack.run("reshape", "apply", MODEL, "p-0", shape)
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(f"p-0 is {name}")
            assert ask(stack, chat(max_tokens=3))[0] == 200
        assert [len(stack.pids(f"--group p-0 --group-gpus 4 --gpu {place} ")) for place in range(4)] == [1] * 4
    except AssertionError as error:
        error.add_note(f"{groups(stack)}\n{stack.errors[-3000:]}")
        raise
    finally:
        stack.close()
