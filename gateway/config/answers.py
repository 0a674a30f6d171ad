"""The configuration's files of answers for simulated replicas that run on this machine."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gateway.config.models.settings import Model, Pool
from protos.script import read_script


def with_absolute_answers(model: Model, folder: Path) -> Model:
    """The model with the paths of its pools' files taken from a folder."""
    return msgspec.structs.replace(model, pools=tuple(_absolute(pool, folder) for pool in model.pools))


def unusable_answers(model: Model, where: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the files, as (path, problem), each of which names its file and the line."""
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
