"""deploy/helm/penstock: what single values make of it."""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.fleets.discovery.zones import ZONE_VARIABLE
from gateway.store.configured_store import open_store
from protos.errors import StoreUnavailable
from tests.deploy.chart import definitions, made, of_kind, pods
from tests.deploy.manifests import Manifest, name_of, problems


def pod_of(manifests: list[Manifest], end: str) -> Manifest:
    """The template of the pods of the workload whose name ends so."""
    [found] = [pod for where, pod in pods(manifests) if where.endswith(end)]
    return found


def test_gateways_know_their_zone_where_it_is_preferred() -> None:
    for on in (True, False):
        gateway = pod_of(made(f"gateway.sameZone={json.dumps(on)}"), "-gateway")
        variables = {one["name"]: one for one in gateway["spec"]["containers"][0]["env"]}
        assert (ZONE_VARIABLE in variables) == on
        if on:
            path = variables[ZONE_VARIABLE]["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == "metadata.labels['topology.kubernetes.io/zone']"


def test_gateways_are_kept_apart_whatever_else_is_said_of_their_affinity() -> None:
    """By nodes, without the labels that only nodes of clouds have."""
    own = {"weight": 1, "podAffinityTerm": {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for given, kinds in (
        ({}, {preferred}),
        ({"nodeAffinity": {preferred: []}}, {preferred}),
        ({"podAntiAffinity": {required: [own["podAffinityTerm"]]}}, {preferred, required}),
    ):
        spec = pod_of(made(f"gateway.affinity={json.dumps(given)}"), "-gateway")["spec"]
        apart = spec["affinity"].pop("podAntiAffinity")
        assert set(apart) == kinds
        assert apart[preferred][0]["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
        assert spec["affinity"] == {key: value for key, value in given.items() if key != "podAntiAffinity"}
        assert [one["topologyKey"] for one in spec["topologySpreadConstraints"]] == ["topology.kubernetes.io/zone"]
    # What is preferred otherwise takes its place.
    spec = pod_of(made(f"gateway.affinity={json.dumps({'podAntiAffinity': {preferred: [own]}})}"), "-gateway")["spec"]
    assert spec["affinity"]["podAntiAffinity"] == {preferred: [own]}


def test_the_volume_of_a_pool_takes_the_place_of_that_of_all_pools() -> None:
    claim = 'poolDefaults.modelVolume.source={"persistentVolumeClaim":{"claimName":"models"}}'
    cases: list[tuple[Manifest | None, list[Manifest]]] = [
        (None, [{"persistentVolumeClaim": {"claimName": "models"}}]),
        ({"source": {"hostPath": {"path": "/models"}}}, [{"hostPath": {"path": "/models"}}]),
        ({"mountPath": "/weights"}, [{"persistentVolumeClaim": {"claimName": "models"}}]),
        ({"source": {}}, []),
    ]
    for own, sources in cases:
        pool: Manifest = {"name": "p", "model": "mixtral-8x7b", "engine": "simulated"}
        pool |= {} if own is None else {"modelVolume": own}
        spec = pod_of(made(claim, f"pools={json.dumps([pool])}"), "-mixtral-8x7b-p")["spec"]
        found = [volume for volume in spec["volumes"] if volume.pop("name") == "model"]
        assert found == sources


def test_a_volume_with_two_sources_would_be_found() -> None:
    manifests = made()
    (gateway,) = (one for one in manifests if name_of(one) == "Deployment/penstock-gateway")
    assert list(problems(gateway, None)) == []
    gateway["spec"]["template"]["spec"]["volumes"][0]["hostPath"] = {"path": "/"}
    assert ["has not one source" in problem for problem in problems(gateway, None)] == [True]


# ---- who may connect

_KEDA = 'pools[0].scaling={"by":"keda","min":0,"max":4}'
_KEDAS_NAMESPACE = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}
_OURS = 'networkPolicy.scalerFrom=[{"podSelector":{"matchLabels":{"app":"ours"}}}]'


@pytest.mark.parametrize(
    ("sets", "ingress"),
    [
        ([_KEDA], [{"ports": [{"port": "scaler"}], "from": [_KEDAS_NAMESPACE]}]),
        (
            [_KEDA, _OURS],
            [{"ports": [{"port": "scaler"}], "from": [{"podSelector": {"matchLabels": {"app": "ours"}}}]}],
        ),
        ([_KEDA, "networkPolicy.scalerFrom=[]"], []),
        # Without KEDA it listens on nothing.
        (['pools[0].scaling={"by":"penstock","min":1,"max":4}'], []),
    ],
)
def test_the_external_scaler_is_reached_from_where_the_values_say(sets: list[str], ingress: object) -> None:
    manifests = made(*sets)
    policy = of_kind(manifests, "NetworkPolicy")["penstock-controller"]
    assert policy["spec"]["ingress"] == ingress
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    labels = pod_of(manifests, "-controller")["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_without_a_controller_it_has_no_policy() -> None:
    assert "penstock-controller" not in of_kind(made(), "NetworkPolicy")


# ---- the store's password


@contextlib.contextmanager
def running_store(folder: Path, password: str) -> Iterator[str]:
    """The chart's store with a password, by its own command; its socket."""
    server = shutil.which("valkey-server") or shutil.which("redis-server")
    if server is None:
        pytest.skip("neither valkey-server nor redis-server is here")
    [container] = pod_of(made(), "-store")["spec"]["containers"]
    [script] = container["args"]
    for there in ("/run/valkey", "/data"):
        (folder / there[1:4]).mkdir()
        script = script.replace(there, str(folder / there[1:4]))
    socket, program = folder / "s", folder / "valkey-server"
    program.write_text(f'#!/bin/sh\nexec {server} "$@" --port 0 --unixsocket {socket}\n')
    program.chmod(0o700)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "STORE_PASSWORD": password}
    with subprocess.Popen(
        [*container["command"], script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        try:
            assert running.stdout is not None
            said: list[str] = []
            # Its log says when it listens.
            while said[-1:] != [""] and not any("ready to accept connections" in line.lower() for line in said[-1:]):
                said.append(running.stdout.readline())
            assert said[-1], said
            yield str(socket)
        finally:
            running.kill()


@pytest.mark.parametrize(
    "password",
    ["plain", 'it\'s a "long" one', "back\\slash \\x41 $HOME `id` %s", "  around it \n", "two\nlines", "# ' \\\""],
)
async def test_the_stores_password_is_what_the_secret_says(
    password: str, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_store(state_dir, password) as socket:
        told = {"url": f"unix://{socket}", "password": {"env": "PASSWORD"}}
        pool = {"name": "p", "engine": "simulated", "replicas": 1}
        model = {"name": "m", "tokenizer": "t", "context": 9, "pools": [pool]}
        config = msgspec.convert({"models": [model], "store": told}, Config)
        for given, is_right in ((password, True), (f"{password}r", False)):
            monkeypatch.setenv("PASSWORD", given)
            store = open_store(config, timeout=5.0)
            with contextlib.nullcontext() if is_right else pytest.raises(StoreUnavailable):
                await store.ping()
            await store.aclose()


# ---- TLS between gateways and replicas


def _mounted(pod: Manifest) -> dict[str, str]:
    """The Secrets that a pod's container has, by where."""
    secrets = {one["name"]: one["secret"]["secretName"] for one in pod["spec"]["volumes"] if "secret" in one}
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    return {one["mountPath"]: secrets[one["name"]] for one in mounts if one["name"] in secrets}


def test_gateways_and_replicas_show_each_other_certificates(tmp_path: Path) -> None:
    manifests = made("replicaTls.enabled=true", 'replicaTls.certManager={"enabled":true,"issuerName":"internal"}')
    known = definitions()
    assert [problem for one in manifests for problem in problems(one, known)] == []
    (tmp_path / "penstock.yaml").write_text(of_kind(manifests, "ConfigMap")["penstock-config"]["data"]["penstock.yaml"])
    [pool] = load_config(tmp_path / "penstock.yaml").models[0].pools
    assert pool.tls is not None and pool.service is not None
    # What the configuration and the arguments name is there, and is what cert-manager makes.
    certificates = of_kind(manifests, "Certificate")
    gateway = _mounted(pod_of(manifests, "-gateway"))
    for path in (pool.tls.ca, pool.tls.certificate, pool.tls.key):
        assert gateway[os.path.dirname(path or "")] == certificates["penstock-gateway-tls"]["spec"]["secretName"]
    replica = pod_of(manifests, "-narrow")
    args = replica["spec"]["containers"][0]["args"]
    files = [args[args.index(option) + 1] for option in ("--tls-certificate", "--tls-key", "--tls-client-ca")]
    assert [os.path.basename(path) for path in files] == ["tls.crt", "tls.key", "ca.crt"]
    secret = certificates["penstock-replica-tls"]["spec"]["secretName"]
    assert [_mounted(replica)[os.path.dirname(path)] for path in files] == [secret] * 3
    # The name that gateways expect.
    names = certificates["penstock-replica-tls"]["spec"]["dnsNames"]
    assert names == [f"{pool.service.service}.{pool.service.namespace}.svc"]
    usages = {name: one["spec"]["usages"][-1] for name, one in certificates.items()}
    assert usages == {"penstock-replica-tls": "server auth", "penstock-gateway-tls": "client auth"}


def test_secrets_of_ones_own_are_taken() -> None:
    manifests = made('replicaTls={"enabled":true,"replicaSecret":"theirs","gatewaySecret":"mine"}')
    assert set(_mounted(pod_of(manifests, "-gateway")).values()) == {"mine"}
    assert set(_mounted(pod_of(manifests, "-narrow")).values()) == {"theirs"}
    assert of_kind(manifests, "Certificate") == {}


def test_servers_of_others_speak_tls_by_their_own_arguments(tmp_path: Path) -> None:
    other = {"name": "vllm", "model": "mixtral-8x7b", "engine": "openai", "image": "i", "command": ["c"], "port": 8000}
    values = yaml.safe_load(Path("deploy/helm/examples/simulated.yaml").read_text())
    values["pools"].append(other)
    values["replicaTls"] = {"enabled": True}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    manifests = made(values=tmp_path / "values.yaml")
    assert _mounted(pod_of(manifests, "-vllm")) == {}
    config = json.loads(of_kind(manifests, "ConfigMap")["penstock-config"]["data"]["penstock.yaml"])
    assert ["tls" in pool for pool in config["models"][0]["pools"]] == [True, False]
