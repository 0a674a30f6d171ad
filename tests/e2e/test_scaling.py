"""A fleet that sizes itself, with real processes: to and from zero, a flash crowd, and what kills break."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.crowd import Crowd
from tests.e2e.raw import Stream, ask, error_of
from tests.e2e.scaled_site import AT_ZERO, MODEL, ScaledSite, shipped_config
from tests.e2e.stack import HANGS_SECONDS, eventually

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
    site.wait_for(0, AT_ZERO)
    eventually(lambda: readiness(site)[1].get("at_zero", False), "the worker sees it")
    assert ask(site.stack, question())[0] == 200
    site.wait_for(1)
    # A replica that goes because nobody needs it is no reason to warn anybody.
    assert not [line for line in site.stack.errors.splitlines() if "warning" in line.lower() and "replica" in line]


@pytest.mark.drill
def test_a_flash_crowd_and_back_without_a_failed_request(site: ScaledSite) -> None:
    crowd = Crowd(site.stack, MODEL, rate=1.0)
    crowd.start()
    eventually(lambda: crowd.answered >= 3, "answers come")
    crowd.rate = 16.0
    eventually(lambda: site.pool().ready >= 4, "four replicas serve")
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
    eventually(lambda: site.controllers() not in ([], [old]), "another one runs")
    site.set(4)
    site.wait_for(4)
    assert set(before) < set(site.replicas()), "the new one has taken over what ran"
    crowd.stop()
    assert crowd.failures == []


@pytest.mark.drill
@pytest.mark.parametrize("acting", [False, True])
def test_a_controller_that_ends_leaves_replicas_to_another_one_of_its_folder(site: ScaledSite, acting: bool) -> None:
    site.set(2)
    site.wait_for(2)
    before = site.replicas()
    (first,) = site.controllers()
    command = [sys.executable, "-m", "gateway.cli.main", "controller", "--config", str(site.stack.config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
        try:
            assert second.stderr is not None
            assert "is the controller" in second.stderr.readline()
            ending = first if acting else second.pid
            os.kill(ending, signal.SIGTERM)
            if acting:
                eventually(lambda: first not in site.controllers(), "it has ended")
            else:
                assert second.wait(HANGS_SECONDS) == 0
            assert site.replicas() == before
            site.wait_for(2)
            assert site.replicas() == before
        finally:
            second.kill()


@pytest.mark.drill
def test_a_replica_that_dies_while_it_starts_is_started_again(site: ScaledSite) -> None:
    before = set(site.replicas())
    site.set(3)
    eventually(lambda: len(set(site.replicas()) - before) >= 1, "a process begins")
    for pid in set(site.replicas()) - before:
        os.kill(pid, signal.SIGKILL)
    site.wait_for(3)


@pytest.mark.drill
def test_a_replica_that_dies_while_it_drains_breaks_no_stream(site: ScaledSite) -> None:
    site.set(3)
    site.wait_for(3)
    crowd = Crowd(site.stack, MODEL, rate=6.0, tokens=300)
    crowd.start()
    eventually(lambda: crowd.open >= 12, "streams are open")
    running = site.replicas()
    site.set(2)
    eventually(lambda: len(site.pool().stopping) == 1, "one drains")
    (leaving,) = site.pool().stopping
    (pid,) = [pid for pid in running if leaving.id in site.stack.processes().get(pid, "")]
    os.kill(pid, signal.SIGKILL)
    site.wait_for(2)
    crowd.stop(90)
    assert crowd.failures == []


@pytest.mark.drill
def test_a_replica_that_stands_still_is_replaced_and_others_that_do_so_together_are_not(site: ScaledSite) -> None:
    site.set(3)
    site.wait_for(3)
    crowd = Crowd(site.stack, MODEL, rate=2.0)
    crowd.start()
    before = site.replicas()
    os.kill(before[0], signal.SIGSTOP)
    eventually(lambda: before[0] not in site.replicas(), "it is ended", 120)
    site.wait_for(3)
    assert set(before[1:]) < set(site.replicas()), "the others went on"
    crowd.stop(90)
    assert crowd.failures == []
    stopped = site.replicas()[:2]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: any("2 of 3" in one for one in site.model().warnings), "it is told", 100)
        time.sleep(5)
        assert set(stopped) < set(site.replicas())
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: not any("2 of 3" in one for one in site.model().warnings), "they are well again")


@pytest.fixture
def known(tmp_path: Path) -> Iterator[ScaledSite]:
    """One whose tenant is served while the store is away."""
    made = ScaledSite(tmp_path, shipped_config(HASTY, tenants=[{"name": "default", "on_store_failure": "fail_open"}]))
    try:
        made.start()
        made.wait_for(1)
        yield made
    finally:
        made.close()


@pytest.mark.drill
def test_a_store_that_stands_still_in_the_middle_of_a_start(known: ScaledSite) -> None:
    crowd = Crowd(known.stack, MODEL, rate=2.0)
    crowd.start()
    eventually(lambda: crowd.answered >= 2, "answers come")
    before = set(known.replicas())
    known.set(4)
    eventually(lambda: len(set(known.replicas()) - before) >= 1, "a process begins")
    (store,) = known.stack.stores
    os.kill(store, signal.SIGSTOP)
    try:
        time.sleep(15)
        assert len(known.replicas()) <= 4
    finally:
        os.kill(store, signal.SIGCONT)
    known.wait_for(4)
    crowd.stop(90)
    assert crowd.failures == []
    known.set(None)
    known.wait_for(1, seconds=90)


def hooked_site(tmp_path: Path, text: str) -> ScaledSite:
    """A site whose launcher is commands of the operator's own, in place of the local one of `text`."""
    hooked = yaml.safe_load(text)
    (tmp_path / "local.yaml").write_text(text)
    hook = [sys.executable, "-m", "tests.e2e.launcher_hook", str(tmp_path / "local.yaml")]
    commands = {action: [*hook, action] for action in ("start", "observe", "stop")}
    hooked["launchers"] = {"command": commands | {"timeout_seconds": 10}}
    for model in hooked["models"]:
        model["pools"][0]["launcher"] = "command"
        del model["pools"][0]["simulated"]  # the hooks have their own configuration
    return ScaledSite(tmp_path, yaml.safe_dump(hooked, sort_keys=False))


