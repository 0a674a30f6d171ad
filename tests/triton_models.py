"""What models of TensorRT-LLM's Triton templates take and give, for the server of tests/fake_triton.py."""

from dataclasses import dataclass, field
from typing import Any, Final

from protos.types import Finish, FinishReason, Sampling, Submit
from replicas.engine import Delta
from routing.transports.triton.settings import Kind
from tests.harness import tekken

#: Input -> (datatype, dimensions without the batch's, whether it may be left out).
Inputs = dict[str, tuple[str, tuple[int, ...], bool]]


def _one(datatype: str, *names: str, optional: bool = True) -> Inputs:
    return dict.fromkeys(names, (datatype, (1,), optional))


_PENALTIES: Final = ("repetition_penalty", "presence_penalty", "frequency_penalty")
_FLAGS: Final = ("exclude_input_in_output", "return_perf_metrics", "return_num_output_tokens")
_AROUND: Final[Inputs] = (
    _one("BYTES", "text_input", optional=False)
    | _one("INT32", "max_tokens", optional=False)
    | _one("INT32", "top_k", "min_tokens", "end_id", "pad_id")
    | _one("FP32", "top_p", "temperature", *_PENALTIES)
    | _one("UINT64", "seed")
    | _one("BOOL", "stream", *_FLAGS)
)
INPUTS: Final[dict[Kind, Inputs]] = {
    Kind.ENGINE: {"input_ids": ("INT32", (-1,), False), "stop_words_list": ("INT32", (2, -1), True)}
    | _one("INT32", "input_lengths", "request_output_len", optional=False)
    | _one("INT32", "runtime_top_k", "min_tokens", "end_id", "pad_id")
    | _one("FP32", "runtime_top_p", "temperature", *_PENALTIES)
    | _one("UINT64", "seed")
    | _one("BYTES", "guided_decoding_guide_type", "guided_decoding_guide")
    | _one("BOOL", "streaming", *_FLAGS),
    Kind.ENSEMBLE: _AROUND,
    Kind.BLS: _AROUND,
    Kind.LLM_API: {"text_input": ("BYTES", (-1,), False)}
    | _one("INT32", "sampling_param_max_tokens", "sampling_param_top_k")
    | _one("FP32", "sampling_param_top_p", "sampling_param_temperature")
    | _one("FP32", "sampling_param_presence_penalty", "sampling_param_frequency_penalty")
    | _one("UINT64", "sampling_param_seed")
    | _one("BOOL", "streaming", "sampling_param_exclude_input_from_output", "return_finish_reason"),
}
OUTPUTS: Final = {
    Kind.ENGINE: {"output_ids": "INT32", "sequence_length": "INT32", "kv_cache_reused_blocks": "INT32"},
    Kind.ENSEMBLE: {"text_output": "BYTES", "kv_cache_reused_blocks": "INT32", "num_output_tokens": "INT32"},
    Kind.BLS: {"text_output": "BYTES", "kv_cache_reused_blocks": "INT32", "num_output_tokens": "INT32"},
    Kind.LLM_API: {"text_output": "BYTES", "finish_reason": "BYTES"},
}
_BLOCK: Final = 32


def submit_of(kind: Kind, request_id: str, values: dict[str, Any]) -> Submit:
    """What the engine behind a model is asked."""
    prefix = "sampling_param_" if kind is Kind.LLM_API else ""
    engine = kind is Kind.ENGINE
    sampling = Sampling(
        seed=value_of(values, f"{prefix}seed"),
        temperature=value_of(values, f"{prefix}temperature"),
        # The engine knows no end unless it is told one; around it, preprocessing takes the tokenizer's.
        ignore_eos=engine and "end_id" not in values,
    )
    if engine:
        return Submit(request_id, list(values["input_ids"]), values["request_output_len"][0], sampling)
    tokenizer = tekken().tokenizer
    assert tokenizer.bos_id is not None
    ids = [tokenizer.bos_id, *tokenizer.encode(values["text_input"][0].decode(), special=True)]
    return Submit(request_id, ids, values[f"{prefix}max_tokens"][0], sampling)


def value_of(values: dict[str, Any], name: str) -> Any:
    return values[name][0] if name in values else None


@dataclass
class Writer:
    """Writes one answer's responses as a model does: datatype, shape and values of each output."""

    kind: Kind
    accumulate: bool
    #: With which an answer of ids ends that ends by itself.
    stop_word: int | None = None
    ids: list[int] = field(default_factory=list)
    reused: int = 0

    def response(self, delta: Delta | None, finish: Finish | None) -> dict[str, tuple[str, tuple[int, ...], list[Any]]]:
        new = delta.token_ids if delta is not None else []
        if delta is not None and delta.cached_tokens is not None:
            self.reused = delta.cached_tokens // _BLOCK
        self.ids += new
        if self.kind is Kind.ENGINE:
            if self.stop_word is not None and finish is not None and finish.reason is FinishReason.STOP:
                new = [*new, self.stop_word]
            return {
                "output_ids": ("INT32", (1, 1, len(new)), list(new)),
                "sequence_length": ("INT32", (1, 1), [len(new)]),
                "kv_cache_reused_blocks": ("INT32", (1, 1), [self.reused]),
            }
        cumulative = self.accumulate or self.kind is Kind.LLM_API
        read = tekken().tokenizer.token_bytes
        text = b"".join(map(read, self.ids if cumulative else new)).decode(errors="replace").encode()
        if self.kind is Kind.LLM_API:
            reason = finish.reason.value if finish is not None else "None"
            return {"text_output": ("BYTES", (1,), [text]), "finish_reason": ("BYTES", (1,), [reason.encode()])}
        return {
            "text_output": ("BYTES", (1,), [text]),
            "kv_cache_reused_blocks": ("INT32", (1, 1), [self.reused]),
            "num_output_tokens": ("INT32", (1, 1), [len(new)]),
        }
