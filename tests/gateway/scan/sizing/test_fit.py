from hypothesis import given
from hypothesis import strategies as st

from gateway.scan.sizing.families import Architecture
from gateway.scan.sizing.fit import OVERHEAD, USABLE, Need, cheapest, most_tokens, need_of, placements
from gateway.scan.sizing.gpus import gpu_kind

_GIB = 1 << 30


def need(weights: float, kv: float | None = 0.0, heads: int | None = 64, kv_heads: int | None = 8) -> Need:
    return Need(weights * _GIB, kv, heads, kv_heads)


def test_the_smallest_shape_with_room_for_the_kv_cache_is_taken() -> None:
    gpu = gpu_kind("mine:8:100GiB")
    assert [one.tp for one in placements(need(80), 0, [gpu])] == [1]
    assert [one.tp for one in placements(need(89), 0, [gpu])] == [2]
    assert [one.tp for one in placements(need(80, kv=_GIB), 20, [gpu])] == [2]
    assert [one.tp for one in placements(need(800), 0, [gpu])] == []


def test_tensor_parallelism_divides_the_heads() -> None:
    gpu = gpu_kind("mine:8:10GiB")
    assert [one.tp for one in placements(need(25, heads=28), 0, [gpu])] == [4]
    assert [one.tp for one in placements(need(50, heads=28), 0, [gpu])] == []
    assert [one.tp for one in placements(need(50, heads=32), 0, [gpu])] == [8]


def test_kv_heads_are_repeated_where_there_are_fewer_than_gpus() -> None:
    gpu = gpu_kind("mine:8:100GiB")
    one_head = need(10, kv=_GIB, kv_heads=1)
    assert [one.tp for one in placements(one_head, 70, [gpu])] == [1]
    assert [one.tp for one in placements(one_head, 90, [gpu])] == []


def test_over_several_machines_stages_are_added() -> None:
    gpu = gpu_kind("mine:8:100GiB")
    assert [(one.tp, one.pp) for one in placements(need(1000), 0, [gpu], machines=4)] == [(8, 2)]


def test_without_a_known_kv_cache_weights_leave_room_for_one() -> None:
    gpu = gpu_kind("mine:8:100GiB")
    assert [one.tp for one in placements(need(50, kv=None), 0, [gpu])] == [1]
    assert [one.tp for one in placements(need(60, kv=None), 0, [gpu])] == [2]
    assert list(placements(Need(None, 1.0, 8, 8), 0, [gpu])) == []


def test_the_cheapest_is_by_price_if_all_are_given_else_by_memory() -> None:
    dear, cheap = gpu_kind("h100:8@3"), gpu_kind("h200:8@2")
    assert cheapest(tuple(placements(need(10), 0, [dear, cheap]))).gpu.name == "h200"  # type: ignore[union-attr]
    assert cheapest(tuple(placements(need(10), 0, [gpu_kind("h100:8"), cheap]))).gpu.name == "h100"  # type: ignore[union-attr]
    assert cheapest(()) is None


def test_embeddings_keep_two_bytes_where_weights_are_quantised() -> None:
    architecture = Architecture(parameters=8e9, embedding=1e9)
    assert need_of(architecture, 16, None, 2).weights == 16e9
    assert need_of(architecture, 4, None, 2).weights == 7e9 / 2 + 2e9
    assert need_of(architecture, 4, 5e9, 2).weights == 5e9
    assert need_of(Architecture(), 16, None, 2).weights is None


@given(
    weights=st.floats(0.1, 2000),
    kv=st.one_of(st.none(), st.floats(0, 1e6)),
    tokens=st.integers(0, 1_000_000),
    heads=st.one_of(st.none(), st.integers(1, 128)),
    kv_heads=st.one_of(st.none(), st.integers(1, 128)),
    machines=st.integers(1, 4),
)
def test_what_is_proposed_fits(
    weights: float, kv: float | None, tokens: int, heads: int | None, kv_heads: int | None, machines: int
) -> None:
    kinds = [gpu_kind("l4:4"), gpu_kind("h100:8"), gpu_kind("mine:2:192GiB")]
    wanted = Need(weights * _GIB, kv, heads, kv_heads)
    for one in placements(wanted, tokens, kinds, machines):
        assert one.tp <= one.gpu.count and one.pp <= machines
        assert heads is None or heads % one.tp == 0
        assert one.used <= one.usable == one.gpu.memory * USABLE
        assert one.used >= wanted.weights / one.gpus + OVERHEAD - 1  # type: ignore[operator]
        room = most_tokens(wanted, one) if kv else None
        assert room is None or room >= tokens - 1