@pytest.fixture
def commanded(tmp_path: Path) -> Iterator[ScaledSite]:
    """One whose launcher's commands a test can make hang."""
    made = hooked_site(tmp_path, shipped_config(HASTY))
    try:
        made.start()
        made.wait_for(1)
        yield made
    finally:
        made.close()


@pytest.mark.drill
def test_a_launcher_that_hangs_starts_nothing_twice(commanded: ScaledSite, tmp_path: Path) -> None:
    crowd = Crowd(commanded.stack, MODEL, rate=2.0)
    crowd.start()
    (tmp_path / "hang").touch()
    commanded.set(3)
    eventually(lambda: commanded.pool().problem != "", "it is said that the launcher hangs")
    assert len(commanded.replicas()) <= 3
    (tmp_path / "hang").unlink()
    commanded.wait_for(3)
    commanded.set(1)
    commanded.wait_for(1)
    crowd.stop(90)
    assert crowd.failures == []


@pytest.fixture
def preemptible(tmp_path: Path) -> Iterator[ScaledSite]:
    """One with a base on demand and up to five more on preemptible capacity, and a tenant of each end of the tiers."""
    tenants = [{"name": "paying", "tier": "gold"}, {"name": "trial", "tier": "bronze"}]
    text = shipped_config(HASTY, tenants=tenants)
    assert "price_per_hour: 2.5" in text
    spot = "price_per_hour: 2.5\n      spot_max: 5\n      spot_price_per_hour: 0.8"
    made = hooked_site(tmp_path, text.replace("price_per_hour: 2.5", spot))
    try:
        made.start()
        made.wait_for(1)
        yield made
    finally:
        made.close()


def key_of(site: ScaledSite, tenant: str) -> str:
    made = site.stack.run("keys", "create", "--name", tenant, "--tenant", tenant, "--json")
    assert made.returncode == 0, made.stderr
    key: str = json.loads(made.stdout)["key"]
    return key


@pytest.mark.drill
def test_all_preemptible_replicas_are_lost_at_once(preemptible: ScaledSite, tmp_path: Path) -> None:
    """The base serves the highest tier, whatever else waits, until others have been started on demand."""
    preemptible.set(4)
    preemptible.wait_for(4)
    assert (preemptible.pool().spot_ready, preemptible.pool().spot_wanted) == (3, 3)
    paying = Crowd(preemptible.stack, MODEL, rate=2.0, key=key_of(preemptible, "paying"))
    trial = Crowd(preemptible.stack, MODEL, rate=8.0, key=key_of(preemptible, "trial"))
    paying.start()
    trial.start()
    eventually(lambda: paying.answered >= 3 and trial.answered >= 8, "answers come", 60)
    (tmp_path / "preempted").write_text(str(time.time() + 60))
    eventually(lambda: preemptible.pool().spot_ready == 0, "they are drained", 60)
    preemptible.wait_for(4, seconds=120)
    assert (preemptible.pool().spot_ready, preemptible.pool().spot_wanted) == (0, 0)
    paying.stop(90)
    trial.stop(90)
    assert paying.failures == []
    assert [one for one in trial.failures if " 503 " not in one and " 429 " not in one] == []


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


def test_other_bounds_count_without_a_restart(site: ScaledSite) -> None:
    """The controller's process takes them with the others, and leaves what runs."""
    controllers, replicas = site.controllers(), site.replicas()
    assert site.pool().max == 6
    text = site.stack.config.read_text(encoding="utf-8")
    assert "max: 6" in text
    site.stack.config.write_text(text.replace("max: 6", "max: 5"), encoding="utf-8")
    site.stack.signal(signal.SIGHUP)
    eventually(lambda: site.pool().max == 5, "the controller goes by them")
    assert (site.controllers(), site.replicas()) == (controllers, replicas)
    # The supervisor says so once all have told it.
    eventually(lambda: " taken by 3 processes" in site.stack.errors, "all three have taken them")
