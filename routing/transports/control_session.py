"""A session that watches one replica and orders its host group's changes of shape; it sends no requests."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import grpc.aio

from protos import codec
from protos.protocol_error import ProtocolError
from protos.reshape import Membership, ReshapeOrder
from protos.types import PROTOCOL_VERSION, Load
from routing.health.patience import Patience, exhausted
from routing.transports.mux import CONNECT_SECONDS, OPTIONS, SILENCE_SECONDS, SessionRefused, why_ended
from routing.transports.replica_tls import TlsFiles, open_channel

log = logging.getLogger(__name__)


class ControlSession:
    """One open session. `changed` is called whenever the replica says how it stands in its group, and with its first
    load.
    """

    def __init__(
        self, channel: grpc.aio.Channel, call: Any, welcome: codec.Welcome, changed: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._call = call
        self._changed = changed
        self._patience = Patience(SILENCE_SECONDS)
        self._ack_after = max(1, welcome.ack_window // 4)
        self._seen = self._acked = 0
        self._order: ReshapeOrder | None = None
        #: Set when something is to be sent.
        self._outgoing = asyncio.Event()
        self.epoch = welcome.epoch
        #: How it stands in its group; None: it is in none, or has not said so yet.
        self.membership: Membership | None = welcome.membership
        #: None: it has not told any yet.
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

    def order(self, order: ReshapeOrder) -> None:
        """Send an order soon, in place of one that was not sent yet; the replica answers by a membership."""
        self._order = order
        self._outgoing.set()

    async def run(self) -> str:
        """Carry messages both ways until either side ends, and return why it ended."""
        # Nothing but this method ends a read or a write of the call: gRPC cancels the whole call for one that is given
        # up, and whatever else waits for the call then ends as if it were cancelled itself.
        tasks = [asyncio.create_task(part()) for part in (self._listen, self._read, self._write)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return "; ".join(dict.fromkeys(why for task in done if (why := why_ended(task.exception()))))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._channel.close()

    async def _listen(self) -> None:
        await exhausted(self._patience)
        raise TimeoutError(f"silent for {SILENCE_SECONDS:g} s")

    async def _read(self) -> None:
        while (data := await self._call.read()) is not grpc.aio.EOF:
            self._patience.renew()
            message = codec.decode_down(data)
            if isinstance(message, Membership):
                self.membership = message
                self._changed()
            elif isinstance(message, codec.Step):
                self._stepped(message)
            else:
                raise ProtocolError("a second welcome")

    def _stepped(self, step: codec.Step) -> None:
        if step.load is not None:
            first, self.load = self.load is None, step.load
            if first:
                self._changed()
        self._seen = step.seq
        if step.seq - self._acked >= self._ack_after:
            self._outgoing.set()

    async def _write(self) -> None:
        while True:
            await self._outgoing.wait()
            self._outgoing.clear()
            order, self._order = self._order, None
            if order is not None:
                await self._call.write(codec.encode_order(order))
            if self._seen - self._acked >= self._ack_after:
                self._acked = self._seen
                await self._call.write(codec.encode_up((), (), self._seen))
