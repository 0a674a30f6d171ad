"""How much KV replicas hold whose shape may change: each of their GPUs keeps what is not repartitioned whole."""

from protos.types import Shape
from replicas.kv_cache import TOKENS_PER_BLOCK
from replicas.profiles import Gpu, ModelProfile
from replicas.reshape.cost import kept_whole_bytes
from replicas.timing import FITTED, kv_blocks


def reshaped_kv_blocks(model: ModelProfile, gpu: Gpu, width: int) -> int:
    """Return the blocks of a replica of this width. Raises ValueError where the model does not fit, or none is left."""
    token = model.kv_bytes_per_token * TOKENS_PER_BLOCK * FITTED.free_memory_fraction**-1
    blocks = kv_blocks(model, Shape(width), gpu=gpu) - round(width * kept_whole_bytes(model, width) / token)
    if blocks < 1:
        raise ValueError(f"{model.name} leaves no room for KV on {width} x {gpu.name} whose shape may change")
    return blocks


def spare_bytes(model: ModelProfile, gpu: Gpu, width: int) -> float:
    """Return the memory of a GPU, in bytes, that neither weights nor workspace nor the KV cache have."""
    free = gpu.memory_bytes - model.weight_bytes / width - FITTED.workspace_bytes - kept_whole_bytes(model, width)
    return (1 - FITTED.free_memory_fraction) * free
