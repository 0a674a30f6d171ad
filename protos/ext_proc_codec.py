"""Codec of Envoy's external processing (ext_proc.proto): what a proxy tells an endpoint picker, and the answers.

Names of metadata and headers: the Endpoint Picker Protocol 1.0.0, proposal 004 of the Gateway API Inference Extension.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct, Value

from protos import ext_proc_pb2 as pb
from protos.protocol_error import ProtocolError

#: The method of the service, as Envoy calls it.
SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
METHOD: Final = "Process"
#: The header, and the key of the dynamic metadata, that say where a request shall go.
DESTINATION: Final = "x-gateway-destination-endpoint"
#: The header by which llm-d's pods that decode learn which pod computes the prompt, `HOST:PORT`.
PREFILLER: Final = "x-prefiller-host-port"
_LOAD_BALANCING: Final = "envoy.lb"
_SERVED: Final = "x-gateway-destination-endpoint-served"
_SUBSET_SPACE: Final = "envoy.lb.subset_hint"
_SUBSET: Final = "x-gateway-destination-endpoint-subset"
#: Most bytes of a body in one message: Envoy's stream to a picker has a window of 64 KiB.
PIECE_BYTES: Final = 62_000


class Kind(enum.IntEnum):
    """What a proxy's message holds; the values are the numbers of the fields."""

    REQUEST_HEADERS = 2
    RESPONSE_HEADERS = 3
    REQUEST_BODY = 4
    RESPONSE_BODY = 5
    REQUEST_TRAILERS = 6
    RESPONSE_TRAILERS = 7


class BodyMode(enum.IntEnum):
    """How a proxy sends bodies; the values are Envoy's."""

    NONE = 0
    STREAMED = 1
    BUFFERED = 2
    BUFFERED_PARTIAL = 3
    FULL_DUPLEX_STREAMED = 4
    GRPC = 5


class Message(msgspec.Struct, frozen=True):
    """One message of a proxy. `end`: nothing more of the request, or of the response, follows.

    `headers` have lower-case names, as Envoy sends them. `subset` are the endpoints to choose from: None where the
    proxy restricts nothing, empty where its hint cannot be used. `served` is the endpoint that has answered, if it is
    told. `request_body` and `response_body` say how bodies are sent; they are told in a stream's first message only.
    """

    kind: Kind
    end: bool = False
    body: bytes = b""
    headers: Mapping[str, str] = {}
    subset: tuple[str, ...] | None = None
    served: str = ""
    request_body: BodyMode | None = None
    response_body: BodyMode | None = None


_BODIES: Final = {"request_body": Kind.REQUEST_BODY, "response_body": Kind.RESPONSE_BODY}
_HEADERS: Final = {"request_headers": Kind.REQUEST_HEADERS, "response_headers": Kind.RESPONSE_HEADERS}
_TRAILERS: Final = {"request_trailers": Kind.REQUEST_TRAILERS, "response_trailers": Kind.RESPONSE_TRAILERS}


def decode(data: bytes) -> Message:
    """Decode a proxy's message. Raises ProtocolError."""
    try:
        message = pb.ProcessingRequest.FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"no ProcessingRequest: {error}") from None
    name = message.WhichOneof("request")
    if name is None:
        raise ProtocolError("a ProcessingRequest without any of request_headers, request_body and the others")
    part = getattr(message, name)
    if name in _BODIES:
        return Message(_BODIES[name], part.end_of_stream, part.body)
    if name in _TRAILERS:
        return Message(_TRAILERS[name], True)
    if message.observability_mode:
        raise ProtocolError("observability_mode must be off: the picker's answers are needed")
    metadata, request_body, response_body = message.metadata_context.filter_metadata, None, None
    if message.HasField("protocol_config"):
        config = message.protocol_config
        request_body, response_body = _mode(config.request_body_mode), _mode(config.response_body_mode)
    return Message(
        _HEADERS[name],
        part.end_of_stream,
        headers={header.key: _value_of(header) for header in part.headers.headers},
        subset=_subset(metadata[_SUBSET_SPACE]) if _SUBSET_SPACE in metadata else None,
        served=_text(metadata[_LOAD_BALANCING], _SERVED) if _LOAD_BALANCING in metadata else "",
        request_body=request_body,
        response_body=response_body,
    )


