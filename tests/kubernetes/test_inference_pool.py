"""A picker finds its endpoints by an InferencePool of a real API server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.endpoint_picker.picker_process import PickerProcess
from tests.gateway.endpoint_picker.pickers import picker_config, vllm
from tests.kubernetes.api import Object
from tests.kubernetes.control_plane import ControlPlane
from tests.loops import until
from tests.proxies import proxy_to
from tests.upstreams import upstream

pytestmark = pytest.mark.kubernetes

_GROUP = "inference.networking.k8s.io"
_CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferencepools.{_GROUP}"


def _definition() -> Object:
    """What the published one says of names and versions; the fields are those that the test writes."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"inferencepools.{_GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {"plural": "inferencepools", "singular": "inferencepool", "kind": "InferencePool"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def _pod(plane: ControlPlane, namespace: str, name: str, address: str, *, ready: bool) -> None:
    """A pod without a node: what a kubelet would say of it is said here."""
    container = {"name": "main", "image": "none"}
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "llm"}}
    plane.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}
    plane.api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": status})


def _pool(namespace: str, port: int) -> Object:
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": port}]}
    metadata = {"name": "pool", "namespace": namespace}
    return {"apiVersion": f"{_GROUP}/v1", "kind": "InferencePool", "metadata": metadata, "spec": spec}


def _established(plane: ControlPlane) -> bool:
    found = plane.api.find(_CRD)
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def test_a_request_goes_to_a_pod_of_the_pool(plane: ControlPlane, namespace: str, state_dir: Path) -> None:
    plane.api.apply(_definition())
    await until(lambda: _established(plane), seconds=30)
    async with upstream() as endpoint:
        endpoint.pages["/metrics"] = vllm()
        port = int(endpoint.url.removesuffix("/v1").rpartition(":")[2])
        await asyncio.to_thread(plane.api.create, _pool(namespace, port))
        await asyncio.to_thread(_pod, plane, namespace, "ready", "127.0.0.1", ready=True)
        await asyncio.to_thread(_pod, plane, namespace, "starting", "127.0.0.2", ready=False)
        config = picker_config(
            state_dir,
            [],
            pool={"replicas": {"inference_pool": {"name": "pool"}}},
            kubernetes={"kubeconfig": str(plane.kubeconfig), "namespace": namespace},
        )
        process = PickerProcess(config)
        try:
            await process.start()
            async with proxy_to(config.epp.port) as proxy:
                stream = proxy.stream()
                await stream.request(b'{"model": "m", "prompt": "hello"}')
                assert await stream.picked() == [f"127.0.0.1:{port}"]
                await stream.passed_on()
                await stream.end()
                await asyncio.to_thread(
                    plane.api.delete, f"/api/v1/namespaces/{namespace}/pods/ready", gracePeriodSeconds="0"
                )
                await until(lambda: not process.models.all[0].ready)
                stream = proxy.stream()
                await stream.request(b'{"model": "m", "prompt": "hello"}')
                assert (await stream.refused()).status.code == 503
                await stream.end()
        finally:
            await process.aclose(0.0)
