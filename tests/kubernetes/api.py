"""The Kubernetes API for tests, as plain JSON: what is tried does not go through the client that is tried."""

import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import yaml

Object = dict[str, Any]

#: Kinds whose path is not their name in the plural form of regular words.
_IRREGULAR = {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}
_NOT_NAMESPACED = frozenset(
    {
        "Namespace",
        "Node",
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
        "CustomResourceDefinition",
        "APIService",
    }
    | {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
)
_LOOK_SECONDS = 0.1


def collection_of(one: Object) -> str:
    """The path where objects of its kind and namespace are created."""
    group, kind = one["apiVersion"], one["kind"]
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    plural = _IRREGULAR.get(kind) or f"{kind.lower()}s"
    if kind in _NOT_NAMESPACED:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{one['metadata'].get('namespace', 'default')}/{plural}"


def path_of(one: Object) -> str:
    return f"{collection_of(one)}/{one['metadata']['name']}"


def connection_of(kubeconfig: Path) -> tuple[str, ssl.SSLContext]:
    """The API server's address, and the certificates to speak with it."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    return cluster["server"], context


class Api:
    """A client of a test, which waits for answers."""

    def __init__(self, kubeconfig: Path, timeout_seconds: float = 30.0) -> None:
        self.url, context = connection_of(kubeconfig)
        self._http = httpx.Client(base_url=self.url, verify=context, timeout=timeout_seconds)

    def close(self) -> None:
        self._http.close()

    def ready(self) -> bool:
        """Whether it says that it can serve."""
        try:
            return self._http.get("/readyz", timeout=5.0).is_success
        except httpx.HTTPError:
            return False

    def call(self, method: str, path: str, body: object = None, *, kind: str = "application/json", **query: str) -> Any:
        """One call. Raises AssertionError with the server's words where it refuses."""
        content = None if body is None else json.dumps(body)
        answer = self._http.request(method, path, content=content, params=query, headers={"content-type": kind})
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def get(self, path: str, **query: str) -> Any:
        return self.call("GET", path, **query)

    def items(self, path: str, **query: str) -> list[Object]:
        found: list[Object] = self.get(path, **query)["items"]
        return found

    def find(self, path: str) -> Object | None:
        """The object there; None where there is none."""
        answer = self._http.get(path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        assert answer.is_success, f"GET {path}: {answer.status_code} {answer.text}"
        found: Object = answer.json()
        return found

    def create(self, one: Object) -> Object:
        created: Object = self.call("POST", collection_of(one), one)
        return created

    def apply(self, one: Object) -> Object:
        """Create it, or make it as this says."""
        applied: Object = self.call(
            "PATCH", path_of(one), one, kind="application/apply-patch+yaml", fieldManager="tests", force="true"
        )
        return applied

    def patch(self, path: str, change: Object) -> Object:
        patched: Object = self.call("PATCH", path, change, kind="application/merge-patch+json")
        return patched

    def delete(self, path: str, **query: str) -> None:
        """Ask for its end; it is no error that it is gone."""
        with contextlib.suppress(FileNotFoundError):
            answer = self._http.delete(path, params=query)
            if answer.status_code == httpx.codes.NOT_FOUND:
                raise FileNotFoundError(path)
            assert answer.is_success, f"DELETE {path}: {answer.status_code} {answer.text}"

    def evict(self, namespace: str, pod: str) -> int:
        """Ask for a pod's eviction; the answer is the HTTP status, 429 where a budget is in the way."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        return self._http.post(f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", json=body).status_code


def wait_until(holds: Callable[[], object], seconds: float = 60.0, what: str = "") -> float:
    """Wait until it holds; how long that took. Raises AssertionError after so many seconds."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < seconds, f"not in {seconds:.0f} s: {what or holds}"
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - begun


class AsyncApi:
    """A client of what plays a node: many calls at once, and watches."""

    def __init__(self, kubeconfig: Path) -> None:
        url, context = connection_of(kubeconfig)
        self._http = httpx.AsyncClient(
            base_url=url, verify=context, timeout=httpx.Timeout(15.0), limits=httpx.Limits(max_connections=64)
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def call(
        self, method: str, path: str, body: object = None, *, kind: str = "application/json", **query: str
    ) -> Any:
        """One call.

        Raises:
            httpx.HTTPError: No answer, or one that is no success.
        """
        content = None if body is None else json.dumps(body)
        answer = await self._http.request(method, path, content=content, params=query, headers={"content-type": kind})
        answer.raise_for_status()
        return answer.json()

    async def watch(self, path: str, version: str, **query: str) -> AsyncIterator[Object]:
        """Events from a version on, until the server ends it or has forgotten that version."""
        asked = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "300", **query}
        async with self._http.stream("GET", path, params=asked, timeout=httpx.Timeout(15.0, read=None)) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event
