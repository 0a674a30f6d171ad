"""Pure: the LoRA adapters that a simulated engine has loaded; the least recently used is evicted first."""


class AdapterSlots:
    """At most `slots` adapters are loaded at a time, each in `load_seconds`; one that is in use stays."""

    def __init__(self, slots: int, load_seconds: float) -> None:
        self._slots = slots
        self._seconds = load_seconds
        #: Adapter -> when it is loaded; the least recently used first.
        self._ready: dict[str, float] = {}
        self._uses: dict[str, int] = {}

    def take(self, name: str, now: float) -> float | None:
        """Use an adapter until `release`; return when it is loaded, by the clock of `now`; None: no slot is free."""
        ready = self._ready.pop(name, None)
        if ready is None:
            if len(self._ready) >= self._slots and not self._evict():
                return None
            ready = now + self._seconds
        self._ready[name] = ready
        self._uses[name] = self._uses.get(name, 0) + 1
        return ready

    def release(self, name: str) -> None:
        """End one use of an adapter."""
        self._uses[name] -= 1
        if not self._uses[name]:
            del self._uses[name]

    def loaded(self, now: float) -> tuple[str, ...]:
        """Return the adapters that are loaded by `now`, in alphabetical order."""
        return tuple(sorted(name for name, ready in self._ready.items() if ready <= now))

    def _evict(self) -> bool:
        for name in self._ready:
            if name not in self._uses:
                del self._ready[name]
                return True
        return False
