"""Upstreams in the configuration: their rules, and what their transports are made with."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from gateway.config.api_keys import api_key_sources
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.models.upstream import EndpointName, FeatureName, UpstreamSettings
from gateway.fleets.configured import configured_replicas
from gateway.fleets.replica_specs import replica_specs
from gateway.tenancy.providers.provider_keys import keyless
from protos.features import Feature
from protos.types import Payload
from routing.transports.http.origin import origin_of
from routing.transports.http.upstream_timeouts import Timeouts
from routing.transports.openai.settings import API_FEATURES, MORE_ENDPOINTS, KeyedUpstream
from routing.transports.openai.upstream_request import Requests


def written(folder: Path, upstream: str, engine: str = "openai") -> Path:
    address = "http://h/v1" if engine == "openai" else "grpc://h:1"
    path = folder / "penstock.yaml"
    path.write_text(
        "models: [{name: m, tokenizer: ./t, context: 4096, pools: [{name: p, engine: "
        f"{engine}, replicas: ['{address}'], upstream: {upstream}}}]}}]"
    )
    return path


def test_every_name_of_a_feature_is_one() -> None:
    names = {*get_args(FeatureName), *get_args(EndpointName)}
    assert {Feature[name.upper()] for name in names} == set(API_FEATURES | MORE_ENDPOINTS)
    assert UpstreamSettings().features == API_FEATURES
    assert not UpstreamSettings(lacks=("guided",)).features & Feature.GUIDED
    assert UpstreamSettings(lora=True).features & Feature.LORA
    assert not API_FEATURES & (Feature.RESUMES | Feature.GUIDE_RESUMES | Feature.LORA | MORE_ENDPOINTS)
    assert UpstreamSettings(endpoints=("rerank",)).features & Feature.RERANK
    assert not UpstreamSettings(endpoints=("rerank",)).features & (Feature.EMBEDDINGS | Feature.SCORE)


@pytest.mark.parametrize(
    ("upstream", "problem"),
    [
        ("{headers: {authorization: x}}", "upstream.headers.authorization: is written by the gateway itself"),
        ("{headers: {Host: x}}", "upstream.headers.Host: is written by the gateway itself"),
        ('{headers: {x-a: "b\\r\\nc: d"}}', "upstream.headers.x-a: has characters"),
        ("{headers: {'a b': x}}", "is no name of a header"),
        ("{headers: {X-A: x, x-a: y}}", "upstream.headers.x-a: is given twice"),
        ("{metrics_of: none, metrics: /m}", "upstream.metrics: is not read where metrics_of is none"),
        ("{health: 'a b'}", "upstream.health: expected a path"),
        ("{metrics: 'http://h/metrics'}", "upstream.metrics: expected a path"),
        ("{lacks: [lora]}", "upstream.lacks[0]"),
        ("{salt_as: messages}", 'upstream.salt_as: "messages" means something else in a request'),
        ("{salt_as: max_tokens}", "upstream.salt_as"),
        ("{salt_as: ''}", "upstream.salt_as"),
        ("{salt_as: 'a b'}", "upstream.salt_as"),
        ("{connect_seconds: 0}", "upstream.connect_seconds"),
        ("{max_in_flight: 0}", "upstream.max_in_flight"),
    ],
)
def test_what_is_wrong_with_an_upstream(tmp_path: Path, upstream: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, upstream))
    assert problem in str(caught.value)


def test_only_openai_pools_have_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only openai replicas"):
        load_config(written(tmp_path, "{model: x}", "trtllm_grpc"))


def test_a_transport_is_made_with_it(tmp_path: Path) -> None:
    config = load_config(
        written(
            tmp_path,
            "{model: theirs, headers: {x-org: a}, max_in_flight: 8, connect_seconds: 1, first_byte_seconds: 2, "
            "between_bytes_seconds: 3, health: /health, health_seconds: 4, metrics_of: vllm, counts_usage: false, "
            "lacks: [logprobs], limit_as: max_completion_tokens, salt_as: cache_salt}",
        )
    )
    (spec,) = replica_specs(config, 0, keyless)
    assert spec.settings == KeyedUpstream(
        UpstreamSettings(
            model="theirs",
            headers={"x-org": "a"},
            connect_seconds=1.0,
            first_byte_seconds=2.0,
            between_bytes_seconds=3.0,
            limit_as="max_completion_tokens",
            salt_as="cache_salt",
            max_in_flight=8,
            health="/health",
            health_seconds=4.0,
            metrics_of="vllm",
            counts_usage=False,
            lacks=("logprobs",),
        ),
        keyless(None),
    )
    assert spec.settings.settings.timeouts == Timeouts(1.0, 2.0, 3.0)
    assert spec.features == API_FEATURES & ~Feature.LOGPROBS


@pytest.mark.parametrize("name", ["User-Agent", "user-agent"])
def test_headers_of_ours_are_replaced_and_not_sent_twice(tmp_path: Path, name: str) -> None:
    (spec,) = replica_specs(load_config(written(tmp_path, f"{{headers: {{{name}: mine}}}}")), 0, keyless)
    assert isinstance(spec.settings, KeyedUpstream)
    requests = Requests(origin_of(spec.address), "m", spec.settings.settings)
    sent = requests.request(
        Payload("/chat/completions", b"{}", stream=False, usage=False, answer_model="m"), None
    ).lower()
    assert re.findall(rb"user-agent: (.*)\r\n", sent) == [b"mine"]


@pytest.mark.parametrize(
    "address",
    [
        *("http://h/vé", "http://h h/v1", "http://a..b/v1", f"http://{'a' * 64}/v1", "http://h:0/v1", "http://h:x/v1"),
        *("http://h/v1?a=b", "http://h/v1#b", "http://h/a b", "http://h/v1\n", "http://:80/v1", "ftp://h/v1"),
        "http://user:secret@h/v1",
    ],
)
def test_base_urls_that_no_transport_could_be_made_with(tmp_path: Path, address: str) -> None:
    path = tmp_path / "penstock.yaml"
    pool = {"name": "p", "engine": "openai", "replicas": [address]}
    path.write_bytes(msgspec.json.encode({"models": [{"name": "m", "context": 9, "pools": [pool]}]}))
    with pytest.raises(ConfigError, match=r"replicas\[0\]: expected http://HOST or https://HOST") as caught:
        load_config(path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("field", ["channels", "streams_per_channel"])
def test_only_sessions_have_channels(tmp_path: Path, field: str) -> None:
    path = tmp_path / "penstock.yaml"
    pool = {"name": "p", "engine": "openai", "replicas": ["http://h/v1"], field: 2}
    path.write_bytes(msgspec.json.encode({"models": [{"name": "m", "context": 9, "pools": [pool]}]}))
    with pytest.raises(ConfigError, match=rf"pools\[0\]\.{field}: only for simulated and tensorrt_llm"):
        load_config(path)


KEYS = "[{env: K_ONE}, {env: K_TWO}]"
URLS = "['https://a.example/v1', 'https://b.example/v1']"


def with_pools(folder: Path, *pools: str) -> Path:
    path = folder / "penstock.yaml"
    path.write_text(f"models: [{{name: m, context: 4096, pools: [{', '.join(pools)}]}}]")
    return path


def pool_of(name: str, urls: str, upstream: str) -> str:
    return f"{{name: {name}, engine: openai, replicas: {urls}, upstream: {upstream}}}"


def test_each_address_is_a_replica_for_each_key(tmp_path: Path) -> None:
    config = load_config(with_pools(tmp_path, pool_of("p", URLS, f"{{api_key: {KEYS}}}")))
    specs = replica_specs(config, 0, lambda source: lambda: source.env if source is not None else None)
    found = [(spec.id, spec.address, spec.settings.key()) for spec in specs if isinstance(spec.settings, KeyedUpstream)]
    assert found == [
        ("p/0", "https://a.example/v1", "K_ONE"),
        ("p/1", "https://b.example/v1", "K_ONE"),
        ("p/2", "https://a.example/v1", "K_TWO"),
        ("p/3", "https://b.example/v1", "K_TWO"),
    ]
    assert config.models[0].pools[0].replica_count == 4
    assert [replica.id for replica in configured_replicas(config)] == [spec.id for spec in specs]
    assert [where for where, _ in api_key_sources(config)] == [
        "models[0].pools[0].upstream.api_key[0]",
        "models[0].pools[0].upstream.api_key[1]",
    ]


def test_files_of_several_keys_are_relative_to_the_configuration(tmp_path: Path) -> None:
    config = load_config(with_pools(tmp_path, pool_of("p", URLS, "{api_key: [{file: one}, {env: TWO}]}")))
    assert [source.file for _, source in api_key_sources(config)] == [str(tmp_path / "one"), None]


@pytest.mark.parametrize(
    ("one", "other", "good"),
    [
        ("{api_key: {env: A}}", "{api_key: {env: B}}", True),
        ("{api_key: {env: A}}", "{}", True),
        ("{api_key: [{env: A}, {env: B}]}", "{api_key: {env: C}}", True),
        ("{headers: {x-org: a}}", "{headers: {x-org: b}}", True),
        ("{model: small}", "{model: large}", True),
        ("{api_key: [{env: A}, {env: B}]}", "{api_key: {env: B}}", False),
        ("{api_key: {env: A}, max_in_flight: 2}", "{api_key: {env: A}}", False),
        ("{}", "{}", False),
    ],
)
def test_pools_with_one_url_are_of_different_accounts(tmp_path: Path, one: str, other: str, good: bool) -> None:
    path = with_pools(tmp_path, pool_of("p", URLS, one), pool_of("q", URLS, other))
    if good:
        assert len(load_config(path).models[0].pools) == 2
        return
    with pytest.raises(ConfigError, match=r"models\[0\].pools\[1\].replicas\[0\].*is already taken.*upstream.api_key"):
        load_config(path)


@pytest.mark.parametrize(
    ("urls", "keys", "said"),
    [
        (URLS, "[]", "upstream.api_key"),
        (URLS, "[{env: A}, {env: A}]", "upstream.api_key: names the same key twice"),
        (URLS, "[{env: A}, {}]", "upstream.api_key[1]: expected exactly one of"),
        ("['https+dns://a.example:443/v1']", KEYS, "several keys need addresses"),
    ],
)
def test_lists_of_keys_that_are_refused(tmp_path: Path, urls: str, keys: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(with_pools(tmp_path, pool_of("p", urls, f"{{api_key: {keys}}}")))
    assert said in str(caught.value)
