"""A gRPC server for services whose messages are encoded elsewhere, with the standard health service beside them."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health

from protos.server_tls import ServerTls, add_port

log = logging.getLogger(__name__)

#: The longest message, in bytes; a proxy's pieces of a body are shorter.
MAX_MESSAGE_BYTES: Final = 16 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A port that somebody else listens on is an error, and no half of the connections.
    ("grpc.so_reuseport", 0),
)


class CallRefused(Exception):
    """A call that a method refuses because of its arguments; the text names what is at fault."""


class CallUnavailable(Exception):
    """A call that cannot be answered now; the text says why."""


class AddressInUse(Exception):
    """The address cannot be listened on."""


class Stream:
    """One bidirectional call, as its method sees it."""

    def __init__(self, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        self._context = context

    async def read(self) -> bytes | None:
        """Return the next message; None: the client sends nothing more."""
        message: Any = await self._context.read()
        return None if message is grpc.aio.EOF else bytes(message)

    async def write(self, message: bytes) -> None:
        """Send a message; waits while the client does not read."""
        await self._context.write(message)


#: A method of one request and one reply, of one request and many replies, and of many each. They raise CallRefused and
#: CallUnavailable; a client that leaves cancels them.
Unary = Callable[[bytes], Awaitable[bytes]]
Replies = Callable[[bytes], AsyncIterator[bytes]]
Dialogue = Callable[[Stream], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Service:
    """A service by its full name, with its methods by theirs."""

    name: str
    unary: Mapping[str, Unary] = field(default_factory=dict)
    replies: Mapping[str, Replies] = field(default_factory=dict)
    dialogues: Mapping[str, Dialogue] = field(default_factory=dict)


class RpcServer:
    """Serves services on one or more addresses. `health` holds the states that its health service tells."""

    def __init__(self, services: Iterable[Service]) -> None:
        self._server = grpc.aio.server(options=_OPTIONS)
        self.health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        for service in services:
            self._server.add_generic_rpc_handlers((_handler(service),))

    def listen(self, address: str, tls: ServerTls | None = None) -> int:
        """Listen on HOST:PORT too; return the port.

        Raises:
            AddressInUse: It cannot be bound; the text names it.
            PemError: A file cannot be used; the text names it.
        """
        try:
            return add_port(self._server, address, tls)
        except RuntimeError:
            raise AddressInUse(f"cannot listen on {address}: is it in use?") from None

    async def start(self) -> None:
        """Take calls."""
        await self._server.start()

    async def tell(self, serving: bool, *names: str) -> None:
        """Set the health of services."""
        states = health_pb2.HealthCheckResponse
        for name in names:
            await self.health.set(name, states.SERVING if serving else states.NOT_SERVING)

    async def aclose(self, grace: float) -> None:
        """Take no more calls, and end those that are still open after `grace` seconds."""
        await self.health.enter_graceful_shutdown()
        await self._server.stop(grace)


def _handler(service: Service) -> grpc.GenericRpcHandler:
    methods: dict[str, Any] = {}
    for name, method in service.unary.items():
        methods[name] = grpc.unary_unary_rpc_method_handler(_unary(method))
    for name, replies in service.replies.items():
        methods[name] = grpc.unary_stream_rpc_method_handler(_replies(replies))
    for name, dialogue in service.dialogues.items():
        methods[name] = grpc.stream_stream_rpc_method_handler(_dialogue(dialogue))
    return grpc.method_handlers_generic_handler(service.name, methods)


def _unary(method: Unary) -> Any:
    async def call(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        try:
            return await method(request)
        except Exception as error:
            await _end(context, error)
            raise AssertionError("abort raises") from error

    return call


def _replies(method: Replies) -> Any:
    async def call(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        try:
            async for reply in method(request):
                await context.write(reply)
        except Exception as error:
            await _end(context, error)

    return call


def _dialogue(method: Dialogue) -> Any:
    async def call(requests: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        del requests  # read by the context
        try:
            await method(Stream(context))
        except Exception as error:
            await _end(context, error)

    return call


async def _end(context: "grpc.aio.ServicerContext[bytes, bytes]", error: Exception) -> None:
    """End a call with the status of its error; the text of one that is not foreseen is for the log alone."""
    if isinstance(error, CallRefused):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    if isinstance(error, CallUnavailable):
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
    log.error("a call failed", exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, "a defect of the server")
