"""KEDA's external scaler: tells the replicas that the controller wants, by what it has stored.

Every controller's process serves it, whether it acts or stands by, and whatever the model's mode: with `advise` nothing
else follows from a decision.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

from gateway.rpc.rpc_server import CallRefused, CallUnavailable, Service
from gateway.scaling.external.wanted_replicas import BadTrigger, NotKnown, pool_named, wanted_replicas
from gateway.scaling.status import ScalingStatus
from protos import external_scaler_codec as codec
from protos.errors import StoreUnavailable
from protos.protocol_error import ProtocolError

log = logging.getLogger(__name__)

#: The metric of every pool: with a target of 1 for the mean over replicas, as many are wanted as it says.
METRIC: Final = "penstock-wanted-replicas"
TARGET: Final = 1
#: Seconds between looks for those who wait for a change; all who ask within one share a look.
LOOK_SECONDS: Final = 1.0

ReadStatus = Callable[[], Awaitable[tuple[float, ScalingStatus | None]]]


class ExternalScaler:
    """The methods of the service. `pools` are those that scale, by model."""

    def __init__(self, read: ReadStatus, pools: Mapping[str, Sequence[str]], clock: Callable[[], float]) -> None:
        """`read` gives the store's time and the controller's status; `clock` counts seconds."""
        self._read = read
        self._pools = pools
        self._clock = clock
        #: What the last look found, or why it found nothing; None: there was none yet.
        self._last: tuple[float, ScalingStatus | None] | str | None = None
        self._looked_at = 0.0
        self._looking = asyncio.Lock()

    @property
    def service(self) -> Service:
        """The service, to be served."""
        return Service(
            codec.SERVICE,
            unary={"IsActive": self.is_active, "GetMetricSpec": self.metric_spec, "GetMetrics": self.metrics},
            replies={"StreamIsActive": self.activity, "StreamMetricSpec": self.metric_specs},
        )

    async def is_active(self, request: bytes) -> bytes:
        """Answer whether any replica is wanted. Raises CallRefused and CallUnavailable."""
        return codec.encode_active(await self._wanted(*self._pool(_object(request))) > 0)

    async def metric_spec(self, request: bytes) -> bytes:
        """Answer with the metric and its target, which never change. Raises CallRefused."""
        self._pool(_object(request))
        return codec.encode_spec(METRIC, TARGET)

    async def metrics(self, request: bytes) -> bytes:
        """Answer with the wanted replicas. Raises CallRefused and CallUnavailable."""
        try:
            scaled, metric = codec.decode_metrics_request(request)
        except ProtocolError as error:
            raise CallRefused(str(error)) from None
        if metric != METRIC:
            raise CallRefused(f"metricName: there is {METRIC} alone, and not '{metric[:128]}'")
        return codec.encode_value(METRIC, await self._wanted(*self._pool(scaled)))

    async def activity(self, request: bytes) -> AsyncIterator[bytes]:
        """Tell at once whether any replica is wanted, and at each change; nothing while nobody knows.

        Raises CallRefused.
        """
        model, pool = self._pool(_object(request))
        told: bool | None = None
        while True:
            try:
                active = await self._wanted(model, pool) > 0
                if active is not told:
                    told = active
                    yield codec.encode_active(active)
            except CallUnavailable:
                pass  # what was told last holds
            await asyncio.sleep(LOOK_SECONDS)

    async def metric_specs(self, request: bytes) -> AsyncIterator[bytes]:
        """Tell the metric at once; it never changes. Raises CallRefused."""
        yield await self.metric_spec(request)
        await asyncio.get_running_loop().create_future()

    def _pool(self, scaled: codec.ScaledObject) -> tuple[str, str]:
        try:
            return pool_named(scaled.metadata, self._pools)
        except BadTrigger as error:
            raise CallRefused(f"{scaled.namespace}/{scaled.name}: {error}") from None

    async def _wanted(self, model: str, pool: str) -> int:
        try:
            return wanted_replicas(*await self._status(), model, pool)
        except NotKnown as error:
            raise CallUnavailable(str(error)) from None

    async def _status(self) -> tuple[float, ScalingStatus | None]:
        """Return the status, at most a look old. Raises CallUnavailable."""
        async with self._looking:
            if self._last is None or self._clock() - self._looked_at >= LOOK_SECONDS:
                try:
                    self._last = await self._read()
                except StoreUnavailable as error:
                    # It took a while, which others need not wait for one after another.
                    self._last = f"the store does not answer: {error.__cause__ or error}"
                self._looked_at = self._clock()
            if isinstance(self._last, str):
                raise CallUnavailable(self._last)
            return self._last


def _object(request: bytes) -> codec.ScaledObject:
    try:
        return codec.decode_object(request)
    except ProtocolError as error:
        raise CallRefused(str(error)) from None
