"""Signals, deaths and restarts of the processes of a stack."""

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.conftest import prepared
from tests.e2e.observer import Observer
from tests.e2e.raw import INTERNAL, Answer, Stream, ask, begun, chat, connect
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack, eventually


def ready(stack: Stack) -> bool:
    try:
        return ask(stack, method="GET", path="/readyz")[0] == 200
    except OSError:
        return False


def refused(stack: Stack) -> bool:
    try:
        connect(stack, timeout=2).close()
    except OSError:
        return True
    return False


def streams_on_every_worker(stack: Stack, **fields: Any) -> list[Stream]:
    """One endless stream a worker."""
    found: dict[int, Stream] = {}
    wanted = len(stack.workers)
    for _ in range(64):
        stream = begun(stack, **fields)
        stream.worker = stack.worker_of(stream.socket)
        if stream.worker in found:
            stream.close()
            continue
        found[stream.worker] = stream
        if len(found) == wanted:
            return list(found.values())
    raise AssertionError("the kernel never gave one worker a connection")


def hello(client: openai.OpenAI) -> str | None:
    answer = client.chat.completions.create(model=MODEL, max_tokens=4, messages=[{"role": "user", "content": "Hello!"}])
    return answer.choices[0].message.content


@pytest.mark.parametrize(("number", "group"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_stop_lets_streams_finish(start: Callable[..., Stack], number: signal.Signals, group: bool) -> None:
    """SIGINT goes to the whole group, as Ctrl-C on a terminal does."""
    # Longer than this test may take: it ends because the streams do.
    stack = start(simulated="pace_ms: 5", listen="drain_seconds: 60")
    idle = connect(stack)
    streams = streams_on_every_worker(stack, max_tokens=1000)
    rests: list[list[bytes]] = []
    readers = [threading.Thread(target=lambda s=stream: rests.append(s.rest())) for stream in streams]
    for reader in readers:
        reader.start()
    stack.signal(number, group=group)
    try:
        eventually(lambda: refused(stack), "new connections are refused")
        assert any(reader.is_alive() for reader in readers), "the streams must outlast the refusal for this to count"
        for reader in readers:
            reader.join(HANGS_SECONDS)
        status = stack.wait()
    finally:
        idle.close()
        for stream in streams:
            stream.close()
    assert [rest[-1] for rest in rests] == [b"[DONE]"] * len(streams)
    assert status == 0, stack.errors
    stack.wait_gone()
    assert "Traceback" not in stack.errors
    assert "Unexpected exit" not in stack.errors, stack.errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_what_outlasts_the_grace_with_an_error(start: Callable[..., Stack], number: signal.Signals) -> None:
    stack = start(simulated="pace_ms: 5", listen="drain_seconds: 1")
    streams = streams_on_every_worker(stack)
    signalled = time.monotonic()
    stack.signal(number)
    status = stack.wait()
    assert time.monotonic() - signalled > 0.9
    for stream in streams:
        rest = stream.rest()
        assert b"[DONE]" not in rest
        assert b"shutting down" in rest[-1]
        stream.close()
    assert status == 0, stack.errors
    stack.wait_gone()
    assert "Traceback" not in stack.errors


class KeptAlive(threading.Thread):
    """A client that asks again and again on one connection, and opens the next one when it is told to."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.answered = self.closed = 0
        self.lost: list[str] = []
        self.over = threading.Event()
        self._stack = stack
        self.start()

    def run(self) -> None:
        client = http.client.HTTPConnection("127.0.0.1", self._stack.port, timeout=HANGS_SECONDS)
        while not self.over.is_set():
            try:
                client.request("GET", "/v1/models", headers={"Authorization": f"Bearer {self._stack.key}"})
                answer = client.getresponse()
                answer.read()
            except ConnectionRefusedError:
                return
            except (OSError, http.client.HTTPException) as error:
                self.lost.append(repr(error))
                return
            self.answered += answer.status == 200
            self.closed += answer.getheader("connection") == "close"
        client.close()


def test_no_request_is_lost_while_a_stop_has_its_grace(start: Callable[..., Stack]) -> None:
    """The gateway is not ready at once, so that load balancers turn away; until they have, everything is answered."""
    stack = start(listen="grace_seconds: 60, drain_seconds: 5")
    clients = [KeptAlive(stack) for _ in range(4)]
    eventually(lambda: all(client.answered > 5 for client in clients), "all clients are served")
    assert not any(client.closed for client in clients)
    stack.signal(signal.SIGTERM)
    eventually(lambda: not ready(stack), "it is not ready any more")
    eventually(lambda: all(client.closed > 20 for client in clients), "connections end with their answers")
    assert ask(stack, method="GET", path="/healthz")[0] == 200
    assert ask(stack, chat(max_tokens=1))[0] == 200
    assert not refused(stack)
    for client in clients:
        client.over.set()
        client.join()
    assert [client.lost for client in clients] == [[]] * len(clients)
    stack.signal(signal.SIGTERM)
    assert stack.wait() == 0, "a second signal ends the grace"
    stack.wait_gone()
    assert "Traceback" not in stack.errors


def test_no_request_is_lost_when_the_grace_ends(start: Callable[..., Stack]) -> None:
    stack = start(listen="grace_seconds: 1, drain_seconds: 5")
    clients = [KeptAlive(stack) for _ in range(6)]
    eventually(lambda: all(client.answered > 5 for client in clients), "all clients are served")
    stack.signal(signal.SIGTERM)
    for client in clients:
        client.join(HANGS_SECONDS)
    assert [client.lost for client in clients] == [[]] * len(clients), "whoever is refused has sent nothing"
    assert stack.wait() == 0


def test_an_answer_that_was_under_way_ends_its_connection_too(start: Callable[..., Stack]) -> None:
    stack = start(workers=1, simulated="pace_ms: 20", listen="grace_seconds: 60, drain_seconds: 5")
    answers: list[Answer] = []
    waiting = threading.Thread(target=lambda: answers.append(ask(stack, chat(max_tokens=100, ignore_eos=True))))
    waiting.start()
    with Observer(stack.replica_socket()) as observer:
        observer.wait(lambda load: load.running == 1, "it is on its way")
    stack.signal(signal.SIGTERM)
    eventually(lambda: not ready(stack), "it is not ready any more")
    assert waiting.is_alive()
    waiting.join(HANGS_SECONDS)
    assert (answers[0][0], answers[0][1]["connection"]) == (200, "close")


def test_a_stop_while_it_starts(start: Callable[..., Stack]) -> None:
    """Ctrl-C does not wait for the start to be over, and leaves nothing."""
    stack = start(workers=1)
    stack.signal(signal.SIGTERM)
    assert stack.wait() == 0
    for delay in (0.2, 0.9, 1.5):
        stack.launch()
        # An interpreter that has not come to the command yet ends at Ctrl-C with words of its own.
        eventually(lambda: b"msgspec" in Path(f"/proc/{stack.process.pid}/maps").read_bytes(), "the command runs")
        time.sleep(delay)  # a moment in the start, whichever it is
        stack.signal(signal.SIGINT, group=True)
        status = stack.wait()
        stack.wait_gone()
        assert "Traceback" not in stack.errors, (delay, status, stack.errors)


def test_a_killed_worker_is_replaced(start: Callable[..., Stack]) -> None:
    """Also when the new one is killed again at once, and nobody else's stream notices."""
    stack = start()
    for _ in range(3):
        second, first = sorted(streams_on_every_worker(stack), key=lambda stream: stream.worker)
        old = stack.workers
        os.kill(first.worker, signal.SIGKILL)
        assert b"[DONE]" not in first.rest()
        first.close()
        for _ in range(50):
            second.until_token()
        eventually(
            lambda old=old: len(stack.workers) == 2 and stack.workers != old,  # type: ignore[misc]
            "another worker is there",
        )
        eventually(lambda: _serves_on(stack, 2), "both workers serve")
        for _ in range(50):
            second.until_token()
        second.close()
        assert stack.process.poll() is None, stack.errors


def test_every_worker_killed_at_once(start: Callable[..., Stack]) -> None:
    stack = start()
    for _ in range(2):
        old = set(stack.workers)
        for pid in old:
            os.kill(pid, signal.SIGKILL)
        eventually(
            lambda old=old: not old & set(stack.workers) and _serves_on(stack, 2),  # type: ignore[misc]
            "two new workers serve",
        )
    stack.signal(signal.SIGTERM)
    assert stack.wait() == 0, stack.errors
    stack.wait_gone()


def test_workers_that_never_stay_end_the_gateway(start: Callable[..., Stack]) -> None:
    stack = start(workers=1)
    deadline = time.monotonic() + HANGS_SECONDS
    while stack.process.poll() is None:
        assert time.monotonic() < deadline
        for pid in stack.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    assert stack.wait() == 1
    stack.wait_gone()
    assert "crash loop" in stack.output + stack.errors
    assert "Traceback" not in stack.errors


def test_a_killed_replica(start: Callable[..., Stack]) -> None:
    stack = start(workers=1)
    stream = begun(stack)
    with openai.OpenAI(base_url=stack.base_url, api_key=stack.key, max_retries=8, timeout=HANGS_SECONDS) as client:
        waiting: list[Answer] = []
        unary = threading.Thread(target=lambda: waiting.append(ask(stack, chat(max_tokens=20_000, ignore_eos=True))))
        unary.start()
        (pid,) = stack.replicas
        with Observer(stack.replica_socket()) as observer:
            observer.wait(lambda load: load.running == 2, "the request without a stream is on its way")
        # Whoever would restart the replica stands still meanwhile.
        stack.signal(signal.SIGSTOP)
        try:
            os.kill(pid, signal.SIGKILL)
            rest = stream.rest()
            stream.close()
            error = json.loads(rest[-1])["error"]
            assert error["code"] == "replica_unavailable"
            assert not INTERNAL.search(rest[-1])
            assert b"[DONE]" not in rest
            unary.join(HANGS_SECONDS)
            status, _, body = waiting[0]
            assert (status, json.loads(body)["error"]["code"]) == (503, "replica_unavailable")
            assert ask(stack, method="GET", path="/readyz")[0] == 503
            assert ask(stack, method="GET", path="/healthz")[0] == 200
            answer = ask(stack, chat(max_tokens=1))
            assert answer[0] == 503
            assert float(answer[1]["retry-after"]) >= 1
        finally:
            stack.signal(signal.SIGCONT)
        assert hello(client), "the client's own retries last until the replica is back"
    eventually(lambda: ready(stack), "ready again")
    assert "replica pool mixtral-8x7b/narrow" in stack.errors
    assert "Traceback" not in stack.errors


def test_a_killed_store(start: Callable[..., Stack]) -> None:
    """503 and never 401 while it is away; streams do not need it; keys are there again when it is back."""
    stack = start(workers=1)
    stream = begun(stack)
    (pid,) = stack.stores
    os.kill(pid, signal.SIGKILL)
    seen = set()
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        for headers in ({}, {"Authorization": "Bearer sk-penstock-" + "A" * 43}):
            status, _, body = ask(stack, chat(max_tokens=1), headers=headers)
            seen.add((status, bool(headers)))
            assert not INTERNAL.search(body)
    assert {status for status, strange in seen if not strange} <= {200, 503}
    stream.until_token()
    with openai.OpenAI(base_url=stack.base_url, api_key=stack.key, max_retries=8, timeout=HANGS_SECONDS) as client:
        assert hello(client)
    eventually(lambda: ready(stack), "ready again")
    stream.until_token()
    stream.close()
    assert len(stack.stores) == 1
    assert "store" in stack.errors
    assert "Traceback" not in stack.errors
    stack.signal(signal.SIGTERM)
    assert stack.wait() == 0
    stack.wait_gone()


def test_a_killed_supervisor_leaves_nothing(start: Callable[..., Stack]) -> None:
    stack = start(replicas=2)
    streams = streams_on_every_worker(stack)
    assert len(stack.processes()) >= 5
    stack.signal(signal.SIGKILL)
    stack.wait()
    stack.wait_gone()
    for stream in streams:
        stream.close()
    stack.start()  # what was left behind, sockets and locks, is not in the way
    assert ready(stack)


def test_no_process_takes_modules_from_the_working_directory() -> None:
    with prepared() as stack:
        for name in ("gateway", "multiprocessing", "msgspec", "redis", "granian", "sitecustomize", "struct"):
            run = f"open({str(stack.folder)!r} + '/was-run-{name}', 'w').close()"
            (stack.folder / f"{name}.py").write_text(f"{run}\nraise ImportError('not the one')\n", encoding="utf-8")
        stack.start()
        assert stack.replicas
        assert stack.admins
        assert sorted(path.name for path in stack.folder.glob("was-run-*")) == []
        assert ask(stack, chat(max_tokens=1))[0] == 200
        assert "not the one" not in stack.errors


def test_a_taken_port() -> None:
    with prepared(workers=1) as stack, socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", stack.port))
        taken.listen()
        stack.launch()
        assert stack.wait() == 1
        assert stack.errors.count("\n") == 1
        assert f"127.0.0.1:{stack.port}" in stack.errors
        stack.wait_gone()


def test_a_second_start_with_the_same_state(stack: Stack) -> None:
    with prepared(workers=1, state=str(stack.state_dir)) as other:
        other.launch()
        assert other.wait() == 1
        assert other.errors.count("\n") == 1, other.errors
        assert str(stack.state_dir) in other.errors
        other.wait_gone()
    assert ask(stack, chat(max_tokens=1))[0] == 200, "the first one is unharmed"


def _serves_on(stack: Stack, workers: int) -> bool:
    """Whether that many workers answer."""
    seen = set()
    for _ in range(32):
        try:
            with connect(stack, timeout=2) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
                if connection.recv(4096).startswith(b"HTTP/1.1 200"):
                    seen.add(stack.worker_of(connection))
        except (OSError, AssertionError):
            continue
        if len(seen) == workers:
            return True
    return False
