from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config

POOL = {"name": "p", "engine": "simulated", "replicas": "registered"}


def load(folder: Path, pool: dict[str, Any], **sections: Any) -> Config:
    path = folder / "c.yaml"
    model = {"name": "m", "tokenizer": "mistral-tekken", "context": 9, "pools": [{**POOL, **pool}]}
    path.write_bytes(msgspec.yaml.encode({"models": [model], **sections}))
    return load_config(path)


@pytest.mark.parametrize(
    ("engine", "replicas", "listed"),
    [
        ("simulated", "registered", ()),
        ("tensorrt_llm", ["grpc+dns://w:1", "grpc://h:1"], ("grpc://h:1",)),
        ("trtllm_grpc", ["grpcs+srv://_g._tcp.w"], ()),
        ("openai", ["https+dns://w:443/v1", "http+srv://_h._tcp.w/v1", "http://h/v1"], ("http://h/v1",)),
    ],
)
def test_ways_to_name_replicas(tmp_path: Path, engine: str, replicas: Any, listed: tuple[str, ...]) -> None:
    pool = load(tmp_path, {"engine": engine, "replicas": replicas}).models[0].pools[0]
    assert pool.listed_addresses == listed
    assert (pool.is_discovered, pool.is_registered) == (True, replicas == "registered")
    assert pool.replica_count == len(listed)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ({"replicas": "found"}, 'replicas: expected registered or a list, got "found"'),
        ({"engine": "openai", "replicas": ["https+dns://u:word/@h:443/v1"]}, 'got "https+dns://***@h:443/v1"'),
        ({"engine": "trtllm_grpc"}, "only simulated and tensorrt_llm replicas register themselves"),
        ({"replicas": ["dns://w:1"]}, "expected grpc://HOST:PORT"),
        ({"replicas": ["grpc+dns://w"]}, "expected grpc+dns://NAME:PORT, grpc+srv://_SERVICE._tcp.NAME, grpcs+dns://"),
        ({"replicas": ["http+dns://w:1"]}, "expected grpc+dns://NAME:PORT"),
        ({"engine": "openai", "replicas": ["grpc+dns://w:1"]}, "expected http+dns://NAME:PORT/v1"),
        ({"replicas": ["grpc+dns://w:1"], "tls": {}}, "no address of the pool has TLS"),
        ({"replicas": ["grpc+dns://w:1", "grpc+dns://w:1"]}, "is already taken by"),
    ],
)
def test_what_cannot_be(tmp_path: Path, pool: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=r"models\[0\].pools\[0\]") as caught:
        load(tmp_path, pool)
    assert said in str(caught.value)


def test_tls_goes_with_names_and_registrations(tmp_path: Path) -> None:
    for replicas in ("registered", ["grpcs+dns://w:1"]):
        assert load(tmp_path, {"replicas": replicas, "tls": {"server_name": "h"}})


@pytest.mark.parametrize(
    ("resolver", "server"), [("10.0.0.2:53", ("10.0.0.2", 53)), ("[fd00::2]:5353", ("fd00::2", 5353)), (None, None)]
)
def test_the_dns_server(tmp_path: Path, resolver: str | None, server: tuple[str, int] | None) -> None:
    assert load(tmp_path, {}, discovery={"resolver": resolver}).discovery.server == server


@pytest.mark.parametrize(
    "resolver",
    ["", "10.0.0.2", "dns.example:53", "10.0.0.2:0", "10.0.0.2:x", "[10.0.0.2]:53", "fd00::2:53", "1.2.3.4:+1"],
)
def test_a_dns_server_that_cannot_be(tmp_path: Path, resolver: str) -> None:
    with pytest.raises(ConfigError, match=r"discovery\.resolver"):
        load(tmp_path, {}, discovery={"resolver": resolver})
