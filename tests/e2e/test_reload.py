"""A changed configuration is taken without a restart: by real processes, with streams under way."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.e2e.conftest import prepared
from tests.e2e.raw import ask, begun, chat, connect, read_answer, request_bytes
from tests.e2e.stack import HANGS_SECONDS, MODEL, PENSTOCK, Stack, eventually
from tests.e2e.test_processes import streams_on_every_worker

AT = "    context: 32768\n"
PRICED = f"{AT}    price: {{input: 1, output: 1}}\n"


def put(stack: Stack, text: str) -> None:
    """Replace the file as an editor does, by a rename."""
    fresh = stack.config.with_name("fresh.yaml")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, stack.config)


def changed(stack: Stack, old: str, new: str) -> str:
    text = stack.config.read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new)


def taken(stack: Stack) -> int:
    return sum(" taken by " in line for line in stack.errors.splitlines())


def refused(stack: Stack) -> int:
    return stack.errors.count("configuration refused")


def joined(stack: Stack) -> Stack:
    """Wait until all processes have told the supervisor that they are there."""

    def all_there() -> bool:
        done = stack.run("config", "reload")
        assert done.returncode == 0, done.stderr
        return "Nothing differs" in done.stdout

    eventually(all_there, "the supervisor answers")
    eventually(lambda: b"penstock_config_workers{" in metrics(stack), "workers tell their configuration")
    return stack


def admin(stack: Stack, method: str, path: str) -> tuple[int, Any]:
    key = (stack.state_dir / "admin.key").read_text().strip()
    request = urllib.request.Request(f"http://127.0.0.1:{stack.admin_port}{path}", method=method)
    request.add_header("authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=HANGS_SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def metrics(stack: Stack) -> bytes:
    body: bytes = admin(stack, "GET", "/metrics")[1]
    return body


def on_every_worker(stack: Stack, **fields: Any) -> list[int]:
    """The status of a request to each worker; fewer where one cannot be reached."""
    found: dict[int, int] = {}
    body = orjson.dumps(chat(max_tokens=1, **fields))
    with contextlib.suppress(OSError):
        for _ in range(64):
            with connect(stack) as connection:
                connection.sendall(request_bytes(stack, body))
                status = read_answer(connection)[0]
                found.setdefault(stack.worker_of(connection), status)
            if len(found) == len(stack.workers):
                break
    return list(found.values())


def test_streams_under_way_go_on_over_every_kind_of_change(start: Callable[..., Stack]) -> None:
    """A price, a policy of routing (which makes a new fleet), filters and tenants, one after the other."""
    stack = joined(start(simulated="pace_ms: 5"))
    workers = stack.workers
    streams = [stream for _ in range(4) for stream in streams_on_every_worker(stack, max_tokens=1500)]
    rests: list[list[bytes]] = []
    readers = [threading.Thread(target=lambda s=stream: rests.append(s.rest())) for stream in streams]
    for reader in readers:
        reader.start()
    for number, (old, new) in enumerate(
        [
            (AT, PRICED),
            ("output: 1}", "output: 1000}"),
            ("{policy: auto}", "{policy: least_load}"),
            ("models:\n", "safety: {input: [injection]}\ntenants: [{name: acme}]\nmodels:\n"),
        ]
    ):
        put(stack, changed(stack, old, new))
        stack.signal(signal.SIGHUP)
        eventually(lambda number=number: taken(stack) == number + 1, f"{new} is taken")  # type: ignore[misc]
        assert ask(stack, chat(max_tokens=4))[0] == 200
    assert any(reader.is_alive() for reader in readers), "the streams must outlast the changes for this to count"
    for reader in readers:
        reader.join(HANGS_SECONDS)
    assert [rest[-1] for rest in rests] == [b"[DONE]"] * len(streams)
    assert stack.workers == workers
    assert refused(stack) == 0
    assert "Traceback" not in stack.errors


def test_a_file_that_is_half_written_is_refused_and_the_whole_one_taken(start: Callable[..., Stack]) -> None:
    stack = joined(start())
    whole = changed(stack, AT, f"{AT}    aliases: [other]\n")
    stack.config.write_text(whole[: whole.index("aliases") + 9], encoding="utf-8")
    eventually(lambda: refused(stack) == 1, "half a file is refused")
    assert str(stack.config) in stack.errors
    assert ask(stack, chat(max_tokens=1))[0] == 200
    eventually(lambda: b"penstock_config_last_reload_successful 0" in metrics(stack), "the metric says so")
    stack.config.write_text(whole, encoding="utf-8")
    eventually(lambda: taken(stack) == 1, "the whole file is taken")
    assert on_every_worker(stack, model="other") == [200, 200]
    eventually(lambda: b"penstock_config_last_reload_successful 1" in metrics(stack), "the metric says so")


def test_a_config_map_is_followed() -> None:
    """Kubernetes exchanges the link `..data`, and neither the file nor its folder."""
    with prepared() as stack:
        text = stack.config.read_text(encoding="utf-8")
        stack.config.unlink()
        for name, content in (("..v1", text), ("..v2", text.replace(AT, f"{AT}    aliases: [other]\n"))):
            (stack.folder / name).mkdir()
            # What is relative in it is so to the folder of the version.
            (stack.folder / name / "penstock.yaml").write_text(
                content.replace("state: ./state", f"state: {stack.state_dir}"), encoding="utf-8"
            )
        (stack.folder / "..data").symlink_to("..v1")
        stack.config.symlink_to("..data/penstock.yaml")
        stack.start()
        joined(stack)
        (stack.folder / "..tmp").symlink_to("..v2")
        os.replace(stack.folder / "..tmp", stack.folder / "..data")
        eventually(lambda: taken(stack) == 1, "the other version is taken")
        assert on_every_worker(stack, model="other") == [200, 200]


def test_what_needs_a_restart_is_refused_by_name(start: Callable[..., Stack]) -> None:
    stack = joined(start(workers=1))
    before = stack.workers
    stream = begun(stack)
    put(stack, changed(stack, "workers: 1", "workers: 2"))
    stack.signal(signal.SIGHUP)
    eventually(lambda: refused(stack) == 1, "it is refused")
    assert "it needs a restart: listen.workers: 1 -> 2" in stack.errors
    done = stack.run("config", "reload")
    assert done.returncode == 1
    assert "listen.workers: 1 -> 2" in done.stderr
    differs = stack_diff(stack)
    assert differs.returncode == 3
    assert "listen.workers: 1 -> 2" in differs.stdout
    for _ in range(20):
        stream.until_token()
    stream.close()
    assert stack.workers == before
    assert "Traceback" not in stack.errors


def stack_diff(stack: Stack, file: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [str(PENSTOCK), "config", "diff", str(file or stack.config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, cwd=stack.folder, check=False)


def test_the_admin_api_answers_for_each_process(start: Callable[..., Stack]) -> None:
    stack = joined(start())
    text = changed(stack, "models:\n", "tenants: [{name: acme, limits: {rpm: 5}}]\nmodels:\n")
    other = stack.folder / "other.yaml"
    other.write_text(text, encoding="utf-8")
    differs = stack_diff(stack, other)
    assert (differs.returncode, differs.stdout) == (1, "tenants[acme]: added\n")
    put(stack, text)
    status, body = admin(stack, "POST", "/admin/config/reload")
    answer = json.loads(body)
    assert status == 200
    assert (answer["result"], answer["changes"], answer["problem"]) == ("taken", ["tenants[acme]: added"], "")
    assert sorted(one["role"] for one in answer["processes"]) == ["admin", "worker", "worker"]
    assert {one["pid"] for one in answer["processes"]} == {*stack.workers, *stack.admins}
    # The admin process itself goes by it.
    assert json.loads(admin(stack, "GET", "/admin/tenants/acme")[1])["source"] == "file"
    assert stack_diff(stack).returncode == 0
    eventually(
        lambda: f'penstock_config_workers{{digest="{answer["digest"]}"}} 2'.encode() in metrics(stack),
        "both workers serve by it",
    )


@pytest.mark.parametrize("first", ["signal", "kill"])
def test_a_worker_that_is_killed_meanwhile_serves_what_the_others_serve(
    start: Callable[..., Stack], first: str
) -> None:
    stack = joined(start())
    victim = stack.workers[0]
    put(stack, changed(stack, AT, f"{AT}    aliases: [other]\n"))
    if first == "kill":
        os.kill(victim, signal.SIGKILL)
    # Twice, too: the second finds nothing more to do.
    stack.signal(signal.SIGHUP)
    stack.signal(signal.SIGHUP)
    if first == "signal":
        os.kill(victim, signal.SIGKILL)
    eventually(lambda: taken(stack) == 1, "it is taken")
    eventually(lambda: len(stack.workers) == 2 and victim not in stack.workers, "the worker is restarted")
    eventually(lambda: on_every_worker(stack, model="other") == [200, 200], "both serve by it")
    assert taken(stack) == 1


def test_a_worker_that_is_killed_after_a_refusal_serves_the_old_one(start: Callable[..., Stack]) -> None:
    stack = joined(start())
    put(stack, changed(stack, AT, f"{AT}    nonsense: 1\n"))
    stack.signal(signal.SIGHUP)
    eventually(lambda: refused(stack) == 1, "it is refused")
    victims = [*stack.workers, *stack.admins]
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    eventually(lambda: len(stack.workers) == 2 and not set(victims) & set(stack.workers), "workers are restarted")
    eventually(lambda: on_every_worker(stack, model=MODEL) == [200, 200], "both serve")
    eventually(lambda: bool(stack.admins) and stack.admins[0] not in victims, "the admin API is restarted")


def test_pools_of_this_machine_are_started_and_stopped(start: Callable[..., Stack]) -> None:
    """A model comes, a pool's engine changes under a stream, and the model goes: the stream ends as it began."""
    stack = joined(start(simulated="pace_ms: 5"))
    (before,) = stack.replicas
    stream = begun(stack, max_tokens=1500)
    more = """\
  - name: second
    tokenizer: mistral-tekken
    context: 4096
    pools:
      - {name: other, engine: simulated, replicas: 2, simulated: {pace_ms: 1}}
"""
    # Before the first one, whose places in the file are others then.
    put(stack, changed(stack, "models:\n", f"models:\n{more}").replace("pace_ms: 5", "pace_ms: 6"))
    stack.signal(signal.SIGHUP)
    eventually(lambda: taken(stack) == 1, "the pools serve")
    assert on_every_worker(stack, model="second") == [200, 200]
    assert on_every_worker(stack, model=MODEL) == [200, 200]
    assert len(stack.replicas) == 3
    assert before in stack.replicas
    assert stream.rest()[-1] == b"[DONE]"
    eventually(lambda: before not in stack.replicas, "the pool that nobody uses ends")
    assert len(stack.replicas) == 2
    put(stack, changed(stack, more, ""))
    stack.signal(signal.SIGHUP)
    eventually(lambda: taken(stack) == 2, "the model goes")
    eventually(lambda: len(stack.replicas) == 1, "and its pool with it")
    assert on_every_worker(stack, model=MODEL) == [200, 200]
    assert on_every_worker(stack, model="second") == [404, 404]
    # What is restarted goes by it, too.
    os.kill(stack.workers[0], signal.SIGKILL)
    os.kill(stack.replicas[0], signal.SIGKILL)
    eventually(lambda: on_every_worker(stack, model=MODEL) == [200, 200], "both serve")
    assert "Traceback" not in stack.errors


def test_a_pool_that_does_not_start_is_refused(start: Callable[..., Stack]) -> None:
    stack = joined(start())
    before = stack.replicas
    # It ends at once: it cannot write its answers.
    put(stack, changed(stack, "pace_ms: 2", "pace_ms: 2, profile: nonsense"))
    stack.signal(signal.SIGHUP)
    eventually(lambda: refused(stack) == 1, "it is refused")
    assert on_every_worker(stack) == [200, 200]
    eventually(lambda: stack.replicas == before, "nothing of it is left")
