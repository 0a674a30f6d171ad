"""Triton's messages: what is written can be read by tritonclient's own code, and bytes that are none are told."""

import contextlib
import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from protos import triton_codec as codec
from protos.protocol_error import ProtocolError
from protos.triton_codec import Tensor

DATATYPES = {
    "BOOL": (st.booleans(), "bool_contents"),
    "INT32": (st.integers(-(2**31), 2**31 - 1), "int_contents"),
    "INT64": (st.integers(-(2**63), 2**63 - 1), "int64_contents"),
    "UINT32": (st.integers(0, 2**32 - 1), "uint_contents"),
    "UINT64": (st.integers(0, 2**64 - 1), "uint64_contents"),
    "FP32": (st.floats(width=32, allow_nan=False), "fp32_contents"),
    "FP64": (st.floats(allow_nan=False), "fp64_contents"),
    "BYTES": (st.binary(), "bytes_contents"),
}


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    datatype = draw(st.sampled_from(sorted(DATATYPES)))
    values = draw(st.lists(DATATYPES[datatype][0], max_size=5))
    return Tensor(draw(st.text(min_size=1, max_size=5)), datatype, (1, len(values)), values)


def reply_of(*outputs: Tensor, final: bool | None = None, typed: bool = False) -> Any:
    message = pb.ModelStreamInferResponse()
    if final is not None:
        message.infer_response.parameters["triton_final_response"].bool_param = final
    if not typed:
        message.infer_response.raw_output_contents.extend(
            pb.ModelInferRequest.FromString(codec.encode_infer("m", "r", outputs, ())).raw_input_contents
        )
    for output in outputs:
        tensor = message.infer_response.outputs.add(name=output.name, datatype=output.datatype, shape=output.shape)
        if typed:
            getattr(tensor.contents, DATATYPES[output.datatype][1]).extend(output.values)
    return message


@given(st.lists(tensors(), min_size=1, max_size=4, unique_by=lambda tensor: tensor.name), st.booleans())
def test_tensors_are_read_as_they_were_written(outputs: list[Tensor], typed: bool) -> None:
    reply = codec.decode_reply(reply_of(*outputs, final=True, typed=typed).SerializeToString())
    assert reply.final
    assert {name: list(values) for name, values in reply.outputs.items()} == {
        output.name: list(output.values) for output in outputs
    }


def test_a_request_is_what_tritons_client_would_send() -> None:
    inputs = [Tensor("text", "BYTES", (1, 1), [b"Hi"]), Tensor("seed", "UINT64", (1, 1), [2**64 - 1])]
    request = pb.ModelInferRequest.FromString(codec.encode_infer("bls", "r1", inputs, ["text_output"]))
    assert (request.model_name, request.id) == ("bls", "r1")
    assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in request.inputs] == [
        ("text", "BYTES", [1, 1]),
        ("seed", "UINT64", [1, 1]),
    ]
    assert list(request.raw_input_contents) == [struct.pack("<I", 2) + b"Hi", b"\xff" * 8]
    assert [output.name for output in request.outputs] == ["text_output"]
    assert request.parameters["triton_enable_empty_final_response"].bool_param


@pytest.mark.parametrize(("datatype", "value"), [("INT32", 2**31), ("UINT64", -1), ("FP32", 1e300), ("INT32", 0.5)])
def test_a_value_that_a_datatype_cannot_hold_is_told(datatype: str, value: float) -> None:
    with pytest.raises(ProtocolError, match="x: "):
        codec.encode_infer("m", "r", [Tensor("x", datatype, (1,), [value])], ())


def test_an_error_and_the_end_are_read() -> None:
    assert codec.decode_reply(pb.ModelStreamInferResponse(error_message="no").SerializeToString()).error == "no"
    assert codec.decode_reply(reply_of(final=True).SerializeToString()) == codec.Reply("", True)
    assert not codec.decode_reply(reply_of(final=False).SerializeToString()).final
    assert not codec.decode_reply(b"").final


def broken(**fields: Any) -> bytes:
    message = pb.ModelStreamInferResponse()
    message.infer_response.outputs.add(name="x", datatype=fields.pop("datatype", "INT32"), shape=[1])
    message.infer_response.raw_output_contents.extend(fields.pop("raw", ()))
    data: bytes = message.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff\xff\xff", "not a ModelStreamInferResponse"),
        (broken(raw=[b"abc"]), "3 bytes are no whole number of INT32 values"),
        (broken(raw=[b"", b""]), "1 tensors with the contents of 2"),
        (broken(datatype="FP8"), "datatype FP8"),
        (broken(datatype="FP8", raw=[b"a"]), "datatype FP8"),
        (broken(datatype="BYTES", raw=[b"\x05\0\0\0abc"]), "cut off"),
        (broken(datatype="BYTES", raw=[b"\x05\0"]), "cut off"),
        (broken(datatype="BYTES", raw=[b"\xff\xff\xff\xffabc"]), "cut off"),
    ],
)
def test_what_is_no_reply_is_told(data: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        codec.decode_reply(data)


@given(st.binary())
def test_no_bytes_are_too_odd(data: bytes) -> None:
    for decode in (
        codec.decode_reply,
        codec.decode_server_ready,
        codec.decode_model_ready,
        codec.decode_server_metadata,
        codec.decode_model_metadata,
        codec.decode_model_config,
    ):
        with contextlib.suppress(ProtocolError):
            decode(data)


@pytest.mark.parametrize("first", ["protos.triton_codec", "tritonclient.grpc"])
def test_it_brings_nothing_along_and_stands_in_nobodys_way(first: str) -> None:
    second = "tritonclient.grpc" if first == "protos.triton_codec" else "protos.triton_codec"
    script = f"""
import importlib, sys
importlib.import_module({first!r})
light = "numpy" not in sys.modules and "tritonclient.grpc" not in sys.modules
importlib.import_module({second!r})
from protos import triton_codec
from tritonclient.grpc import InferenceServerClient, service_pb2
assert triton_codec._pb is service_pb2
print(light)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(first == "protos.triton_codec")


def test_without_the_package_it_says_which_one_is_missing() -> None:
    script = """
import sys
sys.modules["tritonclient"] = None
try:
    import protos.triton_codec
except ModuleNotFoundError as error:
    print(error.name)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "tritonclient"
