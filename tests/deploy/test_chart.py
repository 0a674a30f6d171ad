"""deploy/helm/penstock: what it makes, and what it refuses. What an example makes is tried without Helm as well."""

import itertools
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gateway.cli.main import main
from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.endpoint_picker.picker_checks import picker_problems
from gateway.reload.plan import plan
from gateway.scaling.external.wanted_replicas import pool_named
from tests.deploy.chart import EXAMPLES, ROOT, containers, definitions, example, helm, made, of_kind, pods
from tests.deploy.manifests import Manifest, is_built_in, name_of, problems, read
from tools.chart.__main__ import README, readme
from tools.chart.rendering import CHART, RENDERED, RenderError, lint, render, rendered
from tools.chart.values_table import values_of

VALUES = (ROOT / CHART / "values.yaml").read_text()
SCHEMA = json.loads((ROOT / CHART / "values.schema.json").read_text())

examples = pytest.mark.parametrize("name", EXAMPLES)


def config_of(manifests: list[Manifest], folder: Path, name: str = "penstock-config") -> Config:
    """A configuration in the manifests, as its process reads it."""
    (folder / "penstock.yaml").write_text(of_kind(manifests, "ConfigMap")[name]["data"]["penstock.yaml"])
    return load_config(folder / "penstock.yaml")


# ---- the chart's files


