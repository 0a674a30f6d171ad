"""The chart, installed in a namespace of the test cluster."""

import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane

_CHART = Path(__file__).parents[2] / "deploy" / "helm" / "penstock"
_ADMIN_KEY, _SCRAPE_KEY = "admin-key-of-the-drills", "scrape-key-of-the-drills"
#: With what a shell and the store's own configuration would take for something else.
_STORE_PASSWORD = 'it\'s a "long" \\x41 $one'
#: A replica that is found in the cluster is named by its pool, address and port.
_REPLICA = re.compile(r'^penstock_replica_up{[^}]*replica="[^"/]*/([0-9.]+)-', re.MULTILINE)
MODEL = "mixtral-8x7b"
_COMMAND_SECONDS = 300
_READY_SECONDS = 180.0


#: What a small pod asks for.
SMALL: Object = {"requests": {"cpu": "100m", "memory": "128Mi"}}


def pool(name: str = "narrow", **more: Any) -> Object:
    """A pool of simulated replicas, which make a token in a tenth of a second where nothing else is said."""
    given: Object = {"name": name, "model": MODEL, "engine": "simulated", "shape": {"tp": 2}}
    return given | {"args": ["--pace-ms", "100"], "resources": SMALL} | more


def values(*pools: Object, **more: Any) -> Object:
    """Values for a small installation, over those of the chart."""
    model = {"name": MODEL, "tokenizer": "mistral-tekken", "context": 32768}
    given: Object = {
        "image": {"tag": "test"},
        # A machine that starts many pods at once may be slow to answer, and is not away.
        "config": {"models": [model], "store": {"timeout_seconds": 5}},
        "pools": list(pools),
        "gateway": {"workers": 1, "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}}},
    }
    return _merged(given, more)


def _merged(one: Object, over: Object) -> Object:
    both = dict(one)
    for key, value in over.items():
        both[key] = _merged(both[key], value) if isinstance(value, dict) and isinstance(both.get(key), dict) else value
    return both


class Installed:
    """A release of the chart. Its API and admin API are reached at their Services' addresses."""

    def __init__(self, plane: ControlPlane, namespace: str, model: str = MODEL) -> None:
        self._plane = plane
        self.model = model
        self.namespace = namespace
        self.name = "penstock"

    def install(self, given: Object) -> None:
        """Install it or upgrade it, without waiting for what comes of it."""
        folder = self._plane.folder / "values"
        folder.mkdir(exist_ok=True)
        file = folder / f"{self.namespace}.yaml"
        file.write_text(yaml.safe_dump(given))
        self.create_secret()
        self.helm("upgrade", "--install", self.name, str(_CHART), "--values", str(file))

    def create_secret(self) -> None:
        """Make the Secret that pods wait for."""
        meta = {"name": self.name, "namespace": self.namespace}
        keys = {"admin-key": _ADMIN_KEY, "scrape-key": _SCRAPE_KEY, "store-password": _STORE_PASSWORD}
        self._plane.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": keys})

    def helm(self, *arguments: str) -> str:
        return self._run("helm", *arguments)

    def kubectl(self, *arguments: str) -> str:
        return self._run("kubectl", *arguments)

    def wait(self, workload: str = "deployment/penstock-gateway", seconds: float = _READY_SECONDS) -> None:
        """Wait until a workload is as it shall be."""
        self.kubectl("rollout", "status", workload, f"--timeout={seconds:.0f}s")

    def serving(self) -> str:
        """Wait until the gateway answers for its model; an API key."""
        self.wait()
        key = self.admin("POST", "/admin/keys", {"name": "drill"})["key"]
        wait_until(lambda: self.answers(key), _READY_SECONDS, "an answer of the model")
        return str(key)

    def answers(self, key: str) -> bool:
        body = {"model": self.model, "max_tokens": 1, "messages": [{"role": "user", "content": "?"}]}
        try:
            url = f"http://{self.address()}/v1/chat/completions"
            return httpx.post(url, json=body, headers={"Authorization": f"Bearer {key}"}, timeout=10).is_success
        except httpx.HTTPError:
            return False

    def address(self, service: str = "penstock") -> str:
        """The address of a Service."""
        found = self._plane.api.get(f"/api/v1/namespaces/{self.namespace}/services/{service}")
        return str(found["spec"]["clusterIP"])

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """Ask the admin API, again where its pod is not there yet."""
        url = f"http://{self.address('penstock-admin')}:8081{path}"
        headers = {"Authorization": f"Bearer {_ADMIN_KEY}"}
        answers: list[httpx.Response] = []

        def asked() -> bool:
            try:
                answers.append(httpx.request(method, url, json=body, headers=headers, timeout=10))
            except httpx.HTTPError:
                return False
            return answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE

        wait_until(asked, _READY_SECONDS, f"an answer of {url}")
        assert answers[-1].is_success, answers[-1].text
        return answers[-1].json()

    def replicas_of(self, gateway: Object) -> set[str]:
        """The addresses of the replicas that a gateway's pod knows."""
        return set(_REPLICA.findall(self.scrape(gateway["status"]["podIP"])))

    def scrape(self, address: str = "") -> str:
        """What a pod's metrics are; without an address, those of the admin API's own pod."""
        url = f"http://{address or self.address('penstock-admin')}:8081/metrics"
        return httpx.get(url, headers={"Authorization": f"Bearer {_SCRAPE_KEY}"}, timeout=10).raise_for_status().text

    def pods(self, component: str, **labels: str) -> list[Object]:
        """Pods of a component, of which none is going."""
        selector = ",".join(
            f"{key}={value}" for key, value in {"app.kubernetes.io/component": component, **labels}.items()
        )
        found = self._plane.api.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._plane.programs[program]), "--namespace", self.namespace, *arguments]
        environment = {
            "KUBECONFIG": str(self._plane.kubeconfig),
            "HOME": str(self._plane.folder),
            "PATH": "/usr/bin:/bin",
        }
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
        return done.stdout
