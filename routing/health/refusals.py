"""Evidence from an upstream's refusals: whether it refuses this gateway's key, or single requests."""

from typing import Final

#: Refusals in a row that name the key, and those that may as well be about the request: so many different requests, of
#: so many tenants. An answer in between starts anew, and so does this many seconds without a refusal.
CLEAR_REFUSALS: Final = 3
UNCLEAR_REQUESTS: Final = 5
UNCLEAR_TENANTS: Final = 2
ROW_SECONDS: Final = 60.0
#: Seconds without requests for an account that cannot pay: at first, and at most; doubled until it has answered.
FUNDS_SECONDS: Final = 60.0
LONGEST_FUNDS_SECONDS: Final = 600.0


class RefusalProof:
    """Collects refusals until they prove that the upstream refuses whoever asks. `now` is in seconds."""

    __slots__ = ("_at", "_clear", "_proven", "_requests", "_tenants")

    def __init__(self) -> None:
        self._at = 0.0
        self._proven = False
        self._clear = 0
        self._requests: set[int] = set()
        self._tenants: set[str] = set()

    def noted(self, now: float, tenant: str, request: int, *, clear: bool) -> bool:
        """Note a refusal; return whether it is proven. `request` tells requests apart; `clear`: it names the key."""
        if now - self._at >= ROW_SECONDS and not self._proven:
            self.answered()
        self._at = now
        if clear:
            self._clear += 1
        elif not self._proven:
            self._requests.add(request)
            self._tenants.add(tenant)
        unclear = len(self._requests) >= UNCLEAR_REQUESTS and len(self._tenants) >= UNCLEAR_TENANTS
        if len(self._requests) > UNCLEAR_REQUESTS and not unclear:
            self._requests.pop()
        self._proven = self._proven or self._clear >= CLEAR_REFUSALS or unclear
        return self._proven

    def answered(self) -> None:
        """Forget everything: the upstream answers."""
        self._proven = False
        self._clear = 0
        self._requests.clear()
        self._tenants.clear()


class FundsBackOff:
    """How long an account that cannot pay is left alone."""

    __slots__ = ("_seconds", "_until")

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = 0.0

    def noted(self, now: float, stated: float) -> float:
        """Note that it cannot pay; return the seconds until it is asked again, at least the `stated` ones."""
        if now >= self._until:
            self._seconds = min(2 * self._seconds, LONGEST_FUNDS_SECONDS) or FUNDS_SECONDS
            self._until = now + max(self._seconds, stated)
        return self._until - now

    def paid(self) -> None:
        """Start anew: it has answered."""
        self._seconds = self._until = 0.0
