"""What tests of the chart have in common: the programs and definitions that they need, and its objects."""

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.manifests import Definitions, Manifest, read
from tests.kubernetes.programs import CannotBuild, folder, resources
from tools.chart.rendering import CHART, RENDERED, example_names, render

ROOT = Path(__file__).parents[2]
EXAMPLES = example_names(ROOT)


@functools.cache
def helm() -> Path:
    """Helm, as it was built for the tests in a cluster, else of the path; a test without it is skipped."""
    built = folder() / "helm"
    found = str(built) if built.exists() else shutil.which("helm")
    if found is None:
        pytest.skip("helm is not here: `make test-kubernetes` builds it")
    return Path(found)


@functools.cache
def definitions() -> Definitions:
    """The definitions of all custom resources that the chart makes; a test without them is skipped."""
    try:
        return Definitions(resources())
    except CannotBuild as error:
        pytest.skip(f"no definitions of custom resources: {error}")


def example(name: str) -> list[Manifest]:
    """The manifests of an example, as they are in the repository."""
    return read((ROOT / RENDERED / f"{name}.yaml").read_text())


def made(*sets: str, values: Path | None = None) -> list[Manifest]:
    """The manifests of a first look with further values."""
    return read(render(helm(), ROOT / CHART, values or ROOT / "deploy/helm/examples/simulated.yaml", *sets))


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The templates of all pods, by the name of what has them."""
    for one in manifests:
        name, spec = f"{one['kind']}/{one['metadata']['name']}", one.get("spec", {})
        if one["kind"] in {"Deployment", "StatefulSet"}:
            yield name, spec["template"]
        elif one["kind"] == "LeaderWorkerSet":
            yield f"{name} leader", spec["leaderWorkerTemplate"]["leaderTemplate"]
            yield f"{name} worker", spec["leaderWorkerTemplate"]["workerTemplate"]


def containers(pod: Manifest) -> list[Any]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
