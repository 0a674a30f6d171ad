import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicas.reshape.dealing import dealt
from replicas.sequence import Carried, Sequence


def carried(prompt: int, limit: int = 10) -> Carried[Sequence]:
    return Carried(Sequence(prompt=prompt, steps=1, limit=limit), 0, [])


def test_the_largest_find_room_first_and_each_part_keeps_the_order() -> None:
    small, large, other = carried(10), carried(80), carried(20)
    assert dealt([small, large, other], [100, 100]) == [[large], [small, other]]


def test_one_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="no replica holds a sequence of 110 tokens"):
        dealt([carried(100)], [100, 50])


@given(st.lists(st.integers(1, 90), max_size=12), st.lists(st.integers(100, 200), min_size=1, max_size=4))
def test_each_goes_to_exactly_one(prompts: list[int], rooms: list[int]) -> None:
    all_ = [carried(prompt) for prompt in prompts]
    parts = dealt(all_, rooms)
    assert sorted(map(id, (one for part in parts for one in part))) == sorted(map(id, all_))
