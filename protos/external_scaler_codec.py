"""Codec of KEDA's external scaler (external_scaler.proto)."""

from collections.abc import Mapping
from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from protos import external_scaler_pb2 as pb
from protos.protocol_error import ProtocolError

#: The service, as KEDA calls it.
SERVICE: Final = "externalscaler.ExternalScaler"


class ScaledObject(msgspec.Struct, frozen=True):
    """The object that is to be scaled, with the metadata of its trigger."""

    name: str
    namespace: str
    metadata: Mapping[str, str]


def decode_object(data: bytes) -> ScaledObject:
    """Decode a ScaledObjectRef. Raises ProtocolError."""
    try:
        return _object(pb.ScaledObjectRef.FromString(data))
    except DecodeError as error:
        raise ProtocolError(f"no ScaledObjectRef: {error}") from None


def decode_metrics_request(data: bytes) -> tuple[ScaledObject, str]:
    """Decode a GetMetricsRequest: the object, and the metric's name. Raises ProtocolError."""
    try:
        request = pb.GetMetricsRequest.FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"no GetMetricsRequest: {error}") from None
    return _object(request.scaled_object_ref), request.metric_name


def _object(ref: pb.ScaledObjectRef) -> ScaledObject:
    return ScaledObject(ref.name, ref.namespace, dict(ref.scaler_metadata))


def encode_active(active: bool) -> bytes:
    """Encode an IsActiveResponse."""
    return pb.IsActiveResponse(result=active).SerializeToString()


def encode_spec(metric: str, target: int) -> bytes:
    """Encode a GetMetricSpecResponse of one metric; older versions of KEDA read the whole number."""
    spec = pb.MetricSpec(metric_name=metric, target_size=target, target_size_float=target)
    return pb.GetMetricSpecResponse(metric_specs=[spec]).SerializeToString()


def encode_value(metric: str, value: int) -> bytes:
    """Encode a GetMetricsResponse of one value, as `encode_spec` does."""
    found = pb.MetricValue(metric_name=metric, metric_value=value, metric_value_float=value)
    return pb.GetMetricsResponse(metric_values=[found]).SerializeToString()
