from protos.types import Work
from routing.health.replica_pace import AVERAGED_SECONDS, LEAST_STEPS, Pace, slow_replicas


def paces_of(*step_us: int, work: Work | None = None, steps: int = 50) -> dict[str, Pace]:
    """A replica for each time that a step of the same work takes."""
    found = {}
    for number, us in enumerate(step_us):
        pace = Pace()
        for step in range(steps):
            shape = work or Work(0, sequences=32, context=64_000)
            pace.note(Work(us, shape.prefill_tokens, shape.prefill_pairs, shape.sequences, shape.context), step * 0.02)
        found[f"p/{number}"] = pace
    return found


def test_one_that_is_several_times_as_slow_as_its_peers_is_found() -> None:
    assert slow_replicas(paces_of(15_000, 16_000, 90_000), 1.0) == {
        "p/2": "its decoding steps take 5.6 times as long as its peers'"
    }
    work = Work(0, prefill_tokens=8192, prefill_pairs=8192 * 4096, sequences=3)
    assert list(slow_replicas(paces_of(300_000, 250_000, 280_000, 1_200_000, work=work), 1.0)) == ["p/3"]


def test_small_differences_few_peers_and_few_steps_do_not_count() -> None:
    assert slow_replicas(paces_of(15_000, 16_000, 30_000), 1.0) == {}
    assert slow_replicas(paces_of(15_000, 90_000), 1.0) == {}
    assert slow_replicas(paces_of(100, 120, 5_000), 1.0) == {}, "that is noise of the machine"
    assert slow_replicas(paces_of(15_000, 16_000, 90_000, steps=int(LEAST_STEPS) - 1), 1.0) == {}


def test_more_work_is_no_slowness() -> None:
    paces = paces_of(15_000, 16_000)
    paces["busy"] = paces_of(75_000, work=Work(0, sequences=1800, context=500_000))["p/0"]
    paces["prefilling"] = paces_of(400_000, work=Work(0, prefill_tokens=8192, sequences=1))["p/0"]
    assert slow_replicas(paces, 1.0) == {}


def test_steps_of_long_ago_are_forgotten() -> None:
    paces = paces_of(15_000, 16_000, 90_000)
    assert slow_replicas(paces, 1.0 + 4 * AVERAGED_SECONDS) == {}
    recovered = Pace()
    for step in range(50):
        recovered.note(Work(90_000, sequences=32, context=64_000), step * 0.02)
    for step in range(500):
        recovered.note(Work(15_000, sequences=32, context=64_000), 1.0 + step * 0.02)
    others = {}
    for name in ("a", "b"):
        others[name] = Pace()
        for step in range(500):
            others[name].note(Work(15_000, sequences=32, context=64_000), 1.0 + step * 0.02)
    assert slow_replicas({**others, "c": recovered}, 11.0) == {}
