"""What requests without a reservation used is added up, and nothing of it is lost or counted twice."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.tenancy.limits.bookings import Bookings
from gateway.tenancy.limits.limiter import Usage
from tests.gateway.tenancy.limits.bench import plan_of

PLAN = plan_of("free")
COUNTS = st.integers(0, 1000)


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, st.booleans(), st.booleans()), max_size=30))
def test_sums_are_those_of_the_ended_leases_however_often_they_are_folded(
    ends: list[tuple[int, int, int, bool, bool]],
) -> None:
    bookings = Bookings()
    wanted, taken = [0] * 7, [0] * 7
    for prompt, cached, completion, rejected, folds in ends:
        lease = bookings.lease(PLAN, prompt, 1000, 1)
        if folds:
            # Meanwhile the lease is open: its account must stay.
            bookings.fold()
        if rejected:
            lease.release(rejected=True)
            wanted = [a + b for a, b in zip(wanted, (0, 0, 0, 0, 1, prompt, 0), strict=True)]
        else:
            lease.settle(Usage(prompt, completion, cached, 3 * prompt))
            wanted = [a + b for a, b in zip(wanted, (1, prompt, cached, completion, 0, 0, 3 * prompt), strict=True)]
        lease.settle(Usage(7, 7, 7))
        for _, counts in bookings.take() if folds else ():
            taken = [a + b for a, b in zip(taken, counts, strict=True)]
    for _, counts in bookings.take():
        taken = [a + b for a, b in zip(taken, counts, strict=True)]
    assert taken == wanted
    bookings.fold()
    assert not bookings._accounts


def test_the_mean_outlives_its_account() -> None:
    bookings = Bookings()
    bookings.lease(PLAN, 1, 4000, 2).settle(Usage(1, 600, 0))
    for _ in range(2):
        list(bookings.take())
    assert not bookings._accounts
    assert bookings.lease(PLAN, 1, 4000, 1).output == 300
    assert bookings.lease(PLAN, 1, 30, 1).output == 30
    assert bookings.lease(PLAN, 1, 0, 1).output == 0
