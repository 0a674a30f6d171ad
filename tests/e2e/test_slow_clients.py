"""A client that stops reading costs its worker a bounded amount of memory, and the engine nothing after a while."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.observer import Observer
from tests.e2e.raw import Stream, ask, chat, endless
from tests.e2e.stack import HANGS_SECONDS, Stack, rss

MIB = 1 << 20


#: What one stalled stream may cost: its mailbox, and the events that are on their way to a full connection.
STALLED_BYTES = 6 * MIB


@pytest.mark.parametrize(
    "fields", [{"n": 16}, {"logprobs": True, "top_logprobs": 5, "max_tokens": 16_000}], ids=["n", "logprobs"]
)
def test_clients_that_stop_reading(start: Callable[..., Stack], fields: dict[str, Any]) -> None:
    stack = start(workers=1, simulated="instant: true")
    (worker,) = stack.workers
    for _ in range(3):  # what a worker allocates once is not growth
        assert ask(stack, chat(max_tokens=2000, ignore_eos=True, stream=True))[0] == 200
    before = highest = rss(worker)

    def serve_another() -> None:
        status, _, body = ask(stack, chat(max_tokens=5, stream=True))
        assert status == 200
        assert body.endswith(b"[DONE]\n\n")

    with Observer(stack.replica_socket()) as observer:
        # Each is many megabytes of events, more than a connection's buffers hold.
        stalled = [Stream(stack, endless(**fields), receive_buffer=4096) for _ in range(8)]
        for stream in stalled:
            assert stream.begin() == 200
            serve_another()
        deadline = time.monotonic() + HANGS_SECONDS
        while observer.load().running or observer.load().waiting:
            assert time.monotonic() < deadline, observer.load()
            serve_another()
            highest = max(highest, rss(worker))
        highest = max(highest, rss(worker))
        assert observer.load().kv_blocks_used == 0
    assert highest - before < len(stalled) * STALLED_BYTES, (before // MIB, highest // MIB)
    for stream in stalled:
        rest = stream.rest()
        stream.close()
        assert b"slow_client" in rest[-1], rest[-1]  # and no [DONE], which would look whole
    assert ask(stack, chat(max_tokens=5))[0] == 200
    assert "Traceback" not in stack.errors


def test_a_client_that_reads_slowly_but_does_read_gets_everything(stack: Stack, observer: Observer) -> None:
    stream = Stream(stack, endless(max_tokens=600))
    assert stream.begin() == 200
    got = 0
    for number, event in enumerate(stream.events()):
        if number % 100 == 0:
            time.sleep(0.2)  # a reader's pause, well over a hundred tokens long
        got += event != b"[DONE]"
    stream.close()
    assert got > 400
    assert event == b"[DONE]"
    observer.wait_idle()
