"""LeaderWorkerSets: their definitions, and their real controller with its webhooks, beside a control plane."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx
import yaml

from tests.deploy.manifests import read
from tests.kubernetes.api import wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.processes import Running
from tests.ports import free_port

_START_SECONDS = 60.0


def install_resources(plane: ControlPlane, resources: str) -> None:
    """Define a set of custom resources, such as `gateway-api`, and wait until they are served."""
    for file in sorted((plane.programs.resources / resources).glob("*.yaml")):
        for one in read(file.read_text()):
            if one["kind"] == "CustomResourceDefinition":
                plane.api.apply(one)
                path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{one['metadata']['name']}"
                wait_until(partial(_established, plane, path), what=path)


def _established(plane: ControlPlane, path: str) -> bool:
    conditions = plane.api.get(path).get("status", {}).get("conditions") or []
    return any(said["type"] == "Established" and said["status"] == "True" for said in conditions)


@contextmanager
def leader_worker_sets(plane: ControlPlane) -> Iterator[Running]:
    """The controller, while it serves. It runs outside of the cluster, as an administrator, and so do its webhooks."""
    install_resources(plane, "leaderworkerset")
    port, health = free_port(), free_port()
    files = plane.folder / "leaderworkersets"
    files.mkdir()
    signed = plane.authority.signed("webhooks", hosts=("127.0.0.1",))
    (files / "tls.crt").write_bytes(signed.certificate.read_bytes())
    (files / "tls.key").write_bytes(signed.key.read_bytes())
    configuration = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(files)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
    }
    (files / "config.yaml").write_text(yaml.safe_dump(configuration))
    options = [f"--config={files / 'config.yaml'}", f"--kubeconfig={plane.kubeconfig}"]
    command = [str(plane.programs["lws-manager"]), *options]
    manager = Running("lws-manager", command, plane.folder / "lws-manager.log")
    manager.start()
    try:
        manager.wait_for(lambda: _healthy(f"http://127.0.0.1:{health}/healthz"), _START_SECONDS)
        authority = base64.b64encode(plane.authority.ca.read_bytes()).decode()
        for file in sorted((plane.programs.resources / "leaderworkerset-webhooks").glob("*.yaml")):
            for one in yaml.safe_load_all(file.read_text()):
                for webhook in one["webhooks"]:
                    path = webhook["clientConfig"]["service"]["path"]
                    # As it is installed by its own manifests, it is asked of its own pods alone.
                    if path.endswith("--v1-pod"):
                        label = "leaderworkerset.sigs.k8s.io/name"
                        webhook["objectSelector"] = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
                    webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
                plane.api.apply(one)
        # Its webhooks are set up after it says that it is well.
        manager.wait_for(lambda: _healthy(f"https://127.0.0.1:{port}/mutate--v1-pod"), _START_SECONDS)
        yield manager
    finally:
        manager.stop()


def _healthy(url: str) -> bool:
    try:
        return httpx.get(url, verify=False).status_code < httpx.codes.NOT_FOUND
    except httpx.HTTPError:
        return False
