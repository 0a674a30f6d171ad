"""A proxy for the tests: it plays Envoy's external processing, full duplex, over a real gRPC channel."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from protos import ext_proc_pb2 as pb

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
DESTINATION = "x-gateway-destination-endpoint"
#: What nothing stands in the way of comes within this time, on a machine that does other things beside it.
_SOON_SECONDS = 30.0
DUPLEX = pb.ProtocolConfiguration(request_body_mode=pb.FULL_DUPLEX_STREAMED, response_body_mode=pb.FULL_DUPLEX_STREAMED)


def metadata(**spaces: Mapping[str, Any]) -> pb.Metadata:
    """Metadata by namespace, whose dots are written as underscores."""
    found = pb.Metadata()
    for space, members in spaces.items():
        struct = Struct()
        struct.update(members)
        found.filter_metadata[space.replace("_", ".", 1)].CopyFrom(struct)
    return found


def headers(values: Mapping[str, str], end: bool = False) -> pb.HttpHeaders:
    pairs = [pb.HeaderValue(key=name.replace("_", "-"), raw_value=value.encode()) for name, value in values.items()]
    return pb.HttpHeaders(headers=pb.HeaderMap(headers=pairs), end_of_stream=end)


class HttpStream:
    """One HTTP request's stream of external processing."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def send(self, **message: Any) -> None:
        await self.call.write(pb.ProcessingRequest(**message))

    async def receive(self) -> pb.ProcessingResponse:
        """The next answer; an assertion fails at the stream's end."""
        async with asyncio.timeout(_SOON_SECONDS):
            answer = await self.call.read()
        assert answer is not grpc.aio.EOF, "the picker has ended the stream"
        return answer  # type: ignore[no-any-return]

    async def request(
        self,
        body: bytes | Iterable[bytes],
        subset: object = None,
        config: pb.ProtocolConfiguration | None = DUPLEX,
        **values: str,
    ) -> None:
        """Send a request's headers and its body in pieces, the last one with its end."""
        given = (
            metadata()
            if subset is None
            else metadata(**{"envoy_lb.subset_hint": {"x-gateway-destination-endpoint-subset": subset}})
        )
        await self.send(request_headers=headers(values), metadata_context=given, protocol_config=config)
        pieces = [body] if isinstance(body, bytes) else list(body)
        for number, piece in enumerate(pieces, 1):
            await self.send(request_body=pb.HttpBody(body=piece, end_of_stream=number == len(pieces)))

    async def picked(self) -> list[str]:
        """The endpoints of the answer to the headers, which the header and the metadata must agree on."""
        answer = await self.receive()
        assert answer.WhichOneof("response") == "request_headers", answer
        common = answer.request_headers.response
        assert common.clear_route_cache
        options = {option.header.key: option for option in common.header_mutation.set_headers}
        #: Who computes the prompt; None: the header is removed.
        told = options.get("x-prefiller-host-port")
        self.prefiller = None if told is None else told.header.raw_value.decode()
        assert (told is None) == (list(common.header_mutation.remove_headers) == ["x-prefiller-host-port"])
        option = options[DESTINATION]
        assert option.append_action == pb.OVERWRITE_IF_EXISTS_OR_ADD
        told = json_format.MessageToDict(answer.dynamic_metadata)["envoy.lb"][DESTINATION]
        assert option.header.raw_value.decode() == told
        return str(told).split(",")

    async def passed_on(self) -> bytes:
        """The request's body as the picker passes it on."""
        parts = []
        while True:
            answer = await self.receive()
            assert answer.WhichOneof("response") == "request_body", answer
            piece = answer.request_body.response.body_mutation.streamed_response
            parts.append(piece.body)
            assert len(piece.body) <= 62_000
            if piece.end_of_stream:
                return b"".join(parts)

    async def refused(self) -> pb.ImmediateResponse:
        answer = await self.receive()
        assert answer.WhichOneof("response") == "immediate_response", answer
        return answer.immediate_response

    async def respond(self, *pieces: bytes, status: int = 200, served: str = "") -> None:
        """Send a response; each part of it must come back unchanged."""
        given = metadata(envoy_lb={"x-gateway-destination-endpoint-served": served}) if served else metadata()
        values = [pb.HeaderValue(key=":status", raw_value=str(status).encode())]
        await self.send(response_headers=pb.HttpHeaders(headers=pb.HeaderMap(headers=values)), metadata_context=given)
        assert (await self.receive()).WhichOneof("response") == "response_headers"
        for number, piece in enumerate(pieces, 1):
            end = number == len(pieces)
            await self.send(response_body=pb.HttpBody(body=piece, end_of_stream=end))
            back = (await self.receive()).response_body.response.body_mutation.streamed_response
            assert (back.body, back.end_of_stream) == (piece, end)

    async def end(self) -> None:
        """End the stream as a proxy does whose request is complete; the picker must end it too."""
        await self.call.done_writing()
        async with asyncio.timeout(_SOON_SECONDS):
            assert await self.call.read() is grpc.aio.EOF
            assert await self.call.code() is grpc.StatusCode.OK

    async def failed(self) -> tuple[grpc.StatusCode, str]:
        """The status that the picker has ended the stream with."""
        async with asyncio.timeout(_SOON_SECONDS):
            return await self.call.code(), await self.call.details()


class Proxy:
    """A proxy with one channel to a picker."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self._process = channel.stream_stream(
            METHOD,
            request_serializer=pb.ProcessingRequest.SerializeToString,
            response_deserializer=pb.ProcessingResponse.FromString,
        )

    def stream(self) -> HttpStream:
        """Begin an HTTP request."""
        return HttpStream(self._process())


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Proxy(channel)