def _mode(value: int) -> BodyMode:
    try:
        return BodyMode(value)
    except ValueError:
        raise ProtocolError(f"the body mode {value} is not known") from None


def _value_of(header: pb.HeaderValue) -> str:
    return header.raw_value.decode("latin-1") if header.raw_value else header.value


def _text(struct: Struct, key: str) -> str:
    return struct.fields[key].string_value if key in struct.fields else ""


def _subset(struct: Struct) -> tuple[str, ...] | None:
    """Read the hint: a list, or one string with commas. None: the key is not there."""
    if _SUBSET not in struct.fields:
        return None
    value = struct.fields[_SUBSET]
    if value.WhichOneof("kind") == "list_value":
        texts = [item.string_value for item in value.list_value.values]
    else:
        texts = value.string_value.split(",")
    return tuple(filter(None, map(str.strip, texts)))


def answer_request_headers(endpoints: Sequence[str], prefiller: str = "") -> bytes:
    """Encode the answer to a request's headers: where it shall go, the best endpoint first.

    `prefiller` is the endpoint that computes its prompt, where that is another one.
    """
    destination = ",".join(endpoints)
    mutation = _mutation([(DESTINATION, destination), *([(PREFILLER, prefiller)] if prefiller else [])])
    if not prefiller:
        # Else clients could have a pod send their prompts anywhere.
        mutation.remove_headers.append(PREFILLER)
    common = pb.CommonResponse(header_mutation=mutation, clear_route_cache=True)
    inner = Struct(fields={DESTINATION: Value(string_value=destination)})
    metadata = Struct(fields={_LOAD_BALANCING: Value(struct_value=inner)})
    response = pb.ProcessingResponse(request_headers=pb.HeadersResponse(response=common), dynamic_metadata=metadata)
    return response.SerializeToString()


def answer_body(kind: Kind, body: bytes, end: bool) -> list[bytes]:
    """Encode the answers that pass on one piece of a body as it is; `kind` is the message's that it came in."""
    if len(body) <= PIECE_BYTES:
        return [_piece(kind, body, end)]
    starts = range(0, len(body), PIECE_BYTES)
    return [_piece(kind, body[at : at + PIECE_BYTES], end and at == starts[-1]) for at in starts]


def _piece(kind: Kind, body: bytes, end: bool) -> bytes:
    mutation = pb.BodyMutation(streamed_response=pb.StreamedBodyResponse(body=body, end_of_stream=end))
    response = pb.BodyResponse(response=pb.CommonResponse(body_mutation=mutation))
    if kind is Kind.REQUEST_BODY:
        return pb.ProcessingResponse(request_body=response).SerializeToString()
    return pb.ProcessingResponse(response_body=response).SerializeToString()


#: The answers that change nothing.
UNCHANGED: Final = {
    Kind.RESPONSE_HEADERS: pb.ProcessingResponse(response_headers=pb.HeadersResponse()).SerializeToString(),
    Kind.REQUEST_TRAILERS: pb.ProcessingResponse(request_trailers=pb.TrailersResponse()).SerializeToString(),
    Kind.RESPONSE_TRAILERS: pb.ProcessingResponse(response_trailers=pb.TrailersResponse()).SerializeToString(),
}


def answer_at_once(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, details: str) -> bytes:
    """Encode an answer that the proxy gives the client in place of an endpoint's; `details` are for its access log."""
    mutation = _mutation((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
    immediate = pb.ImmediateResponse(status=pb.HttpStatus(code=status), headers=mutation, body=body, details=details)
    return pb.ProcessingResponse(immediate_response=immediate).SerializeToString()


def _mutation(headers: Iterable[tuple[str, str]]) -> pb.HeaderMutation:
    # A header that the client sent is replaced: else clients could choose endpoints.
    return pb.HeaderMutation(
        set_headers=[
            pb.HeaderValueOption(
                header=pb.HeaderValue(key=name, raw_value=value.encode("latin-1")),
                append_action=pb.OVERWRITE_IF_EXISTS_OR_ADD,
            )
            for name, value in headers
        ]
    )
