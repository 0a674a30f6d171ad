"""Options of `penstock replica --engine tensorrt_llm`."""

import argparse
import json
from typing import Any


def add_trtllm_options(parser: argparse.ArgumentParser) -> None:
    """Add these options in groups; docs/engines-tensorrt-llm.md says what each one sets."""
    group = parser.add_argument_group("tensorrt_llm engine")
    group.add_argument("--checkpoint", help="folder or hub name of the weights (default: the model's name)")
    group.add_argument("--cp", dest="context_parallel", type=int, help="context parallel degree")
    group.add_argument("--moe-tp", type=int, help="tensor parallel degree inside the experts; times --ep it is --tp")
    group.add_argument("--attention-dp", action="store_true", help="attention in data parallel over the --tp GPUs")
    group.add_argument("--dtype", help="of the weights (default: auto)")
    group.add_argument("--trust-remote-code", action="store_true", help="run code that comes with the checkpoint")
    group.add_argument("--max-batch-size", type=int, help="sequences of one step (default: 2048)")
    group.add_argument("--max-num-tokens", type=int, help="tokens of one step (default: 8192)")
    group.add_argument("--chunking", choices=["first_come_first_served", "equal_progress"], help="of long prompts")
    group.add_argument("--no-chunked-prefill", action="store_true", help="a prompt must fit into one step")
    group.add_argument("--stream-interval", type=int, help="steps between two updates of a stream (default: 1)")
    group.add_argument("--guided-backend", choices=["xgrammar", "llguidance"], help="turns guided decoding on")
    group.add_argument(
        "--end-id", type=int, action="append", default=[], help="token that ends an answer (default: the tokenizer's)"
    )
    group.add_argument(
        "--llm-option",
        type=_llm_option,
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="argument of tensorrt_llm.LLM, as it is",
    )
    group.add_argument("--warmup-seconds", type=float, help="for the first request (default: 600)")
    group.add_argument("--probe-seconds", type=float, help="of silence before the engine is probed (default: 30)")
    group.add_argument("--probe-timeout-seconds", type=float, help="for a probe's answer (default: 60)")
    _add_cache(parser)
    _add_lora(parser)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tensorrt_llm engine: KV cache")
    group.add_argument("--no-kv-reuse", action="store_true", help="prompts share nothing, and no KV events are sent")
    group.add_argument("--kv-fraction", type=float, help="of the GPU memory that is free (default: 0.9)")
    group.add_argument("--kv-tokens", type=int, help="at most so many tokens")
    group.add_argument(
        "--kv-no-profiling",
        action="store_true",
        help="start without running the model to find out what memory is left: --kv-tokens is known from another start",
    )
    group.add_argument("--kv-host-gib", type=float, help="main memory for blocks that leave the GPU")
    group.add_argument("--kv-block-tokens", type=int, help="tokens of a block (default: 32)")
    group.add_argument("--kv-dtype", help="as fp8 (default: auto)")
    group.add_argument("--kv-event-buffer", type=int, help="events that may wait; 0 turns them off (default: 65536)")
    group.add_argument("--retain-prompt", type=int, metavar="PRIORITY", help="0 to 100; the library's default is 35")
    group.add_argument("--retain-prompt-seconds", type=float, help="after which the priority lapses")
    group.add_argument("--retain-answer", type=int, metavar="PRIORITY", help="0 to 100; the library's default is 35")
    group.add_argument("--retain-answer-seconds", type=float, help="after which the priority lapses")
    group.add_argument("--transceiver", choices=["DEFAULT", "UCX", "NIXL", "MPI"], help="how KV caches are handed over")
    group.add_argument("--transceiver-tokens", type=int, help="tokens that its buffer holds")


def _add_lora(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tensorrt_llm engine: LoRA")
    group.add_argument("--lora", action="store_true", help="take adapters; --adapter implies it")
    group.add_argument(
        "--lora-module",
        action="append",
        metavar="NAME",
        help="that adapters change (default: attn_q, attn_k, attn_v, attn_dense)",
    )
    group.add_argument("--lora-rank", type=int, default=64, help="highest rank (default: 64)")
    group.add_argument("--lora-on-gpu", type=int, default=8, help="adapters on the GPU at a time (default: 8)")
    group.add_argument("--lora-in-memory", type=int, default=64, help="adapters in main memory (default: 64)")


def kv_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords of KvOptions; unset, their defaults hold."""
    host = arguments.kv_host_gib
    given = {
        "free_memory_fraction": arguments.kv_fraction,
        "max_tokens": arguments.kv_tokens,
        "host_bytes": None if host is None else round(host * 2**30),
        "tokens_per_block": arguments.kv_block_tokens,
        "dtype": arguments.kv_dtype,
        "event_buffer": arguments.kv_event_buffer,
    }
    switches = {"block_reuse": not arguments.no_kv_reuse, "profiled": not arguments.kv_no_profiling}
    return switches | {k: v for k, v in given.items() if v is not None}


def retention_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords of Retention."""
    return {
        "prompt_priority": arguments.retain_prompt,
        "prompt_ms": _milliseconds(arguments.retain_prompt_seconds),
        "decode_priority": arguments.retain_answer,
        "decode_ms": _milliseconds(arguments.retain_answer_seconds),
    }


def adapter_paths(given: list[str]) -> dict[str, str]:
    """Parse NAME=PATH options. Raises ValueError."""
    paths: dict[str, str] = {}
    for each in given:
        name, sign, path = each.partition("=")
        if not name or not sign or not path:
            raise ValueError(f"--adapter is NAME=PATH, not {each}")
        if name in paths:
            raise ValueError(f"--adapter {name} is given twice")
        paths[name] = path
    return paths


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _llm_option(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not name.isidentifier() or not sign:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=JSON")
    try:
        return name, json.loads(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"the value of {name} is no JSON") from None
