"""The library's processes, started before their model is known.

For more than one GPU the library runs the model in MPI processes, one a GPU, each of which imports all of it (a minute,
says its own source). It takes such processes from outside (`_mpi_session`), if there are as many as GPUs. For one GPU
it takes none.
"""

import importlib
import logging
import os
from typing import Any

from replicas.engines.tensorrt_llm.library import Library

log = logging.getLogger(__name__)


class WaitingWorkers:
    """So many processes, which have imported the library and made the contexts of their GPUs."""

    def __init__(self, session: Any, count: int) -> None:
        """`session` is a `MpiPoolSession`, which stays this object's."""
        self.session = session
        self.count = count

    def set_variable(self, name: str, value: str) -> None:
        """Set an environment variable in each of them: they do not see what this process sets after their start."""
        self.session.submit_sync(_set_variable, name, value)

    def end(self) -> None:
        """End them, after the LLM that uses them."""
        self.session.shutdown()


def start_workers(library: Library, gpus: int) -> WaitingWorkers | None:
    """Start processes for GPUs and wait until they are ready; None where the library would not take them."""
    if gpus <= 1 or library.mpi_pool_session is None:
        return None
    session = library.mpi_pool_session(n_workers=gpus)
    try:
        session.submit_sync(_make_ready)
    except BaseException:
        session.shutdown()
        raise
    return WaitingWorkers(session, gpus)


def visible_gpus() -> int:
    """Return how many GPUs `CUDA_VISIBLE_DEVICES` gives to this process; 0 where it does not say."""
    return sum(bool(each.strip()) for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))


# The functions below run in the processes, once in each: none takes a second one before all have met.


def _make_ready() -> None:
    importlib.import_module("tensorrt_llm")
    torch = importlib.import_module("torch")
    rank = _meet()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.cuda.synchronize()


def _set_variable(name: str, value: str) -> None:
    _meet()
    os.environ[name] = value


def _meet() -> int:
    """Wait for all processes; return this one's number."""
    world = importlib.import_module("mpi4py.MPI").COMM_WORLD
    world.barrier()
    return int(world.Get_rank())
