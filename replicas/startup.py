"""Loads engines, which may take minutes, tells the steps, and stops waiting when the process should end."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from protos.launch_step import LaunchStep
from replicas.engine import Launched, Tell

#: The steps in their order.
_ORDER: Final = tuple(LaunchStep)


class StartWatch:
    """Measures the steps of a start and passes them on. The first one begins with the process."""

    def __init__(
        self, began: float, then: Tell = lambda step: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`began` is a time of the clock: when the process began. `then` is told each step as well."""
        self._clock, self._then = clock, then
        self._step = LaunchStep.PROCESS
        self._began = self._since = began
        self._seconds: dict[LaunchStep, float] = {}

    def tell(self, step: LaunchStep) -> None:
        """Note that a step begins, and with it that the one before has ended."""
        now = self._clock()
        self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._since
        self._step, self._since = step, now
        self._then(step)

    @property
    def seconds(self) -> Mapping[LaunchStep, float]:
        """Seconds of the steps that have begun, up to now."""
        running = self._seconds.get(self._step, 0.0) + self._clock() - self._since
        return {**self._seconds, self._step: running}

    def __str__(self) -> str:
        steps = ", ".join(f"{step.value} {seconds:.2f}" for step, seconds in self._seconds.items())
        return f"{self._since - self._began:.2f} s: {steps}"


def process_began(clock: Callable[[], float] = time.monotonic) -> float:
    """Return when this process began, on the clock; where the system does not tell, now."""
    try:
        # Field 22 is the start in ticks since the boot; the name before it may hold blanks.
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / ticks
    except (OSError, ValueError, IndexError, AttributeError):
        age = 0.0
    return clock() - max(0.0, age)


async def started(engines: Sequence[Launched], stop: asyncio.Event, tell: Tell) -> bool:
    """Load engines at the same time; return whether all are loaded before `stop`. Raises what one of them raises.

    `tell` gets a step when the last engine has begun it.
    """
    steps = [LaunchStep.PROCESS] * len(engines)

    def note(engine: int, step: LaunchStep) -> None:
        before = min(steps, key=_ORDER.index)
        steps[engine] = step
        if (after := min(steps, key=_ORDER.index)) is not before:
            tell(after)

    stopping = asyncio.ensure_future(stop.wait())
    loading = [
        asyncio.ensure_future(each.start(lambda step, number=number: note(number, step)))  # type: ignore[misc]
        for number, each in enumerate(engines)
    ]
    try:
        pending = set(loading)
        while pending and not stopping.done():
            done, _ = await asyncio.wait((*pending, stopping), return_when=asyncio.FIRST_COMPLETED)
            for one in done - {stopping}:
                one.result()
            pending -= done
        return not stop.is_set()
    finally:
        stopping.cancel()
        for one in loading:
            one.cancel()
        await asyncio.gather(*loading, return_exceptions=True)
