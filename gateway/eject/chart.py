"""The chart that Penstock comes with, and Helm, which makes manifests of it."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

#: The chart's folder.
CHART: Final = Path(__file__).parent / "chart"
_SECONDS: Final = 60.0
#: Lines that say that Helm manages an object, which it does not when it is applied by other means.
_HELMS: Final = ("---", "# Source:", "helm.sh/chart:", "app.kubernetes.io/managed-by: Helm")


class HelmError(RuntimeError):
    """Helm is not here, or refuses the values; the text is its own, in one line."""


def as_yaml(value: object) -> str:
    """Format plain values as YAML, in their order."""
    return yaml.safe_dump(value, sort_keys=False, width=120, allow_unicode=True)


def copy_chart(to: Path) -> None:
    """Copy the chart, with the files that it has by links."""
    shutil.copytree(CHART, to, symlinks=False, dirs_exist_ok=True)


def manifests(helm: str, values: Path, name: str, namespace: str) -> Iterator[tuple[str, str]]:
    """Make the objects of the chart; yields a file's name and its text for each.

    Raises:
        HelmError: There is no Helm, or it refuses the values: then its message names the value.
    """
    program = shutil.which(helm)
    if program is None:
        raise HelmError(f"{helm} is no program that can be run here; --form values needs none")
    command = [program, "template", name, str(CHART), "--namespace", namespace, "--values", str(values)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HelmError(f"{program}: {error}") from error
    if made.returncode:
        raise HelmError(" ".join(made.stderr.split()))
    for document in made.stdout.split("\n---\n"):
        text = "\n".join(line for line in document.splitlines() if not line.strip().startswith(_HELMS))
        found = yaml.safe_load(_plain(text))
        if isinstance(found, Mapping):
            yield file_name(found), text.strip("\n") + "\n"


def file_name(manifest: Mapping[str, Any]) -> str:
    """The name of an object's file."""
    return f"{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml"


def _plain(text: str) -> str:
    """YAML in which `=` is a text, as Kubernetes reads it."""
    return text.replace("- =\n", '- "="\n').replace(": =\n", ': "="\n')
