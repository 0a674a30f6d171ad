"""A control session that is kept open: one to each replica whose host group somebody looks after."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

import grpc.aio

from protos.errors import ReplicaUnavailable
from protos.pem import PemError
from protos.protocol_error import ProtocolError
from protos.reshape import ReshapeOrder
from routing.transports.control_session import ControlSession
from routing.transports.mux import SessionRefused, describe
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.replica_tls import readable_problem

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS: Final = 0.1
LAST_RETRY_SECONDS: Final = 2.0


class ControlLink:
    """Connects to one replica, and again whenever the session is lost, until `aclose`."""

    def __init__(self, spec: ReplicaSpec, name: str, changed: Callable[[], None]) -> None:
        """`name` is how replicas see this process; `changed` is called when the replica comes, goes or changes."""
        self.spec = spec
        self._name, self._changed = name, changed
        #: The session that is open now.
        self.session: ControlSession | None = None
        #: Why there is none; empty before the first attempt has ended.
        self.problem = ""
        self._task = asyncio.create_task(self._keep())

    def order(self, order: ReshapeOrder) -> None:
        """Send an order soon. Raises ReplicaUnavailable where nothing is connected."""
        if self.session is None:
            raise ReplicaUnavailable(f"The replica at {self.spec.address} is not connected.")
        self.session.order(order)

    async def aclose(self) -> None:
        """End the session."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        delay = FIRST_RETRY_SECONDS
        while True:
            session = await self._connect()
            if session is not None:
                delay = FIRST_RETRY_SECONDS
                self.session, self.problem = session, ""
                self._changed()
                try:
                    why = await session.run()
                finally:
                    self.session = None
                self.problem = f"the connection was lost{': ' if why else ''}{why}"
                self._changed()
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, LAST_RETRY_SECONDS)

    async def _connect(self) -> ControlSession | None:
        spec = self.spec
        try:
            return await ControlSession.connect(spec.address, self._name, self._changed, spec.tls)
        except (grpc.RpcError, SessionRefused, ProtocolError, PemError, TimeoutError) as error:
            self.problem = readable_problem(describe(error), spec.address, spec.tls)
        except Exception as error:
            # Any exception: a replica that is never tried again is worse than one more failed attempt.
            log.exception("replica %s at %s", spec.id, spec.address)
            self.problem = str(error)
        return None
