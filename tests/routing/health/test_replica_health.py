from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from routing.health.breaker import CONSECUTIVE_FAULTS, OPEN_SECONDS
from routing.health.patience import TICK_SECONDS
from routing.health.progress import IDLE_SECONDS, WEDGED_SECONDS
from routing.health.ramp import RAMP_SECONDS
from routing.health.replica_health import PROBE_AGAIN_SECONDS, STEPPING_SECONDS, ReplicaHealth
from routing.health.replica_status import State


class Patient:
    """A replica's health with a clock of its own; `said` are its states, each when it changed."""

    def __init__(self, *, prove_first: bool = False) -> None:
        self.now = 100.0
        self.said: list[State] = []
        self.health = ReplicaHealth(lambda: self.said.append(self.health.state))
        self.health.prove_first = prove_first

    def state(self) -> State:
        return self.health.state

    def serves(self) -> bool:
        return self.health.serves

    def proven(self) -> bool:
        return self.health.proven

    def tick(self, seconds: float, *, busy: bool = False) -> bool:
        found = False
        for _ in range(round(seconds / TICK_SECONDS)):
            self.now += TICK_SECONDS
            found |= self.health.tick(self.now, busy)
        return found

    def probe(self, problem: str = "") -> bool:
        assert self.health.wants_probe(self.now)
        self.health.probe_begins()
        return self.health.probe_ended(self.now, problem)

    def fail(self, times: int = CONSECUTIVE_FAULTS) -> bool:
        return [self.health.breaker.failed(self.now) for _ in range(times)][-1]


def connected(*, prove_first: bool = False) -> Patient:
    patient = Patient(prove_first=prove_first)
    patient.health.connected()
    return patient


def test_a_new_replica_is_trusted_and_asked_for_a_token_only_when_it_idles() -> None:
    patient = connected()
    health = patient.health
    assert patient.serves()
    assert not patient.proven()
    assert not health.wants_probe(patient.now)
    patient.tick(2 * IDLE_SECONDS)
    assert not patient.probe()
    assert patient.proven()
    assert patient.state() is State.READY
    assert not health.wants_probe(patient.now)


def test_where_it_must_prove_itself_first_it_is_asked_at_once() -> None:
    patient = connected(prove_first=True)
    before = len(patient.said)
    assert not patient.probe()
    assert patient.proven()
    assert len(patient.said) == before + 1, "the fleet must look again"
    assert not patient.health.wants_probe(patient.now)


def test_steps_prove_it_too_but_not_those_of_before() -> None:
    patient = connected(prove_first=True)
    assert not patient.health.stepped(patient.now, 1000)
    assert not patient.proven()
    assert patient.health.stepped(patient.now, 1001)
    assert patient.proven()
    assert patient.health.is_stepping(patient.now)
    assert not patient.health.is_stepping(patient.now + STEPPING_SECONDS)


def test_one_that_comes_back_answers_a_probe_and_returns_slowly() -> None:
    patient = connected()
    health = patient.health
    assert not health.lost(patient.now, "the connection was lost")
    assert (patient.state(), health.reason) == (State.CONNECTING, "the connection was lost")
    assert not health.wants_probe(patient.now)
    health.away("UNAVAILABLE")
    health.connected()
    assert patient.state() is State.PROBING
    assert not patient.serves()
    assert not patient.probe("engine_error: no")
    assert "engine_error: no" in health.reason
    assert not health.wants_probe(patient.now)
    patient.now += PROBE_AGAIN_SECONDS
    patient.probe()
    assert patient.state() is State.RETURNING
    assert patient.serves()
    taken = sum(health.takes_part(patient.now) for _ in range(100))
    assert 5 <= taken <= 15
    patient.tick(RAMP_SECONDS + TICK_SECONDS)
    assert patient.state() is State.READY
    assert all(health.takes_part(patient.now) for _ in range(100))


def test_an_engine_that_stands_still_is_wedged_until_it_answers() -> None:
    patient = connected()
    health = patient.health
    health.stepped(patient.now, 3)
    assert patient.tick(WEDGED_SECONDS + 3 * TICK_SECONDS, busy=True)
    assert patient.state() is State.WEDGED
    assert not patient.serves()
    patient.probe("The replica's engine stands still.")
    assert patient.state() is State.WEDGED
    patient.now += PROBE_AGAIN_SECONDS
    patient.probe()
    assert patient.state() is State.RETURNING
    assert patient.tick(WEDGED_SECONDS + 3 * TICK_SECONDS, busy=True)
    assert patient.state() is State.WEDGED
    assert health.ramp is None


def test_long_steps_are_no_standstill() -> None:
    patient = connected()
    for steps in range(20):
        patient.health.stepped(patient.now, steps)
        assert not patient.tick(2.0, busy=True)
    assert patient.state() is State.READY


