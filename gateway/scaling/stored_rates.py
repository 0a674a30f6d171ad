"""A model's rate over two weeks, kept in the store, and what is forecast from it."""

import asyncio
import logging
from typing import Final

import msgspec

from gateway.scaling.leasing.lease import Write
from gateway.scaling.status import PREFIX
from gateway.store.unreadable import UNREADABLE
from replicas.controller.forecast.fit import FitResult, fit_forecast
from replicas.controller.forecast.rate_bins import BIN_SECONDS, RateBins, with_rate
from replicas.controller.snapshot import Forecast

log = logging.getLogger(__name__)

#: A hash: model -> its rates by bins of five minutes.
RATES: Final = f"{PREFIX}rates"
#: Seconds between two writes, of some 30 kB for a history of 15 days.
WRITE_SECONDS: Final = 60.0
_DECODER: Final = msgspec.json.Decoder(RateBins)
#: Why a method is not used, where that is no fault.
_FAULTS: Final = ("it failed", "it forecast")


class StoredRates:
    """The rates of one model in one controller. A forecast is fitted in a thread, once a bin."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._bins = RateBins()
        self._written_at = 0.0
        self._fitted: int | None = None
        self._fitting: asyncio.Task[None] | None = None
        #: What is expected; None: nothing can be said.
        self.forecast: Forecast | None = None
        #: A sentence for operators where forecasting fails; empty otherwise.
        self.warning = ""

    def restore(self, raw: bytes) -> None:
        """Go on from what the store has, where that is newer than what is known here."""
        try:
            stored = _DECODER.decode(raw)
        except UNREADABLE:
            log.warning("the rates of %s cannot be read: their history begins anew", self._model)
            return
        if stored.at > self._bins.at:
            self._bins = stored

    def add(self, now: float, rate: float) -> list[Write]:
        """Note a rate of now, and have a forecast fitted where a bin is over; returns what is to be written."""
        self._bins = with_rate(self._bins, now, rate)
        if self._bins.last != self._fitted and (self._fitting is None or self._fitting.done()):
            self._fitted = self._bins.last
            self._fitting = asyncio.create_task(self._fit(self._bins, now))
        if 0.0 <= now - self._written_at < WRITE_SECONDS:
            return []
        self._written_at = now
        return [Write("put", RATES, self._model, msgspec.json.encode(self._bins))]

    async def fitted(self) -> None:
        """Wait for the fit that is under way."""
        if self._fitting is not None:
            await asyncio.wait([self._fitting])

    async def aclose(self) -> None:
        """Give up waiting for the fit that is under way."""
        if self._fitting is not None:
            self._fitting.cancel()
            await asyncio.gather(self._fitting, return_exceptions=True)

    async def _fit(self, bins: RateBins, now: float) -> None:
        try:
            result = await asyncio.to_thread(fit_forecast, bins, now)
        except Exception as error:
            log.exception("forecasting %s", self._model)
            self.forecast, self.warning = None, f"no forecast could be made ({type(error).__name__}: {error})"
            return
        self.forecast = result.forecast
        self.warning = _warning(result)


def _warning(result: FitResult) -> str:
    """Tell of methods that fail, where none is left."""
    faults = [f"{name}: {why}" for name, why in result.dropped.items() if why.startswith(_FAULTS)]
    return "" if result.forecast is not None or not faults else f"no forecast could be made: {'; '.join(faults)}"


#: Seconds after which a forecast says nothing any more, as when its rates come no longer.
OLD_SECONDS: Final = 3 * BIN_SECONDS


def usable(forecast: Forecast | None, now: float) -> Forecast | None:
    """Return the forecast, None where it is too old."""
    return forecast if forecast is not None and now - forecast.made <= OLD_SECONDS else None
