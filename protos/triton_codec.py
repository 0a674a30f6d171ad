"""Convert between plain values and Triton's KServe messages (package `inference`), by tritonclient's generated code."""

import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from protos.protocol_error import ProtocolError


def _generated_code() -> Any:
    """Import `tritonclient.grpc.service_pb2` without the other imports of `tritonclient.grpc`: numpy and its client.

    A placeholder stands for the package meanwhile, so that it can still be imported whole later.
    """
    package, name = "tritonclient.grpc", "tritonclient.grpc.service_pb2"
    if package in sys.modules:
        return import_module(name)
    found = find_spec("tritonclient")
    if found is None or found.submodule_search_locations is None:
        raise ModuleNotFoundError("tritonclient is not installed", name="tritonclient")
    stand_in = ModuleType(package)
    stand_in.__path__ = [f"{folder}/grpc" for folder in found.submodule_search_locations]
    sys.modules[package] = stand_in
    try:
        return import_module(name)
    finally:
        del sys.modules[package]


_pb: Final = _generated_code()

SERVICE: Final = "inference.GRPCInferenceService"
SERVER_READY: Final = f"/{SERVICE}/ServerReady"
SERVER_METADATA: Final = f"/{SERVICE}/ServerMetadata"
MODEL_READY: Final = f"/{SERVICE}/ModelReady"
MODEL_METADATA: Final = f"/{SERVICE}/ModelMetadata"
MODEL_CONFIG: Final = f"/{SERVICE}/ModelConfig"
MODEL_STREAM_INFER: Final = f"/{SERVICE}/ModelStreamInfer"

#: Triton's own parameters: docs/user_guide/decoupled_models.md of triton-inference-server/server.
_EMPTY_FINAL: Final = "triton_enable_empty_final_response"
_FINAL: Final = "triton_final_response"

