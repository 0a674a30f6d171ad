"""Prices and interruption rates of preemptible capacity, from a file, a URL or a command of the operator's."""

import asyncio
import http.client
import logging
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gateway.config.models.launchers import SpotPrices
from gateway.store.unreadable import UNREADABLE
from replicas.launchers.hook import HookError, run_hook

log = logging.getLogger(__name__)

#: Seconds that the source has to answer, and bytes of its answer at most.
_ANSWER_SECONDS: Final = 20.0
_MOST_BYTES: Final = 1 << 20
#: What was said last holds for so many times the time between two questions.
HOLDS: Final = 10


class SpotPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is told of one pool: US dollars for a replica and hour, and how often one is taken away."""

    model: str
    pool: str
    price_per_hour: Annotated[float, Meta(ge=0, le=1_000_000)]
    interruptions_per_hour: Annotated[float, Meta(ge=0, le=3600)] = 0.0


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pools: list[SpotPrice]


_DECODER: Final = msgspec.json.Decoder(_Document)


class SpotPriceSource:
    """Asks the source again and again. While it says nothing, or nonsense, what it said last holds for a while."""

    def __init__(
        self, settings: SpotPrices, environment: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`environment` is the command's."""
        self._settings = settings
        self._environment = environment
        self._clock = clock
        self._told: list[SpotPrice] = []
        self._told_at = clock()
        #: A sentence for operators while the source does not answer as it should; empty otherwise.
        self.warning = ""

    def of(self, model: str) -> dict[str, SpotPrice]:
        """What holds of a model's pools, by pool; empty where nothing was told lately."""
        if self._clock() - self._told_at > HOLDS * self._settings.every_seconds:
            return {}
        return {told.pool: told for told in self._told if told.model == model}

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(self._settings.every_seconds)

    async def ask(self) -> None:
        """Ask once."""
        try:
            self._told = _DECODER.decode(await self._read()).pools
        except (HookError, OSError, ValueError, http.client.HTTPException, *UNREADABLE) as error:
            problem = f"spot prices are not told ({self._name}): {' '.join(str(error).split())}"
            if problem != self.warning:
                log.warning("%s", problem)
            self.warning = problem
        else:
            self._told_at, self.warning = self._clock(), ""

    @property
    def _name(self) -> str:
        settings = self._settings
        # The rest of a command or a URL may hold a secret.
        return settings.file or (settings.command or ("launchers.spot_prices.url",))[0]

    async def _read(self) -> bytes:
        settings = self._settings
        if settings.command is not None:
            return await run_hook(settings.command, b"{}", self._environment, _ANSWER_SECONDS)
        if settings.url is not None:
            return await asyncio.to_thread(_get, settings.url)
        assert settings.file is not None
        return await asyncio.to_thread(_content, Path(settings.file))


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:
        return bytes(answer.read(_MOST_BYTES))


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES)