def test_the_version_is_the_projects() -> None:
    chart = yaml.safe_load((ROOT / CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]


def test_rules_and_dashboards_are_links_to_the_only_copy() -> None:
    for name, folder in (("rules", "prometheus/rules"), ("dashboards", "grafana/dashboards")):
        assert (ROOT / CHART / "files" / name).resolve() == ROOT / "deploy/observability" / folder


def test_every_value_says_what_it_is() -> None:
    found = list(values_of(VALUES))
    sections = {value.path.rpartition(".")[0] for value in found}
    assert [value.path for value in found if not value.meaning and value.path not in sections] == []


def test_the_readmes_table_is_up_to_date() -> None:
    text = (ROOT / README).read_text()
    assert readme(text, VALUES) == text, "run: make chart"


def test_the_schema_knows_exactly_the_values() -> None:
    schema = jsonschema.Draft7Validator(SCHEMA)
    values = yaml.safe_load(VALUES)
    # Of the defaults only the models are missing.
    assert [error.json_path for error in schema.iter_errors(values)] == ["$.config.models"]
    declared = {path for path in _declared(SCHEMA, SCHEMA) if not path.startswith(("pools", "global"))}
    assert declared == {value.path for value in values_of(VALUES)} - {"pools"}


def _declared(schema: dict[str, Any], root: dict[str, Any], path: str = "") -> set[str]:
    while "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    found = set()
    for name, part in schema.get("properties", {}).items():
        if schema.get("additionalProperties") is not False and path != "config":
            continue
        inner = f"{path}.{name}".lstrip(".")
        found |= {inner} | (set() if name == "resources" else _declared(part, root, inner))
    return found


# ---- what it makes


@examples
def test_manifests_are_valid(name: str) -> None:
    assert [problem for one in example(name) if is_built_in(one) for problem in problems(one, None)] == []


@examples
def test_custom_resources_are_valid(name: str) -> None:
    found = [one for one in example(name) if not is_built_in(one)]
    known = definitions() if found else None
    assert [problem for one in found for problem in problems(one, known)] == []


@examples
def test_rendered_examples_are_up_to_date(name: str) -> None:
    # Versions of Helm differ in blank lines.
    assert read(rendered(helm(), ROOT, name)) == example(name), "run: make chart"


@examples
def test_helm_has_nothing_against_it(name: str) -> None:
    lint(helm(), ROOT / CHART, ROOT / f"deploy/helm/examples/{name}.yaml")


@examples
def test_the_gateway_takes_its_configuration(name: str, tmp_path: Path) -> None:
    config = config_of(example(name), tmp_path)
    assert not config.controller.enabled
    assert all(model.pools for model in config.models)


@pytest.mark.parametrize("name", ["keda", "simulated"])
def test_penstock_check_has_nothing_against_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the examples those that name no file of a volume. Neither store nor cluster is here, which is a warning."""
    monkeypatch.setenv("PENSTOCK_SCRAPE_KEY", "scrape-key-of-sixteen")
    monkeypatch.setenv("PENSTOCK_STORE_PASSWORD", "secret")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    config_of(example(name), tmp_path)
    assert main(["check", "--config", str(tmp_path / "penstock.yaml")]) == 0
    said = capsys.readouterr()
    assert "is valid" in said.out
    assert all("warning" in line for line in said.err.splitlines() if line)


@examples
def test_pods_have_no_more_rights_than_they_need(name: str) -> None:
    for where, pod in pods(example(name)):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"], where
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
        assert spec["automountServiceAccountToken"] == where.endswith(("-gateway", "-controller", "-epp")), where
        for container in containers(pod):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, where
            assert security["capabilities"] == {"drop": ["ALL"]}, where
            # Engines of others may want to write beside their code; the project's own does not.
            assert security["readOnlyRootFilesystem"] or "/penstock:" not in f"/{container['image']}", where
        if "-store" not in where and "-warm" not in where:
            # Any user may be given, as OpenShift does it.
            assert "runAsUser" not in json.dumps(spec), where


@examples
def test_each_pod_belongs_to_one_workload(name: str) -> None:
    manifests = example(name)
    selectors = {
        name_of(one): one["spec"]["selector"]["matchLabels"]
        for one in manifests
        if one["kind"] in {"Deployment", "StatefulSet"}
    }
    for where, pod in pods(manifests):
        labels = pod["metadata"]["labels"]
        found = [owner for owner, wanted in selectors.items() if wanted.items() <= labels.items()]
        assert found == ([] if where.startswith("LeaderWorkerSet") else [where])


@examples
def test_each_service_and_budget_selects_pods(name: str) -> None:
    manifests = example(name)
    labels = [pod["metadata"]["labels"] for _, pod in pods(manifests)]
    for one in manifests:
        if one["kind"] not in {"Service", "PodDisruptionBudget"}:
            continue
        selector = dict(one["spec"]["selector"])
        selector = selector.get("matchLabels", selector)
        # Set by the controller of LeaderWorkerSets.
        selector = {key: value for key, value in selector.items() if not key.startswith("leaderworkerset")}
        assert any(selector.items() <= of.items() for of in labels), name_of(one)


@examples
def test_what_a_gateways_end_takes_is_granted(name: str, tmp_path: Path) -> None:
    listen = config_of(example(name), tmp_path).listen
    (gateway,) = (pod for where, pod in pods(example(name)) if where.endswith("-gateway"))
    assert gateway["spec"]["terminationGracePeriodSeconds"] >= listen.grace_seconds + listen.drain_seconds + 7
    # Endpoints leave a Service as soon as a pod is told to end; whoever asks /readyz instead must see it in the grace.
    readiness = gateway["spec"]["containers"][0]["readinessProbe"]
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < listen.grace_seconds


def test_roles_name_what_is_scaled_and_nothing_else() -> None:
    manifests = example("production")
    roles = of_kind(manifests, "Role")
    assert roles["penstock-discovery"]["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}
    ]
    rules = {(rule["resources"][0], *rule["verbs"]): rule for rule in roles["penstock-controller"]["rules"]}
    names = ["penstock-llama-3-1-8b-small", "penstock-llama-3-1-8b-small-spot"]
    assert rules["deployments/scale", "patch"]["resourceNames"] == names
    assert rules["deployments", "get"]["resourceNames"] == names
    records = [f"penstock-deployment-{name}" for name in names]
    assert rules["configmaps", "get", "update"]["resourceNames"] == records
    # Names are only left out where what is meant has none that is known.
    assert {key for key, rule in rules.items() if "resourceNames" not in rule} == {
        ("pods", "list", "patch", "delete"),
        ("endpointslices", "list"),
        ("configmaps", "create"),
    }
    for role in (*roles.values(), *of_kind(manifests, "ClusterRole").values()):
        for rule in role["rules"]:
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
            assert "secrets" not in rule["resources"]


def test_a_pool_over_several_nodes_is_a_leader_worker_set() -> None:
    manifests = example("multi-node")
    (group,) = of_kind(manifests, "LeaderWorkerSet").values()
    assert group["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert group["metadata"]["labels"]["penstock/shape"] == "tp8-pp2"
    for _, pod in pods([group]):
        assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    # Requests go to the leaders.
    service = of_kind(manifests, "Service")["penstock-llama-3-1-405b-groups"]
    assert service["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"


def test_the_endpoint_picker_takes_its_configuration(tmp_path: Path) -> None:
    config = config_of(example("inference-pool"), tmp_path, "penstock-epp-config")
    assert [model.name for model in config.models] == ["qwen3-8b"]
    assert list(picker_problems(config)) == []
    assert config.epp.leader_election


def test_what_an_endpoint_pickers_end_takes_is_granted(tmp_path: Path) -> None:
    values = ROOT / "deploy/helm/examples/inference-pool.yaml"
    manifests = read(render(helm(), ROOT / CHART, values, 'config.listen={"drain_seconds":200}'))
    listen = config_of(manifests, tmp_path, "penstock-epp-config").listen
    (picker,) = (pod for where, pod in pods(manifests) if where.endswith("-epp"))
    assert picker["spec"]["terminationGracePeriodSeconds"] >= listen.grace_seconds + listen.drain_seconds + 7


def test_what_others_scale_is_only_advised_on(tmp_path: Path) -> None:
    manifests = example("keda")
    config = config_of(manifests, tmp_path)
    assert [model.scaling and model.scaling.mode for model in config.models] == ["advise", "advise"]
    assert config.external_scaler is not None
    (scaled,) = of_kind(manifests, "ScaledObject").values()
    (trigger,) = scaled["spec"]["triggers"]
    # What the scaler itself makes of the trigger.
    pools = {model.name: [pool.name for pool in model.pools] for model in config.models}
    assert pool_named(trigger["metadata"], pools) == ("mixtral-8x7b", "narrow")
    # Who only advises changes no workload.
    for role in of_kind(manifests, "Role").values():
        assert {verb for rule in role["rules"] for verb in rule["verbs"]} <= {"get", "list", "watch"}


def test_passwords_are_references() -> None:
    for name in EXAMPLES:
        assert of_kind(example(name), "Secret") == {}


# ---- over many values

_MATRIX = {
    "store": ('store.kind="valkey"', 'store.kind="external"'),
    "tls": ("tls.enabled=false", "tls.enabled=true"),
    "scaling": (
        'pools[0].scaling={"by":"none"}',
        'pools[0].scaling={"by":"penstock","min":0,"max":4,"pricePerHour":2}',
        'pools[0].scaling={"by":"keda","min":0,"max":4}',
        'pools[0].scaling={"by":"hpa","min":1,"max":4}',
    ),
    "nodes": ("pools[0].nodes=1", 'pools[0].workers.command=["sleep","infinity"]\npools[0].nodes=2'),
    "sizes": ("gateway.autoscaling.enabled=true", "gateway.preStopSeconds=10"),
}
#: Every fifth of all combinations: each pair of values is among them.
_MIXED = list(itertools.product(*_MATRIX.values()))[::5]


@pytest.mark.slow
@pytest.mark.parametrize("values", _MIXED, ids=range(len(_MIXED)))
def test_values_fit_together(values: tuple[str, ...], tmp_path: Path) -> None:
    sets = [line for value in values for line in value.splitlines()]
    manifests = made(*sets, "monitoring.rules=true", "monitoring.dashboards=true", 'monitoring.scrape="PodMonitor"')
    known = definitions()
    assert [problem for one in manifests for problem in problems(one, known)] == []
    config_of(manifests, tmp_path)
    names = [(one["kind"], one["metadata"]["name"]) for one in manifests]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("value", "restarts"),
    [
        ('config.models[0].price={"input": 1}', False),
        ('config.tenants=[{"name": "acme"}]', False),
        ('config.models[0].scaling={"budget_per_hour": 9}', False),
        ("pools[0].scaling.max=9", False),
        ('config.models[0].scaling={"wait_seconds": 9}', True),
        ("config.models[0].context=4096", True),
        ('config.listen={"max_in_flight": 9}', True),
        ("gateway.workers=3", True),
        ('pools[0].shape={"tp": 4}', True),
    ],
)
def test_gateways_are_started_anew_for_what_they_cannot_take(value: str, restarts: bool, tmp_path: Path) -> None:
    """The chart says in advance what the gateways themselves would refuse to take."""
    values = yaml.safe_load((ROOT / "deploy/helm/examples/simulated.yaml").read_text())
    values["pools"][0]["scaling"] = {"by": "penstock", "min": 1, "max": 2}
    checksums, configs = [], []
    for number in range(2):
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
        manifests = made(values=tmp_path / "values.yaml")
        (gateway,) = (pod for where, pod in pods(manifests) if where.endswith("-gateway"))
        checksums.append(gateway["metadata"]["annotations"]["checksum/restart"])
        configs.append(config_of(manifests, tmp_path))
        if number == 0:
            _put(values, *value.split("=", 1))
    assert (checksums[0] != checksums[1]) == restarts
    assert bool(plan(*configs).restart) == restarts


def test_long_and_odd_names_become_names_of_objects(tmp_path: Path) -> None:
    long = "Org/Model.With:Many_Characters@2026+and-a-very-long-name-that-no-label-of-63-characters-holds"
    manifests = made(f'config.models[0].name="{long}"', f'pools[0].model="{long}"', f'pools[0].name="{"P" * 48}"')
    known = definitions()
    assert [problem for one in manifests for problem in problems(one, known)] == []
    assert all(len(one["metadata"]["name"]) <= 63 for one in manifests)
    assert all(len(value) <= 63 for _, pod in pods(manifests) for value in pod["metadata"]["labels"].values())
    assert config_of(manifests, tmp_path).models[0].name == long


# ---- what it refuses


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ('gateway.replicas="two"', "/gateway/replicas"),
        ("gateway.replicas=0", "/gateway/replicas"),
        ("gateway.worker=2", "worker"),
        ('gateway.resources.requests={"cpu":"fast"}', "/gateway/resources/requests/cpu"),
        ('store.kind="memcached"', "/store/kind"),
        ('store.maxMemory="1Gi"', "/store/maxMemory"),
        ('pools[0].engine="vllm"', "/pools/0/engine"),
        ('pools[0].shape={"tp":0}', "/pools/0/shape/tp"),
        ('pools[0].shape={"dp":2}', "dp"),
        ("pools[0].replica=3", "replica"),
        ('pools[0].version="a b"', "/pools/0/version"),
        ('pools[0].config={"launcher":"local"}', "pools[0].config.launcher: the chart sets it"),
        ('httpRoute.timeout="forever"', "/httpRoute/timeout"),
        ('secrets.env={"A-B":{"secret":"s","key":"k"}}', "A-B"),
        ('secrets.adminKey=""', "/secrets/adminKey"),
        ('monitoring.scrape="yes"', "/monitoring/scrape"),
        # What spans values.
        ('pools[0].model=""', "pools[0].model: required"),
        ('pools[0].model="gpt-5"', 'pools[0].model: there is no model "gpt-5" in config.models'),
        ("pools=[]", 'config.models[0].pools: the model "mixtral-8x7b" has no pool'),
        ('pools[0].shape={"tp":4,"ep":3}', "pools[0].shape.ep: 3 does not divide tp, which is 4"),
        ('pools[0].scaling={"by":"penstock","min":3,"max":2}', "pools[0].scaling.min: 3 is over scaling.max"),
        ('pools[0].scaling={"by":"hpa","min":0,"max":2}', "pools[0].scaling.min: a HorizontalPodAutoscaler"),
        (
            'config.models[0].name="a/b"\npools[0].model="a/b"\npools[0].scaling={"by":"hpa","min":1,"max":2}',
            'pools[0].scaling.by: a HorizontalPodAutoscaler selects by labels, and "a/b" can be no',
        ),
        ('pools[0].spot={"max":1}', "pools[0].spot.max: needs scaling.by: penstock"),
        ("pools[0].nodes=2", "pools[0].workers.command: required"),
        ('pools[0].engine="tensorrt_llm"', "pools[0].image: required"),
        ('pools[0].healthPath="/health"', "pools[0].healthPath: engine simulated has no HTTP"),
        ("pools[0].metricsPort=50051", "pools[0].metricsPort: is the pool's port, too"),
        ('pools[0].modelVolume={"preload":{"image":"x"}}', "pools[0].modelVolume.preload.image: there is no"),
        (
            'pools[1]={"name":"narrow","model":"mixtral-8x7b","engine":"simulated"}',
            "pools[1]: selects the same pods as pools[0]",
        ),
        (
            'pools[1]={"name":"Narrow","model":"mixtral-8x7b","engine":"simulated"}',
            "pools[1].name: its workload would have the name of that of pools[0]",
        ),
        (
            'config.models[0].pools=[{"name":"narrow","engine":"simulated","replicas":1}]',
            'config.models[0].pools: the model "mixtral-8x7b" has two pools "narrow"',
        ),
        ("config.listen.port=80", "config.listen.port: the chart sets it"),
        ('config.state="/tmp"', "config.state: the chart sets it"),
        ('gateway.autoscaling={"enabled":true,"min":5,"max":2}', "gateway.autoscaling.min: 5 is over"),
        (
            'gateway.autoscaling={"enabled":true,"cpuPercent":0}',
            "gateway.autoscaling: cpuPercent and streams are both 0",
        ),
        ("httpRoute.enabled=true", "httpRoute.parentRefs: required"),
        ("tls.certManager.enabled=true", "tls.certManager.issuerName: required"),
        ('replicaTls={"enabled":true,"certManager":{"enabled":true}}', "replicaTls.certManager.issuerName: required"),
        ('replicaTls.enabled=true\npools[0].engine="openai"', "pools[0].image: required"),
        ("externalSecret.enabled=true", "externalSecret.storeName: required"),
        (
            'pools[1]={"name":"two","model":"mixtral-8x7b","engine":"simulated","scaling":{"by":"keda","max":2}}\n'
            'pools[0].scaling={"by":"penstock","max":2}',
            "pools[1].scaling.by: keda, but pools[0].scaling.by has another",
        ),
        ('endpointPicker={"enabled":true,"model":"mixtral-8x7b"}', "networkPolicy.replicasFrom: required with"),
        (
            'endpointPicker={"enabled":true,"model":"mixtral-8x7b"}\nnetworkPolicy.enabled=false',
            "pools[0].engine: must be openai",
        ),
        (
            'endpointPicker={"enabled":true,"model":"gpt-5"}\nnetworkPolicy.enabled=false',
            'endpointPicker.model: no pool of pools serves "gpt-5"',
        ),
        ('externalSecret={"enabled":true,"storeName":"vault"}', "externalSecret.data.admin-key: required"),
    ],
)
def test_values_that_cannot_work_are_refused_with_their_path(value: str, path: str, tmp_path: Path) -> None:
    # A list's entries are set in a file: --set-json replaces the whole list.
    values = yaml.safe_load((ROOT / "deploy/helm/examples/simulated.yaml").read_text())
    for line in value.splitlines():
        _put(values, *line.split("=", 1))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(RenderError) as refused:
        render(helm(), ROOT / CHART, tmp_path / "values.yaml")
    # Helm 3 writes a path of the schema with dots, Helm 4 with slashes.
    said = str(refused.value)
    assert path in said or path.lstrip("/").replace("/", ".") in said


def _put(values: Any, path: str, value: str) -> None:
    keys: list[str | int] = []
    for part in path.split("."):
        name, _, index = part.partition("[")
        keys += [name, int(index.rstrip("]"))] if index else [name]
    for key, after in itertools.pairwise(keys):
        if isinstance(values, dict):
            values.setdefault(key, [] if isinstance(after, int) else {})
        values = values[key]
    if isinstance(values, list) and keys[-1] == len(values):
        values.append(json.loads(value))
    else:
        values[keys[-1]] = json.loads(value)


def test_an_unknown_field_of_an_object_would_be_found() -> None:
    known = definitions()
    manifests = read((ROOT / RENDERED / "production.yaml").read_text())
    for kind in ("Deployment", "HTTPRoute", "PodMonitor"):
        one = next(one for one in manifests if one["kind"] == kind)
        one["spec"]["nothing"] = 1
        assert [problem for problem in problems(one, known) if "nothing" in problem]
