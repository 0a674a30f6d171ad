import random
from collections import Counter

from routing.policies.power_of_two import PowerOfTwo
from tests.views import ask, view


def test_the_most_loaded_is_never_taken_and_the_least_loaded_most_often() -> None:
    fleet = [view(f"r{number}", running=10 * number) for number in range(4)]
    policy = PowerOfTwo(random.Random(1))
    picks = Counter(policy.pick(ask(), fleet).replica.id for _ in range(6000))
    # The i-th of n wins against all that follow it: with 3, 2, 1 and 0 of the 6 pairs.
    assert picks["r3"] == 0
    for name, share in (("r0", 3 / 6), ("r1", 2 / 6), ("r2", 1 / 6)):
        assert abs(picks[name] / 6000 - share) < 0.03


def test_a_single_candidate_is_taken() -> None:
    assert PowerOfTwo(random.Random(1)).pick(ask(), [view("a")]).reason == "only candidate"
