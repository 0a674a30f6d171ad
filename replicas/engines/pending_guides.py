"""Guided requests of the simulated engine that wait for their answers, composed in a thread one at a time."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from protos.types import Submit

R = TypeVar("R")
#: Composes the answers in a thread; its argument tells whether they are still wanted.
Work = Callable[[Callable[[], bool]], R]


class PendingGuides(Generic[R]):
    """Passes each request with its result to `ready`, on the event loop, in order of arrival."""

    def __init__(self, ready: Callable[[int, Submit, R], None]) -> None:
        self._ready = ready
        self._held: dict[int, tuple[Submit, Work[R]]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Number of waiting sequences."""
        return sum(request.sampling.n for request, _ in self._held.values())

    @property
    def requests(self) -> dict[int, Submit]:
        """The waiting requests, by handle."""
        return {handle: request for handle, (request, _) in self._held.items()}

    def add(self, handle: int, request: Submit, work: Work[R]) -> None:
        """Queue a request; call it on the event loop."""
        self._held[handle] = request, work
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def drop(self, handle: int) -> Submit | None:
        """Remove a cancelled request and return it; None where it does not wait."""
        held = self._held.pop(handle, None)
        return None if held is None else held[0]

    def close(self) -> None:
        """Stop composing."""
        self._held.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._held:
            handle, held = next(iter(self._held.items()))
            request, work = held

            def wanted(handle: int = handle, held: object = held) -> bool:
                return self._held.get(handle) is held

            result = await asyncio.to_thread(work, wanted)
            if wanted():
                del self._held[handle]
                self._ready(handle, request, result)
