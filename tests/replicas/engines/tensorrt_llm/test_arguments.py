"""From options to the library's arguments, and from a submit to its parameters."""

import json
import random
from datetime import timedelta
from importlib import metadata
from typing import Any

import pytest

from protos.features import Feature
from protos.types import Guide, GuideKind, Role, Sampling, Shape
from replicas.engines.tensorrt_llm.arguments import llm_arguments, retention_config
from replicas.engines.tensorrt_llm.engine_description import describe
from replicas.engines.tensorrt_llm.options import ChunkingPolicy, KvOptions, LoraOptions, Retention, SchedulerPolicy
from replicas.engines.tensorrt_llm.trtllm_sampling import guide_arguments, sampling_arguments
from replicas.engines.tensorrt_llm.trtllm_tags import older_tag, takes_older_tags
from tests.fake_tensorrt_llm.parameters import FloatTensor
from tests.harness import submit_of
from tests.loops import until
from tests.trt_engines import END, fake_library, options_of, started, trt_engine

LIBRARY = fake_library()


def test_every_shape_is_named_and_nothing_that_is_not_asked_for() -> None:
    plain = llm_arguments(options_of(shape=Shape()), LIBRARY)
    assert plain["tensor_parallel_size"] == plain["pipeline_parallel_size"] == 1
    assert not {name for name in plain if "moe" in name or "context_parallel" in name or "lora" in name}
    wide = llm_arguments(
        options_of(shape=Shape(tp=8, ep=4, pp=2), context_parallel=2, attention_dp=True, moe_tp=2), LIBRARY
    )
    assert {name: wide[name] for name in wide if "parallel" in name or name == "enable_attention_dp"} == {
        "tensor_parallel_size": 8,
        "pipeline_parallel_size": 2,
        "moe_expert_parallel_size": 4,
        "moe_tensor_parallel_size": 2,
        "context_parallel_size": 2,
        "enable_attention_dp": True,
    }


def test_cache_scheduler_and_the_rest() -> None:
    options = options_of(
        kv=KvOptions(
            free_memory_fraction=0.5,
            max_tokens=4096,
            host_bytes=2**30,
            tokens_per_block=64,
            dtype="fp8",
            event_buffer=10,
        ),
        scheduler=SchedulerPolicy.MAX_UTILIZATION,
        chunking=ChunkingPolicy.EQUAL_PROGRESS,
        guided_backend="xgrammar",
        tokenizer="/tokenizer",
        role=Role.PREFILL,
        lora=LoraOptions({"a": "/a"}, max_rank=16, on_gpu=2, in_memory=4),
        extra={"max_seq_len": 77, "cp_config": {"cp_type": "helix"}},
    )
    arguments = llm_arguments(options, LIBRARY)
    kv = arguments["kv_cache_config"]
    assert (kv.free_gpu_memory_fraction, kv.max_tokens, kv.host_cache_size, kv.tokens_per_block) == (
        0.5,
        4096,
        2**30,
        64,
    )
    assert (kv.dtype, kv.event_buffer_max_size, kv.enable_block_reuse) == ("fp8", 10, True)
    assert arguments["scheduler_config"].capacity_scheduler_policy == "MAX_UTILIZATION"
    assert arguments["scheduler_config"].context_chunking_policy == "EQUAL_PROGRESS"
    assert arguments["enable_chunked_prefill"]
    assert (arguments["skip_tokenizer_init"], arguments["tokenizer"]) == (False, "/tokenizer")
    assert arguments["cache_transceiver_config"].backend == "DEFAULT"
    assert arguments["disable_overlap_scheduler"]
    assert (arguments["lora_config"].max_lora_rank, arguments["lora_config"].max_cpu_loras) == (16, 4)
    assert (arguments["max_seq_len"], arguments["cp_config"]) == (77, {"cp_type": "helix"})


async def test_an_argument_that_the_library_does_not_know_ends_the_start() -> None:
    engine = trt_engine(extra={"tensor_paralel_size": 2})
    with pytest.raises(ValueError, match="tensor_paralel_size"):
        await engine.start(lambda step: None)
    await engine.stop()


