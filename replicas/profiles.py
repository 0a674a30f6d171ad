"""Profiles of language models and GPUs for the step-time model, from their public descriptions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator. Rates are the maker's peaks; the timing model's coefficients give the reached shares."""

    name: str
    memory_bytes: float
    memory_rate: float  # bytes/s of HBM
    fp8_rate: float  # dense FP8 floating-point operations/s
    link_rate: float  # bytes/s to its peers, one direction


# NVIDIA H100 SXM data sheet: 3.35 TB/s, 1979 TFLOP/s FP8 without sparsity, NVLink 450 GB/s each way. The 80 GB model
# reports 81,559 MiB.
H100 = Gpu("h100-sxm", memory_bytes=81559 * 2**20, memory_rate=3.35e12, fp8_rate=1.979e15, link_rate=450e9)

# NVIDIA H20: 96 GB at 4 TB/s, 296 TFLOP/s FP8 without sparsity, NVLink as on the H100; it reports 97,871 MiB.
H20 = Gpu("h20", memory_bytes=97871 * 2**20, memory_rate=4.0e12, fp8_rate=2.96e14, link_rate=450e9)

# NVIDIA L40S data sheet: 48 GB at 864 GB/s, 733 TFLOP/s FP8 without sparsity, PCIe 4.0 x16; it reports 46,068 MiB.
L40S = Gpu("l40s", memory_bytes=46068 * 2**20, memory_rate=864e9, fp8_rate=7.33e14, link_rate=32e9)

GPUS = {gpu.name: gpu for gpu in (H100, H20, L40S)}


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """Sizes of a decoder-only transformer, from its published configuration.

    Weights and KV have `value_bytes` each: 1 for FP8, 2 for BF16, with which a GPU computes half as fast.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    context: int  # tokens, prompt and output together
    experts: int = 1
    experts_per_token: int = 1
    value_bytes: int = 1

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert over all layers: gate, up and down projections (a dense model is one expert)."""
        return self.layers * 3 * self.hidden * self.feed_forward

    @property
    def shared_parameters(self) -> int:
        """Parameters outside the experts, read for each token: attention projections and the output head."""
        attention = 2 * self.hidden * self.head_size * (self.heads + self.kv_heads)
        return self.layers * attention + self.hidden * self.vocabulary

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights. The input embedding has two bytes per value, as in the engine."""
        parameters = self.shared_parameters + self.experts * self.expert_parameters
        return self.value_bytes * parameters + 2 * self.hidden * self.vocabulary

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of one token's keys and values over all layers."""
        return self.layers * 2 * self.kv_heads * self.head_size * self.value_bytes


PROFILES = {
    profile.name: profile
    for profile in (
        ModelProfile("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768, experts=8, experts_per_token=2),
        ModelProfile("llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256, 131072),
        ModelProfile("llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 131072),
        ModelProfile("qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064, 131072),
        ModelProfile("qwen2.5-32b-bf16", 64, 5120, 40, 8, 128, 27648, 152064, 131072, value_bytes=2),
    )
}
