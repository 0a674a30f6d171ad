"""What the chart's examples make, as a real API server takes it, with the definitions of all custom resources."""

from pathlib import Path

import pytest

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.installed import Installed
from tests.kubernetes.leaderworkersets import install_resources
from tools.chart.rendering import CHART, example_names

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).parents[2]
_SETS = (
    "cert-manager",
    "external-secrets",
    "gateway-api",
    "inference-pool",
    "keda",
    "leaderworkerset",
    "prometheus-operator",
)


@pytest.fixture(scope="module")
def defined(plane: ControlPlane) -> None:
    for name in _SETS:
        install_resources(plane, name)


@pytest.mark.parametrize("name", example_names(ROOT))
def test_the_api_server_takes_an_example(
    name: str, plane: ControlPlane, defined: None, installed: Installed, tmp_path: Path
) -> None:
    """By the rules of the definitions, too, which a schema alone does not have; unknown fields are refused."""
    values = ROOT / f"deploy/helm/examples/{name}.yaml"
    made = tmp_path / "made.yaml"
    made.write_text(installed.helm("template", installed.name, str(ROOT / CHART), "--values", str(values)))
    installed.kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", str(made))


def test_what_it_would_refuse_is_refused(
    plane: ControlPlane, defined: None, installed: Installed, tmp_path: Path
) -> None:
    values = ROOT / "deploy/helm/examples/production.yaml"
    made = tmp_path / "made.yaml"
    text = installed.helm("template", installed.name, str(ROOT / CHART), "--values", str(values))
    assert "kind: Certificate" in text
    made.write_text(text.replace("issuerRef:", "issuer:"))
    with pytest.raises(AssertionError, match=r"spec\.issuer"):
        installed.kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", str(made))