@pytest.mark.parametrize(
    "wrong",
    [
        {"end_ids": ()},
        {"chunking": ChunkingPolicy.EQUAL_PROGRESS, "chunked_prefill": False},
        {"max_batch_size": 9000},
        {"shape": Shape(tp=4, ep=3)},
        {"shape": Shape(tp=4, ep=2), "moe_tp": 4},
    ],
)
def test_options_that_contradict_themselves(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        options_of(**wrong)


def test_bad_sizes_of_cache_and_retention() -> None:
    for wrong in ({"free_memory_fraction": 0.0}, {"tokens_per_block": 0}, {"host_bytes": -1}):
        with pytest.raises(ValueError, match=r"\w"):
            KvOptions(**wrong)
    for bad in ({"prompt_priority": 101}, {"prompt_ms": 5}, {"decode_ms": 5}):
        with pytest.raises(ValueError, match="retention"):
            Retention(**bad)


def test_retention_names_prompt_and_answer() -> None:
    assert retention_config(options_of(), LIBRARY, 50) is None
    config = retention_config(options_of(retention=Retention(80, 30_000)), LIBRARY, 50)
    part = config.ranges[0]
    assert (part.token_start, part.token_end, part.priority, part.duration_ms) == (0, 50, 80, timedelta(seconds=30))
    assert (config.decode_retention_priority, config.decode_duration_ms) == (35, None)
    only_answers = retention_config(options_of(retention=Retention(decode_priority=5, decode_ms=10)), LIBRARY, 50)
    assert (only_answers.ranges, only_answers.decode_retention_priority) == ([], 5)


def arguments_of(sampling: Sampling, **more: Any) -> dict[str, Any]:
    fixed: dict[str, Any] = {"index": 0, "max_tokens": 9, "end_ids": (2, 3), "rng": random.Random(1), "vocab_size": 10}
    fixed["tensor"] = FloatTensor
    return sampling_arguments(sampling, **(fixed | more))


def test_the_librarys_defaults_are_not_the_apis() -> None:
    """Greedy, one seed for all, 32 tokens, and text that nobody needs."""
    first, second = arguments_of(Sampling()), arguments_of(Sampling(), rng=random.Random(2))
    assert (first["temperature"], first["top_p"]) == (1.0, 1.0)
    assert first["seed"] != second["seed"]
    assert (first["max_tokens"], first["detokenize"]) == (9, False)
    assert (first["end_id"], first["stop_token_ids"]) == (2, [3])
    assert "seed" not in arguments_of(Sampling(temperature=0.0))


def test_every_parameter_has_its_name() -> None:
    sampling = Sampling(
        temperature=0.5, top_p=0.9, top_k=-1, min_p=0.1, seed=7, presence_penalty=0.2, frequency_penalty=0.3,
        repetition_penalty=1.1, logit_bias={4: 2.5}, stop_token_ids=(2, 5), min_tokens=3, logprobs=0,
    )  # fmt: skip
    found = arguments_of(sampling, index=2)
    assert LIBRARY.sampling_params(**found)
    found["embedding_bias"] = found["embedding_bias"].tolist()
    assert found == {
        "end_id": 2,
        "pad_id": 2,
        "max_tokens": 9,
        "detokenize": False,
        "ignore_eos": False,
        "seed": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 0,
        "min_p": 0.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "repetition_penalty": 1.1,
        "embedding_bias": [0.0] * 4 + [2.5] + [0.0] * 5,
        "stop_token_ids": [3, 5],
        "min_tokens": 3,
        "logprobs": 1,  # 0 would be none at all
    }
    assert arguments_of(Sampling(ignore_eos=True, stop_token_ids=(5,)))["stop_token_ids"] == [5]


@pytest.mark.parametrize(
    ("guide", "field", "value"),
    [
        (Guide(GuideKind.JSON_OBJECT), "json_object", True),
        (Guide(GuideKind.JSON_SCHEMA, '{"type": "object"}'), "json", '{"type": "object"}'),
        (Guide(GuideKind.REGEX, "a+"), "regex", "a+"),
        (Guide(GuideKind.GRAMMAR, "root ::= 'a'"), "grammar", "root ::= 'a'"),
        (Guide(GuideKind.STRUCTURAL_TAG, "{}"), "structural_tag", "{}"),
    ],
)
async def test_a_guide_reaches_the_library(guide: Guide, field: str, value: object) -> None:
    assert guide_arguments(guide) == {field: value}

    engine = trt_engine(guided_backend="xgrammar")
    async with started(engine) as (llm, heard, _):
        engine.submit(1, submit_of(3, n=2, guide=guide))
        await until(lambda: len(heard.finishes) == 2)
        assert getattr(llm.calls[-1]["sampling"].guided_decoding, field) == value


_SCHEMA = {"type": "object", "properties": {"n": {"maximum": 123456789012345678901234567890}}}
_TAG = {"type": "tag", "begin": "<ü>", "content": {"type": "json_schema", "json_schema": _SCHEMA}, "end": "</ü>"}
_TAGS = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<"], "tags": [_TAG]}}


def test_older_libraries_get_tags_in_their_form() -> None:
    arguments = guide_arguments(Guide(GuideKind.STRUCTURAL_TAG, json.dumps(_TAGS)), older_tags=True)
    assert json.loads(arguments["structural_tag"]) == {
        "type": "structural_tag",
        "structures": [{"begin": "<ü>", "schema": _SCHEMA, "end": "</ü>"}],
        "triggers": ["<"],
    }


def test_older_libraries_take_no_tags_with_more_than_json() -> None:
    typed = {**_TAG, "content": {"type": "sequence", "elements": [_TAG]}}
    tags = {"type": "structural_tag", "format": {**_TAGS["format"], "tags": [_TAG, typed]}}  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="has no such structural tag"):
        older_tag(json.dumps(tags))


