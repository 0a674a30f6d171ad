"""The played nodes do with pods what a kubelet does."""

from functools import partial

import httpx
import pytest

from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.manifests import container, deployment, disruption_budget, pod, service
from tests.kubernetes.nodes import Played, is_ready, ready

pytestmark = pytest.mark.kubernetes

_SERVE = "exec python -m http.server --bind $POD_IP 8000"
_READY = {"httpGet": {"port": 8000, "path": "/"}, "periodSeconds": 1}


def _pod(plane: ControlPlane, namespace: str, name: str) -> Object | None:
    return plane.api.find(f"/api/v1/namespaces/{namespace}/pods/{name}")


def _has_said(beside: Played, one: Object, word: str) -> bool:
    return word in beside.log(one, "main")


def _state(found: Object | None) -> Object:
    statuses = (found or {}).get("status", {}).get("containerStatuses", [{}])
    state: Object = statuses[0].get("state", {})
    return state


def test_a_deployment_is_rolled_out_and_served_at_its_services_address(
    plane: ControlPlane, beside: Played, namespace: str
) -> None:
    plane.api.create(deployment(namespace, "web", 3, container(_SERVE, readinessProbe=_READY)))
    plane.api.create(service(namespace, "web", 80, 8000))
    pods = ready(plane, namespace, "app=web", 3)
    assert len({one["status"]["podIP"] for one in pods}) == 3
    address = plane.api.get(f"/api/v1/namespaces/{namespace}/services/web")["spec"]["clusterIP"]

    def serves() -> bool:
        try:
            return httpx.get(f"http://{address}/").is_success
        except httpx.HTTPError:
            return False

    wait_until(serves)


def test_a_pod_reads_its_volumes_its_environment_and_the_api(
    plane: ControlPlane, beside: Played, namespace: str
) -> None:
    meta = {"name": "words", "namespace": namespace}
    plane.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"word": "first"}})
    plane.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"key": "hidden"}})
    ask = 'curl -s -o /dev/null -w "%{http_code}\\n" --cacert $account/ca.crt -H "Authorization: Bearer $token"'
    script = f"""
        account=/var/run/secrets/kubernetes.io/serviceaccount
        token=$(cat $account/token)
        echo "at $POD_IP with $KEY as $(id -u) on $(hostname)"
        {ask} https://kubernetes.default.svc/version
        {ask} https://kubernetes.default.svc/api/v1/secrets
        touch /elsewhere || echo read-only
        while true; do cat /words/word; echo; sleep 0.2; done
    """
    main = container(
        script,
        volumeMounts=[{"name": "words", "mountPath": "/words"}],
        securityContext={"readOnlyRootFilesystem": True, "runAsUser": 20_000},
    )
    main["env"].append({"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "words", "key": "key"}}})
    one = plane.api.create(pod(namespace, "reader", main, volumes=[{"name": "words", "configMap": {"name": "words"}}]))
    wait_until(lambda: "first" in beside.log(one, "main"))
    plane.api.patch(f"/api/v1/namespaces/{namespace}/configmaps/words", {"data": {"word": "second"}})
    wait_until(lambda: "second" in beside.log(one, "main"))
    ip = (_pod(plane, namespace, "reader") or {})["status"]["podIP"]
    lines = beside.log(one, "main").splitlines()
    assert f"at {ip} with hidden as 20000 on reader" in lines
    assert [line for line in lines if line.isdigit()] == ["200", "403"], "it is known, and may not read secrets"
    assert "read-only" in lines


def test_a_container_that_ends_or_does_not_live_is_run_again(
    plane: ControlPlane, beside: Played, namespace: str
) -> None:
    dead = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
    plane.api.create(
        pod(namespace, "dead", container("sleep 100", livenessProbe=dead), terminationGracePeriodSeconds=1)
    )
    plane.api.create(pod(namespace, "failing", container("exit 3"), restartPolicy="Never"))
    wait_until(lambda: "CrashLoopBackOff" in str(_state(_pod(plane, namespace, "dead"))))
    failing = _pod(plane, namespace, "failing")
    assert failing is not None
    assert failing["status"]["phase"] == "Failed"
    assert _state(failing)["terminated"]["exitCode"] == 3
    wait_until(
        lambda: (
            (_pod(plane, namespace, "dead") or {})["status"]["containerStatuses"][0]["restartCount"] == 1
            and "running" in _state(_pod(plane, namespace, "dead"))
        )
    )


def test_a_deleted_pod_has_its_hook_then_sigterm_then_its_grace(
    plane: ControlPlane, beside: Played, namespace: str
) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook"]}}}
    polite = "trap 'echo asked; exit 0' TERM; echo up; while true; do sleep 0.1; done"
    deaf = "trap 'echo asked' TERM; echo up; while true; do sleep 0.1; done"
    ones = [
        plane.api.create(pod(namespace, "polite", container(polite, lifecycle=hook))),
        plane.api.create(pod(namespace, "deaf", container(deaf), terminationGracePeriodSeconds=2)),
    ]
    for one in ones:
        wait_until(partial(_has_said, beside, one, "up"))
        plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/{one['metadata']['name']}")
    took = wait_until(lambda: _pod(plane, namespace, "polite") is None, 10)
    assert took < 5, "it was not waited for longer than it needed"
    wait_until(lambda: _pod(plane, namespace, "deaf") is None, 10)
    assert [beside.log(one, "main").split() for one in ones] == [["up", "hook", "asked"], ["up", "asked"]]


def test_what_cannot_run_says_why(plane: ControlPlane, beside: Played, namespace: str) -> None:
    unknown = container("true") | {"image": "ghcr.io/somebody/else:1"}
    greedy = container("true", resources={"limits": {"nvidia.com/gpu": "16"}})
    lacking = container("true", envFrom=[{"secretRef": {"name": "not-there"}}])
    for name, main in {"unknown": unknown, "greedy": greedy, "lacking": lacking}.items():
        plane.api.create(pod(namespace, name, main))
    wait_until(lambda: _state(_pod(plane, namespace, "unknown")).get("waiting", {}).get("reason") == "ErrImagePull")
    wait_until(
        lambda: (
            _state(_pod(plane, namespace, "lacking")).get("waiting", {}).get("reason") == "CreateContainerConfigError"
        )
    )
    wait_until(lambda: "Insufficient nvidia.com/gpu" in str(_pod(plane, namespace, "greedy")))


def test_an_eviction_keeps_to_the_budget(plane: ControlPlane, beside: Played, namespace: str) -> None:
    plane.api.create(disruption_budget(namespace, "web", 1))
    main = container(_SERVE, readinessProbe=_READY)
    plane.api.create(deployment(namespace, "web", 2, main, terminationGracePeriodSeconds=1))
    first, second = ready(plane, namespace, "app=web", 2)
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"
    wait_until(lambda: plane.api.get(path).get("status", {}).get("disruptionsAllowed") == 1)
    assert plane.api.evict(namespace, first["metadata"]["name"]) == 201
    assert plane.api.evict(namespace, second["metadata"]["name"]) == 429
    wait_until(lambda: all(map(is_ready, ready(plane, namespace, "app=web", 2))))
