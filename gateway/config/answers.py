"""Answer files of simulated replicas that run on this machine: paths and checks."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gateway.config.models.settings import Model, Pool
from protos.script import read_script


def with_absolute_answers(model: Model, folder: Path) -> Model:
    """Give the model with its pools' answer files relative to `folder` made absolute."""
    return msgspec.structs.replace(model, pools=tuple(_absolute(pool, folder) for pool in model.pools))


def unusable_answers(model: Model, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each answer file that cannot be read; the problem names file and line."""
    for index, pool in enumerate(model.pools):
        if pool.simulated is not None and pool.simulated.answers is not None:
            try:
                read_script(pool.simulated.answers)
            except ValueError as error:
                yield f"{where}.pools[{index}].simulated.answers", str(error)


def _absolute(pool: Pool, folder: Path) -> Pool:
    settings = pool.simulated
    if settings is None or settings.answers is None:
        return pool
    settings = msgspec.structs.replace(settings, answers=str((folder / settings.answers).resolve()))
    return msgspec.structs.replace(pool, simulated=settings)