_VERSIONS = [("0.1.21", True), ("0.1.21+cu12", True), ("0.1.9rc1", True), ("0.1.25", False), ("0.1.25.post1", False)]


@pytest.mark.parametrize(("version", "older"), [*_VERSIONS, ("0.2.0", False), ("1.0", False)])
def test_which_libraries_are_older(monkeypatch: pytest.MonkeyPatch, version: str, older: bool) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    assert takes_older_tags() is older


@pytest.mark.parametrize(
    ("backend", "version", "refused"),
    [("xgrammar", "0.1.25", False), ("xgrammar", "0.1.21", True), ("llguidance", "0.1.25", True)],
)
async def test_a_tag_that_the_library_does_not_know_is_refused_alone(
    monkeypatch: pytest.MonkeyPatch, backend: str, version: str, refused: bool
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    either = {"type": "structural_tag", "format": {"type": "or", "elements": [{"type": "any_text"}]}}

    engine = trt_engine(guided_backend=backend)
    async with started(engine) as (_, heard, _):
        engine.submit(1, submit_of(3))
        engine.submit(2, submit_of(3, guide=Guide(GuideKind.STRUCTURAL_TAG, json.dumps(either))))
        await until(lambda: len(heard.finishes) == 2)
        assert heard.finishes[1, 0].failure is None
        failure = heard.finishes[2, 0].failure
        found = None if failure is None else (failure.code, failure.param)
        assert found == (("unsupported_parameter", "guide") if refused else None)


async def test_a_bias_is_a_tensor_and_no_list() -> None:
    engine = trt_engine(vocab_size=1000)
    async with started(engine) as (llm, heard, _):
        engine.submit(1, submit_of(3, logit_bias={7: -3.5}))
        await until(lambda: heard.finishes)
        assert heard.finishes[1, 0].failure is None
        bias = llm.calls[-1]["sampling"].embedding_bias
        assert isinstance(bias, FloatTensor)
        assert (len(bias.tolist()), bias.tolist()[6:9]) == (1000, [0.0, -3.5, 0.0])


async def test_retention_and_the_prompt_reach_the_library() -> None:
    engine = trt_engine(retention=Retention(90, None, 10, None))
    async with started(engine) as (llm, heard, _):
        engine.submit(1, submit_of(3, prompt=range(10, 60)))
        await until(lambda: heard.finishes)
        call = llm.calls[-1]
        assert call["inputs"] == list(range(10, 60))
        assert call["retention"].ranges[0].token_end == 50
        assert call["sampling"].end_id == END


def test_what_the_replica_says_of_itself() -> None:
    options = options_of(
        shape=Shape(tp=8, ep=2), context_parallel=2, attention_dp=True, version="v7", tokenizer_hash="abc",
        guided_backend="xgrammar", lora=LoraOptions({"z": "/z", "a": "/a"}), vocab_size=100,
    )  # fmt: skip
    info = describe(options, "1.2.0", 500)
    assert info.fingerprint == "trtllm-1.2.0-mixtral-8x7b-v7-tp8-ep2-cp2-adp"
    assert info.features & (Feature.GUIDED | Feature.LORA | Feature.LOGIT_BIAS) == (
        Feature.GUIDED | Feature.LORA | Feature.LOGIT_BIAS
    )
    assert (info.adapters, info.version, info.tokenizer_hash) == (("a", "z"), "v7", "abc")
    plain = describe(options_of(scheduler=SchedulerPolicy.MAX_UTILIZATION), "1.2.0", 500)
    assert not plain.features & (Feature.GUIDED | Feature.LORA | Feature.LOGIT_BIAS)
    assert not plain.reserves_output
