"""Seconds of each step from the decision to start replicas to their first answers, after DeepFlow's section 6.

The paper prints few numbers. Where neither it nor a data sheet has one, a coefficient is an assumption and says so:
what follows from it is a property of the model, not a measurement. docs/fast-start.md lists them all.
"""

from dataclasses import dataclass, field
from math import ceil, log2
from typing import Final

from protos.types import Shape
from replicas.fast_start.preparations import Preparation, WeightSource
from replicas.profiles import H100, Gpu, ModelProfile
from replicas.timing import Batch, RooflineTimer


def _value(value: float, unit: str, means: str, source: str = "assumption") -> float:
    """Make a coefficient with its description, which docs/fast-start.md repeats."""
    return field(default=value, metadata={"unit": unit, "means": means, "source": source})


@dataclass(frozen=True, slots=True)
class StartCoefficients:
    """Times and rates of the steps on a server of eight H100s."""

    pod: float = _value(20.0, "s", "to place a replica and create its containers, the image being there")
    bind: float = _value(0.1, "s", "to take a pod or a process that waits")
    imports: float = _value(12.0, "s", "to start Python and import the engine's libraries")
    devices: float = _value(3.0, "s", "to make the CUDA context and load kernels")
    collectives: float = _value(1.0, "s", "to connect a group of GPUs")
    collectives_gpu: float = _value(0.25, "s per further GPU", "of that group")
    adapt: float = _value(0.2, "s", "for a waiting process to take on a model and a shape")
    disk_rate: float = _value(7e9, "bytes/s of a server", "from its SSD, shared by its GPUs", "PCIe 4.0 x4 data sheets")
    pcie_rate: float = _value(64e9, "bytes/s per GPU", "PCIe 5.0 x16, one direction", "PCI-SIG; DGX H100 user guide")
    pcie_reached: float = _value(0.85, "of that rate", "reached by copies from main memory")
    pcie_contention: float = _value(
        0.12, "of the time, per further GPU", "of a server that loads at once", "assumption; direction: Figure 9"
    )
    tensors: float = _value(0.3, "s", "to make the tensors in which weights are put", "DeepFlow, section 6.2")
    scale_up_reached: float = _value(0.668, "of NVLink's rate", "reached by a fork", "as all-reduces, engine-model.md")
    scale_out_rate: float = _value(50e9, "bytes/s per GPU", "400 Gb/s of RoCE or InfiniBand", "DGX H100 user guide")
    scale_out_reached: float = _value(0.8, "of that rate", "reached by a fork")
    fork_contention: float = _value(
        0.02, "of the time, per further GPU", "of a replica that is forked", "assumption; similar in Figure 9"
    )
    connect: float = _value(0.2, "s", "for the source and a new replica to connect")
    connect_peer: float = _value(2e-3, "s per further replica", "of one broadcast")
    chunk: float = _value(64e6, "bytes", "that a broadcast passes on at a time")
    source_busy: float = _value(
        0.1, "of the time, at full load", "for a source that serves meanwhile", "assumption; Figure 10: limited"
    )
    profiling: float = _value(12.0, "s", "of warm-up, which profiles the memory for the KV cache and captures graphs")
    blocks: float = _value(1.5, "s", "to allocate KV blocks; with known sizes beside loading", "assumption; Table 2")
    first_request: float = _value(0.8, "s", "by which the first request is slower without warm-up by profiling")
    poll: float = _value(0.5, "s", "between two looks of a gateway at the registrations", "this gateway")
    push: float = _value(0.1, "s", "until a pushed registration is known, at most", "this gateway's bound")
    dummy_tokens: float = _value(32.0, "tokens", "of the dummy request's prompt", "this gateway")
    server_gpus: float = _value(8.0, "GPUs", "of a server", "DGX H100 user guide")


