"""What every transport shares whose engine reports nothing by itself: its load, and whether it can be reached."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

import routing.transports.polled_transport
from protos.errors import ReplicaUnavailable
from protos.features import Feature
from protos.types import Finish, FinishReason, Load, ReplicaInfo, Role, Shape
from routing.health.replica_status import State
from routing.transports.counted_transport import CheckResult, Unreachable
from routing.transports.mailbox import Mailbox
from routing.transports.polled_transport import PolledConnection
from routing.transports.replica_connection import Listener, TransportContext
from routing.transports.replica_spec import ReplicaSpec
from tests.harness import submit_of
from tests.loops import until

SPEC = ReplicaSpec("p/0", "grpc://h:1", "p", "m", "toy", Shape(), Role.BOTH, 1, 64, context=100)
INFO = ReplicaInfo("m", "toy", "", Shape(), Role.BOTH, 8, 0, 0, 0, features=Feature.TOKENS)


class Toy(PolledConnection):
    """Finds what it is told to find, and gives every request into the test's hands."""

    def __init__(self, spec: ReplicaSpec = SPEC, context: TransportContext | None = None) -> None:
        super().__init__(spec, context or TransportContext("test"))
        self.found: CheckResult | Exception = CheckResult(INFO)
        self.looks = 0
        self.sent: list[Mailbox] = []
        self.cancelled = 0

    async def _check(self) -> CheckResult:
        self.looks += 1
        await asyncio.sleep(0)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def _send(self, submit: object, mailbox: Mailbox) -> Callable[[], None]:
        self.sent.append(mailbox)

        def cancel() -> None:
            self.cancelled += 1

        return cancel


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.polled_transport, "CHECK_SECONDS", 0.005)
    monkeypatch.setattr(routing.transports.polled_transport, "LAST_RETRY_SECONDS", 0.005)


def finish(tokens: int = 1) -> Finish:
    return Finish(FinishReason.STOP, 3, 0, tokens)


async def test_its_load_is_what_was_sent_there() -> None:
    toy = Toy()
    toy.start()
    await until(lambda: toy.connected)
    first = toy.open(submit_of(10, n=2), kv_tokens=50, compute_tokens=7)
    toy.open(submit_of(10), kv_tokens=20, compute_tokens=5)
    load = toy.view.load
    assert (load.running, load.tokens_in_flight, load.prefill_tokens) == (3, 70, 12)
    assert (toy.view.sent, toy.in_flight) == (0, 3)
    toy._started(toy.sent[0], 4)
    assert first.cached_tokens == 4
    load = toy.view.load
    assert (load.running, load.tokens_in_flight, load.prefill_tokens) == (3, 70, 5)
    toy.sent[0].finish(0, finish())
    toy.sent[0].finish(1, finish())
    first.close()
    assert toy.cancelled == 0
    toy.fail_streams(ReplicaUnavailable("enough"))
    assert toy.cancelled == 1
    assert toy.view.load == Load(workers=1)
    await toy.aclose()


async def test_a_scraped_load_counts_for_all_and_what_is_newer_comes_on_top() -> None:
    toy = Toy()
    toy.start()
    await until(lambda: toy.connected)
    toy.open(submit_of(10), kv_tokens=20, compute_tokens=5)
    toy.found = CheckResult(INFO, Load(running=9))
    await until(lambda: toy.view.load.running == 9 and toy.view.sent == 0)
    toy.open(submit_of(10), kv_tokens=20, compute_tokens=5)
    assert (toy.view.load.running, toy.view.sent, toy.view.sent_kv_tokens) == (9, 1, 20)
    await until(lambda: toy.view.sent == 0)
    toy.fail_streams(ReplicaUnavailable("enough"))
    assert (toy.view.sent, toy.view.sent_prompt_tokens, toy.view.sent_kv_tokens) == (0, 0, 0)
    await toy.aclose()


async def test_one_that_cannot_be_reached_gets_nothing_and_comes_back() -> None:
    heard: list[State] = []
    toy = Toy(context=TransportContext("test", Listener(changed=lambda: heard.append(toy.health.state))))
    toy.found = Unreachable("nobody listens")
    toy.start()
    await until(lambda: toy.health.reason == "nobody listens")
    with pytest.raises(ReplicaUnavailable):
        toy.open(submit_of())
    toy.found = CheckResult(INFO)
    await until(lambda: toy.connected)
    assert State.READY in heard
    toy.found = Unreachable("it is another", refused=True)
    await until(lambda: not toy.connected)
    assert heard[-1:] == [State.REFUSED]
    assert toy.health.reason == "it is another"
    await toy.aclose()


async def test_what_is_not_as_configured_is_refused_by_name() -> None:
    toy = Toy(replace(SPEC, version="2026-11"))
    toy.found = CheckResult(ReplicaInfo("m", "toy", "", Shape(tp=2), Role.BOTH, 8, 50, 0, 0, version="2026-10"))
    toy.start()
    await until(lambda: toy.health.state is State.REFUSED)
    for part in (
        "shape is tp2, configured tp1",
        "version is 2026-10, configured 2026-11",
        "max_sequence_tokens is 50, the configured context 100",
    ):
        assert part in toy.health.reason
    await toy.aclose()


async def test_a_look_that_fails_of_itself_is_not_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    toy = Toy()
    toy.found = ZeroDivisionError("a defect")
    toy.start()
    await until(lambda: toy.looks > 1)
    toy.found = CheckResult(INFO)
    await until(lambda: toy.connected)
    await toy.aclose()
    assert "ZeroDivisionError" in caplog.text


async def test_closing_ends_what_is_open() -> None:
    toy = Toy()
    toy.start()
    await until(lambda: toy.connected)
    stream = toy.open(submit_of())
    await toy.aclose()
    assert toy.cancelled == 1
    assert stream.failed
    with pytest.raises(ReplicaUnavailable):
        await stream.receive()
