"""The chart in a real cluster: what it makes comes up, answers, has the rights that it needs, and goes again."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.certificates import Authority
from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.installed import MODEL, Installed, pool, values
from tests.kubernetes.leaderworkersets import install_resources
from tests.kubernetes.nodes import Played, is_ready
from tests.published_scaler import published

pytestmark = pytest.mark.kubernetes

#: How it is told that a role lacks something.
_REFUSED = re.compile(r"the role lacks|forbidden", re.IGNORECASE)


def logs(beside: Played, pods: list[Object], container: str) -> str:
    return "\n".join(beside.log(one, container) for one in pods)


def all_ready(installed: Installed, count: int) -> bool:
    """Whether there are so many pods of replicas, all of them ready."""
    return [is_ready(one) for one in installed.pods("replica")] == [True] * count


def test_a_first_look_answers_and_goes_again(plane: ControlPlane, beside: Played, installed: Installed) -> None:
    installed.install(values(pool(replicas=2)))
    key = installed.serving()
    replicas = installed.pods("replica")
    assert len(replicas) == 2
    assert {one["spec"]["nodeName"] for one in installed.pods("gateway")} == {"node-0", "node-1"}
    listed = installed.admin("GET", "/admin/replicas")["data"]
    assert {one["source"] for one in listed} == {"kubernetes"}
    # The API beside the chat, through the Service.
    models = httpx.get(
        f"http://{installed.address()}/v1/models", headers={"Authorization": f"Bearer {key}"}, timeout=10
    )
    assert [one["id"] for one in models.json()["data"]] == [MODEL]
    assert not _REFUSED.search(logs(beside, installed.pods("gateway"), "gateway"))
    installed.helm("uninstall", installed.name, "--wait", "--timeout", "120s")

    def left() -> list[str]:
        kinds = "all,configmap,networkpolicy,role,rolebinding,poddisruptionbudget,serviceaccount"
        return [one for one in installed.kubectl("get", kinds, "--output", "name").split() if "penstock" in one]

    # Pods have their grace.
    wait_until(lambda: left() == [], 120, "nothing of the release")


def test_the_controllers_role_lets_it_scale(plane: ControlPlane, beside: Played, installed: Installed) -> None:
    installed.install(values(pool(scaling={"by": "penstock", "min": 1, "max": 3, "startupSeconds": 5})))
    installed.serving()
    installed.wait("deployment/penstock-controller")
    for size in (2, 1):
        installed.admin("POST", "/admin/scaling/set", {"pool": "narrow", "replicas": size})
        wait_until(partial(all_ready, installed, size), 90, f"{size} replicas")
    # Without a single word about rights that are missing.
    assert not _REFUSED.search(logs(beside, installed.pods("controller"), "controller"))


def test_an_upgrade_leaves_the_size_to_who_scales(plane: ControlPlane, installed: Installed) -> None:
    given = values(pool(scaling={"by": "penstock", "min": 1, "max": 3, "startupSeconds": 5}))
    installed.install(given)
    installed.serving()
    installed.admin("POST", "/admin/scaling/set", {"pool": "narrow", "replicas": 2})
    wait_until(lambda: len(installed.pods("replica")) == 2, 90)
    given["gateway"]["podAnnotations"] = {"second": "time"}
    installed.install(given)
    found = plane.api.get(f"/apis/apps/v1/namespaces/{installed.namespace}/deployments/penstock-{MODEL}-narrow")
    assert found["spec"]["replicas"] == 2


def test_of_endpoint_pickers_one_serves_and_another_takes_over(
    plane: ControlPlane, beside: Played, installed: Installed
) -> None:
    install_resources(plane, "inference-pool")
    server = {
        "name": "other",
        "model": MODEL,
        "engine": "openai",
        "image": "penstock:test",
        "command": ["python", "-m", "http.server", "8000"],
        "port": 8000,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    small = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    picker = {"enabled": True, "model": MODEL, "resources": small}
    installed.install(values(server, endpointPicker=picker, networkPolicy={"enabled": False}))

    def serving() -> list[str]:
        return [one["metadata"]["name"] for one in installed.pods("epp") if is_ready(one)]

    wait_until(lambda: len(installed.pods("epp")) == 2 and len(serving()) == 1, 120, "one endpoint picker that serves")
    (first,) = serving()
    plane.api.delete(f"/api/v1/namespaces/{installed.namespace}/pods/{first}")
    wait_until(lambda: len(serving()) == 1 and serving() != [first], 60, "another one")
    found = plane.api.get(
        f"/apis/inference.networking.k8s.io/v1/namespaces/{installed.namespace}/inferencepools/{installed.name}"
    )
    assert found["spec"]["endpointPickerRef"]["name"] == "penstock-epp"
    assert not _REFUSED.search(logs(beside, installed.pods("epp"), "epp"))
    # An update waits for nobody who only stands by.
    before = {one["metadata"]["name"] for one in installed.pods("epp")}
    small["requests"]["memory"] = "160Mi"
    installed.install(values(server, endpointPicker=picker, networkPolicy={"enabled": False}))
    wait_until(lambda: len(serving()) == 1 and not before & set(serving()), 90, "one of the new ones")


def test_keda_is_told_what_the_controller_wants_and_the_pool_is_left_to_it(
    plane: ControlPlane, beside: Played, installed: Installed
) -> None:
    """KEDA itself is not here: its client asks as the ScaledObject has it, and its answer is carried out by hand."""
    install_resources(plane, "keda")
    installed.install(values(pool(replicas=1, scaling={"by": "keda", "min": 1, "max": 4, "startupSeconds": 5})))
    installed.serving()
    installed.wait("deployment/penstock-controller")
    name = f"penstock-{MODEL}-narrow"
    path = f"/apis/keda.sh/v1alpha1/namespaces/{installed.namespace}/scaledobjects/{name}"
    (trigger,) = plane.api.get(path)["spec"]["triggers"]
    metadata = dict(trigger["metadata"])
    service, _, port = metadata.pop("scalerAddress").partition(":")
    messages, stubs = published()
    object_ = messages.ScaledObjectRef(name=name, namespace=installed.namespace, scalerMetadata=metadata)
    with grpc.insecure_channel(f"{installed.address(service.partition('.')[0])}:{port}") as channel:
        stub = stubs.ExternalScalerStub(channel)

        def wanted() -> float:
            try:
                (spec,) = stub.GetMetricSpec(object_, timeout=5).metricSpecs
                asked = messages.GetMetricsRequest(scaledObjectRef=object_, metricName=spec.metricName)
                (value,) = stub.GetMetrics(asked, timeout=5).metricValues
            except grpc.RpcError:
                return -1
            return float(value.metricValueFloat / spec.targetSizeFloat)

        wait_until(lambda: wanted() == 1, 60, "the controller's wish")
        installed.kubectl("scale", f"deployment/{name}", "--replicas=3")
        wait_until(partial(all_ready, installed, 3), 90, "three replicas")
        told = installed.admin("GET", "/admin/scaling")
        assert (told["models"][0]["pools"][0]["wanted"], wanted()) == (1, 1), "whoever scales is only advised"
    assert len(installed.pods("replica")) == 3
    assert not _REFUSED.search(logs(beside, installed.pods("controller"), "controller"))


def test_replicas_answer_only_those_who_show_a_certificate(
    plane: ControlPlane, beside: Played, installed: Installed, tmp_path: Path
) -> None:
    host = f"penstock-{MODEL}-narrow.{installed.namespace}.svc"
    authority = Authority(tmp_path)
    for name, hosts in (("penstock-replica-tls", (host,)), ("penstock-gateway-tls", ("gateway",))):
        signed = authority.signed(name, hosts=hosts)
        files = {"ca.crt": authority.ca, "tls.crt": signed.certificate, "tls.key": signed.key}
        secret = {"metadata": {"name": name, "namespace": installed.namespace}, "type": "kubernetes.io/tls"}
        texts = {key: file.read_text() for key, file in files.items()}
        plane.api.apply({"apiVersion": "v1", "kind": "Secret", **secret, "stringData": texts})
    installed.install(values(pool(replicas=1), replicaTls={"enabled": True}))
    installed.serving()
    (listed,) = installed.admin("GET", "/admin/replicas")["data"]
    assert listed["address"].startswith("grpcs://")
    (replica,) = installed.pods("replica")
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    options = [("grpc.ssl_target_name_override", host)]
    # Who shows none is not let in.
    with (
        grpc.secure_channel(f"{replica['status']['podIP']}:50051", credentials, options) as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        ask: Any = channel.unary_unary("/any/method")
        ask(b"", timeout=30)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_replica_of_two_pods_is_asked_at_its_leader(
    plane: ControlPlane, groups: object, beside: Played, installed: Installed
) -> None:
    scaling = {"by": "penstock", "min": 1, "max": 2, "startupSeconds": 5}
    installed.install(values(pool(nodes=2, workers={"command": ["sleep", "infinity"]}, scaling=scaling)))
    installed.serving()
    (leader,) = installed.pods("replica", **{"leaderworkerset.sigs.k8s.io/worker-index": "0"})
    assert len(installed.pods("replica")) == 2
    listed = installed.admin("GET", "/admin/replicas")["data"]
    assert [one["address"] for one in listed] == [f"grpc://{leader['status']['podIP']}:50051"]
    installed.admin("POST", "/admin/scaling/set", {"pool": "narrow", "replicas": 2})
    wait_until(partial(all_ready, installed, 4), 90, "a second group")
    assert not _REFUSED.search(logs(beside, installed.pods("controller"), "controller"))


def test_an_upgrade_that_gateways_can_take_restarts_none(beside: Played, installed: Installed) -> None:
    given = values(pool(replicas=1))
    installed.install(given)
    key = installed.serving()
    before = {one["metadata"]["name"] for one in installed.pods("gateway")}
    given["config"]["models"][0]["aliases"] = ["gpt-4o"]
    installed.install(given)

    def knows_both() -> bool:
        body = {"model": "gpt-4o", "max_tokens": 1, "messages": [{"role": "user", "content": "?"}]}
        headers = {"Authorization": f"Bearer {key}"}
        answers = [
            httpx.post(
                f"http://{one['status']['podIP']}:8080/v1/chat/completions", json=body, headers=headers, timeout=10
            )
            for one in installed.pods("gateway")
        ]
        return all(answer.is_success for answer in answers)

    wait_until(knows_both, 120, "an answer to the new name from every gateway")
    assert {one["metadata"]["name"] for one in installed.pods("gateway")} == before
    # What they cannot take rolls them out.
    given["gateway"]["workers"] = 2
    installed.install(given)
    installed.wait()
    wait_until(lambda: not before & {one["metadata"]["name"] for one in installed.pods("gateway")}, 120)
