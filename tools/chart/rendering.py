"""The chart's examples as the plain manifests that Helm makes of them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CHART: Final = Path("deploy/helm/penstock")
EXAMPLES: Final = Path("deploy/helm/examples")
RENDERED: Final = Path("deploy/helm/rendered")
#: The version of Kubernetes that is rendered for: helm itself knows only the one that it was built with.
_KUBERNETES: Final = "1.36.0"
_SECONDS: Final = 60


class RenderError(Exception):
    """Helm refuses; the text has its words."""


def render(helm: Path, chart: Path, values: Path | None, *sets: str, namespace: str = "penstock") -> str:
    """Render a release called `penstock`. `sets` are further values, as `gateway.replicas=3`. Raises RenderError."""
    files = [] if values is None else ["--values", str(values)]
    given = [part for value in sets for part in ("--set-json", value)]
    return _helm(
        helm,
        ["template", "penstock", str(chart), "--namespace", namespace, "--kube-version", _KUBERNETES, *files, *given],
    )


def lint(helm: Path, chart: Path, values: Path) -> str:
    """Have Helm look for mistakes; returns what it says. Raises RenderError."""
    return _helm(helm, ["lint", str(chart), "--strict", "--values", str(values), "--kube-version", _KUBERNETES])


def _helm(helm: Path, arguments: Sequence[str]) -> str:
    done = subprocess.run([str(helm), *arguments], capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        raise RenderError("\n".join(line for line in done.stderr.splitlines() if "symbolic link" not in line))
    return done.stdout


def example_names(folder: Path) -> list[str]:
    """The examples that there are."""
    return sorted(file.stem for file in (folder / EXAMPLES).glob("*.yaml"))


def rendered(helm: Path, folder: Path, name: str) -> str:
    """The manifests of an example, with a line that says where they come from. Raises RenderError."""
    # Dashboards and rules are long, and lie in deploy/observability already.
    text = render(
        helm,
        folder / CHART,
        folder / EXAMPLES / f"{name}.yaml",
        "monitoring.rules=false",
        "monitoring.dashboards=false",
    )
    return f"# Made of {EXAMPLES}/{name}.yaml by `make chart`; a change here is lost.\n{text}"
