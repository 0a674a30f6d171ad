"""The programs of a control plane: found, or built once from their published Go modules into the user's cache.

`python -m tests.kubernetes.programs` builds what is missing and prints the folder.
"""

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "v1.36.3"
#: Program -> module below `modules/`, which pins versions and all hashes, and the program's package in it.
_OWN_MODULES = {
    "etcd": ("control-plane", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("control-plane", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("control-plane", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("control-plane", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": ("control-plane", "k8s.io/kubernetes/cmd/kubectl"),
    "lws-manager": ("leaderworkerset", "sigs.k8s.io/lws/cmd"),
}
#: Program -> a package at its version, whose own module pins the rest.
_INSTALLED = {"helm": "helm.sh/helm/v4/cmd/helm@v4.3.2"}
#: Set of definitions, of resources and of KEDA's external scaler -> module at its version, and where in it they lie.
_RESOURCES = {
    "cert-manager": ("github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds/*.yaml"),
    "external-secrets": (
        "github.com/external-secrets/external-secrets@v1.3.2",
        "config/crds/bases/external-secrets.io_*.yaml",
    ),
    "gateway-api": ("sigs.k8s.io/gateway-api@v1.6.3", "config/crd/standard/*s.yaml"),
    "inference-pool": ("sigs.k8s.io/gateway-api-inference-extension@v1.6.0", "config/crd/bases/*inferencepools.yaml"),
    "keda": ("github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases/keda.sh_*.yaml"),
    "keda-scaler": ("github.com/kedacore/keda/v2@v2.21.0", "pkg/scalers/externalscaler/externalscaler.proto"),
    "leaderworkerset": ("sigs.k8s.io/lws@v0.9.0", "config/crd/bases/*.yaml"),
    "leaderworkerset-webhooks": ("sigs.k8s.io/lws@v0.9.0", "config/webhook/manifests.yaml"),
    "prometheus-operator": (
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "example/prometheus-operator-crd/*.yaml",
    ),
}
PROGRAMS = (*_OWN_MODULES, *_INSTALLED)
_MODULES = Path(__file__).parent / "modules"
#: What `kube-apiserver --version` and the path /version say; without it they say v0.0.0-master.
_VERSION = "k8s.io/component-base/version"
_BUILD_SECONDS = 3600


class CannotBuild(Exception):
    """No control plane here; the text says in one line why."""


@dataclass(frozen=True)
class Programs:
    """Where each program lies, and the definitions of resources (`RESOURCES/SET/*.yaml`)."""

    paths: dict[str, Path]
    resources: Path

    def __getitem__(self, program: str) -> Path:
        return self.paths[program]


def folder() -> Path:
    """The folder of this version's programs, whether they are there or not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "penstock-kubernetes" / KUBERNETES


@functools.cache
def programs() -> Programs:
    """All programs and resources: of the cache, of the path, or built now, a quarter of an hour on two cores.

    Raises:
        CannotBuild: One is neither there nor can it be built.
    """
    into = folder()
    with _locked(into):
        paths = {name: _found(into, name) for name in PROGRAMS}
        missing = [name for name, path in paths.items() if path is None]
        wanted = [name for name in _RESOURCES if not _kept(into, name)]
        if (missing or wanted) and shutil.which("go") is None:
            raise CannotBuild(
                f"{', '.join(missing + wanted)}: not in {into}, and there is no Go toolchain to build them"
            )
        for name in missing:
            _build(into, name)
            _keep(into, name)
            paths[name] = into / name
        _download_all(into, wanted)
    return Programs({name: path for name, path in paths.items() if path is not None}, into / "crds")


def resources() -> Path:
    """The folder of the resources' definitions alone, which need no build.

    Raises:
        CannotBuild: They are neither there nor can they be downloaded.
    """
    into = folder()
    if wanted := [name for name in _RESOURCES if not _kept(into, name)]:
        if shutil.which("go") is None:
            raise CannotBuild(f"{', '.join(wanted)}: not in {into}, and there is no Go toolchain to download them")
        with _locked(into):
            _download_all(into, [name for name in wanted if not _kept(into, name)])
    return into / "crds"


def _download_all(into: Path, names: list[str]) -> None:
    for name in names:
        _download(into / "crds", name)
        _keep(into, name)


def _found(into: Path, name: str) -> Path | None:
    if _kept(into, name):
        return into / name
    # A kubectl or helm on the path may have any version; those of the control plane are installed for this.
    on_path = shutil.which(name) if name not in {"kubectl", "helm"} else None
    return Path(on_path) if on_path else None


def _pin(name: str) -> str:
    """What it is made from."""
    if name in _OWN_MODULES:
        module, package = _OWN_MODULES[name]
        return f"{package} {hashlib.sha256((_MODULES / module / 'go.mod').read_bytes()).hexdigest()}"
    return _INSTALLED.get(name) or " ".join(_RESOURCES[name])


def _kept(into: Path, name: str) -> bool:
    """Whether it is in the cache, as it is wanted now."""
    pin = into / ".pins" / name
    return pin.exists() and pin.read_text() == _pin(name)


def _keep(into: Path, name: str) -> None:
    pin = into / ".pins" / name
    pin.parent.mkdir(exist_ok=True)
    pin.write_text(_pin(name))


def _build(into: Path, name: str) -> None:
    print(f"building {name} into {into}, once", file=sys.stderr, flush=True)
    workshop = into / ".building"
    workshop.mkdir(exist_ok=True)
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    said = {"gitMajor": major, "gitMinor": minor, "gitVersion": KUBERNETES, "gitTreeState": "clean"}
    flags = " ".join(("-s -w", *(f"-X {_VERSION}.{key}={value}" for key, value in said.items())))
    if name in _OWN_MODULES:
        module, package = _OWN_MODULES[name]
        output = str(workshop / name)
        options = ("-mod=mod", "-trimpath", "-ldflags", flags, "-o", output)
        _go("build", *options, package, in_folder=_MODULES / module)
        built = workshop / name
    else:
        package = _INSTALLED[name]
        _go("install", "-trimpath", "-ldflags", "-s -w", package, in_folder=into, GOBIN=str(workshop))
        built = workshop / package.partition("@")[0].rpartition("/")[2]
    built.rename(into / name)


def _download(into: Path, name: str) -> None:
    module, pattern = _RESOURCES[name]
    source = Path(json.loads(_go("mod", "download", "-json", module, in_folder=into.parent))["Dir"])
    files = sorted(source.glob(pattern))
    if not files:
        raise CannotBuild(f"{module} has no {pattern}")
    workshop = into.parent / ".building" / "crds" / name
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir(parents=True)
    for file in files:
        (workshop / file.name).write_bytes(file.read_bytes())
    into.mkdir(exist_ok=True)
    shutil.rmtree(into / name, ignore_errors=True)
    workshop.rename(into / name)


def _go(*arguments: str, in_folder: Path, **environment: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", **environment}
    try:
        done = subprocess.run(
            ["go", *arguments],
            cwd=in_folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CannotBuild(f"go {arguments[0]} {arguments[-1]} took more than {_BUILD_SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["(it said nothing)"]
        raise CannotBuild(f"go {arguments[0]} {arguments[-1]}: {lines[-1]}")
    return done.stdout


@contextmanager
def _locked(into: Path) -> Iterator[None]:
    """One build at a time; who comes second finds what the first has built."""
    into.mkdir(parents=True, exist_ok=True)
    with (into / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Build what is missing, and print the folder."""
    try:
        programs()
    except CannotBuild as error:
        sys.exit(str(error))
    print(folder())


if __name__ == "__main__":
    main()