def test_an_ejected_one_waits_longer_after_each_probe_that_fails() -> None:
    patient = connected()
    health = patient.health
    assert patient.fail()
    health.eject(patient.now, "its requests fail")
    assert (patient.state(), health.reason) == (State.EJECTED, "its requests fail")
    waits = []
    for _ in range(4):
        began = patient.now
        while not health.wants_probe(patient.now):
            patient.tick(TICK_SECONDS)
        waits.append(patient.now - began)
        patient.probe("engine_error: no")
    assert waits == [OPEN_SECONDS, 2 * OPEN_SECONDS, 4 * OPEN_SECONDS, 8 * OPEN_SECONDS]
    patient.tick(16 * OPEN_SECONDS)
    patient.probe()
    assert patient.state() is State.RETURNING
    assert not health.breaker.is_open


def test_one_that_was_ejected_when_it_was_lost_is_not_back_at_once() -> None:
    patient = connected()
    health = patient.health
    health.eject(patient.now, "slow")
    health.lost(patient.now, "lost")
    assert patient.state() is State.CONNECTING
    health.connected()
    assert (patient.state(), health.reason) == (State.EJECTED, "slow")
    assert not health.wants_probe(patient.now)
    patient.tick(OPEN_SECONDS)
    patient.probe()
    assert patient.serves()


def test_nonsense_ejects_until_the_reports_make_sense() -> None:
    patient = connected()
    health = patient.health
    health.doubt(patient.now, "running is -1")
    assert (patient.state(), health.reason) == (State.EJECTED, "it reports nonsense: running is -1")
    is_outlier = [health.is_outlier]
    patient.tick(OPEN_SECONDS)
    patient.probe()
    assert patient.state() is State.EJECTED
    health.doubt(patient.now, "")
    is_outlier.append(health.is_outlier)
    assert is_outlier == [False, True], "even the last one gets no requests by such numbers"
    patient.tick(2 * OPEN_SECONDS)
    patient.probe()
    assert patient.state() is State.RETURNING


def test_a_probe_of_one_in_service_that_fails_is_a_fault_among_others() -> None:
    patient = connected()
    outcomes = []
    for _ in range(CONSECUTIVE_FAULTS):
        patient.tick(2 * IDLE_SECONDS)
        outcomes.append(patient.probe("engine_error: no"))
    assert outcomes == [False] * (CONSECUTIVE_FAULTS - 1) + [True]


def test_a_connection_that_is_lost_again_and_again_counts() -> None:
    patient = connected()
    outcomes = []
    for _ in range(CONSECUTIVE_FAULTS):
        outcomes.append(patient.health.lost(patient.now, "lost"))
        patient.health.connected()
        patient.probe()
    assert outcomes == [False] * (CONSECUTIVE_FAULTS - 1) + [True]


MOVES: dict[str, Callable[[Patient], object]] = {
    "connect": lambda p: p.health.connected(),
    "lose": lambda p: p.health.lost(p.now, "lost"),
    "step": lambda p: p.health.stepped(p.now, int(p.now * 1000)),
    "busy": lambda p: p.tick(2.0, busy=True),
    "idle": lambda p: p.tick(2.0),
    "probe": lambda p: p.health.wants_probe(p.now) and p.probe(),
    "failed probe": lambda p: p.health.wants_probe(p.now) and p.probe("no"),
    "eject": lambda p: p.health.eject(p.now, "slow"),
    "nonsense": lambda p: p.health.doubt(p.now, "running is -1"),
    "sense": lambda p: p.health.doubt(p.now, ""),
    "fault": lambda p: p.health.breaker.failed(p.now),
}


@given(moves=st.lists(st.sampled_from(sorted(MOVES)), max_size=60))
def test_whatever_happens_a_good_replica_is_back_in_the_end(moves: list[str]) -> None:
    patient = Patient()
    health = patient.health
    is_connected = False
    for move in moves:
        if (move == "connect") == is_connected and move in ("connect", "lose"):
            continue
        if not is_connected and move not in ("connect", "busy", "idle"):
            continue
        is_connected = is_connected if move not in ("connect", "lose") else move == "connect"
        MOVES[move](patient)
        assert health.serves == (patient.state() in (State.READY, State.RETURNING))
        assert (health.ramp is not None) == (patient.state() is State.RETURNING)
        assert not (patient.serves() and health.breaker.is_open)
        assert (patient.state() is State.CONNECTING) == (not is_connected)
    if not is_connected:
        health.connected()
    health.doubt(patient.now, "")
    for _ in range(3000):
        patient.tick(TICK_SECONDS)
        if health.wants_probe(patient.now):
            patient.probe()
    assert patient.state() is State.READY


def test_a_probe_that_was_sent_before_an_ejection_does_not_end_it() -> None:
    patient = connected()
    health = patient.health
    patient.tick(2 * IDLE_SECONDS)
    assert health.wants_probe(patient.now)
    health.probe_begins()
    assert patient.fail()
    health.eject(patient.now, "its requests fail")
    health.probe_ended(patient.now, "")
    assert patient.state() is State.EJECTED
    patient.now += OPEN_SECONDS
    patient.probe()
    assert patient.state() is State.RETURNING
