"""Shapes for real: a gateway and a group of replica processes, which becomes wide for a long request."""

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.raw import ask, chat
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_admin import admin, up
from tests.harness import MODEL
from tests.ports import free_port
from tests.reshaping import GROUP, MemberProcess, processes

GPUS = 4
#: In which the controller hears that a process is gone, and that it is there again.
REST_SECONDS = 5.0


def text_of(members: list[MemberProcess], **reshape: Any) -> str:
    pool = {"name": "p", "engine": "simulated", "replicas": [member.address for member in members]}
    model = {
        "name": MODEL,
        "tokenizer": "mistral-tekken",
        "context": 131_072,
        "pools": [pool],
        "reshape": {"mode": "apply", "cool_down_seconds": 2, **reshape},
    }
    config = {
        "listen": {"host": "127.0.0.1", "workers": 1, "grace_seconds": 0, "drain_seconds": 5, "port": free_port()},
        "admin": {"port": free_port()},
        "state": "./state",
        "store": {"url": "embedded", "timeout_seconds": 5},
        "models": [model],
    }
    return yaml.safe_dump(config, sort_keys=False)


class Site:
    """A gateway in front of a group of four processes."""

    def __init__(self, folder: Path, members: list[MemberProcess], **reshape: Any) -> None:
        self.members = members
        self.stack = Stack(folder, text_of(members, **reshape))
        self.stack.start()
        eventually(lambda: up(self.stack), "the admin API is up")
        eventually(lambda: self.group().get("held") == "", "the controller sees the group")

    def group(self) -> dict[str, Any]:
        status, _, body = admin(self.stack, "GET", "/admin/reshape")
        assert status == 200, body
        groups = json.loads(body)["models"][0]["groups"]
        return groups[0] if groups else {}

    def history(self) -> list[dict[str, Any]]:
        status, _, body = admin(self.stack, "GET", "/admin/reshape/history")
        assert status == 200, body
        found: list[dict[str, Any]] = json.loads(body)["events"]
        return found

    def stands(self, *widths: int) -> bool:
        group = self.group()
        change = group["change"]
        return (
            group["shape"] == list(widths)
            and group["problem"] == ""
            and (change is None or change["ended"] is not None)
        )

    def wait(self, *widths: int) -> None:
        try:
            eventually(lambda: self.stands(*widths), f"the group is {widths}")
        except AssertionError as error:
            error.add_note(f"{self.group()}\n{self.history()}\n{self.stack.errors[-3000:]}")
            raise

    def killed_after(self, widths: list[int]) -> None:
        """Order a shape, kill the controller at once, and see the next one finish the change or take it back."""
        body = {"model": MODEL, "group": GROUP, "shape": widths}
        before = self.controller
        status, _, said = admin(self.stack, "POST", "/admin/reshape/apply", body)
        assert status == 200, said
        os.kill(before, signal.SIGKILL)
        eventually(lambda: self.controllers() not in ([], [before]), "another one runs")
        try:
            eventually(lambda: self.ended(body), "the next one has finished or aborted")
        except AssertionError as error:
            error.add_note(f"{self.group()}\n{self.history()}\n{self.stack.errors[-3000:]}")
            raise
        assert self.group()["problem"] == ""
        if self.group()["shape"] != widths:
            eventually(lambda: self.group()["held"] == "", "it may be changed again")
            again = self.stack.run("reshape", "apply", MODEL, GROUP, ",".join(map(str, widths)))
            assert again.returncode == 0, again.stderr
        self.wait(*widths)

    def rest(self, order: dict[str, Any]) -> None:
        """Wait until an order's change has ended, and the group has been legal and free for some seconds."""
        free_since = 0.0

        def rests() -> bool:
            nonlocal free_since
            group = self.group()
            free = self.ended(order) and group.get("held") == "" and group["problem"] == ""
            free_since = (free_since or time.monotonic()) if free else 0.0
            return free and time.monotonic() - free_since > REST_SECONDS

        try:
            eventually(rests, "the group may be changed again", 90)
        except AssertionError as error:
            error.add_note(f"{self.group()}\n{self.history()}\n{self.stack.errors[-3000:]}")
            raise

    def ended(self, order: dict[str, Any]) -> bool:
        """Whether the last change is one of this order, and has ended, or the order was refused."""
        change = self.group()["change"]
        if change is not None and change["after"] == list(order["shape"]) and change["ended"] is not None:
            return True
        # What was ordered may have come about before the order was taken, by the loss of a member.
        return any(one["phase"] == "refused" and one["order"] == order.get("id") for one in self.history())

    def controllers(self) -> list[int]:
        return self.stack.pids("gateway.cli.main controller")

    @property
    def controller(self) -> int:
        (pid,) = self.controllers()
        return pid


@pytest.fixture
def members() -> Iterator[list[MemberProcess]]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as folder,
        processes(
            Path(folder), GPUS, "--profile", "llama-3.1-70b", "--max-sequence-tokens", "131072", "--pace-ms", "5"
        ) as found,
    ):
        yield found


def test_a_long_request_finds_a_wide_replica_and_operators_make_it_narrow_again(
    members: list[MemberProcess], tmp_path: Path
) -> None:
    # To go back by itself would have to gain a hundred times its cost within a second.
    site = Site(tmp_path, members, margin=100, horizon_seconds=1)
    try:
        narrow = min(width["kv_tokens"] for width in site.group()["widths"])
        streams = Streams(site.stack, 6)
        streams.start()
        long = chat(" word" * (narrow + 1000), max_tokens=8)
        answer = ask(site.stack, long)
        assert answer[0] == 200, answer[2][:400]
        assert json.loads(answer[2])["usage"]["prompt_tokens"] > narrow
        # The narrowest that holds it.
        site.wait(2, 1, 1)
        eventually(lambda: made_narrow(site), "the group is narrow again")
        streams.stop()
        assert streams.failures == []
        assert streams.answered
    finally:
        site.stack.close()


