"""No limits: for requests that the gateway makes on its own account, which are charged to nobody."""

from typing import Final

from gateway.tenancy.limits.limiter import Ask, Rate, Usage


class _NoLimits:
    """A `Limiter` without limits."""

    def last_rate(self, key_id: str) -> Rate | None:
        return None

    async def reserve(self, ask: Ask) -> "_NoLease":
        return _NoLease(ask.most)


class _NoLease:
    def __init__(self, output: int) -> None:
        self.output = output

    def settle(self, usage: Usage) -> None:
        pass

    def release(self, *, rejected: bool = False) -> None:
        pass


NO_LIMITS: Final = _NoLimits()
