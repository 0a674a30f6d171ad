"""A model's requests per second by minute, for forecasts: kept in the store for 15 days."""

from collections.abc import Sequence
from math import isfinite
from typing import Final

import msgspec

from gateway.scaling.lease import Write
from gateway.scaling.status import PREFIX
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import Storage

MINUTE: Final = 60.0
_HOUR: Final = 60
#: Minutes that are kept.
KEPT_MINUTES: Final = 15 * 24 * _HOUR
_DECODER: Final = msgspec.json.Decoder(list[float | None])


class MinuteRates:
    """The rates of one model, by minutes since the epoch; minutes in which nobody looked are holes."""

    def __init__(self, model: str) -> None:
        self._key = f"{PREFIX}rates:{model}"
        self._rates: dict[int, float] = {}
        self._minute: int | None = None
        self._sum, self._count = 0.0, 0

    async def read(self, storage: Storage) -> None:
        """Read what the store has, and keep what it does not have.

        Raises:
            StoreUnavailable: The store did not answer.
        """
        for field, raw in (await storage.hgetall(self._key)).items():
            try:
                hour, rates = int(field), _DECODER.decode(raw)
            except (ValueError, *UNREADABLE):
                continue
            for minute, rate in enumerate(rates[:_HOUR]):
                if rate is not None and isfinite(rate) and rate >= 0:
                    self._rates.setdefault(hour * _HOUR + minute, rate)

    def add(self, now: float, rate: float) -> list[Write]:
        """Note a rate of now; returns what is to be written, once a minute."""
        minute = int(now // MINUTE)
        writes = []
        if self._minute is not None and minute != self._minute and self._count:
            writes = self._close(self._minute, self._sum / self._count)
            self._sum, self._count = 0.0, 0
        self._minute = minute
        self._sum += rate
        self._count += 1
        return writes

    def last(self, now: float, minutes: int = KEPT_MINUTES) -> list[float | None]:
        """The rates of whole minutes before now, the oldest first, from the first that is known on; None: a hole."""
        end = int(now // MINUTE)
        first = min((minute for minute in self._rates if minute >= end - minutes), default=end)
        return [self._rates.get(minute) for minute in range(first, end)]

    def _close(self, minute: int, rate: float) -> list[Write]:
        self._rates[minute] = rate
        oldest = minute - KEPT_MINUTES
        gone = [old for old in self._rates if old < oldest]
        for old in gone:
            del self._rates[old]
        hours = {minute // _HOUR, *(old // _HOUR for old in gone)}
        return [Write("put", self._key, str(hour), self._hour(hour)) for hour in sorted(hours)]

    def _hour(self, hour: int) -> bytes:
        rates: Sequence[float | None] = [self._rates.get(hour * _HOUR + minute) for minute in range(_HOUR)]
        if all(rate is None for rate in rates):
            return b""
        return msgspec.json.encode([None if rate is None else round(rate, 4) for rate in rates])
