"""Which engines' pools can run one phase of a request alone."""

from pathlib import Path

import msgspec
import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config

ADDRESSES = {"openai": "http://{}/v1"}


def file_of(folder: Path, engine: str) -> Path:
    pools: list[dict[str, object]] = [
        {"name": role, "engine": engine, "role": role, "replicas": [ADDRESSES.get(engine, "grpc://{}:1").format(role)]}
        for role in ("prefill", "decode")
    ]
    if engine == "triton":
        pools = [pool | {"triton": {"model": "m", "kind": "ensemble"}} for pool in pools]
    path = folder / "c.yaml"
    model = {"name": "m", "tokenizer": "mistral-tekken", "context": 9, "pools": pools}
    path.write_bytes(msgspec.yaml.encode({"models": [model]}))
    return path


@pytest.mark.parametrize("engine", ["trtllm_grpc", "triton", "openai"])
def test_an_engine_that_drops_hand_offs_is_refused_as_one_phase(tmp_path: Path, engine: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(file_of(tmp_path, engine))
    assert f"pools[0].role: must be both: {engine} cannot hand a prefill over to another replica" in str(caught.value)


def test_replica_servers_of_ours_can(tmp_path: Path) -> None:
    assert load_config(file_of(tmp_path, "tensorrt_llm"))
