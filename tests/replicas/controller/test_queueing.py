import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicas.controller.queueing import late_share, most_load


def erlang_c(servers: int, load: float) -> float:
    offered = load * servers
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return blocked / (1.0 - load * (1.0 - blocked))


@pytest.mark.parametrize("servers", [1, 4, 30, 300])
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_the_share_that_waits_is_that_of_erlang(servers: int, load: float) -> None:
    assert late_share(load, servers, 1.0, 0.0) == pytest.approx(erlang_c(servers, load), abs=0.06)


@given(st.floats(0.1, 5000), st.floats(0.01, 300), st.floats(-1, 10), st.floats(0.001, 0.2))
def test_the_load_is_bounded_and_keeps_its_promise(servers: float, seconds: float, slack: float, late: float) -> None:
    load = most_load(servers, seconds, slack, late)
    assert 0.0 <= load <= 1.0
    assert load == 0.0 or late_share(load, servers, seconds, slack) <= late
    assert most_load(2 * servers, seconds, slack, late) >= load
    assert most_load(servers, seconds, slack + 1, late) >= load


def test_no_servers_and_no_work() -> None:
    assert most_load(0, 1.0, 1.0, 0.01) == 0.0
    assert most_load(10, 0.0, 1.0, 0.01) == 1.0