#: Datatype -> how struct packs one value of it, little-endian as on Triton's wire.
_PACKED: Final = {
    "BOOL": "?",
    "INT32": "i",
    "INT64": "q",
    "UINT32": "I",
    "UINT64": "Q",
    "FP32": "f",
    "FP64": "d",
}
#: Datatype -> the field that holds its values where they are not raw.
_CONTENTS: Final = {
    "BOOL": "bool_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array, flat, with its shape; `BYTES` values are bytes, all others numbers or booleans."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """A model's inputs and outputs: names of tensors -> their datatypes."""

    name: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model's configuration. `parameters` are those of its config.pbtxt."""

    max_batch_size: int
    decoupled: bool
    parameters: Mapping[str, str]


@dataclass(slots=True)
class Reply:
    """One message of a stream. `final`: nothing follows. `outputs` are flat: numbers, or bytes of `BYTES`."""

    error: str = ""
    final: bool = False
    outputs: dict[str, Sequence[Any]] = field(default_factory=dict)


def encode_server_ready() -> bytes:
    """Encode the request whether the server is ready."""
    return _bytes(_pb.ServerReadyRequest())


def encode_server_metadata() -> bytes:
    """Encode the request for the server's metadata."""
    return _bytes(_pb.ServerMetadataRequest())


def encode_model_ready(name: str) -> bytes:
    """Encode the request whether a model is ready."""
    return _bytes(_pb.ModelReadyRequest(name=name))


def encode_model_metadata(name: str) -> bytes:
    """Encode the request for a model's inputs and outputs."""
    return _bytes(_pb.ModelMetadataRequest(name=name))


def encode_model_config(name: str) -> bytes:
    """Encode the request for a model's configuration."""
    return _bytes(_pb.ModelConfigRequest(name=name))


def decode_server_ready(data: bytes) -> bool:
    """Return whether the server is ready."""
    return bool(_parsed(_pb.ServerReadyResponse, data).ready)


def decode_model_ready(data: bytes) -> bool:
    """Return whether the model is ready."""
    return bool(_parsed(_pb.ModelReadyResponse, data).ready)


def decode_server_metadata(data: bytes) -> str:
    """Return the server's name and version, as one word."""
    answer = _parsed(_pb.ServerMetadataResponse, data)
    return f"{answer.name}-{answer.version}"


def decode_model_metadata(data: bytes) -> ModelMetadata:
    """Decode a model's inputs and outputs."""
    answer = _parsed(_pb.ModelMetadataResponse, data)
    return ModelMetadata(
        answer.name,
        {tensor.name: tensor.datatype for tensor in answer.inputs},
        {tensor.name: tensor.datatype for tensor in answer.outputs},
    )


def decode_model_config(data: bytes) -> ModelConfig:
    """Decode a model's configuration."""
    config = _parsed(_pb.ModelConfigResponse, data).config
    return ModelConfig(
        config.max_batch_size,
        config.model_transaction_policy.decoupled,
        {name: parameter.string_value for name, parameter in config.parameters.items()},
    )


def encode_infer(model: str, request_id: str, inputs: Iterable[Tensor], outputs: Iterable[str]) -> bytes:
    """Encode a request for these outputs, whose last response is marked final even if it is empty otherwise.

    Raises ProtocolError for a value that its datatype cannot hold.
    """
    request = _pb.ModelInferRequest(model_name=model, id=request_id)
    request.parameters[_EMPTY_FINAL].bool_param = True
    for tensor in inputs:
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(_raw(tensor))
    for name in outputs:
        request.outputs.add(name=name)
    return _bytes(request)


def decode_reply(data: bytes) -> Reply:
    """Decode one message of a stream."""
    message = _parsed(_pb.ModelStreamInferResponse, data)
    answer = message.infer_response
    parameters = answer.parameters
    final = _FINAL in parameters and parameters[_FINAL].bool_param
    if message.error_message:
        return Reply(message.error_message, final)
    outputs = answer.outputs
    if not outputs:
        return Reply("", final)
    raw = answer.raw_output_contents
    if not raw:
        return Reply("", final, {tensor.name: _typed(tensor) for tensor in outputs})
    if len(raw) != len(outputs):
        raise ProtocolError(f"{len(outputs)} tensors with the contents of {len(raw)}")
    read = {tensor.name: _unpacked(tensor.datatype, data) for tensor, data in zip(outputs, raw, strict=True)}
    return Reply("", final, read)


def _typed(tensor: Any) -> Sequence[Any]:
    contents = _CONTENTS.get(tensor.datatype)
    if contents is None:
        raise ProtocolError(f"tensor {tensor.name} is of datatype {tensor.datatype}")
    return list(getattr(tensor.contents, contents))


def _raw(tensor: Tensor) -> bytes:
    if tensor.datatype == "BYTES":
        return b"".join([struct.pack("<I", len(value)) + value for value in tensor.values])
    try:
        return struct.pack(f"<{len(tensor.values)}{_PACKED[tensor.datatype]}", *tensor.values)
    except (struct.error, OverflowError) as error:
        raise ProtocolError(f"{tensor.name}: {error}") from error


def _unpacked(datatype: str, data: bytes) -> Sequence[Any]:
    if datatype == "BYTES":
        return _strings(data)
    code = _PACKED.get(datatype)
    if code is None:
        raise ProtocolError(f"a tensor is of datatype {datatype}")
    count, rest = divmod(len(data), struct.calcsize(f"<{code}"))
    if rest:
        raise ProtocolError(f"{len(data)} bytes are no whole number of {datatype} values")
    return struct.unpack(f"<{count}{code}", data)


def _strings(data: bytes) -> list[bytes]:
    strings, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if at + 4 > len(data) or end > len(data):
            raise ProtocolError("a string is cut off")
        strings.append(data[at + 4 : end])
        at = end
    return strings


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _parsed(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"not a {kind.DESCRIPTOR.name}: {error}") from error
