"""Pages of lists."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.admin_paging import PageQuery, page_of


@given(
    items=st.sets(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.text()), max_size=30),
    limit=st.integers(1, 40),
)
def test_pages_together_are_the_list(items: set[tuple[float, str]], limit: int) -> None:
    ordered, after = sorted(items), None
    found: list[tuple[float, str]] = []
    for _ in range(len(ordered) + 1):
        page = page_of(ordered, PageQuery(limit=limit, after=after), lambda item: item, tuple[float, str])
        assert len(page.data) == min(limit, len(ordered) - len(found))
        found += page.data
        after = page.next
        if not page.has_more:
            break
    assert after is None
    assert found == ordered
