import contextlib
import json
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.scan.sizing.gguf import NoGgufError, read_gguf
from gateway.scan.sizing.local_weights import architecture_from, local_model

LLAMA_8B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}


def gguf(*pairs: tuple[str, object], version: int = 3) -> bytes:
    """A GGUF header: integers as uint32, texts, and lists of texts."""
    made = b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs))
    for key, value in pairs:
        made += text(key)
        if isinstance(value, int):
            made += struct.pack("<II", 4, value)
        elif isinstance(value, str):
            made += struct.pack("<I", 8) + text(value)
        elif isinstance(value, list):
            made += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return made


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def test_parameters_follow_from_the_configuration() -> None:
    found = architecture_from(LLAMA_8B)
    assert found.parameters == pytest.approx(8.03e9, rel=0.001)
    assert found.kv_values == 2 * 32 * 8 * 128
    assert architecture_from(LLAMA_8B | {"num_local_experts": 8}).parameters == pytest.approx(47.5e9, rel=0.01)


def test_what_a_configuration_lacks_is_unknown() -> None:
    assert architecture_from({}).kv_values is None
    assert architecture_from(LLAMA_8B | {"num_hidden_layers": "many"}).parameters is None
    assert architecture_from({"text_config": LLAMA_8B}).layers == 32
    latent = architecture_from(LLAMA_8B | {"kv_lora_rank": 512, "qk_rope_head_dim": 64})
    assert latent.kv_values == 32 * 576


def test_weights_count_as_their_files_do_and_pointers_as_what_they_point_to(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B | {"quantization_config": {"quant_method": "awq"}}))
    (tmp_path / "a.safetensors").write_bytes(b"x" * 3000)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4976698672\n"
    (tmp_path / "b.safetensors").write_text(pointer)
    found = local_model(tmp_path)
    assert found.weight_bytes == 3000 + 4976698672
    assert found.quantisation == "AWQ" and not found.problem


def test_a_broken_configuration_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[1]")
    assert "config.json cannot be read" in local_model(tmp_path).problem
    (tmp_path / "config.json").write_text("{")
    assert "config.json cannot be read" in local_model(tmp_path).problem


def test_a_gguf_header_is_read_past_its_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "m-Q4_K_M.gguf"
    path.write_bytes(
        gguf(
            ("general.architecture", "llama"),
            ("tokenizer.ggml.tokens", ["a", "bb", "ccc"]),
            ("llama.block_count", 32),
            ("llama.attention.head_count", 32),
            ("llama.attention.head_count_kv", 8),
            ("llama.embedding_length", 4096),
            ("llama.context_length", 8192),
        )
    )
    found = local_model(path)
    assert found.architecture.kv_values == 2 * 32 * 8 * 128
    assert found.architecture.context == 8192
    assert found.weight_bytes == path.stat().st_size and found.quantisation == "GGUF Q4_K"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=100), st.integers(0, 60).map(lambda end: gguf(("a.b", 1), ("c", "d"))[:end])))
def test_a_damaged_gguf_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with contextlib.suppress(NoGgufError):
        read_gguf(path)
    assert local_model(path).path == path
