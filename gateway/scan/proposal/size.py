"""Pure: what a model of one's own takes, by its files or its name, and where it fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.scan.finding import Finding, Task
from gateway.scan.proposal.proposed import Sizing
from gateway.scan.sizing.families import Architecture, architecture_of
from gateway.scan.sizing.fit import cheapest, most_tokens, need_of, placements
from gateway.scan.sizing.gpus import GpuKind, known_kinds
from gateway.scan.sizing.local_weights import LocalModel
from gateway.scan.sizing.quantisation import quantisation_of

#: Machines that shapes are sought over, for a model that does not fit on the given GPUs.
_MOST_MACHINES: Final = 4
_OLLAMA: Final = ("GGUF Q4_K, Ollama's default", 4.89)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingOptions:
    """What is known of the load and the GPUs. `concurrency`: requests at once on one replica, each `context` long."""

    gpus: tuple[GpuKind, ...]
    #: The GPUs are those of the table, since none were given.
    any_gpu: bool = False
    concurrency: int = 16


def context_of(name: str, local: LocalModel | None) -> int | None:
    """Tokens that the model was made for; None if that is not known."""
    found = local.architecture.context if local is not None else None
    return found or architecture_of(name)[0].context


def size(
    name: str, task: Task, findings: Sequence[Finding], local: LocalModel | None, context: int, options: SizingOptions
) -> Sizing:
    """Estimate a model's need, and find its shapes for `options.concurrency` requests of `context` tokens."""
    architecture, source = architecture_of(name)
    notes: list[str] = []
    if local is not None:
        architecture, source = _with_local(local.architecture, architecture), f"config.json in {local.path.name}"
    stated = [
        value for one in findings for key, value in one.options.items() if key in ("quantisation", "weights_file")
    ]
    form = quantisation_of(*stated, name)
    if form is None and any(one.engine == "ollama" for one in findings):
        form = _OLLAMA
    bits = form[1] if form is not None else architecture.bits
    kept = form[0] if form is not None else _published(architecture.bits)
    weight_bytes = float(local.weight_bytes) if local is not None and local.weight_bytes else None
    if weight_bytes is not None and local is not None:
        kept, source_of_weights = local.quantisation or kept, "its files"
    else:
        source_of_weights = f"{_billions(architecture)} parameters ({source}) in {kept}" if source else ""
    kv_bytes = 1.0 if any("8" in one.options.get("kv", "") for one in findings) else 2.0
    need = need_of(architecture, bits, weight_bytes, kv_bytes)
    if need.kv_per_token is None and task in (Task.EMBED, Task.RERANK):
        need = replace(need, kv_per_token=0.0)
    if need.weights is None:
        notes.append("weights: unknown: neither its files nor its name say how many parameters it has")
        return Sizing(need=need, quantisation=kept if form else "", notes=tuple(notes))
    notes.append(f"weights: {_gib(need.weights)} by {source_of_weights}")
    tokens = options.concurrency * context
    kv = need.kv(tokens)
    if kv is None:
        notes.append("KV cache: unknown, since the model's layers and heads are; weights take at most 60 % of the room")
    elif kv:
        notes.append(
            f"KV cache: {_gib(kv)} for {options.concurrency} requests of {context} tokens, "
            f"{(need.kv_per_token or 0) / 1024:.0f} KiB a token in {8 * kv_bytes:.0f} bits"
        )
    fitting = tuple(placements(need, tokens, options.gpus))
    placed = cheapest(fitting)
    if placed is None:
        elsewhere = tuple(placements(need, tokens, (*options.gpus, *known_kinds(8)), _MOST_MACHINES))
        elsewhere = tuple({(one.gpu.name, one.tp, one.pp): one for one in elsewhere}.values())
        return Sizing(need=need, quantisation=kept, notes=tuple(notes), elsewhere=elsewhere)
    return Sizing(
        need=need,
        quantisation=kept,
        notes=tuple(notes),
        placed=placed,
        fitting=fitting,
        kv_tokens=most_tokens(need, placed) if need.kv_per_token else None,
    )


def _with_local(own: Architecture, known: Architecture) -> Architecture:
    """What the files say; what they do not say, by the name."""
    return Architecture(
        parameters=known.parameters or own.parameters,
        layers=own.layers or known.layers,
        heads=own.heads or known.heads,
        kv_heads=own.kv_heads or known.kv_heads,
        head_size=own.head_size or known.head_size,
        context=own.context or known.context,
        embedding=own.embedding or known.embedding,
        latent=own.latent or known.latent,
        bits=own.bits,
    )


def _published(bits: float) -> str:
    return {16.0: "16 bits", 8.0: "FP8", 4.25: "MXFP4", 32.0: "32 bits"}[bits]


def _billions(architecture: Architecture) -> str:
    count = (architecture.parameters or 0.0) / 1e9
    return f"{count:.3g} billion"


def _gib(size: float) -> str:
    return f"{size / (1 << 30):.1f} GiB"