#: The coefficients of the default server.
DEFAULT: Final = StartCoefficients()


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Seconds of each step (Table 2), and of the first request until its first token."""

    allocate: float
    process: float
    load: float
    warm_up: float
    announce: float
    first_token: float

    @property
    def ready(self) -> float:
        """Seconds from the decision until the replica is ready."""
        return self.allocate + self.process + self.load + self.warm_up

    @property
    def total(self) -> float:
        """Seconds from the decision to the first token, the request having waited for the replica."""
        return self.ready + self.announce + self.first_token


class StartModel:
    """Start times of one model on one shape. Raises ValueError for a shape that the model cannot have."""

    def __init__(
        self,
        model: ModelProfile,
        shape: Shape,
        *,
        gpu: Gpu = H100,
        coefficients: StartCoefficients = DEFAULT,
    ) -> None:
        self._c, self._gpu = coefficients, gpu
        self._gpus = shape.gpus
        self._sharing = min(self._gpus, round(coefficients.server_gpus))
        self._bytes = model.weight_bytes / self._gpus
        prompt = round(coefficients.dummy_tokens)
        work = Batch(prefill=prompt, prefill_pairs=prompt * (prompt + 1) // 2, outputs=1)
        self._request = RooflineTimer(model, shape, gpu=gpu).step_seconds(work)

    @property
    def gpu_bytes(self) -> float:
        """Bytes of weights that each GPU loads."""
        return self._bytes

    def times(self, prepared: Preparation, *, replicas: int = 1, source_load: float = 0.0) -> StartTimes:
        """Return the times of `replicas` that are started at once, each on GPUs of its own.

        `source_load` is how busy the replica is that others are forked from, 0 to 1. A waiting engine is in a pod, so
        `engine` implies `pod`.
        """
        c = self._c
        warm_up, first = 0.0, self._request
        if not prepared.kv_sizes:
            warm_up += c.profiling + c.blocks  # profiling runs the model, so that no request is the first
        elif prepared.dummy_request:
            warm_up += c.first_request
        else:
            first += c.first_request
        if prepared.dummy_request:
            warm_up += self._request
        return StartTimes(
            allocate=c.bind if prepared.pod or prepared.engine else c.pod,
            process=c.adapt if prepared.engine else self._process(),
            load=self.load(prepared.weights, replicas=replicas, source_load=source_load),
            warm_up=warm_up,
            announce=c.push if prepared.pushed else c.poll,
            first_token=first,
        )

    def load(self, source: WeightSource, *, replicas: int = 1, source_load: float = 0.0) -> float:
        """Return the seconds in which all of `replicas` get their weights, loading at the same time."""
        c = self._c
        if source is WeightSource.DISK:
            # The pages come through main memory, and the copy to the GPUs is behind the reading.
            return c.tensors + max(self._bytes * self._sharing / c.disk_rate, self._from_memory())
        if source is WeightSource.PAGE_CACHE:
            return c.tensors + self._from_memory()
        rate = self._gpu.link_rate * c.scale_up_reached
        if source is WeightSource.SLOW_FORK:
            rate = c.scale_out_rate * c.scale_out_reached
        # Two trees broadcast at a link's full rate: each level only delays by a chunk (Sanders, Speck and Traeff 2009).
        levels = ceil(log2(replicas + 1))
        seconds = (self._bytes + (levels - 1) * min(c.chunk, self._bytes)) / rate
        seconds *= (1 + c.fork_contention * (self._gpus - 1)) * (1 + c.source_busy * source_load)
        return c.tensors + c.connect + c.connect_peer * (replicas - 1) + seconds

    def theoretical(self) -> float:
        """Return the weights' bytes over the PCIe rate, in seconds (Figure 9's DRAM-theoretical)."""
        return self._bytes / self._c.pcie_rate

    def _process(self) -> float:
        c = self._c
        group = c.collectives + c.collectives_gpu * (self._gpus - 1) if self._gpus > 1 else 0.0
        return c.imports + c.devices + group

    def _from_memory(self) -> float:
        c = self._c
        shared = 1 + c.pcie_contention * (self._sharing - 1)
        return self._bytes / (c.pcie_rate * c.pcie_reached) * shared
