"""What `penstock eject` writes, applied and served."""

import json
from pathlib import Path

import pytest

from gateway.cli.main import main
from tests.kubernetes.api import wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.installed import MODEL, Installed

pytestmark = pytest.mark.kubernetes

_CONFIG = {
    "listen": {"workers": 1},
    "models": [
        {
            "name": MODEL,
            "tokenizer": "mistral-tekken",
            "context": 32768,
            "pools": [
                {
                    "name": "narrow",
                    "shape": {"tp": 2},
                    "engine": "simulated",
                    "replicas": 2,
                    "simulated": {"output_tokens": 7, "speed": 50},
                }
            ],
        }
    ],
}


@pytest.mark.parametrize("form", ["manifests", "values"])
def test_an_ejected_configuration_serves(form: str, plane: ControlPlane, installed: Installed, tmp_path: Path) -> None:
    config, to = tmp_path / "penstock.yaml", tmp_path / "out"
    config.write_text(json.dumps(_CONFIG))
    arguments = ["--config", str(config), "--to", str(to), "--form", form, "--namespace", installed.namespace]
    assert main(["eject", *arguments, "--helm", str(plane.programs["helm"])]) == 0
    installed.create_secret()
    if form == "manifests":
        installed.kubectl("apply", "--filename", str(to / "manifests"))
    else:
        installed.helm("install", installed.name, str(to / "chart"), "--values", str(to / "values.yaml"))
    key = installed.serving()
    gateway = installed.pods("gateway")[0]
    replicas = {one["status"]["podIP"] for one in installed.pods("replica")}
    assert len(replicas) == 2
    wait_until(lambda: installed.replicas_of(gateway) == replicas, 60)
    assert installed.answers(key)
