"""Weights that replicas of this machine will load are read ahead, those of the models first that are likely to grow."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from gateway.config.settings import Config
from gateway.scaling.settings import ScaledModel, scaled_models
from replicas.controller.decision import Decision
from replicas.controller.snapshot import Demand, Forecast
from replicas.fast_start.page_cache import Preloaded, preload

log = logging.getLogger(__name__)

#: Seconds between two looks: by then another model may be the likelier one, and others may have taken the memory.
LOOK_SECONDS: Final = 15.0
_CHECKPOINT: Final = "--checkpoint"


class Controlled(Protocol):
    """What is known of a model, as `ModelController` has it."""

    @property
    def model(self) -> ScaledModel: ...

    @property
    def decision(self) -> Decision | None: ...

    @property
    def demand(self) -> Demand | None: ...

    @property
    def forecast(self) -> Forecast | None: ...


def checkpoints(config: Config) -> dict[tuple[str, str], Path]:
    """Return the folders of weights of this machine's pools, by model and pool."""
    found = {}
    for model in scaled_models(config):
        for pool in model.pools:
            settings = config.models[pool.model_index].pools[pool.pool_index]
            if pool.launcher == "local" and settings.engine == "tensorrt_llm":
                folder = Path(_checkpoint(settings.replica_arguments) or model.name)
                if folder.is_dir():
                    found[pool.place] = folder
    return found


def by_likelihood(models: Sequence[Controlled], folders: Mapping[tuple[str, str], Path]) -> list[Path]:
    """Return the folders, those first whose pools shall grow or whose models have the largest rates ahead."""
    ranked = []
    for one in models:
        rate = max(
            one.demand.requests_per_second if one.demand is not None else 0.0,
            max(one.forecast.upper, default=0.0) if one.forecast is not None else 0.0,
        )
        for pool in one.model.pools:
            if (folder := folders.get(pool.place)) is not None:
                decided = one.decision.pools.get(pool.name) if one.decision is not None else None
                short = decided.needed - decided.wanted if decided is not None else 0
                wanted = decided.wanted if decided is not None else 0
                ranked.append(((-max(short, 0), -rate, -wanted), folder))
    return list(dict.fromkeys(folder for _, folder in sorted(ranked, key=lambda each: each[0])))


class Preloading:
    """Reads in a thread, for as long as `run` runs and this process is the controller."""

    def __init__(
        self,
        models: Sequence[Controlled],
        folders: Mapping[tuple[str, str], Path],
        acts: Callable[[], bool],
        read: Callable[[Sequence[Path], threading.Event], Preloaded] = lambda folders, stop: preload(
            folders, stop=stop
        ),
    ) -> None:
        """`acts` says whether this process is the controller, whose demand is up to date."""
        self._models, self._folders, self._acts, self._read = models, folders, acts, read
        self._said = ""

    async def run(self) -> None:
        """Read until cancelled; a read that is under way is stopped then."""
        while self._folders:
            if self._acts():
                await self._look(by_likelihood(self._models, self._folders))
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, folders: Sequence[Path]) -> None:
        stop = threading.Event()
        try:
            found = await asyncio.to_thread(self._read, folders, stop)
        except (OSError, ValueError) as error:
            self._say(f"weights cannot be read ahead: {error}", logging.WARNING)
            return
        finally:
            stop.set()
        kept = f"{found.cached / 1e9:.1f} of {found.total / 1e9:.1f} GB of weights are in the page cache"
        self._say(f"{kept}; {found.problem}" if found.problem else kept, logging.INFO)

    def _say(self, text: str, level: int) -> None:
        if text != self._said:
            self._said = text
            log.log(level, "%s", text)


def _checkpoint(arguments: Sequence[str]) -> str | None:
    """The checkpoint that options of a replica name."""
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == _CHECKPOINT:
            return value if equals else next(iter(arguments[number + 1 :]), None)
    return None
