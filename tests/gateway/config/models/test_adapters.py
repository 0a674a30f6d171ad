from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.models.engines import EngineName
from gateway.fleets.local_replicas import replica_command
from gateway.fleets.pool_abilities import EXPECTED
from protos.features import Feature
from routing.transports.trtllm_grpc import IGNORED

POOL = {"name": "p", "engine": "simulated", "replicas": 1}
ABLE = POOL | {"simulated": {"max_adapters": 1}}
STOCK = {"name": "s", "engine": "trtllm_grpc", "replicas": ["grpc://h:1"]}


def loaded(tmp_path: Path, *models: dict[str, Any]) -> Any:
    path = tmp_path / "penstock.yaml"
    fixed = {"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "pools": [POOL]}
    path.write_bytes(msgspec.json.encode({"models": [fixed | model for model in models]}))
    return load_config(path)


@pytest.mark.parametrize(
    ("models", "where"),
    [
        ([{"adapters": [{"name": "a"}, {"name": "a"}]}], "models[0].adapters[1].name"),
        ([{"adapters": [{"name": "a:b"}]}], "models[0].adapters[0].name"),
        ([{"adapters": [{"name": ""}]}], "models[0].adapters[0].name"),
        ([{"adapters": [{"name": "a", "pools": ["q"]}]}], "models[0].adapters[0].pools[0]"),
        ([{"adapters": [{"name": "a"}]}, {"name": "m:a"}], "models[0].adapters[0].name"),
        ([{"adapters": [{"name": "a"}]}], "models[0].adapters[0]"),
        ([{"adapters": [{"name": "a"}], "pools": [STOCK]}], "models[0].adapters[0]"),
        ([{"adapters": [{"name": "a", "pools": ["s"]}], "pools": [ABLE, STOCK]}], "models[0].adapters[0].pools[0]"),
        ([{"pools": [POOL | {"simulated": {"adapters": ["a"]}}]}], "models[0].pools[0].simulated.max_adapters"),
        ([{"pools": [POOL | {"simulated": {"adapters": ["/a"]}}]}], "models[0].pools[0].simulated.adapters[0]"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_place(tmp_path: Path, models: list[dict[str, Any]], where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, *models)
    assert f"{where}: " in str(caught.value)


def test_local_replicas_are_told_their_adapters(tmp_path: Path) -> None:
    simulated = {"adapters": ["a", "b"], "max_adapters": 2}
    config = loaded(tmp_path, {"pools": [POOL | {"simulated": simulated}], "adapters": [{"name": "a", "pools": ["p"]}]})
    command = " ".join(replica_command(config, 0, 0))
    assert "--adapter a --adapter b --max-adapters 2" in command
    assert "--max-adapters" not in " ".join(replica_command(loaded(tmp_path, {}), 0, 0))


def test_something_is_expected_of_every_engine() -> None:
    assert set(EXPECTED) == set(EngineName.__args__)  # type: ignore[attr-defined]
    assert [name for name, features in EXPECTED.items() if features & Feature.WHOLE_API] == ["openai"]
    assert not EXPECTED["trtllm_grpc"] & IGNORED
