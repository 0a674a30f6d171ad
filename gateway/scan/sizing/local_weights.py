"""A model whose files lie in the application's folder: its size by its weights, its shape by its configuration."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gateway.scan.sizing.families import Architecture
from gateway.scan.sizing.gguf import NoGgufError, read_gguf
from gateway.scan.sizing.quantisation import quantisation_of

_MOST_CONFIG: Final = 1 << 20
_POINTER: Final = re.compile(rb"version https://git-lfs[^\n]*\noid [^\n]*\nsize (\d{1,15})\n")


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model by its files. `weight_bytes` is None where only the configuration lies there."""

    path: Path
    architecture: Architecture
    weight_bytes: int | None
    quantisation: str = ""
    problem: str = ""


def local_model(path: Path) -> LocalModel:
    """Look at a folder with `config.json` and safetensors, or at a GGUF file."""
    if path.suffix.lower() == ".gguf":
        try:
            size = _size(path)
            architecture = read_gguf(path)
        except NoGgufError as error:
            return LocalModel(path, Architecture(), _size(path), problem=str(error))
        except OSError as error:
            return LocalModel(path, Architecture(), None, problem=error.strerror or str(error))
        form = quantisation_of(path.name)
        return LocalModel(path, architecture, size, form[0] if form else "")
    problem, config = "", dict[str, Any]()
    try:
        config = _config(path / "config.json")
    except (OSError, ValueError, RecursionError) as error:
        problem = f"config.json cannot be read: {getattr(error, 'strerror', None) or error}"
    weights = sorted(path.glob("*.safetensors"))
    try:
        total = sum(map(_size, weights[:1000]))
    except OSError:
        total = 0
    settings = config.get("quantization_config")
    form = quantisation_of(str(settings.get("quant_method", ""))) if isinstance(settings, Mapping) else None
    return LocalModel(path, architecture_from(config), total or None, form[0] if form else "", problem)


def architecture_from(config: Mapping[str, Any]) -> Architecture:
    """The architecture that a `config.json` of transformers describes; what it lacks is unknown."""
    inner = config.get("text_config")
    if isinstance(inner, Mapping):
        config = {**config, **inner}
    layers, hidden = _count(config, "num_hidden_layers", "n_layer"), _count(config, "hidden_size", "n_embd")
    heads = _count(config, "num_attention_heads", "n_head")
    kv_heads = _count(config, "num_key_value_heads") or heads
    head_size = _count(config, "head_dim") or (hidden // heads if hidden and heads else None)
    latent = _count(config, "kv_lora_rank")
    found = Architecture(
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        context=_count(config, "max_position_embeddings", "n_positions"),
        latent=latent + (_count(config, "qk_rope_head_dim") or 0) if latent else None,
        bits=32.0 if config.get("torch_dtype", config.get("dtype")) == "float32" else 16.0,
    )
    feed_forward, vocabulary = _count(config, "intermediate_size"), _count(config, "vocab_size")
    if None in (layers, hidden, heads, kv_heads, head_size, feed_forward, vocabulary) or latent:
        return found
    assert layers and hidden and heads and kv_heads and head_size and feed_forward and vocabulary
    experts = _count(config, "num_local_experts", "num_experts", "n_routed_experts") or 1
    feed_forward = _count(config, "moe_intermediate_size") or feed_forward if experts > 1 else feed_forward
    attention = 2 * hidden * head_size * (heads + kv_heads)
    embedding = hidden * vocabulary * (1 if config.get("tie_word_embeddings") else 2)
    parameters = layers * (attention + experts * 3 * hidden * feed_forward) + embedding
    return replace(found, parameters=float(parameters), embedding=float(embedding))


def _config(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        found = json.loads(file.read(_MOST_CONFIG))
    if not isinstance(found, dict):
        raise ValueError("no mapping")  # noqa: TRY004 - one of the ways in which the file cannot be read
    return found


def _count(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 10**8:
            return value
    return None


def _size(path: Path) -> int:
    """Bytes of a file; of one that Git LFS has not fetched yet, those that it will have."""
    size = path.stat().st_size
    if size < 1024:
        with path.open("rb") as file:
            pointer = _POINTER.match(file.read(1024))
        if pointer is not None:
            return int(pointer[1])
    return size
