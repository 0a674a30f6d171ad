import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos import replica_pb2 as pb
from protos.join import Join, JoinKind, decode_join, encode_join
from protos.protocol_error import ProtocolError
from protos.reshape import Span

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
JOINS = st.builds(
    Join,
    kind=st.sampled_from(JoinKind),
    change=U64,
    span=st.builds(Span, start=U32, width=U32),
    group=st.text(),
    gpu=U32,
    epoch=U64,
    part=st.binary(),
    failure=st.text(),
)


def test_the_strategy_covers_every_field() -> None:
    assert all(f"{name}=" in repr(JOINS) for name in inspect.signature(Join).parameters)


@given(JOINS)
def test_a_message_survives_the_wire(join: Join) -> None:
    assert decode_join(encode_join(join)) == join


@pytest.mark.parametrize("data", [b"\xff\xff", pb.Join(kind=77).SerializeToString()])  # type: ignore[arg-type]
def test_what_is_no_message_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_join(data)
