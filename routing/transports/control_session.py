"""A session that watches one replica and orders its host group's changes of shape; it sends no requests."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import grpc.aio

from protos import codec
from protos.errors import ReplicaUnavailable
from protos.protocol_error import ProtocolError
from protos.reshape import Membership, ReshapeOrder
from protos.types import PROTOCOL_VERSION, Load
from routing.health.patience import Patience, exhausted
from routing.transports.mux import CONNECT_SECONDS, OPTIONS, SILENCE_SECONDS, SessionRefused, describe
from routing.transports.replica_tls import TlsFiles, open_channel

log = logging.getLogger(__name__)


class ControlSession:
    """One open session. `changed` is called whenever the replica says how it stands in its group."""

    def __init__(
        self, channel: grpc.aio.Channel, call: Any, welcome: codec.Welcome, changed: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._call = call
        self._changed = changed
        self._patience = Patience(SILENCE_SECONDS)
        self._ack_after = max(1, welcome.ack_window // 4)
        self._acked = 0
        #: A call takes one write at a time.
        self._writing = asyncio.Lock()
        self.epoch = welcome.epoch
        #: How it stands in its group; None: it is in none, or has not said so yet.
        self.membership: Membership | None = welcome.membership
        self.load: Load | None = None

    @classmethod
    async def connect(
        cls, address: str, name: str, changed: Callable[[], None], tls: TlsFiles | None = None
    ) -> "ControlSession":
        """Open a session; `name` is how the replica sees it.

        Raises SessionRefused, ProtocolError, grpc.RpcError, PemError or TimeoutError.
        """
        channel = open_channel(address, tls, OPTIONS)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                call: Any = channel.stream_stream(codec.SESSION_METHOD)()
                await call.write(codec.encode_hello(codec.Hello(PROTOCOL_VERSION, name, False, watches=True)))
                data = await call.read()
            if data is grpc.aio.EOF:
                raise SessionRefused(await call.details() or "the stream ended before the welcome")
            welcome = codec.decode_down(data)
            if not isinstance(welcome, codec.Welcome) or welcome.protocol_version != PROTOCOL_VERSION:
                raise SessionRefused("the first message is not a welcome of this protocol version")
        except BaseException:
            await channel.close()
            raise
        return cls(channel, call, welcome, changed)

    async def order(self, order: ReshapeOrder) -> None:
        """Send an order; the replica answers by a membership. Raises ReplicaUnavailable."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS), self._writing:
                await self._call.write(codec.encode_order(order))
        except (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError, TimeoutError) as error:
            raise ReplicaUnavailable(f"The order could not be sent: {describe(error)}") from error

    async def run(self) -> str:
        """Listen until either side ends, and return why it ended."""
        listening = asyncio.create_task(exhausted(self._patience))
        reading = asyncio.create_task(self._read())
        try:
            await asyncio.wait([listening, reading], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return f"silent for {SILENCE_SECONDS:g} s"
            error = reading.exception()
            return "" if error is None else describe(error)
        finally:
            for task in (listening, reading):
                task.cancel()
            await asyncio.gather(listening, reading, return_exceptions=True)
            self._call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._channel.close()

    async def _read(self) -> None:
        while (data := await self._call.read()) is not grpc.aio.EOF:
            self._patience.renew()
            message = codec.decode_down(data)
            if isinstance(message, Membership):
                self.membership = message
                self._changed()
            elif isinstance(message, codec.Step):
                await self._stepped(message)
            else:
                raise ProtocolError("a second welcome")

    async def _stepped(self, step: codec.Step) -> None:
        if step.load is not None:
            self.load = step.load
        if step.seq - self._acked >= self._ack_after:
            self._acked = step.seq
            async with self._writing:
                await self._call.write(codec.encode_up((), (), step.seq))
