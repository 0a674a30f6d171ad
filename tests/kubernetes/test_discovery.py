"""A gateway finds its replicas by the EndpointSlices of a real API server."""

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.stack import MODEL, Stack, eventually
from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.manifests import deployment, service
from tests.kubernetes.nodes import Played, is_ready, ready
from tests.ports import free_port

pytestmark = pytest.mark.kubernetes

_PORT = 9000
#: From a pod's readiness to the first answer that it gives.
_SECONDS = 1.0


def _replica(*arguments: str) -> Object:
    command = ["penstock", "replica", "--engine", "simulated", "--model", MODEL, "--port", str(_PORT), *arguments]
    probe = {"tcpSocket": {"port": _PORT}, "periodSeconds": 1}
    return {"name": "main", "image": "penstock:test", "command": command, "readinessProbe": probe}


@contextlib.contextmanager
def _gateway(plane: ControlPlane, namespace: str) -> Iterator[Stack]:
    text = f"""
listen: {{host: 127.0.0.1, port: {free_port()}, workers: 2, drain_seconds: 2, grace_seconds: 0}}
admin: {{port: {free_port()}}}
state: ./state
kubernetes: {{kubeconfig: {plane.kubeconfig}, namespace: {namespace}}}
models:
  - name: {MODEL}
    tokenizer: mistral-tekken
    context: 32768
    pools: [{{name: p, engine: simulated, replicas: {{kubernetes: {{service: sim}}}}}}]
"""
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name), text)
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


def _ask(stack: Stack, tokens: int = 1) -> httpx.Response:
    body = {"model": MODEL, "max_tokens": tokens, "messages": [{"role": "user", "content": "hello"}]}
    return httpx.post(
        f"{stack.base_url}/chat/completions", json=body, headers={"authorization": f"Bearer {stack.key}"}, timeout=60
    )


def _scale(plane: ControlPlane, namespace: str, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/sim/scale"
    plane.api.patch(path, {"spec": {"replicas": replicas}})


def _ready(plane: ControlPlane, namespace: str) -> int:
    pods = plane.api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector="app=sim")
    return sum(is_ready(one) and "deletionTimestamp" not in one["metadata"] for one in pods)


@pytest.fixture
def simulated(plane: ControlPlane, beside: Played, namespace: str) -> str:
    """A Deployment of one simulated replica, with its service."""
    plane.api.create(deployment(namespace, "sim", 1, _replica("--speed", "20")))
    plane.api.create(service(namespace, "sim", _PORT, _PORT))
    ready(plane, namespace, "app=sim", 1)
    return namespace


def test_a_pod_that_is_ready_is_asked_within_a_second(plane: ControlPlane, simulated: str) -> None:
    with _gateway(plane, simulated) as stack:
        assert _ask(stack).status_code == 200
        took = []
        for _ in range(3):
            _scale(plane, simulated, 0)
            wait_until(lambda: not plane.api.items(f"/api/v1/namespaces/{simulated}/pods", labelSelector="app=sim"))
            _scale(plane, simulated, 1)
            eventually(lambda: _ready(plane, simulated) == 1, "the pod is ready", 60.0)
            begun = time.monotonic()
            eventually(lambda: _ask(stack).status_code == 200, "it is asked")
            took.append(time.monotonic() - begun)
        print(f"from readiness to the first answer: {', '.join(f'{1000 * one:.0f} ms' for one in took)}")
        assert max(took) < _SECONDS


def test_a_rollout_breaks_no_answer(plane: ControlPlane, simulated: str) -> None:
    _scale(plane, simulated, 2)
    ready(plane, simulated, "app=sim", 2)
    with _gateway(plane, simulated) as stack:
        answers: list[int] = []
        ended = threading.Event()

        def ask() -> None:
            while not ended.is_set():
                answers.append(_ask(stack, 40).status_code)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        template = {"metadata": {"annotations": {"rolled": "out"}}}
        path = f"/apis/apps/v1/namespaces/{simulated}/deployments/sim"
        before = plane.api.patch(path, {"spec": {"template": template}})["metadata"]["generation"]

        def rolled_out() -> bool:
            status = plane.api.get(path)["status"]
            counts = [status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")]
            return bool(status.get("observedGeneration", 0) >= before and counts == [2, 2, 2])

        wait_until(rolled_out, 120.0)
        ended.set()
        for thread in threads:
            thread.join()
        assert set(answers) == {200}
        assert len(answers) > 50


def test_without_the_api_server_the_last_known_replicas_serve(plane: ControlPlane, simulated: str) -> None:
    with _gateway(plane, simulated) as stack:
        assert _ask(stack).status_code == 200
        plane.api_server.stop()
        try:
            for _ in range(20):
                assert _ask(stack).status_code == 200
                time.sleep(0.1)
        finally:
            plane.start_api_server()
        _scale(plane, simulated, 0)
        _scale(plane, simulated, 1)
        wait_until(lambda: _ready(plane, simulated) == 1)
        eventually(lambda: _ask(stack).status_code == 200, "what has changed meanwhile is known", 30.0)
