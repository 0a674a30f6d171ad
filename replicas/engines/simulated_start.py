"""A start that takes time: a simulated engine goes through the steps that a real one would, as modelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from protos.launch_step import LaunchStep
from protos.types import FinishReason, ReplicaInfo, Sampling, Submit
from replicas.engine import EngineStep, Tell
from replicas.engines.simulated import SimulatedEngine
from replicas.fast_start.start_model import StartTimes

#: Handle of the dummy request. A server's handles begin at 1.
_DUMMY: Final = 0


class StartFailed(RuntimeError):
    """The dummy request was not answered as it should be."""


class SimulatedStart:
    """An engine with a start; in all else it is the simulated engine that it was given."""

    def __init__(
        self,
        engine: SimulatedEngine,
        times: StartTimes,
        *,
        dummy_request: bool,
        speed: float = 1.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`speed` divides the modelled seconds, and `sleep` waits for some.

        With `dummy_request` the engine answers one before it counts as ready: its prompt is so short that it leaves
        nothing in the KV cache.
        """
        self.submit, self.cancel = engine.submit, engine.cancel
        self.engine = engine
        #: What the dummy request's steps told of the KV cache, for whoever runs the engine next.
        self._told: EngineStep | None = None
        self._steps = (
            (LaunchStep.ALLOCATE, times.allocate),
            (LaunchStep.PROCESS, times.process),
            (LaunchStep.LOAD, times.load),
            (LaunchStep.WARM_UP, times.warm_up - (times.first_token if dummy_request else 0.0)),
        )
        self._dummy_request, self._speed, self._sleep = dummy_request, speed, sleep

    @property
    def info(self) -> ReplicaInfo:
        """The engine's description."""
        return self.engine.info

    async def start(self, tell: Tell) -> None:
        """Take the time of each step. Raises StartFailed."""
        for step, seconds in self._steps:
            tell(step)
            await self._sleep(max(0.0, seconds) / self._speed)
        if self._dummy_request:
            await self._answer_one()

    async def stop(self) -> None:
        """Release nothing: there are no weights."""

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        """Step until cancelled, as the engine does."""
        if self._told is not None:
            told, self._told = self._told, None
            emit(told)
        await self.engine.run(emit)

    async def _answer_one(self) -> None:
        answered: asyncio.Future[FinishReason] = asyncio.get_running_loop().create_future()

        def emit(step: EngineStep) -> None:
            before = [] if self._told is None else self._told.kv_events
            self._told = EngineStep([], [], step.load, before + step.kv_events, adapters=step.adapters)
            for handle, _, finish in step.finishes:
                if handle == _DUMMY and not answered.done():
                    answered.set_result(finish.reason)

        running = asyncio.ensure_future(self.engine.run(emit))
        try:
            self.engine.submit(_DUMMY, Submit("warm-up", [1], 1, sampling=Sampling(seed=0)))
            await asyncio.wait((running, answered), return_when=asyncio.FIRST_COMPLETED)
            if not answered.done() or answered.result() is FinishReason.ERROR:
                raise StartFailed("the engine does not answer a request of one token")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