def made_narrow(site: Site) -> bool:
    """Order narrow replicas; whether that was done, or workers have last said that a long request still runs."""
    done = site.stack.run("reshape", "apply", MODEL, GROUP, "1,1,1,1")
    if done.returncode:
        assert "runs a request of" in done.stderr
        return False
    assert done.stdout.startswith(f"{GROUP} is 4 x TP1 after ")
    return True


@pytest.mark.drill
def test_a_controller_that_is_killed_in_the_middle_leaves_a_legal_group(
    members: list[MemberProcess], tmp_path: Path
) -> None:
    site = Site(tmp_path, members, mode="off")
    try:
        for widths in ([4], [1, 1, 1, 1], [1, 1, 2]):
            site.killed_after(widths)
    finally:
        site.stack.close()


@pytest.mark.drill
@pytest.mark.parametrize("victim", [0, 2])
def test_a_replica_that_is_killed_in_the_middle_ends_the_change_and_not_the_group(
    members: list[MemberProcess], tmp_path: Path, victim: int
) -> None:
    site = Site(tmp_path, members, mode="off", transform_seconds=10)
    try:
        for widths in ([4], [1, 1, 1, 1]):
            body = {"model": MODEL, "group": GROUP, "shape": widths}
            status, _, said = admin(site.stack, "POST", "/admin/reshape/apply", body)
            assert status == 200, said
            members[victim].kill()
            members[victim].start()
            site.rest({**body, "id": json.loads(said)["id"]})
            if site.group()["shape"] != widths:
                # The loss of a member of a wide replica makes all narrow, which may be what was ordered.
                assert site.group()["shape"] == [1, 1, 1, 1]
                again = site.stack.run("reshape", "apply", MODEL, GROUP, ",".join(map(str, widths)))
                assert again.returncode == 0, again.stderr
            site.wait(*widths)
        assert ask(site.stack, chat(max_tokens=3))[0] == 200
    finally:
        site.stack.close()


def relaunch_text() -> str:
    """A model of up to four narrow replicas, or a wide one, on four GPUs that the local launcher gives."""

    def pool(name: str, tp: int, least: int, most: int) -> dict[str, Any]:
        return {
            "name": name,
            "engine": "simulated",
            "replicas": "registered",
            "shape": {"tp": tp},
            "launcher": "local",
            "scaling": {"min": least, "max": most, "price_per_hour": 2.0 * tp, "start_timeout_seconds": 60},
            "simulated": {"profile": "llama-3.1-70b", "pace_ms": 5},
        }

    relaunch = {"narrow": "narrow", "wide": "wide", "narrow_kv_tokens": 54_000, "wide_kv_tokens": 1_200_000}
    model = {
        "name": MODEL,
        "tokenizer": "mistral-tekken",
        "context": 131_072,
        "pools": [pool("narrow", 1, 2, 4), pool("wide", 4, 0, 1)],
        "reshape": {"mode": "off", "relaunch": relaunch},
    }
    return yaml.safe_dump(
        {
            "listen": {"host": "127.0.0.1", "workers": 1, "grace_seconds": 0, "drain_seconds": 5, "port": free_port()},
            "admin": {"port": free_port()},
            "state": "./state",
            "store": {"url": "embedded", "timeout_seconds": 5},
            "launchers": {"local": {"gpus": [0, 1, 2, 3]}},
            "models": [model],
        },
        sort_keys=False,
    )


def places(stack: Stack) -> dict[str, Any]:
    """Return the group of places as the controller tells of it; empty: it does not yet."""
    (model,) = json.loads(stack.run("reshape", "status", "--json").stdout)["models"]
    found: list[dict[str, Any]] = model["groups"]
    return found[0] if found else {}


def become(stack: Stack, shape: list[int], *, wide: int) -> None:
    """Order a shape, and wait until its processes are those that run."""
    eventually(lambda: places(stack)["held"] == "", "nothing is held")
    given = ",".join(map(str, shape))
    done = stack.run("reshape", "apply", MODEL, "narrow/wide", given, "--wait", "25")
    assert done.returncode == 0, done.stderr
    eventually(lambda: places(stack)["shape"] == shape, f"it is {shape}", 90)
    eventually(lambda: len(stack.pids("--tp 4")) == wide, "the wide one runs, or does not")


@pytest.mark.drill
def test_narrow_processes_end_and_a_wide_one_starts_on_their_gpus(tmp_path: Path) -> None:
    stack = Stack(tmp_path, relaunch_text())
    try:
        stack.start()
        eventually(lambda: up(stack), "the admin API is up")
        eventually(lambda: len(stack.pids("--tp 1")) == 2, "two narrow ones run")
        eventually(lambda: places(stack) != {}, "the places are known")
        eventually(lambda: ask(stack, chat(max_tokens=3))[0] == 200, "they answer")
        streams = Streams(stack, 3)
        streams.start()
        become(stack, [4], wide=1)
        become(stack, [1, 1, 1, 1], wide=0)
        streams.stop()
        assert streams.failures == []
        assert streams.answered
    finally:
        stack.close()


class Streams:
    """Clients that ask for short answers, one after the other."""

    def __init__(self, stack: Stack, clients: int) -> None:
        self.answered = 0
        self.failures: list[bytes] = []
        self._stack = stack
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(clients)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, client: int) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            answer = ask(self._stack, chat(f"client {client}, question {number}", max_tokens=60, ignore_eos=True))
            if answer[0] == 200:
                self.answered += 1
            else:
                self.failures.append(answer[2])
