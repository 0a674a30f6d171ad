"""Models behind Triton in the configuration file, and what their transport is told."""

from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gateway.config.models.triton
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.models.triton import TritonModel
from gateway.config.settings import Config
from gateway.fleets.replica_specs import replica_specs
from gateway.tenancy.providers.provider_keys import keyless
from gateway.text.tokens.text_codec import TokenizerText
from routing.transports.triton.settings import Kind, TritonSettings
from tests.harness import tekken

TRITON = {"model": "tensorrt_llm", "kind": "tensorrt_llm"}


def load(folder: Path, triton: dict[str, Any] | None, **fields: Any) -> Config:
    pool: dict[str, Any] = {"name": "p", "engine": "triton", "replicas": ["grpc://h1:8001", "grpcs://[::1]:8001"]}
    pool |= fields | ({} if triton is None else {"triton": triton})
    path = folder / "c.yaml"
    model = {"name": "m", "tokenizer": "mistral-tekken", "context": 9, "pools": [pool]}
    path.write_bytes(msgspec.yaml.encode({"models": [model]}))
    return load_config(path)


def settings_of(config: Config) -> list[TritonSettings]:
    found = [spec.settings for spec in replica_specs(config, 0, keyless, "", tekken().tokenizer)]
    assert all(isinstance(settings, TritonSettings) for settings in found)
    return found  # type: ignore[return-value]


def test_the_engine_ends_at_the_tokenizers_end(tmp_path: Path) -> None:
    (end,) = tekken().tokenizer.eos_ids
    metrics = "http://{host}:8002/metrics"
    first, second = settings_of(load(tmp_path, {**TRITON, "metrics": metrics}))
    model = TritonModel(model="tensorrt_llm", kind="tensorrt_llm", metrics=metrics)
    assert first == TritonSettings(model, end_id=end, metrics_url="http://h1:8002/metrics")
    assert second.metrics_url == "http://[::1]:8002/metrics"


def test_another_end_does_not_take_the_tokenizers_away(tmp_path: Path) -> None:
    (end,) = tekken().tokenizer.eos_ids
    settings = settings_of(load(tmp_path, {**TRITON, "end_id": 7, "pad_id": 8, "max_in_flight": 9}))[0]
    assert (settings.end_id, settings.other_end_ids) == (7, (end,))
    assert (settings.options.pad_id, settings.options.max_in_flight) == (8, 9)


@pytest.mark.parametrize("kind", ["ensemble", "tensorrt_llm_bls", "llm_api"])
def test_kinds_of_text_have_the_tokenizer(tmp_path: Path, kind: str) -> None:
    config = load(tmp_path, {"model": "e", "kind": kind, "batch_dimension": False, "adds_bos": False})
    settings = settings_of(config)[0]
    assert settings.options.template is Kind(kind)
    codec = TokenizerText(tekken().tokenizer, adds_bos=False)
    model = msgspec.convert({"model": "e", "kind": kind, "batch_dimension": False, "adds_bos": False}, TritonModel)
    assert settings == TritonSettings(model, codec=codec)
    # A fleet keeps its connections where their specs are equal.
    assert replica_specs(config, 0, keyless, "", tekken().tokenizer) == replica_specs(
        config, 0, keyless, "", tekken().tokenizer
    )


@pytest.mark.parametrize(
    ("triton", "fields", "said"),
    [
        (None, {}, "triton: required: the model's name on the server, and its kind"),
        (TRITON, {"engine": "trtllm_grpc"}, "triton: only triton replicas have it, not trtllm_grpc"),
        ({"model": "m"}, {}, "triton.kind: required"),
        ({"model": "m", "kind": "vllm"}, {}, "triton.kind: "),
        ({"model": "", "kind": "ensemble"}, {}, "triton.model: "),
        ({**TRITON, "end_id": -1}, {}, "triton.end_id: "),
        ({**TRITON, "kind": "llm_api", "end_id": 1}, {}, "triton.end_id: llm_api takes none"),
        ({**TRITON, "kind": "llm_api", "pad_id": 1}, {}, "triton.pad_id: llm_api takes none"),
        ({**TRITON, "max_in_flight": 0}, {}, "triton.max_in_flight: "),
        ({**TRITON, "metrics": "http://h:8002/metrics"}, {}, "triton.metrics: would be one URL for all replicas"),
        (
            {**TRITON, "metrics": "http://h:8002/metrics"},
            {"replicas": ["grpc+dns://h:8001"]},
            "triton.metrics: would be one URL for all replicas",
        ),
        ({**TRITON, "metrics": "{host}:8002"}, {}, "triton.metrics: expected a URL"),
        ({**TRITON, "metrics": "http://u:p@{host}:8002"}, {}, "triton.metrics: expected a URL"),
        ({**TRITON, "metrics": "http://{host}:99999"}, {}, "triton.metrics: expected a URL"),
        ({**TRITON, "metrics": "http://{host}/"}, {"replicas": ["unix:/s"]}, "triton.metrics: a replica at unix:/PATH"),
        (TRITON, {"role": "prefill"}, "role: must be both"),
        (TRITON, {"replicas": 2}, "replicas: only simulated replicas are started here"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, triton: dict[str, Any] | None, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, triton, **fields)
    assert f"models[0].pools[0].{said}" in str(caught.value)


def test_one_replica_may_have_metrics_anywhere(tmp_path: Path) -> None:
    config = load(tmp_path, {**TRITON, "metrics": "https://elsewhere/m"}, replicas=["unix:/s"])
    assert settings_of(config)[0].metrics_url == "https://elsewhere/m"


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        assert name == "tritonclient"
        return None

    monkeypatch.setattr(gateway.config.models.triton, "find_spec", find_spec)
    with pytest.raises(ConfigError, match=r"engine: needs tritonclient, .* pip install 'penstock\[triton\]'"):
        load(tmp_path, TRITON)
    load(tmp_path, None, engine="trtllm_grpc")
