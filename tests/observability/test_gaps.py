"""Times between a stream's events."""

from hypothesis import given
from hypothesis import strategies as st

from observability.gaps import BOUNDS, count_gaps
from observability.record import RequestRecord


@given(st.lists(st.lists(st.floats(0, 4), max_size=20), max_size=5))
def test_however_they_come_each_is_counted_once(parts: list[list[float]]) -> None:
    record = RequestRecord("r", "chat", 0.0, 0.0)
    moments, gaps = [100.0], []
    for part in parts:
        for gap in part:
            moments.append(moments[-1] + gap)
            gaps.append(moments[-1] - moments[-2])
        count_gaps(record, moments)
        assert len(moments) == 1
    if parts:
        assert sum(record.gaps) == len(gaps)
        for index, bound in enumerate(BOUNDS):
            assert sum(record.gaps[: index + 1]) == sum(gap <= bound for gap in gaps)
    assert abs(record.gap_seconds - sum(gaps)) < 1e-6
