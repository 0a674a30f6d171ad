import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos import codec
from protos import replica_pb2 as pb
from protos.packed_ids import PackedIds
from protos.types import Submit

IDS = st.lists(st.integers(0, 2**32 - 1), max_size=300)


@given(ids=IDS, more=IDS, start=st.integers(-5, 5), stop=st.integers(-5, 5))
def test_packed_ids_are_a_sequence_of_ids(ids: list[int], more: list[int], start: int, stop: int) -> None:
    packed = PackedIds.of(ids)
    assert list(packed) == ids
    assert len(packed) == len(ids)
    assert bool(packed) == bool(ids)
    assert packed[start:stop] == ids[start:stop]
    assert packed[::-1] == ids[::-1]
    assert all(packed[place] == token for place, token in enumerate(ids))
    assert PackedIds.joined([packed, PackedIds.of(more)]) == PackedIds.of([*ids, *more])
    assert (packed == PackedIds.of(more)) == (ids == more)
    assert packed != ids


def test_ids_that_do_not_fit_are_refused() -> None:
    for ids in ([-1], [2**32], [1, "2"]):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            PackedIds.of(ids)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        PackedIds.of([1])[1]


@given(prompts=st.lists(st.tuples(st.booleans(), IDS), max_size=5))
def test_sessions_carry_the_same_ids_in_the_same_order(prompts: list[tuple[bool, list[int]]]) -> None:
    plain = [(n, Submit(f"r{n}", ids, 5, trace="x")) for n, (_, ids) in enumerate(prompts, 1)]
    mixed = [
        (n, Submit(f"r{n}", PackedIds.of(ids) if packed else ids, 5, trace="x"))
        for n, (packed, ids) in enumerate(prompts, 1)
    ]
    data = codec.encode_up(mixed, [7], 3, True)
    assert codec.decode_up(data) == codec.decode_up(codec.encode_up(plain, [7], 3, True))
    assert len(data) == len(codec.encode_up(plain, [7], 3, True))


def test_a_fields_number_is_in_its_tag() -> None:
    field = PackedIds.of(range(300)).field(pb.Submit.PROMPT_IDS_FIELD_NUMBER)
    assert field == pb.Submit(prompt_ids=range(300)).SerializeToString()
    assert PackedIds.of([]).field(3) == b""
