"""Other systems' laws of scaling, to compare with. Each module says what was taken from where."""

from collections.abc import Callable, Mapping
from typing import Final

from loadtest.simulation.scalers.apa import Apa
from loadtest.simulation.scalers.benchmark import Benchmark
from loadtest.simulation.scalers.dynamo import Dynamo
from loadtest.simulation.scalers.hpa import Hpa
from loadtest.simulation.scalers.kpa import Kpa
from loadtest.simulation.scalers.llmd import LlmdSlo, WvaV1
from loadtest.simulation.scalers.one_pool import Law
from replicas.controller.scaling_settings import Slo

#: The laws by their names on the command line. They scale one pool alone.
LAWS: Final[Mapping[str, Callable[[Benchmark, Slo], Law]]] = {
    "hpa": lambda benchmark, _: Hpa(benchmark),
    "kpa": lambda benchmark, _: Kpa(benchmark),
    "apa": lambda benchmark, _: Apa(benchmark),
    "dynamo": Dynamo,
    "llmd": lambda *_: LlmdSlo(),
    "wva": lambda *_: WvaV1(),
}
