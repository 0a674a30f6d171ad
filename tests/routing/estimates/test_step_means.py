import pytest

from protos.types import Load, Role, Shape, Work
from routing.contracts.policy import ReplicaView
from routing.estimates.step_means import StepMeans


def after(steps: int) -> ReplicaView:
    return ReplicaView("r", "p", Shape(tp=2), Role.BOTH, Load(steps=steps))


def test_the_mean_is_of_the_last_steps() -> None:
    means = StepMeans()
    assert means.of("r") == 0.0
    for step in range(1, 400):
        means.stepped(after(step), Work(100_000 if step < 200 else 10_000, sequences=10))
    assert means.of("r") == pytest.approx(0.01, rel=0.5)


def test_many_steps_at_once_count_as_many() -> None:
    one_by_one, at_once = StepMeans(), StepMeans()
    for means in (one_by_one, at_once):
        means.stepped(after(1), Work(100_000))
    for step in range(2, 102):
        one_by_one.stepped(after(step), Work(10_000))
    at_once.stepped(after(101), Work(10_000))
    assert at_once.of("r") == pytest.approx(one_by_one.of("r"))


def test_a_replica_that_restarted_counts_from_the_beginning() -> None:
    means = StepMeans()
    means.stepped(after(500), Work(100_000))
    means.stepped(after(2), Work(30_000))
    assert means.of("r") == 0.03
