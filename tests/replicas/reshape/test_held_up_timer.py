from math import inf

from replicas.reshape.cost import Cost
from replicas.reshape.held_up_timer import HeldUpTimer
from replicas.timing import Batch, FixedTimer, Series


def test_the_first_steps_are_longer_by_equal_parts() -> None:
    timer = HeldUpTimer(FixedTimer(1.0), Cost(6.0, 3, 0.0, 0.0))
    assert timer.decode_series(1, 1) == Series(inf, 0.0)
    assert [timer.step_seconds(Batch(decode=1)) for _ in range(2)] == [3.0, 3.0]
    timer.skip()
    assert timer.step_seconds(Batch(decode=1)) == 1.0
    assert timer.decode_series(1, 1) == Series(1.0, 0.0)
    assert timer.transfer_seconds(5) == 0.0
