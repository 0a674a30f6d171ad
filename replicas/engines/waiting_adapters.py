"""The queue of simulated requests that wait for their LoRA adapter."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from protos.types import Adapter
from replicas.adapter_slots import AdapterSlots

G = TypeVar("G")


@dataclass(slots=True)
class _Held(Generic[G]):
    handle: int
    adapter: str
    group: list[G]
    ready: float | None = None


class WaitingAdapters(Generic[G]):
    """Passes each request to `start` once its adapter is loaded; first come, first served."""

    def __init__(
        self, known: Sequence[str], slots: int, load_seconds: float, start: Callable[[list[G], float], None]
    ) -> None:
        """Without `slots` there are no adapters; `known` ones are found by name, others by their path."""
        self.known = tuple(known)
        self.enabled = slots > 0
        self._slots = AdapterSlots(slots, load_seconds)
        self._start = start
        self._held: deque[_Held[G]] = deque()
        self._using: dict[int, str] = {}
        self._told: tuple[str, ...] = ()

    @property
    def waiting(self) -> int:
        """Number of waiting sequences."""
        return sum(len(held.group) for held in self._held)

    def can(self, adapter: Adapter) -> bool:
        """Whether the adapter can be found."""
        return self.enabled and (bool(adapter.path) or adapter.name in self.known)

    def add(self, handle: int, adapter: Adapter, group: list[G]) -> None:
        """Queue a request's sequences, which start as soon as they can."""
        self._held.append(_Held(handle, adapter.name, group))

    def advance(self, now: float) -> float | None:
        """Start what can start; return when the next one can, None: not before a request ends."""
        if not self._held:
            return None
        waiting: deque[_Held[G]] = deque()
        soonest: float | None = None
        for held in self._held:
            if held.ready is None:
                held.ready = self._slots.take(held.adapter, now)
                if held.ready is not None:
                    self._using[held.handle] = held.adapter
            if held.ready is not None and held.ready <= now:
                self._start(held.group, now)
                continue
            waiting.append(held)
            if held.ready is not None and (soonest is None or held.ready < soonest):
                soonest = held.ready
        self._held = waiting
        return soonest

    def drop(self, handle: int) -> bool:
        """Cancel a request; return whether it had not started. To be followed by `ended`."""
        before = len(self._held)
        self._held = deque(held for held in self._held if held.handle != handle)
        return len(self._held) < before

    def ended(self, handle: int) -> None:
        """Release the request's adapter, if it had one."""
        name = self._using.pop(handle, None)
        if name is not None:
            self._slots.release(name)

    def news(self, now: float) -> tuple[str, ...] | None:
        """Return the loaded adapters if they have changed since the last call, else None."""
        loaded = self._slots.loaded(now)
        if loaded == self._told:
            return None
        self._told = loaded
        return loaded
