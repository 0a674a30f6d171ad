"""A real control plane on this machine: etcd, the API server, the controller manager, the scheduler."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.certificates import Authority, Signed
from tests.kubernetes.api import Api
from tests.kubernetes.network import Network, network
from tests.kubernetes.processes import Running
from tests.kubernetes.programs import Programs, programs
from tests.ports import free_port

_START_SECONDS = 120.0
#: Who is of this group may do everything, whatever the roles say.
_MASTERS = "system:masters"


@dataclass
class ControlPlane:
    """Its processes, and how to speak with it as an administrator."""

    programs: Programs
    network: Network
    folder: Path
    kubeconfig: Path
    authority: Authority
    api: Api
    etcd: Running
    api_server: Running
    controller_manager: Running
    scheduler: Running

    def start_api_server(self) -> None:
        """Start it, again where it was stopped, and wait until it serves."""
        self.api_server.start()
        self.api_server.wait_for(self.api.ready, _START_SECONDS)


@contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    """A control plane that runs meanwhile; its logs are `folder/*.log`.

    Raises:
        CannotBuild: Its programs are neither here nor can they be built.
        CannotRoute: This machine's network cannot be changed.
        RuntimeError: One of its processes does not start.
    """
    found = programs()
    with ExitStack() as ends:
        here = ends.enter_context(network())
        built = _built(found, here, folder)
        ends.callback(built.api.close)
        for process in (built.etcd, built.api_server, built.controller_manager, built.scheduler):
            ends.callback(process.stop)
        built.etcd.start()
        built.start_api_server()
        built.controller_manager.start()
        built.scheduler.start()
        # Whoever makes a pod needs the namespace's account, which the controller manager makes.
        built.controller_manager.wait_for(
            lambda: built.api.find("/api/v1/namespaces/default/serviceaccounts/default"), _START_SECONDS
        )
        yield built


def _built(found: Programs, here: Network, folder: Path) -> ControlPlane:
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "certificates"
    files.mkdir()
    authority = Authority(files)
    front = Authority(files, "front-authority")
    first_service = f"{here.prefix}.0.1"
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    server = authority.signed("api-server", hosts=(here.control_plane, first_service, "127.0.0.1", *names))
    proxy = front.signed("front-proxy", hosts=("front-proxy",))
    accounts = authority.signed("accounts", hosts=("accounts",))
    etcd_port, port = free_port(), free_port()
    url = f"https://{here.control_plane}:{port}"
    # All of them may do everything; roles are tried with the accounts of pods.
    kubeconfigs = {}
    for name in ("admin", "controller-manager", "scheduler", "node"):
        signed = authority.signed(name, hosts=(name,), organization=_MASTERS)
        kubeconfigs[name] = write_kubeconfig(folder / f"{name}.kubeconfig", url, authority, signed)
    scheduler_file = folder / "scheduler.yaml"
    scheduler_file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"kubeconfig": str(kubeconfigs["scheduler"]), "qps": 200, "burst": 400},
            }
        )
    )
    etcd_url = f"http://127.0.0.1:{etcd_port}"
    commands = {
        "etcd": {
            "data-dir": folder / "etcd",
            "listen-client-urls": etcd_url,
            "advertise-client-urls": etcd_url,
            "listen-peer-urls": f"http://127.0.0.1:{etcd_port + 10_000}",
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        },
        "kube-apiserver": {
            "etcd-servers": etcd_url,
            "bind-address": here.control_plane,
            "advertise-address": here.control_plane,
            "secure-port": port,
            "tls-cert-file": server.certificate,
            "tls-private-key-file": server.key,
            "client-ca-file": authority.ca,
            "authorization-mode": "RBAC",
            "allow-privileged": "true",
            "service-cluster-ip-range": here.services,
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": accounts.certificate,
            "service-account-signing-key-file": accounts.key,
            # Services that answer for a part of the API, as an adapter for metrics does.
            "requestheader-client-ca-file": front.ca,
            "requestheader-allowed-names": "front-proxy",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": proxy.certificate,
            "proxy-client-key-file": proxy.key,
            "enable-aggregator-routing": "true",
        },
        "kube-controller-manager": {
            "kubeconfig": kubeconfigs["controller-manager"],
            "leader-elect": "false",
            "secure-port": 0,
            "service-account-private-key-file": accounts.key,
            "root-ca-file": authority.ca,
            "kube-api-qps": 200,
            "kube-api-burst": 400,
            # Minutes as they are by default would be the drills' length.
            "horizontal-pod-autoscaler-sync-period": "2s",
            "horizontal-pod-autoscaler-downscale-stabilization": "10s",
        },
        "kube-scheduler": {"config": scheduler_file, "secure-port": 0},
    }
    running = {
        name: Running(
            name, [str(found[name]), *(f"--{flag}={value}" for flag, value in flags.items())], folder / f"{name}.log"
        )
        for name, flags in commands.items()
    }
    return ControlPlane(
        programs=found,
        network=here,
        folder=folder,
        kubeconfig=kubeconfigs["admin"],
        authority=authority,
        api=Api(kubeconfigs["admin"]),
        etcd=running["etcd"],
        api_server=running["kube-apiserver"],
        controller_manager=running["kube-controller-manager"],
        scheduler=running["kube-scheduler"],
    )


def write_kubeconfig(path: Path, url: str, authority: Authority, signed: Signed) -> Path:
    """A kubeconfig that says how to reach an API server, and as whom."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "penstock",
        "clusters": [{"name": "penstock", "cluster": {"server": url, "certificate-authority": str(authority.ca)}}],
        "users": [
            {"name": "penstock", "user": {"client-certificate": str(signed.certificate), "client-key": str(signed.key)}}
        ],
        "contexts": [
            {"name": "penstock", "context": {"cluster": "penstock", "user": "penstock", "namespace": "default"}}
        ],
    }
    path.write_text(yaml.safe_dump(document))
    return path
