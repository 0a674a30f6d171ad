"""Timers of the running loop that go off when a test says so, however slow the machine is."""

import asyncio
from collections.abc import Callable
from typing import Any


class HeldTimers:
    """Holds each timer of exactly so many seconds that is set within the block; others keep to the clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._held: list[tuple[asyncio.TimerHandle, Callable[[], object]]] = []

    def __enter__(self) -> "HeldTimers":
        self._loop = asyncio.get_running_loop()
        self._call_later = self._loop.call_later
        self._loop.call_later = self._set  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_later = self._call_later  # type: ignore[method-assign]

    @property
    def pending(self) -> int:
        """The number of timers that are set, and have neither gone off nor been cancelled."""
        return sum(not handle.cancelled() for handle, _ in self._held)

    def go_off(self) -> None:
        """Let all pending timers go off."""
        held, self._held = self._held, []
        for handle, callback in held:
            if not handle.cancelled():
                callback()

    def _set(self, delay: float, callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.TimerHandle:
        if delay != self._seconds:
            return self._call_later(delay, callback, *args, **options)
        handle = asyncio.TimerHandle(self._loop.time() + delay, callback, args, self._loop)
        self._held.append((handle, lambda: callback(*args)))
        return handle
