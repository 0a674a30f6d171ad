from hypothesis import given
from hypothesis import strategies as st

from routing.prefix.recent_blocks import RecentBlocks


def test_the_least_recently_used_go_and_children_before_their_parents() -> None:
    recent = RecentBlocks(4)
    assert recent.use([1, 2, 3]) == []
    assert recent.use([1, 4]) == []
    assert recent.use([1, 5]) == [3]
    assert recent.use([6, 7]) == [2, 4]


@given(st.lists(st.lists(st.integers(0, 30), max_size=8, unique=True), max_size=40), st.integers(1, 40))
def test_what_is_not_given_up_is_kept_and_no_more_than_the_bound(chains: list[list[int]], most: int) -> None:
    recent, held = RecentBlocks(most), set[int]()
    for chain in chains:
        held |= set(chain)
        gone = recent.use(chain)
        assert set(gone) <= held
        held -= set(gone)
        assert held == recent._blocks.keys()
        assert len(held) <= most
