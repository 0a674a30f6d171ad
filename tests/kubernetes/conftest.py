"""One control plane for all tests of a session; each test has its own namespace."""

import itertools
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes.control_plane import ControlPlane, control_plane
from tests.kubernetes.installed import Installed
from tests.kubernetes.leaderworkersets import leader_worker_sets
from tests.kubernetes.network import CannotRoute
from tests.kubernetes.nodes import Node, Played, played
from tests.kubernetes.processes import Running
from tests.kubernetes.programs import CannotBuild

_numbers = itertools.count()
_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The control plane; its logs and those of pods are kept where a test has failed."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-kubernetes-"))
    try:
        with control_plane(folder / "cluster") as started:
            yield started
    except (CannotBuild, CannotRoute) as error:
        pytest.skip(f"no control plane: {error}")
    finally:
        if request.session.testsfailed:
            request.config.stash.setdefault(_FIGURES, []).append(f"logs of the cluster and its pods: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def beside(plane: ControlPlane) -> Iterator[Played]:
    """Two nodes with 8 GPUs each, and the service network."""
    with played(plane) as playing:
        playing.add(Node.with_gpus("node-0", 8), Node.with_gpus("node-1", 8))
        yield playing


@pytest.fixture(scope="session")
def groups(plane: ControlPlane, beside: Played) -> Iterator[Running]:
    """The controller of LeaderWorkerSets."""
    with leader_worker_sets(plane) as manager:
        yield manager


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace, which is deleted with all that is in it."""
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    name = f"{readable}-{next(_numbers)}"
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def installed(plane: ControlPlane, beside: Played, namespace: str) -> Iterator[Installed]:
    """The chart's release of a test, which is taken away at its end."""
    release = Installed(plane, namespace)
    yield release
    release.helm("uninstall", release.name, "--ignore-not-found")


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says a figure of a drill in the run's summary."""

    def say(words: str) -> None:
        request.config.stash.setdefault(_FIGURES, []).append(f"{request.node.name}: {words}")

    return say


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_FIGURES, []):
        terminalreporter.write_line(line)
