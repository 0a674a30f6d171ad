"""Which tenants have series of their own."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observability.metrics import declarations as declared
from observability.metrics.metric import OTHER
from observability.metrics.metrics_folder import PLACES, clear
from observability.metrics.metrics_sink import MetricsSink
from observability.metrics.names import LONGEST, label
from observability.metrics.series_slots import claim
from observability.metrics.tenant_series import EARNED_REQUESTS, TenantNames, free_places
from tests.observability.metrics.records import numbers_of, record, sink_of


def requests(sink: MetricsSink) -> dict[str, float]:
    """By tenant."""
    found: dict[str, float] = {}
    for labels, count in numbers_of(sink).values[declared.REQUESTS.name].items():
        found[labels[2]] = found.get(labels[2], 0) + count
    return found


def settle(folder: Path, sink: MetricsSink, most: int) -> None:
    wanted = sink.tenants.wanted()
    names = claim(folder, wanted, most)
    assert names is not None
    assert len(names) <= most
    sink.settle(wanted, names)


def test_nothing_is_shown_before_its_place_is_certain(tmp_path: Path) -> None:
    sink = sink_of()
    sink.take([record(), record(tenant="")])
    assert requests(sink) == {"-": 1}
    settle(tmp_path, sink, 200)
    assert requests(sink) == {"-": 1, "acme": 1}
    sink.take([record()])
    assert requests(sink) == {"-": 1, "acme": 2}


def test_a_burst_of_tenants(tmp_path: Path) -> None:
    most = 20
    sink = sink_of(most)
    sink.take([record(tenant="first")] * 3)
    settle(tmp_path, sink, most)
    for _ in range(3):
        sink.take([record(tenant=f"passing-{number}") for number in range(10_000)])
        settle(tmp_path, sink, most)
    shown = requests(sink)
    assert len(shown) == free_places(most) + 1
    assert (shown["first"], sum(shown.values())) == (3, 30_003)
    assert len(sink.tenants._counts) <= 4 * most
    assert len(sink.tenants._shown) <= most + 1
    # Those places are kept for tenants that stay, however many pass by.
    sink.take([record(tenant="big")] * EARNED_REQUESTS)
    settle(tmp_path, sink, most)
    before = requests(sink)
    sink.take([record(tenant="big"), record(tenant="first")])
    after = requests(sink)
    assert (after["big"], after["first"]) == (1, 4), "what was counted as others' stays there"
    assert after[OTHER] == before[OTHER]


def test_no_series_ever_sinks(tmp_path: Path) -> None:
    most = 8
    sink = sink_of(most)
    before: dict[str, float] = {}
    for turn in range(60):
        sink.take([record(tenant=f"t{(turn * 7 + number) % 23}") for number in range(11)])
        if turn % 3:
            settle(tmp_path, sink, most)
        shown = requests(sink)
        assert all(shown[name] >= count for name, count in before.items())
        assert len(shown) <= most + 1
        before = shown
    settle(tmp_path, sink, most)
    assert sum(requests(sink).values()) == 60 * 11
    total = sum(value for labels, value in numbers_of(sink).values[declared.TOKENS.name].items())
    assert total == 60 * 11 * 105


def test_workers_share_places(tmp_path: Path) -> None:
    most = 8
    sinks = [sink_of(most) for _ in range(4)]
    for index, sink in enumerate(sinks):
        sink.take([record(tenant=f"t{index}-{number}") for number in range(50)])
    for _ in range(2):
        for sink in sinks:
            settle(tmp_path, sink, most)
    names = set[str]().union(*(requests(sink) for sink in sinks)) - {OTHER}
    assert len(names) <= free_places(most)
    assert sum(sum(requests(sink).values()) for sink in sinks) == 200


def test_a_list_that_is_gone_or_torn_is_made_anew(tmp_path: Path) -> None:
    sink = sink_of(8)
    sink.take([record(tenant="a"), record(tenant="b")])
    settle(tmp_path, sink, 8)
    for data in (b'["a', b"{}", b"\xff"):
        (tmp_path / PLACES).write_bytes(data)
        settle(tmp_path, sink, 8)
        assert set(requests(sink)) == {"a", "b"}
    clear(tmp_path)
    settle(tmp_path, sink, 8)
    assert (tmp_path / PLACES).exists()


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\\b", "a\x00\x1b[31mb", "é", "\ud800", "x" * 5000, "\n" * 5000, ""])
def test_hostile_names(name: str) -> None:
    shown = label(name)
    assert shown.isprintable()
    assert 0 < len(shown) <= LONGEST
    shown.encode()
    assert label(name) == shown


@given(st.text(alphabet=st.characters(), max_size=300), st.text(max_size=300))
def test_labels_are_safe_and_long_ones_differ(one: str, other: str) -> None:
    assert label(one).isprintable()
    long = "n" * LONGEST
    if one.isprintable() and other.isprintable() and one != other:
        assert label(long + one) != label(long + other)


@given(st.lists(st.text(max_size=3), max_size=200), st.integers(1, 10))
def test_names_are_bounded(names: list[str], most: int) -> None:
    tenants = TenantNames(most)
    for name in names:
        tenants.shown(name)
    assert len(tenants.pending) <= most
    assert len(tenants._shown) <= most + 1
    assert len(tenants._counts) <= 4 * most
