"""Objects for tests, as short as they can be."""

from typing import Any

from tests.kubernetes.api import Object

#: Any image of this project; tests that try the cluster itself run a shell in it.
IMAGE = "penstock:test"


def container(script: str, **more: Any) -> Object:
    """A container that runs a shell script."""
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return {"name": "main", "image": IMAGE, "command": ["sh", "-c", script], "env": [address], **more}


def pod(namespace: str, name: str, main: Object, **spec: Any) -> Object:
    meta = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [main], **spec}}


def deployment(namespace: str, name: str, replicas: int, main: Object, **spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [main], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def service(namespace: str, name: str, port: int, target: int | str) -> Object:
    spec = {"selector": {"app": name}, "ports": [{"name": "http", "port": port, "targetPort": target}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def disruption_budget(namespace: str, name: str, min_available: int) -> Object:
    spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
