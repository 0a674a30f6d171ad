"""Configurations to compare, and hypothesis' strategies for them."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from gateway.config.settings import Config

#: Two models: one with listed replicas, one with processes of `penstock serve`.
BASE: dict[str, Any] = {
    "listen": {"port": 8080},
    "models": [
        {
            "name": "far",
            "tokenizer": "mistral-tekken",
            "context": 1000,
            "pools": [{"name": "pool", "engine": "tensorrt_llm", "replicas": ["grpc://a:1", "grpc://b:1"]}],
        },
        {
            "name": "near",
            "tokenizer": "mistral-tekken",
            "context": 1000,
            "pools": [{"name": "pool", "engine": "simulated", "replicas": 2}],
        },
    ],
    "tenants": [{"name": "acme", "limits": {"rpm": 10}}],
}


def config_of(value: dict[str, Any]) -> Config:
    return msgspec.convert(value, Config)


def base(**sections: Any) -> Config:
    return config_of({**BASE, **sections})


def far(**fields: Any) -> Config:
    """The base with other fields of its first model."""
    models = [{**BASE["models"][0], **fields}, BASE["models"][1]]
    return base(models=models)


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_PRICES = st.none() | st.fixed_dictionaries({"input": st.sampled_from([0.5, 1.0]), "output": st.sampled_from([1, 2])})
_POOLS = st.lists(
    st.fixed_dictionaries(
        {
            "name": _NAMES,
            "engine": st.just("tensorrt_llm"),
            "replicas": st.lists(_NAMES.map("grpc://{}:1".format), min_size=1, max_size=3, unique=True),
        }
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda pool: pool["name"],
)
_MODELS = st.lists(
    st.fixed_dictionaries(
        {
            "name": _NAMES,
            "tokenizer": st.just("mistral-tekken"),
            "context": st.sampled_from([1000, 2000]),
            "price": _PRICES,
            "pools": _POOLS,
        }
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda model: model["name"],
)
_TENANTS = st.lists(
    st.fixed_dictionaries({"name": _NAMES, "models": st.lists(_NAMES, min_size=1, max_size=2)}),
    max_size=3,
    unique_by=lambda tenant: tenant["name"],
)
CONFIGS = st.fixed_dictionaries(
    {"listen": st.fixed_dictionaries({"port": st.sampled_from([1, 2])}), "models": _MODELS, "tenants": _TENANTS}
).map(config_of)
