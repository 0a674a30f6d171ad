"""The replicas of one model: connected, watched, and shown to policies as a snapshot."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from protos.errors import ReplicaUnavailable
from protos.types import Submit
from routing.connection import ReplicaConnection, ReplicaSpec
from routing.policy import ReplicaView
from routing.transport import TokenStream


class Fleet:
    """All replicas of one model, by id. `on_load` is called whenever a replica reports its load, comes or goes."""

    def __init__(self, specs: Iterable[ReplicaSpec], worker: str) -> None:
        self.on_load: Callable[[], None] = _ignore
        self._connections = {spec.id: ReplicaConnection(spec, worker, self._refresh, self._loaded) for spec in specs}
        self._ready: tuple[ReplicaConnection, ...] = ()
        self._refreshed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._connections)

    def start(self) -> None:
        """Begin to connect to every replica."""
        for connection in self._connections.values():
            connection.start()

    async def aclose(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(connection.aclose() for connection in self._connections.values()))

    @property
    def ready(self) -> bool:
        """Whether any replica can take a request."""
        return bool(self._ready)

    async def wait_ready(self, minimum: int) -> None:
        """Return once that many replicas, or all if they are fewer, can take a request."""
        while len(self._ready) < min(minimum, len(self._connections)):
            await self._refreshed.wait()

    def problems(self) -> dict[str, str]:
        """Why each replica that cannot take requests cannot, by replica id; for operators, not for clients."""
        ready = set(self._ready)
        return {id_: c.problem or "draining" for id_, c in self._connections.items() if c not in ready}

    def candidates(self, exclude: Sequence[str] = ()) -> list[ReplicaView]:
        """The replicas that can take a request now, less the excluded ids."""
        if exclude:
            return [c.view for c in self._ready if c.spec.id not in exclude]
        return [c.view for c in self._ready]

    def takes(self, replica_id: str) -> bool:
        """Whether that replica can take a request now."""
        connection = self._connections.get(replica_id)
        return connection is not None and connection.ready

    def open(self, replica_id: str, submit: Submit, kv_tokens: int | None = None) -> TokenStream:
        """Send a request to one replica, as `Transport.open` does. Raises ReplicaUnavailable."""
        connection = self._connections.get(replica_id)
        if connection is None:
            raise ReplicaUnavailable("The replica has left the fleet.")
        return connection.open(submit, kv_tokens)

    def fingerprint(self, replica_id: str) -> str:
        """The engine's own name for its build and model, for `system_fingerprint`."""
        info = self._connections[replica_id].info
        return info.fingerprint if info else ""

    def _refresh(self) -> None:
        self._ready = tuple(c for c in self._connections.values() if c.ready)
        refreshed, self._refreshed = self._refreshed, asyncio.Event()
        refreshed.set()
        self.on_load()

    def _loaded(self) -> None:
        self.on_load()


def _ignore() -> None:
    """Nobody listens yet."""
