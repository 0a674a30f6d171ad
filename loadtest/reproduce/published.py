"""Published figures of TensorRT-LLM on H100s with FP8 weights and KV, for comparison with the model."""

from dataclasses import dataclass

TENSOR_PARALLEL = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Workload:
    """Fixed prompt and answer lengths in tokens, and the number of requests that the published run queued at once."""

    prompt: int
    output: int
    requests: int


# TensorRT-LLM's performance overview gives the number of requests for each pair of lengths.
WORKLOADS = (
    Workload(128, 128, 30000),
    Workload(128, 2048, 3000),
    Workload(500, 2000, 3000),
    Workload(1000, 1000, 3000),
    Workload(2048, 128, 3000),
    Workload(2048, 2048, 1500),
    Workload(5000, 500, 1500),
)

# Total output tokens/s from the same overview (data of version 0.15): a row per workload, a column per TP.
SATURATED: dict[str, tuple[tuple[int, ...], ...]] = {
    "mixtral-8x7b": (
        (15883, 27156, 40732, 51899),
        (8214, 23010, 41117, 63701),
        (6740, 16786, 34507, 53260),
        (6788, 15867, 27614, 40321),
        (1885, 3368, 5275, 7609),
        (3725, 10465, 18441, 25625),
        (1762, 3592, 6340, 9527),
    ),
    "llama-3.1-70b": (
        (3174, 6399, 10589, 15427),
        (805, 5920, 11064, 16533),
        (652, 4776, 9504, 14508),
        (775, 4247, 7306, 11087),
        (328, 774, 1316, 2065),
        (388, 2667, 5166, 7768),
        (218, 902, 1567, 2534),
    ),
    "llama-3.1-8b": ((27792,), (19965,), (15782,), (14797,), (3496,), (8980,), (3478,)),
}


@dataclass(frozen=True, slots=True)
class Latency:
    """One measured operating point: `concurrency` requests of fixed lengths at a time."""

    source: str
    model: str
    tp: int
    prompt: int
    output: int
    concurrency: int
    ttft_ms: float
    itl_ms: float


# NVIDIA NIM's tables: Llama-3.3-70B, which has the shape of 3.1, on two H100s.
NIM = tuple(
    Latency("NIM", "llama-3.1-70b", 2, 5000, 500, concurrency, ttft, itl)
    for concurrency, ttft, itl in (
        (1, 407, 18.6),
        (5, 547, 21.8),
        (25, 689, 38.8),
        (50, 835, 59.7),
        (100, 7996, 92.9),
        (200, 61680, 93.1),
    )
)

# Static batches of an older release on Llama-2-70B and Mistral-7B, whose layers are those of the models named here.
STATIC = (
    Latency("static", "llama-3.1-70b", 1, 128, 128, 1, 36, 27.0),
    Latency("static", "llama-3.1-70b", 2, 128, 128, 1, 26, 17.3),
    Latency("static", "llama-3.1-70b", 2, 128, 128, 512, 4447, 50.5),
    Latency("static", "llama-3.1-70b", 2, 128, 128, 1024, 8959, 90),
    Latency("static", "llama-3.1-70b", 4, 128, 128, 1, 20, 12.0),
    Latency("static", "llama-3.1-70b", 4, 2048, 2048, 4, 383, 13.7),
    Latency("static", "llama-3.1-70b", 8, 2048, 2048, 32, 2003, 15.4),
    Latency("static", "llama-3.1-8b", 1, 128, 128, 1, 6.6, 4.33),
    Latency("static", "llama-3.1-8b", 1, 128, 128, 512, 879, 19.9),
    Latency("static", "llama-3.1-8b", 1, 128, 128, 896, 1544, 32.1),
)
