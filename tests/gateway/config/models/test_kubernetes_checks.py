from pathlib import Path

import pytest

from gateway.cli.configuration_warnings import warnings_of
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.models import kubernetes_checks
from gateway.config.settings import Config

SCALING = "scaling: {min: 0, max: 4, startup_seconds: 60, price_per_hour: 2}"
SPOT = "scaling: {min: 0, max: 4, startup_seconds: 60, price_per_hour: 2, spot_max: 2, spot_price_per_hour: 1}"
LAUNCHED = "launcher: kubernetes"


def loaded(folder: Path, *pools: str, more: str = "") -> Config:
    """Each pool is of a model of its own."""
    text = "models:\n"
    for number, pool in enumerate(pools):
        engine = "" if "engine:" in pool else "engine: simulated, "
        text += f"""
  - name: m{number}
    tokenizer: mistral-tekken
    context: 4096
    pools: [{{name: p, {engine}{pool}}}]
"""
    path = folder / "penstock.yaml"
    path.write_text(f"{text}{more}")
    return load_config(path)


def service(name: str = "s", **options: str) -> str:
    rest = "".join(f", {key}: {value}" for key, value in options.items())
    return f"replicas: {{kubernetes: {{service: {name}{rest}}}}}"


def test_what_can_work_is_taken(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        f"{service()}, {LAUNCHED}, workload: {{deployment: w}}, {SCALING}",
        f"replicas: registered, {LAUNCHED}, workload: {{leaderworkerset: w, spot: w-spot}}, {SPOT}",
        f"{service('t', port='grpc', namespace='b')}, engine: trtllm_grpc",
        f"{service('t', port='9000', path='/openai/v1')}, engine: openai",
        more="kubernetes: {kubeconfig: admin.yaml, namespace: a}\n",
    )
    assert config.kubernetes.kubeconfig == str(tmp_path / "admin.yaml")
    assert [pool.is_discovered for model in config.models for pool in model.pools] == [True] * 4
    assert list(warnings_of(config)) == []


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (service("S"), "replicas.kubernetes.service: "),
        (service(port="0"), "replicas.kubernetes.port: "),
        (service(port="a_port"), "replicas.kubernetes.port: "),
        (service(ports="1"), "replicas.kubernetes.ports: unknown field"),
        ("replicas: {kubernetes: {}}", "replicas.kubernetes.service: required"),
        ("replicas: {service: s}", "replicas.service: unknown field"),
        (service(path="/v1"), "replicas.kubernetes.path: only for openai"),
        (f"{service(labels='true')}, version: v1", "replicas.kubernetes.labels: the pods' labels give the version"),
        (f"{service()}, {LAUNCHED}, {SCALING}", "workload: required"),
        (f"{service()}, workload: {{deployment: w}}", "workload: only with launcher: kubernetes"),
        (f"{service()}, {LAUNCHED}, workload: {{}}, {SCALING}", "workload: needs exactly one of"),
        (
            f"{service()}, {LAUNCHED}, workload: {{deployment: a, leaderworkerset: b}}, {SCALING}",
            "workload: needs exactly one of",
        ),
        (f"{service()}, {LAUNCHED}, workload: {{deployment: w}}", "scaling: required"),
        (f"{service()}, {LAUNCHED}, workload: {{deployment: w}}, {SPOT}", "workload.spot: required"),
        (
            f"{service()}, {LAUNCHED}, workload: {{deployment: w, spot: x}}, {SCALING}",
            "workload.spot: nothing would run there: scaling.spot_max is 0",
        ),
        (
            f"{service()}, {LAUNCHED}, workload: {{deployment: w, spot: w}}, {SPOT}",
            "workload.spot: must be another deployment than w",
        ),
        (f"replicas: 2, {LAUNCHED}, workload: {{deployment: w}}, {SCALING}", "replicas: must be registered"),
        (f"{service()}, launcher: local, {SCALING}", "replicas: must be registered"),
    ],
)
def test_what_cannot_work_is_refused_by_its_path(tmp_path: Path, pool: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, pool)
    assert f"models[0].pools[0].{said}" in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (service(), service(), "replicas.kubernetes.service: the pods of s are already taken by models[0].pools[0]"),
        (service(port="a"), service(), "replicas.kubernetes.service: the pods of s are already taken"),
        (service(namespace="a"), service(), "replicas.kubernetes.service: the pods of s are already taken"),
        (
            f"{service()}, {LAUNCHED}, workload: {{deployment: w}}, {SCALING}",
            f"{service('t')}, {LAUNCHED}, workload: {{deployment: w}}, {SCALING}",
            "workload.deployment: w is already taken by models[0].pools[0].workload.deployment",
        ),
        (
            f"{service()}, {LAUNCHED}, workload: {{deployment: w, spot: x}}, {SPOT}",
            f"{service('t')}, {LAUNCHED}, workload: {{deployment: x}}, {SCALING}",
            "workload.deployment: x is already taken by models[0].pools[0].workload.spot",
        ),
    ],
)
def test_two_pools_with_the_same_pods_are_refused(tmp_path: Path, one: str, other: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, one, other, more="kubernetes: {namespace: a}\n")
    assert f"models[1].pools[0].{said}" in str(caught.value)


def test_what_only_looks_the_same_is_taken(tmp_path: Path) -> None:
    loaded(tmp_path, service(port="a"), service(port="b"))
    loaded(tmp_path, service(namespace="a"), service(namespace="b"))
    loaded(tmp_path, f"{service()}, engine: openai", f"{service()}, engine: openai")
    loaded(
        tmp_path,
        f"{service()}, {LAUNCHED}, workload: {{deployment: w}}, {SCALING}",
        f"{service('t')}, {LAUNCHED}, workload: {{leaderworkerset: w}}, {SCALING}",
    )


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_checks, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pools\[0\].replicas: needs lightkube.*penstock\[kubernetes\]"):
        loaded(tmp_path, service())
    with pytest.raises(ConfigError, match=r"models\[0\]\.pools\[0\]\.launcher: needs lightkube"):
        loaded(tmp_path, f"replicas: registered, {LAUNCHED}, workload: {{deployment: w}}, {SCALING}")
    loaded(tmp_path, "replicas: 2")


POOL = "engine: openai, replicas: {inference_pool: {name: a}}"


def test_an_inference_pool_is_taken_and_models_may_share_it(tmp_path: Path) -> None:
    config = loaded(tmp_path, POOL, POOL)
    assert config.models[0].pools[0].inference_pool is not None
    assert config.models[0].pools[0].is_discovered


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("engine: openai, replicas: {}", "replicas: needs exactly one of kubernetes and inference_pool"),
        (
            "engine: openai, replicas: {inference_pool: {name: a}, kubernetes: {service: s}}",
            "replicas: needs exactly one of kubernetes and inference_pool",
        ),
        ("engine: simulated, replicas: {inference_pool: {name: a}}", "replicas.inference_pool: only of openai"),
        ("engine: openai, replicas: {inference_pool: {name: A_}}", "replicas.inference_pool.name"),
        (f"{POOL}}}, {{name: q, {POOL}", "pools[1].replicas.inference_pool.name: the pods of a are already taken"),
    ],
)
def test_an_inference_pool_that_cannot_be_is_refused(tmp_path: Path, pool: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, pool)
    assert said in str(caught.value)
