"""What was learned of pools, and when it is written down."""

import msgspec

from gateway.scaling.demand.merged_demand import PoolKnowledge
from gateway.scaling.learned_pools import Learned, is_news, with_knowledge, with_spot, with_startups
from routing.estimates.step_model import LearnedSteps


def steps(count: int) -> LearnedSteps:
    return LearnedSteps(1, (1.0,) * 8, 1.0, 1.0, (count,) * 8, count)


def test_what_shapes_are_compared_by_is_told_at_once_and_the_rest_in_time() -> None:
    last = Learned(steps=steps(70), kv_tokens=60_000, gpus=1, startups=(8.0,))
    assert is_news(last, Learned())
    assert is_news(with_startups(last, [9.0]), last)
    assert is_news(with_knowledge(last, PoolKnowledge(kv_tokens=70_000), 1), last)
    assert is_news(msgspec.structs.replace(last, steps=steps(128)), last)
    for other in (msgspec.structs.replace(last, steps=steps(127)), with_spot(last, 1.0, 0)):
        assert other != last and not is_news(other, last)


def test_a_replica_that_says_nothing_changes_nothing() -> None:
    last = Learned(steps=steps(70), kv_tokens=60_000, gpus=1)
    assert with_knowledge(last, PoolKnowledge(), 4) == last
